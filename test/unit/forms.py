#!/usr/bin/env python3
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Which form a call takes, on known machines and under the parameters that decide it: what test/ranks/forms prints must be
what test/golden/forms.txt says. The choice is data that one can read and compare.

  forms.py [--update] [NAME...]     NAME: only these cases; --update writes the golden file
"""
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ["GPUHIER_BUILD"])
SRC = pathlib.Path(os.environ["GPUHIER_SRC"])
GOLDEN = SRC / "test/golden/forms.txt"

# Short slices bring the lengths at which a form changes into reach of two cores.
SHORT = "coll_gpuhier_slice_bytes=65536 coll_gpuhier_slice_bytes_max=262144"
SIZES = "8 8192 16384 65536 262144 1048576"

# What the calls pass, by test/ranks/forms. DOUBLES: of the type the choice knows only whether NVSwitches take it. POOL: via
# scratch, which each form and each kind of exchange does in its own way. HOST: left to Open MPI before a form is chosen.
DOUBLES, POOL, HOST = "doubles", "pool", "host"
LISTS = "allgatherv,reduce_scatter" # blocks of unlike length, whose form the longest one decides

# A case: the machine or the cluster, parameters, sizes in bytes, and what is passed besides int64 in device memory.
CASES = {
    "pcie2": ("--topology pcie2", "", SIZES),
    "pcie8": ("--topology pcie8", "", SIZES, POOL, LISTS),
    "pcie8 in levels of few bytes": ("--topology pcie8", "coll_gpuhier_tune=levels_bytes=8192", SIZES, POOL),
    "pcie8 flat": ("--topology pcie8", "coll_gpuhier_tune=levels_bytes=0", "1048576"),
    "dgx1v": ("--topology dgx1v", "", SIZES, POOL),
    "summit": ("--topology summit", "", SIZES, POOL),
    "mig7": ("--topology mig7", "", SIZES),
    "h100x4": ("--topology h100x4", "", SIZES),
    "hgx-h100": ("--topology hgx-h100", "", SIZES, DOUBLES, POOL, HOST, LISTS),
    "hgx-h100 switched from few bytes": ("--topology hgx-h100", "coll_gpuhier_tune=switch_bytes=16384", SIZES, DOUBLES, POOL),
    "hgx-h100 switched in any order": (
        "--topology hgx-h100", "coll_gpuhier_tune=oneshot_bytes=0,switch_bytes=16384 coll_gpuhier_reproducible=0", SIZES, DOUBLES, POOL),
    "hgx-h100 without one-shot kernels": ("--topology hgx-h100", "coll_gpuhier_tune=oneshot_bytes=0", SIZES),
    "four GPUs, GDRCopy": ("--nodes 1 --gpus 4 -x CUDASIM_GDR=4M", "", SIZES, POOL, LISTS),
    "four GPUs, nothing for the host": ("--nodes 1 --gpus 4", "coll_gpuhier_small_bytes=0", SIZES),
    "four ranks share two GPUs": ("--nodes 1 --gpus 2 --ranks 4", "", SIZES, POOL),
    "two nodes": ("--nodes 2 --gpus 1", SHORT, SIZES),
    "two nodes of two": ("--nodes 2 --gpus 2", SHORT, SIZES, DOUBLES, POOL, HOST, LISTS),
    "two nodes of two, scratch": ("--nodes 2 --gpus 2", SHORT + " coll_gpuhier_ipc=scratch", SIZES),
    "three nodes": ("--nodes 3 --gpus 1", SHORT, SIZES),
    "three nodes, a ring": ("--nodes 3 --gpus 1", SHORT + " coll_gpuhier_algorithm=ring", SIZES),
    "two nodes of one and three": ("--nodes 2 --gpus 3 --ranks 1,3", SHORT, SIZES, POOL),
}


def show(name):
    """The lines of a case."""
    cluster, parameters, sizes, *passed = CASES[name]
    options = [word for pair in parameters.split() for word in ("--mca", *pair.split("=", 1))]
    done = subprocess.run([SRC / "test/vcluster/run", *cluster.split(), *options, "--",
                           BUILD / "test/ranks/forms", ",".join(["device", *passed]), *sizes.split()],
                          capture_output=True, text=True, timeout=600, cwd=BUILD / "test/ranks", check=False)
    if done.returncode != 0:
        raise SystemExit(f"forms: {name}: status {done.returncode}:\n{done.stdout}{done.stderr}")
    return [name] + ["  " + line for line in done.stdout.splitlines() if "blocking:" in line]


def golden():
    """The golden file's lines by case."""
    cases, name = {}, None
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith((" ", "#")):
            name = line
            cases[name] = []
        if name:
            cases[name].append(line)
    return cases


def main(arguments):
    update = "--update" in arguments
    names = [name for name in arguments if name != "--update"] or list(CASES)
    known = golden() if GOLDEN.exists() else {}
    bad = 0
    for name in names:
        found = show(name)
        if not update and found != known.get(name):
            bad += 1
            print(f"{name}: not what {GOLDEN.name} says:")
            print("\n".join(f"- {line}" for line in known.get(name, []) if line not in found))
            print("\n".join(f"+ {line}" for line in found if line not in known.get(name, [])))
        known[name] = found
    if update:
        GOLDEN.write_text("# Made by test/unit/forms.py --update: the form of a warm call, by its bytes; k kernels, c copies on rank 0.\n"
                          + "".join("\n".join(known[name]) + "\n" for name in CASES if name in known), encoding="utf-8")
    print(f"forms: {len(names)} cases, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
