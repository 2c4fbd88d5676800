#!/usr/bin/env python3
"""headers.py CC: each header compiles alone, and the public ones as C++ too where a C++ compiler is there."""
import concurrent.futures
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CC = sys.argv[1]


def compile_alone(args):
    header, compiler, lang = args
    r = subprocess.run([compiler, "-x", lang, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-DPAWL_VERSION=\"\"", "-Iinclude",
                        "-Isrc", "-fsyntax-only", "-"], input=f'#include "{header}"\n', text=True, cwd=ROOT,
                       stderr=subprocess.PIPE)
    return header, r.returncode, r.stderr


def main():
    work = []
    for top in ("src", "include"):
        for where, _, names in os.walk(os.path.join(ROOT, top)):
            for n in names:
                if n.endswith(".h"):
                    rel = os.path.relpath(os.path.join(where, n), os.path.join(ROOT, top))
                    work.append((rel, CC, "c"))
                    if top == "include" and shutil.which("g++"):
                        work.append((rel, "g++", "c++"))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, rc, text in pool.map(compile_alone, work):
            if rc:
                bad += 1
                print(f"{header} does not compile alone:\n{text}")
    print(f"headers: {len(work)} compiled alone, {bad} failed")
    sys.exit(bad != 0)


main()
