#!/usr/bin/env python3
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Known machines: what gpuhier makes of each must be what its NAME.expect says.

  machines.py described   gpuhier_info reads the description
  machines.py emulated    gpuhier_info looks at the machine that the emulated driver, NVML and hwloc show

Lines of NAME.expect, after "#" comments that say why:

  way A B WAY             the way between two devices, GPU numbers or names, as nvidia-smi topo -m names it
  group GPU..             there is a group of exactly these GPUs
  groups N                groups on all nodes
  rail RANK DEVICE..      the rank drives exactly these
  tcp-rail RANK DEVICE..  it drives exactly these where UCX cannot use the RDMA ports
  left DEVICE             the device is no rail
  pattern WORD            how the ranks of a group share out the work
  node-path WORD          how groups of one node exchange; none: there is one group
  path TEXT               how data goes between groups
  plan RANKS BYTES EXCHANGE SLICES
                          a call on groups of so many ranks; EXCHANGE is kernel for one group
  link-plan RANKS BYTES EXCHANGE SLICES
                          the same where partners exchange over links
  gap STATEMENT           a known gap: what should be, and is not. "today" and "right" lines follow, each with a
                          line as above; today's must hold, and of the right ones at least one must not: when all
                          do, the gap is closed, and its right lines become expectations.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["GPUHIER_BUILD"])
FOLDER = pathlib.Path(os.environ["GPUHIER_SRC"]) / "test/golden/machines"
INFO = BUILD / "ompi/tools/gpuhier_info/gpuhier_info"
NEEDED = """pcie2 pcie8 dgx1v dgx-a100 hgx-h100 h100x4 h100x4-nv18 hgx-h100-x2 aws-p4d aws-p5 perlmutter leonardo summit
            gh200x4 gb200-nvl72 mig7""".split()


def environment():
    """Without the caller's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_MCA_", "CUDA"))}
    return {**kept, "OMPI_MCA_mca_base_param_files": "/nonexistent"}


def ask(*arguments, **extra):
    done = subprocess.run([INFO, *arguments, "--json"], capture_output=True, text=True, timeout=120,
                          env={**environment(), **extra})
    if done.returncode != 0:
        raise SystemExit(f"gpuhier_info {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class Machine:
    def __init__(self, topo):
        self.topo = topo
        self.names = [nic["device"].split(":")[0] for nic in topo["nics"]]

    def way(self, a, b, expected):
        row = self.topo["gpus"][int(a)]
        found = row["gpu_ways"][int(b)] if b.isdigit() else row["nic_ways"][self.names.index(b)]
        return found == expected

    def group(self, *gpus):
        return [int(gpu) for gpu in gpus] in self.topo["groups"]

    def groups(self, count):
        return self.topo["groups_in_all"] == int(count)

    def rail(self, rank, *devices):
        return [device.split(":")[0] for device in self.topo["rails"][int(rank)]] == list(devices)

    def tcp_rail(self, rank, *devices):
        return self.topo["rails_without_rdma"][int(rank)] == list(devices)

    def left(self, device):
        return not self.topo["nics"][self.names.index(device)]["taken"]

    def pattern(self, *words):
        return self.topo["pattern_in_group"] == " ".join(words)

    def node_path(self, *words):
        return (self.topo["path_between_groups_of_a_node"] or "none") == " ".join(words)

    def path(self, *words):
        return self.topo["path_between_groups"] == " ".join(words)

    def link_plan(self, *words):
        return self.plan(*words, wire="nvlink")

    def plan(self, ranks, size, exchange, slices, wire="rdma"):
        plan = ask("plan", "--ranks", ranks, "-n", size, "-t", "1", "--wire", wire)
        return (plan["exchange"] or "kernel") == exchange and plan["slices"] == int(slices)

    def holds(self, line):
        verb, *words = line.split()
        return getattr(self, verb.replace("-", "_"))(*words)


def check(name, machine):
    """Returns the failures of one machine, and the number of its lines and gaps."""
    failures, lines, gaps = [], 0, []
    for text in (FOLDER / f"{name}.expect").read_text().splitlines():
        line = text.split("#")[0].strip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        lines += 1
        if word == "gap":
            gaps.append((rest, []))
        elif word == "today":
            if not machine.holds(rest):
                failures.append(f"{name}: no longer so today: {rest}")
        elif word == "right":
            gaps[-1][1].append(machine.holds(rest))
        elif not machine.holds(line):
            failures.append(f"{name}: not so: {line}")
    failures += [f"{name}: a gap without a right line: {text}" for text, rights in gaps if not rights]
    failures += [f"{name}: a gap is closed, make it an expectation: {text}" for text, rights in gaps if rights and all(rights)]
    return failures, lines, len(gaps)


def emulated(name, folder):
    """The same machine by way of the driver, NVML and hwloc; its network devices are this machine's own."""
    path = FOLDER / f"{name}.topo"
    xml = pathlib.Path(folder) / f"{name}.xml"
    xml.write_text(subprocess.run([BUILD / "test/cudasim/cudasim_topo", "--hwloc-xml", path], check=True,
                                  capture_output=True, text=True).stdout)
    return ask("topo", CUDASIM_TOPOLOGY=str(path), HWLOC_XMLFILE=str(xml),
               LD_LIBRARY_PATH=f"{BUILD}/test/cudasim/lib:{os.environ.get('LD_LIBRARY_PATH', '')}")


def main():
    failures, lines, gaps = [], 0, 0
    names = sorted(path.stem for path in FOLDER.glob("*.topo"))
    failures += [f"there is no machine {name}" for name in NEEDED if name not in names]
    failures += [f"{path.name} has no description" for path in FOLDER.glob("*.expect") if path.stem not in names]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            described = ask("topo", "--machine", FOLDER / f"{name}.topo")
            if sys.argv[1] == "described":
                more, count, known = check(name, Machine(described))
                failures, lines, gaps = failures + more, lines + count, gaps + known
                continue
            seen = emulated(name, folder)
            for what in ("groups", "pattern_in_group"):
                if seen[what] != described[what]:
                    failures.append(f"{name}: {what} {seen[what]}, described {described[what]}")
            for key in ("gpu_ways", "numa", "memory", "pci"):
                mine, other = ([gpu[key] for gpu in topo["gpus"]] for topo in (seen, described))
                if mine != other:
                    failures.append(f"{name}: {key} {mine}, described {other}")
                lines += 1
    print("\n".join(failures + [f"{len(names)} machines, {lines} lines, {gaps} known gaps"]))
    return len(failures) > 0 or lines < 4 * len(names)


sys.exit(main())
