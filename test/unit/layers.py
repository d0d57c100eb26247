#!/usr/bin/env python3
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Checks which folder of the component uses which, by its includes and by the symbols of its objects.

  layers.py SOURCE OBJECTS     the component's folder in the source tree, and in a build tree

A file uses another one when it includes it, or when its object refers to a symbol that the other's object
defines. Three things must hold:

  - a file uses only files of its own folder and of those that layers.list names for it;
  - no file uses itself by way of others: no header by what is included, no source by what is called;
  - each symbol that a file defines for others is used by one, or layers_alone.list names it. So nothing is dead, and
    what only its own file uses is static.

Prints each arrow that breaks a rule. Exit status: 0 if all hold, 1 if not, 2 if there is nothing to check.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

# Code and data of external linkage, and what is looked for elsewhere.
DEFINED, UNDEFINED = "BCDGRSTVW", "U"


def allowed_read(path):
    allowed = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0]
        if ":" in line:
            folder, others = line.split(":")
            allowed[folder.strip()] = {folder.strip(), *others.split()}
    return allowed


def folder_of(file):
    return file.parts[0] if len(file.parts) > 1 else "."


def include_arrows(source):
    """Triples (file, the file that it includes, text)."""
    for file in sorted(f for pattern in ("*.c", "*.h") for f in source.rglob(pattern)):
        for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read_text(), re.MULTILINE):
            target = next((t for t in (source / included, file.parent / included) if t.is_file()), None)
            if target is not None:
                name = file.relative_to(source)
                yield name, target.resolve().relative_to(source.resolve()), f"{name} includes {included}"


def symbols_read(source, objects):
    """For each source file, the symbols that its object defines and those that it looks for."""
    files = {}
    for file in sorted(source.rglob("coll_gpuhier_*.c")):
        name = file.relative_to(source)
        compiled = objects / name.parent / ".libs" / (name.stem + ".o")
        if compiled.is_file():
            files[str(compiled)] = name
    found = {name: (set(), set()) for name in files.values()}
    nm = subprocess.run(["nm", "--extern-only", "--print-file-name", *files], check=True, capture_output=True, text=True)
    for line in nm.stdout.splitlines():
        compiled, entry = line.rsplit(":", 1)
        *_, kind, symbol = entry.split()
        defined, wanted = found[files[compiled]]
        (defined if kind in DEFINED else wanted if kind == UNDEFINED else set()).add(symbol)
    return found


def symbol_arrows(found):
    owner = {symbol: file for file, (defined, _) in found.items() for symbol in defined}
    for file, (_, wanted) in found.items():
        for symbol in sorted(wanted & owner.keys()):
            yield file, owner[symbol], f"{file} uses {symbol} of {owner[symbol]}"


def alone_read(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return [words[0] for words in lines if words]


def alone_problems(found, listed):
    """Symbols that no other file uses and no pattern names, and names that no such symbol has."""
    wanted = set().union(*(wanted for _, wanted in found.values()))
    alone = {symbol: file for file, (defined, _) in found.items() for symbol in defined - wanted}
    for symbol, file in sorted(alone.items()):
        if not any(fnmatch.fnmatchcase(symbol, pattern) for pattern in listed):
            yield f"alone: {file} defines {symbol}, which no other file uses"
    for name in listed:
        if "*" not in name and name not in alone:
            yield f"listed: {name} is not defined, or other files use it"


def circles(graph):
    """The strongly connected components of more than one unit (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for other in graph.get(unit, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[unit] = min(low[unit], low[other])
        if low[unit] == index[unit]:
            component = stack[stack.index(unit):]
            del stack[stack.index(unit):]
            if len(component) > 1:
                result.append(sorted(component))

    for unit in sorted(graph):
        if unit not in index:
            visit(unit)
    return result


def main(source, objects):
    here = pathlib.Path(__file__)
    allowed, found = allowed_read(here.with_suffix(".list")), symbols_read(source, objects)
    includes, calls = list(include_arrows(source)), list(symbol_arrows(found))
    if not calls:
        print(f"layers: no objects in {objects}")
        return 2
    bad = 0
    for user, used, text in includes + calls:
        if folder_of(used) not in allowed.get(folder_of(user), ()):
            print(f"upward: {text}")
            bad += 1
    for arrows in (includes, calls):
        graph = {}
        for user, used, _ in arrows:
            graph.setdefault(user, set()).add(used)
        for circle in circles(graph):
            print(f"circle of {len(circle)}: {' '.join(map(str, circle))}")
            print("".join(f"    {text}\n" for user, used, text in arrows if user in circle and used in circle), end="")
            bad += 1
    for problem in alone_problems(found, alone_read(here.with_name("layers_alone.list"))):
        print(problem)
        bad += 1
    print(f"layers: {len(includes)} includes and {len(calls)} uses of symbols, {bad} against the rules")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
