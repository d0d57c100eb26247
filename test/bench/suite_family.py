# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the other collectives. Sizes are those of the longer buffer, as nccl-tests count.

The floor of a row is what gpuhier_bench measures: a kernel that moves the bytes that this collective must move.
"""

import os

from suite_figures import RAILS, RATES, ompi_of, raw_of
from suite_measure import BUILD, FigureList, judged, memory_available, missing, ratio_bound, size_text

FIGURES = FigureList()
figure = FIGURES.named

REDUCING = ("reduce", "reduce_scatter_block", "reduce_scatter")
FAMILY = REDUCING + ("bcast", "allgather", "allgatherv", "alltoall", "alltoallv")


def name_of(collective):
    return "MPI_" + collective.capitalize()


def one_node(ranks):
    def measure(suite):
        figures = []
        for collective in FAMILY:
            title = f"1 node x {ranks} ranks, {name_of(collective)}"
            largest = 16 if suite.quick or 6 * ranks * (256 << 20) > 0.7 * memory_available() else 256
            for row in suite.rows(f"--nodes 1 --gpus {ranks}", f"--collective {collective} -b 16M -e {largest}M -f 16 -w 3 -n 11 -c 0 --mode gpuhier -t 6"):
                figures.append(judged(f"family.{ranks}_ranks.{collective}.{row['bytes']}", f"{title}, {size_text(row['bytes'])}: time / floor",
                                      row["time_us"] / row["floor_us"], 2.0 if row["bytes"] < 256 << 20 else 1.4, "<=", raw_of(row)))
        return figures

    return measure


for _ranks in (4, 8):
    figure(f"family.{_ranks}_ranks")(one_node(_ranks))


@figure("family.stock5")
def stock5(suite):
    """Beside Open MPI 5.0.7's own CUDA path, whose calls alternate with gpuhier's. Reductions are to be three times as fast from 1 MiB on."""
    build = os.path.join(BUILD, "test/peers/on-ompi5")
    prefix = ompi_of(build)
    if prefix is None:
        return [missing("family.stock5", "other collectives beside Open MPI 5.0.7", "needs test/check.sh peers/on-ompi5-build first")]
    figures = []
    for collective in FAMILY:
        rows = suite.rows(f"--nodes 1 --gpus 4 --ompi {prefix} --mca pml ob1 --mca btl self,sm",
                          f"--collective {collective} -b 32 -e {1 if suite.quick else 32}M -f 32 -w 3 -n 41 -c 0 -t 12", None, build)
        for row in rows:
            goal = 1 / 3 if collective in REDUCING and row["bytes"] >= 1 << 20 else 1.0
            figures.append(judged(f"family.stock5.{collective}.{row['bytes']}",
                                  f"1 node x 4 ranks, {name_of(collective)}, {size_text(row['bytes'])}: gpuhier / Open MPI 5.0.7's own CUDA path (upper bound)",
                                  ratio_bound(row["samples_us"], row["stock_samples_us"]), goal, "<=", raw_of(row)))
    return figures


def nodes(mbit):
    """Two nodes of a GPU for each rail. Of B bytes a root's node sends or takes all once, and a node half of all blocks; of
    MPI_Alltoall(v), where each rank has B bytes, half of these go through its rail."""

    def measure(suite):
        figures = []
        for collective in FAMILY:
            row = suite.rows(f"--nodes 2 --gpus {RAILS} --rails {RAILS} --rate {mbit}mbit",
                             f"--collective {collective} -b {16 if suite.quick else 64}M -e {16 if suite.quick else 64}M -w 3 -n 5 -c 0 --mode gpuhier -t 20")[0]
            share = 1 if collective in ("bcast", "reduce") else RAILS / 2 if "alltoall" in collective else 1 / 2
            wire_us = share * row["bytes"] / (RAILS * mbit / 8)
            figures.append(judged(f"family.nodes.{mbit}mbit.{collective}",
                                  f"2 nodes x {RAILS} ranks, {name_of(collective)}, {RAILS} rails of {mbit} Mbit/s a node, {size_text(row['bytes'])}: "
                                  "wire's time / time", wire_us / row["time_us"], 0.92, ">=", raw_of(row)))
        return figures

    return measure


for _mbit in RATES:
    figure(f"family.nodes.{_mbit}mbit")(nodes(_mbit))
