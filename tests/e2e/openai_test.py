"""The official openai npm client against a server: installs what openai-client/package-lock.json names into the build folder
(PAWL_BUILD) and runs openai-client/client.mjs there. Fails where node or npm is absent. Run from the source tree's root."""
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import DEMO, Server  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "openai-client")
FOLDER = os.path.join(os.environ.get("PAWL_BUILD") or sys.exit("PAWL_BUILD does not name the build folder"), "openai-client")


def install():
    """`npm ci`, unless the last one was for the same files: then the test needs no network."""
    os.makedirs(FOLDER, exist_ok=True)
    content = b""
    for name in ("package.json", "package-lock.json", "client.mjs"):
        shutil.copy(os.path.join(SOURCE, name), FOLDER)
        if name != "client.mjs":
            with open(os.path.join(SOURCE, name), "rb") as f:
                content += f.read()
    stamp = os.path.join(FOLDER, ".installed")
    want = hashlib.sha256(content).hexdigest()
    if os.path.exists(stamp):
        with open(stamp) as f:
            if f.read() == want:
                return
        os.remove(stamp)
    r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=FOLDER,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode:
        sys.exit("openai client: `npm ci` failed (it needs the npm registry once): " + r.stdout)
    with open(stamp, "w") as f:
        f.write(want)


for program in ("node", "npm"):
    if not shutil.which(program):
        sys.exit(f"openai client: there is no {program} in PATH; run ./setup, or install Node.js 18 or newer")
install()
server = Server("--api-key", "sesame")
try:
    url = f"http://127.0.0.1:{server.port}/v1"
    r = subprocess.run(["node", "client.mjs", url, os.path.basename(DEMO)], cwd=FOLDER, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    if r.returncode:
        sys.exit(r.stdout + server.output()[-2000:])
finally:
    server.close()
