"""Peak resident memory of `pawl run` on the demo model: under the weights + 32 MiB, with and without drafts.

PAWL names the program. The child's own peak is taken (ru_maxrss of that process), as the kernel counts it in VmHWM."""
import glob
import os
import sys

PAWL = os.environ.get("PAWL") or sys.exit("memory_test: PAWL does not name the program")
MODEL = "models/tale-moe-fp8"
OVERHEAD = 32 << 20


def peak(args):
    """Bytes. The kernel carries the peak from before exec over, which is this interpreter's: what is reported is the larger
    of the two, so it can only be too strict."""
    null = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(PAWL, [PAWL, *args], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
    _, status, usage = os.wait4(pid, 0)
    os.close(null)
    if status:
        sys.exit(f"memory_test: pawl {' '.join(args)}: status {status}")
    return usage.ru_maxrss * 1024


def main():
    weights = sum(os.path.getsize(f) for f in glob.glob(f"{MODEL}/*.safetensors"))
    bad = 0
    for draft in ("0", "4", "auto"):
        got = peak(["run", MODEL, "-p", "Once upon a time", "-n", "100", "--temp", "0", "--draft", draft])
        print(f"draft {draft}: peak {got / 2**20:.1f} MiB, weights {weights / 2**20:.1f} MiB, over them "
              f"{(got - weights) / 2**20:.1f} MiB")
        bad |= got >= weights + OVERHEAD
    if bad:
        sys.exit(f"memory_test: expected under the weights + {OVERHEAD >> 20} MiB")


main()
