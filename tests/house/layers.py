#!/usr/bin/env python3
"""Fails on an include that runs against the table "The house" in doc/design.md.

The table's rows name a folder and what it may include: folders, "A ... B" for all rows from A to B, "all of `src/`
above it", "C standard headers", "anything". A folder may always include itself; include/pawl may be included by all.
A second check tries the checker on an include that is not allowed.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read_table(text):
    rows = []
    section = text.split("## The house", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) < 4 or not cells[0].startswith("`"):
            continue
        rows.append((re.findall(r"`([^`]+)`", cells[0]), cells[2]))
    return rows


def expand(names):
    """`src/kernels/{ref,x86}/` -> kernels/ref, kernels/x86; names relative to src/ (include/ and tests/ as they are)."""
    out = []
    for name in names:
        m = re.match(r"(.*)\{(.*)\}(.*)", name)
        parts = [m.group(1) + p + m.group(3) for p in m.group(2).split(",")] if m else name.split()
        for p in parts:
            p = p.strip().strip("/")
            out.append(p[4:] if p.startswith("src/") else p)
    return out


def rules(rows):
    """folder -> set of folders that it may include, or None for anything."""
    order = []
    for names, _ in rows:
        order.append(expand(names))
    table = {}
    for i, (names, may) in enumerate(rows):
        above = [f for fs in order[:i] for f in fs]
        for folder in order[i]:
            allowed = {folder, "include/pawl"}
            words = may.replace("`", "")
            if words == "anything":
                table[folder] = None
                continue
            if "all of src/ above" in words:
                allowed.update(above)
            m = re.search(r"(\w+) … (\w+)", words)
            if m:
                flat = [f.split("/")[0] for f in above]
                first, last = flat.index(m.group(1)), len(flat) - 1 - flat[::-1].index(m.group(2))
                allowed.update(above[first:last + 1])
                words = words.replace(m.group(0), "")
            for clause in words.split(";"):
                extra = re.match(r"\s*(\w+) also (.*)", clause)
                if extra and extra.group(1) != folder:
                    continue
                for w in re.findall(r"[\w/]+", extra.group(2) if extra else clause):
                    allowed.update(f for f in above if f == w or f.split("/")[0] == w)
            table[folder] = allowed
    return table


def folder_of(path, table):
    """The longest folder of the table that holds this path."""
    best = None
    for f in table:
        if path == f or path.startswith(f + "/"):
            if best is None or len(f) > len(best):
                best = f
    return best


def violations(table, files):
    found = []
    for path, includes in files:
        src = folder_of(path[4:] if path.startswith("src/") else path, table)
        if src is None:
            found.append(f"{path}: no row of the table names its folder")
            continue
        if table[src] is None:
            continue
        for inc in includes:
            target = "include/pawl" if inc.startswith("pawl/") else folder_of(inc, table)
            if target is None:
                found.append(f"{path}: includes \"{inc}\", which no row of the table names")
            elif target not in table[src]:
                found.append(f"{path}: includes \"{inc}\"; {src} may include {', '.join(sorted(table[src]))}")
    return found


def tree_files():
    out = []
    for top in ("src", "include"):
        for where, _, names in os.walk(os.path.join(ROOT, top)):
            for n in sorted(names):
                if n.endswith((".c", ".h", ".cu", ".cuh")):
                    full = os.path.join(where, n)
                    text = open(full, encoding="utf-8").read()
                    out.append((os.path.relpath(full, ROOT), re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)))
    return out


def main():
    table = rules(read_table(open(os.path.join(ROOT, "doc/design.md"), encoding="utf-8").read()))
    # The checker must see what is wrong.
    for path, inc in (("src/base/x.c", "op/linear.h"), ("src/model/x.c", "kernels/ref/ref.h"), ("src/token/x.c", "quant/quant.h"),
                      ("src/cli/x.c", "engine/engine.h"), ("src/kernels/ref/x.c", "kernels/x86/x86.h"),
                      ("src/route/x.c", "kernels/list/list.h"), ("src/server/x.c", "tool/explain.h")):
        if not violations(table, [(path, [inc])]):
            sys.exit(f"layers: the checker accepts {path} including {inc}")
    for path, inc in (("src/kernels/list/l.c", "kernels/ref/ref.h"), ("src/cli/x.c", "tool/explain.h"),
                      ("src/model/x.c", "cache/kv.h"), ("src/engine/x.c", "kernels/list/list.h")):
        if violations(table, [(path, [inc])]):
            sys.exit(f"layers: the checker refuses {path} including {inc}")
    files = tree_files()
    bad = violations(table, files)
    if bad:
        sys.exit("\n".join(bad))
    print(f"layers: {len(files)} files keep to the table")


main()
