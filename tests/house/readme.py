#!/usr/bin/env python3
"""readme.py PAWL: what README.md shows of `pawl explain` is what it prints. "…" stands for lines left out."""
import re
import shlex
import subprocess
import sys

pawl = sys.argv[1]
text = open("README.md", encoding="utf-8").read()
blocks = re.findall(r"((?:^    .*\n)+)", text, re.M)
shown = 0
for block in blocks:
    lines = [line[4:] for line in block.splitlines()]
    if not lines[0].startswith("$ pawl explain "):
        continue
    shown += 1
    command = shlex.split(lines[0][2:])
    out = subprocess.run([pawl] + command[1:], stdout=subprocess.PIPE, text=True, check=True).stdout
    at = 0
    for part in "\n".join(lines[1:]).split("…"):
        part = part.strip("\n")
        if not part:
            continue
        found = out.find("\n" + part + "\n", at)
        if found < 0:
            sys.exit(f"README.md shows for `{lines[0][2:]}` what it does not print:\n{part}")
        at = found + len(part)
if shown < 3:
    sys.exit(f"README.md shows {shown} explanations, expected 3")
for path in re.findall(r"\]\(([^)#]+)\)", text):
    try:
        open(path).close() if "." in path.rsplit("/", 1)[-1] else None
    except OSError:
        sys.exit(f"README.md links to {path}, which is not there")
print(f"readme: {shown} explanations are true")
