# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The figures. A function with @figure measures one or some of them and returns a list of judged() or missing().

A ratio to a floor or to another library comes from one run, whose calls alternate: absolute times of emulated GPUs say nothing.
"""

import os
import re

from suite_measure import BUILD, Failure, FigureList, judged, memory_available, missing, ratio_bound, size_text, tenth

FIGURES = FigureList()
figure = FIGURES.named


def raw_of(row):
    return {key: row[key] for key in ("bytes", "type", "time_us", "stock_us", "floor_us", "cpu_us", "samples_us", "stock_samples_us")}


# -- one node, large messages ----------------------------------------------------------------


def one_node(ranks, kind):
    def measure(suite):
        largest = (16 if suite.quick else 256) << 20
        # Send and receive buffer, the host's copy, and the floor's two, for each rank.
        room = 5 * ranks * largest
        dropped = room > 0.7 * memory_available()
        if dropped:
            largest = 64 << 20
        bench = f"-b 4M -e {largest} -f 4 -d {kind} -w 5 -n {15 if suite.quick else 30} -c 0 --mode gpuhier -t 20"
        figures = []
        for row in suite.rows(f"--nodes 1 --gpus {ranks}", bench, f"one_node_{ranks}_{kind}"):
            figures.append(judged(f"one_node.{ranks}_ranks.{kind}.{row['bytes']}",
                                  f"1 node x {ranks} ranks, sum of {kind}, {size_text(row['bytes'])}: time / floor",
                                  row["time_us"] / row["floor_us"], 1.3, "<=", raw_of(row)))
        if dropped:
            figures.append(missing(f"one_node.{ranks}_ranks.{kind}.{256 << 20}", f"1 node x {ranks} ranks, sum of {kind}, 256 MiB: time / floor",
                                   f"needs {room / 0.7 / (1 << 30):.0f} GiB of free memory"))
        return figures

    return measure


for _ranks in (4, 8):
    for _kind in ("double", "float"):
        figure(f"one_node.{_ranks}_ranks.{_kind}")(one_node(_ranks, _kind))


def one_node_stock5(ranks):
    """The stock CUDA-aware Open MPI 5.0.7 in the same run, on the build that test/peers/on-ompi5 makes. Its allreduce (coll/cuda) reduces on
    the host, whatever carries the messages; smcuda would want a CUDA context in MPI_Init already."""

    def measure(suite):
        name, label = f"one_node.stock5.{ranks}_ranks", f"1 node x {ranks} ranks"
        title = f"{label}: Open MPI 5.0.7's own CUDA path / gpuhier"
        build = os.path.join(BUILD, "test/peers/on-ompi5")
        prefix = ompi_of(build)
        if prefix is None:
            return [missing(name, title, "needs test/check.sh peers/on-ompi5-build first")]
        cluster = f"--nodes 1 --gpus {ranks} --ompi {prefix} --mca pml ob1 --mca btl self,sm"
        large = list(suite.rows(cluster, f"-b 4M -e {16 if suite.quick else 64}M -f 4 -w 3 -n 11 -c 0 -t 20", f"stock5_{ranks}_large", build))
        if not suite.quick:
            # Calls of stock that take seconds.
            large += suite.rows(cluster, "-b 256M -e 256M -w 1 -n 3 -c 0", None, build)
        small = suite.rows(cluster, f"-b 8 -e 2M -f {8 if suite.quick else 2} -d double,float -w 5 -n 41 -c 0 -t 20", f"stock5_{ranks}_small", build)
        figures = []
        for row in large:
            figures.append(judged(f"{name}.{row['bytes']}", f"{title}, {size_text(row['bytes'])}", row["stock_us"] / row["time_us"], 4.0, ">=", raw_of(row)))
        for row in small:
            bound = ratio_bound(row["samples_us"], row["stock_samples_us"])
            kind, of_kind = ("", "") if "double" == row["type"] else (f"{row['type']}.", f", sum of {row['type']}")
            figures.append(judged(f"{name}.{kind}{row['bytes']}",
                                  f"{label}: gpuhier / Open MPI 5.0.7's own CUDA path, {size_text(row['bytes'])}{of_kind} (upper bound)",
                                  bound, 1.05, "<=", raw_of(row)))
        return figures

    return measure


for _ranks in (4, 8):
    figure(f"one_node.stock5.{_ranks}_ranks")(one_node_stock5(_ranks))


def ompi_of(build):
    """The Open MPI that a build was configured with, by --with-ompi=; None if there is no such build."""
    try:
        with open(os.path.join(build, "config.status"), encoding="utf-8") as file:
            words = file.read().replace("'", " ").split()
    except OSError:
        return None
    if not os.path.exists(os.path.join(build, "test/bench/gpuhier_bench")):
        return None
    return next((word.split("=", 1)[1] for word in words if word.startswith("--with-ompi=")), None)


# -- several nodes, the wire being the limit ---------------------------------------------------

RAILS = 4


def wire_us(row, nodes, mbit):
    return 2 * (nodes - 1) / nodes * row["bytes"] / (RAILS * mbit / 8)


def nodes_at(suite, shape, mbit, plot=None):
    megabytes = 16 if suite.quick and not (mbit == 500 and "--nodes 2" in shape) else 64
    return suite.rows(f"{shape} --rails {RAILS} --rate {mbit}mbit",
                      f"-b {megabytes}M -e {megabytes}M -w 5 -n {3 if suite.quick else 9} -c 0 --mode gpuhier --counters", plot)[0]


def wire_figures(suite, label, shape, nodes, mbit):
    row = nodes_at(suite, shape, mbit)
    name = f"nodes.{label}.{mbit}mbit"
    title = f"{label} ranks, {RAILS} rails of {mbit} Mbit/s a node, {size_text(row['bytes'])}"
    if not row["traffic_is_right"]:
        raise Failure(f"{title}: other bytes on the wires than computed")
    return [
        judged(name + ".wire", title + ": wire's time / time", wire_us(row, nodes, mbit) / row["time_us"], 0.92, ">=", raw_of(row)),
        judged(name + ".rails", title + ": least loaded rail / most loaded", row["rail_balance"], 0.97, ">=", raw_of(row)),
    ]


# Two cores carry so many bytes a second and no more: where that is less than the wire, a slower wire shows what the schedule does.
NODES = (
    ("4+4", "--nodes 2 --gpus 4", 2),
    ("3+4", "--nodes 2 --gpus 4 --ranks 3,4", 2),
    ("4+4+4", "--nodes 3 --gpus 4", 3),
    ("4+4+4+4", "--nodes 4 --gpus 4", 4),
)
RATES = (500, 100)

for _label, _shape, _nodes in NODES:
    for _mbit in RATES:
        figure(f"nodes.{_label}.{_mbit}mbit")(
            lambda suite, label=_label, shape=_shape, nodes=_nodes, mbit=_mbit: wire_figures(suite, label, shape, nodes, mbit))


@figure("nodes.ucx")
def nodes_ucx(suite):
    """What UCX alone moves over the same rails, both ways at once, just before and just after."""
    figures = []
    for label, shape, nodes in NODES[:1] if suite.quick else NODES:
        for mbit in RATES:
            rates = [suite.ucx_rate(nodes, RAILS, f"{mbit}mbit")]
            row = nodes_at(suite, shape, mbit)
            rates.append(suite.ucx_rate(nodes, RAILS, f"{mbit}mbit"))
            # What leaves a node.
            rate = 2 * (nodes - 1) / nodes * row["bytes"] / (row["time_us"] * 1e-6)
            figures.append(judged(f"nodes.ucx.{label}.{mbit}mbit",
                                  f"{label} ranks, {RAILS} rails of {mbit} Mbit/s a node, {size_text(row['bytes'])}: rate / UCX's own, both ways",
                                  rate / (sum(rates) / 2), 0.97, ">=", {**raw_of(row), "ucx_bytes_a_second": rates}))
    return figures


@figure("nodes.overlap")
def nodes_overlap(suite):
    """The stages alone. The exchange is what one rank a node does with the same rails: it has no other rank to reduce
    with. The reduction and the gathering in all nodes at once are the floor in memory; the floor of a row is that or
    the wire, whichever takes longer."""
    figures = []
    for label, shape, nodes in NODES[:1] if suite.quick else NODES:
        for mbit in RATES:
            alone = nodes_at(suite, f"--nodes {nodes} --gpus 1", mbit)
            row = nodes_at(suite, shape, mbit)
            figures.append(judged(f"nodes.overlap.{label}.{mbit}mbit",
                                  f"{label} ranks, {RAILS} rails of {mbit} Mbit/s a node, {size_text(row['bytes'])}: time / slowest stage alone",
                                  row["time_us"] / max(alone["time_us"], row["floor_us"]), 1.1, "<=", {"all": raw_of(row), "exchange": raw_of(alone)}))
    return figures


# -- the choice of an algorithm ----------------------------------------------------------------


@figure("choice")
def choice(suite):
    """What the table picks, by the best of all that can be forced, over sizes that the host does not reduce. The tenth fastest of a
    hundred calls: ranks outnumber the cores, and a call in which one lost its turn takes ten times as long."""
    figures = []
    for nodes, gpus in ((3, 1),) if suite.quick else ((3, 1), (4, 1), (3, 2)):
        label = f"{nodes} nodes x {gpus} rank{'s' if gpus > 1 else ''}"
        bench = f"-b 16K -e {256 if suite.quick else 4096}K -f 4 -w 5 -n 50 -c 0 --mode gpuhier -t 10"
        runs = {name: suite.rows(f"--nodes {nodes} --gpus {gpus} --mca coll_gpuhier_algorithm {name}", bench)
                for name in ("auto", "recursive_doubling", "ring", "halving")}
        for i, row in enumerate(runs["auto"]):
            best = min(tenth(rows[i]["samples_us"]) for name, rows in runs.items() if name != "auto")
            figures.append(judged(f"choice.{nodes}x{gpus}.{row['bytes']}", f"{label}, {size_text(row['bytes'])}: time of the algorithm chosen / of the best",
                                  tenth(row["samples_us"]) / best, 1.25, "<=", {name: raw_of(rows[i]) for name, rows in runs.items()}))
    return figures


# -- short messages, and what the component must not cost ---------------------------------------

SHAPES = (("1 node x 2 ranks", "--nodes 1 --gpus 2"), ("1 node x 4 ranks", "--nodes 1 --gpus 4"), ("2 nodes x 1 rank", "--nodes 2 --gpus 1"))


def beside_stock(suite, name, what, bench):
    figures = []
    for label, shape in SHAPES if name == "small" else (SHAPES[0], SHAPES[2]):
        for row in suite.rows(shape, bench):
            bound = ratio_bound(row["samples_us"], row["stock_samples_us"])
            figures.append(judged(f"{name}.{label.replace(' ', '')}.{row['bytes']}", f"{label}, {what}, {size_text(row['bytes'])} (upper bound)",
                                  bound, 1.05, "<=", raw_of(row)))
    return figures


DUP = re.compile(r"MPI_Comm_dup: ([0-9.]+) us with the component, ([0-9.]+) us without")


@figure("small")
def small(suite):
    """Against staging through page-locked memory by hand, on the Open MPI at hand."""
    return beside_stock(suite, "small", "device buffers: gpuhier / stock", f"-b 8 -e 64K -f {8 if suite.quick else 2} -w 10 -n 1001 -t 20")


@figure("host")
def host(suite):
    """Host buffers with the component loaded."""
    bench = f"--host -b 8 -e 4M -f {8 if suite.quick else 2} -w 10 -n 1001 -t 20"
    figures = beside_stock(suite, "host", "host buffers: with the component / without", bench)
    for call, name in (("nonblocking", "MPI_Iallreduce"), ("persistent", "persistent requests")):
        figures += beside_stock(suite, f"host.{call}", f"host buffers, {name}: with the component / without",
                                f"--host --call {call} -b 8 -e 1M -f {64 if suite.quick else 16} -w 10 -n 1001 -t 5")
    for label, shape in (SHAPES[0], SHAPES[2]):
        with_it, without = (float(us) for us in DUP.search(suite.text(shape, bench)).groups())
        figures.append(judged(f"dup.{label.replace(' ', '')}", f"{label}, MPI_Comm_dup: with the component / without", with_it / without, 1.05, "<=",
                              {"time_us": with_it, "stock_us": without}))
    return figures
