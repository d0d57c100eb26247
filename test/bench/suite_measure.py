# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What figures are made of: runs of the benchmark, medians and their bounds, and the objects that come out."""

import json
import os
import random
import re
import subprocess
import tempfile

SRC = os.environ["GPUHIER_SRC"]
BUILD = os.environ["GPUHIER_BUILD"]
RUN = os.path.join(SRC, "test/vcluster/run")


class Failure(Exception):
    """A measurement that could not be made; the text says why."""


class FigureList(list):
    """Functions that measure, in the order of their definition."""

    def named(self, name):
        """Puts a function into the list under a name that --only finds."""

        def keep(function):
            function.name = name
            self.append(function)
            return function

        return keep


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def tenth(values):
    """The value below which a tenth of them lie."""
    return sorted(values)[len(values) // 10]


def ratio_bound(mine, theirs, rounds=2000):
    """The upper end of the 95 % interval of the median of mine[i] / theirs[i], by bootstrap with a fixed seed."""
    ratios = [a / b for a, b in zip(mine, theirs)]
    chance = random.Random(1)
    medians = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[int(0.975 * rounds) - 1]


def judged(name, title, value, goal, sense, raw):
    """A figure. sense: "<=" or ">=" the goal; goal None: no goal. raw: anything that json can hold."""
    ok = True if goal is None else value <= goal if sense == "<=" else value >= goal
    return {"name": name, "title": title, "value": value, "goal": goal, "sense": sense, "ok": ok, "raw": raw}


def missing(name, title, why):
    """A figure that this machine cannot measure."""
    return {"name": name, "title": title, "value": None, "goal": None, "sense": "", "ok": None, "why": why, "raw": []}


class Suite:
    """How thoroughly to measure, and the runs that several figures share."""

    def __init__(self, quick, plots):
        self.quick = quick
        self.plots = plots
        self.kept = {}
        self.said = {}

    def command(self, arguments, folder, build=BUILD, seconds=300):
        """Runs one program to its end in a folder of the build. Returns its standard output."""
        environment = dict(os.environ, GPUHIER_BUILD=build)
        try:
            done = subprocess.run(arguments, cwd=os.path.join(build, folder), env=environment, timeout=seconds,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(str(error)) from error
        if done.returncode != 0:
            said = (done.stderr + done.stdout).strip().splitlines()
            raise Failure(f"status {done.returncode}: {said[-1] if said else 'nothing said'}")
        return done.stdout

    def rows(self, cluster, bench, plot=None, build=BUILD, cluster_options=()):
        """gpuhier_bench on such a cluster ("--nodes 1 --gpus 4"); its rows. A run that was made before is not made again."""
        key = (cluster, bench, build)
        if key not in self.kept:
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "rows.json")
                program = ["./gpuhier_bench", *bench.split(), "--json", file]
                if plot and self.plots:
                    program += ["--plot", os.path.abspath(os.path.join(self.plots, plot + ".svg"))]
                self.said[key] = self.command([RUN, *cluster.split(), *cluster_options, "--", *program], "test/bench", build)
                with open(file, encoding="utf-8") as rows:
                    self.kept[key] = json.load(rows)
        return self.kept[key]

    def text(self, cluster, bench, build=BUILD):
        """What the benchmark printed in such a run."""
        self.rows(cluster, bench, build=build)
        return self.said[(cluster, bench, build)]

    def found(self, pattern, arguments, folder, seconds=300):
        """The groups of a pattern in what a program prints, as numbers."""
        text = self.command(arguments, folder, seconds=seconds)
        match = re.search(pattern, text)
        if not match:
            raise Failure(f"{arguments[-1]} did not print what was expected")
        return [float(group) for group in match.groups()]

    def ucx_latencies(self, nodes):
        """UCX's own one-way latency in us by message size in bytes, of one process on each node."""
        text = self.command([RUN, "--nodes", str(nodes), "--gpus", "0", "--ranks", "1", "--stock", "--", "../nodes/net_perf", "--quick"], "test/nodes")
        return {int(size): float(us) for size, us in re.findall(r"latency +([0-9]+) bytes: +([0-9.]+) us", text)}

    def ucx_rate(self, nodes, rails, rate):
        """Bytes a second that UCX alone moves out of each node while as much comes in, over all rails; one process on each
        node, from each to the next."""
        devices = ",".join(f"rail{i}" for i in range(rails))
        text = self.command([RUN, "--nodes", str(nodes), "--gpus", "0", "--ranks", "1", "--stock", "--rails", str(rails), "--rate", rate,
                             "--", "../nodes/net_perf", "--quick", "--devices", devices, *(["--ring"] if nodes > 2 else [])], "test/nodes")
        found = re.search(r"bandwidth both ways: ([0-9.]+) Mbit/s on each", text)
        if not found:
            raise Failure("net_perf did not tell a bandwidth")
        return float(found.group(1)) * 1e6 / 8 * rails


def memory_available():
    """Bytes of this machine's memory that programs may still take."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def size_text(count):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} B"
