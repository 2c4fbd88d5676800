#!/usr/bin/env python3
"""symbols.py BUILD: every global symbol of the library begins with pawl_; the shared object shows only the public ones."""
import re
import subprocess
import sys

build = sys.argv[1]


def symbols(*args):
    out = subprocess.run(["nm", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return sorted({line.split()[-1] for line in out.splitlines() if len(line.split()) == 3})


def main():
    ours = re.compile(r"^(pawl_|__asan|__ubsan|__tsan|__odr_asan|_init$|_fini$)")
    bad = [s for s in symbols("--defined-only", "-g", f"{build}/libpawl.a") if not ours.match(s)]
    names = ("pawl", "chat", "engine", "status")
    header = "".join(open(f"include/pawl/{n}.h", encoding="utf-8").read() for n in names)
    shown = [s for s in symbols("-D", "--defined-only", "-g", f"{build}/libpawl.so") if s.startswith("pawl")]
    hidden_leaks = [s for s in shown if s not in header]
    missing = [s for s in re.findall(r"PAWL_API[^;(]*?\b(pawl_\w+)\(", header) if s not in shown]
    for s in bad:
        print(f"global symbol without the prefix pawl_: {s}")
    for s in hidden_leaks:
        print(f"exported but not public: {s}")
    for s in missing:
        print(f"public but not exported: {s}")
    print(f"symbols: {len(shown)} public functions")
    sys.exit(bool(bad or hidden_leaks or missing))


main()
