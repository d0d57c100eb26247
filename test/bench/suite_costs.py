# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The figures of what the component costs beside moving bytes: latencies over their floors, instructions, the first call, memory.

As in suite_figures.py, a function with @figure measures one or some of them.
"""

import os
import re
import time

from suite_measure import BUILD, RUN, SRC, Failure, FigureList, judged, missing, size_text

FIGURES = FigureList()
figure = FIGURES.named


def short_rows(suite, shape, largest, train=1):
    """Short messages of the component alone, with the floor: the launch and completion of a kernel on every rank."""
    return suite.rows(shape, f"-b 8 -e {largest} -f {8 if suite.quick else 2} -w 10 -n {1001 if train == 1 else 201} --train {train} -c 0 --mode gpuhier -t 10")


@figure("latency.node")
def latency_node(suite):
    """The floor of a short message is an empty launch and its completion, in the same run."""
    figures = []
    for ranks in (2, 4):
        for row in short_rows(suite, f"--nodes 1 --gpus {ranks}", "64K"):
            figures.append(judged(f"latency.node.{ranks}.{row['bytes']}", f"1 node x {ranks} ranks, {size_text(row['bytes'])}: time / launch and completion of a kernel",
                                  row["time_us"] / row["floor_us"], 2.0, "<=",
                                  {key: row[key] for key in ("bytes", "time_us", "floor_us", "samples_us")}))
    return figures


@figure("latency.nodes")
def latency_nodes(suite):
    """Two leaders need one exchange. The part in a node is what two ranks of one node need, whose copies and handshake are the same.
    In trains of calls: the barrier before a single one lets the two nodes go at times that differ by up to a latency."""
    before = suite.ucx_latencies(2)
    across = short_rows(suite, "--nodes 2 --gpus 1", "64K", 20)
    within = {row["bytes"]: row for row in short_rows(suite, "--nodes 1 --gpus 2", "64K", 20)}
    after = suite.ucx_latencies(2)
    figures = []
    for row in across:
        # UCX's latency was taken at some sizes only: that of the next larger one.
        size = min((size for size in before if size >= row["bytes"]), default=max(before))
        one_way = (before[size] + after[size]) / 2
        figures.append(judged(f"latency.nodes.2.{row['bytes']}", f"2 nodes x 1 rank, {size_text(row['bytes'])}: (time - part in a node) / UCX's latency one way",
                              (row["time_us"] - within[row["bytes"]]["time_us"]) / one_way, 1.5, "<=",
                              {"bytes": row["bytes"], "time_us": row["time_us"], "node_us": within[row["bytes"]]["time_us"], "ucx_us": [before[size], after[size]],
                               "ucx_bytes": size, "samples_us": row["samples_us"], "node_samples_us": within[row["bytes"]]["samples_us"]}))
    return figures


@figure("instructions")
def instructions(suite):
    """Of the component's own code, and calls of the driver, by valgrind; the limits are those of the test."""
    own, driver, launches, looks = suite.found(
        r"one call of 1 doubles: ([0-9]+) instructions of the component .*, ([0-9]+) driver calls .*, ([0-9]+) launches, ([0-9]+) looks at the GPU",
        [os.path.join(SRC, "test/bench/instructions"), "2", "1600", "13"], "test/bench")
    return [judged("instructions.own", "one short call, oneshot_bytes=0: instructions of the component, waiting apart", own, 1600, "<=", own),
            judged("instructions.driver", "one short call, oneshot_bytes=0: calls of the driver", driver, 13, "<=", driver),
            judged("instructions.launches", "one short call, oneshot_bytes=0: kernels launched", launches, 1, "<=", launches),
            judged("instructions.looks", "one short call, oneshot_bytes=0: times that the host waits for its GPU, at most", looks, 2, "<=", looks)]


@figure("first")
def first(suite):
    """The first accelerated call of a communicator, set-up included, and the second."""
    figures = []
    for label, shape in (("1 node x 2 ranks", "--nodes 1 --gpus 2"), ("2 nodes x 1 rank", "--nodes 2 --gpus 1")):
        process, comm, second = suite.found(r"first call of the process ([0-9]+) us, of a communicator ([0-9]+) us, second call ([0-9]+) us",
                                            [RUN, *shape.split(), "--", "./bench_first", "41" if suite.quick else "201"], "test/bench")
        raw = {"first_of_process_us": process, "first_us": comm, "second_us": second}
        figures.append(judged(f"first.{label.replace(' ', '')}", f"{label}: first call of a communicator / second call", comm / second, None, "", raw))
        figures.append(judged(f"first.process.{label.replace(' ', '')}", f"{label}: first call of the process / second call", process / second, None, "", raw))
    return figures


@figure("first.messages")
def first_messages(suite):
    """What the first call of a communicator sends by Open MPI, of the rank that sends most."""
    figures = []
    for nodes, gpus in ((1, 2), (1, 4), (2, 1), (2, 2), (2, 4)):
        label = f"{nodes} node{'s' if nodes > 1 else ''} x {gpus} rank{'s' if gpus > 1 else ''}"
        text = suite.command([os.path.join(SRC, "test/bench/first_messages"), "1000", "--nodes", str(nodes), "--gpus", str(gpus)], "test/bench")
        ranks = [(float(messages), float(count)) for messages, count in re.findall(r"sends ([0-9.]+) messages and ([0-9]+) bytes", text)]
        if not ranks:
            raise Failure("first_messages did not tell what ranks send")
        raw = {"nodes": nodes, "ranks": nodes * gpus, "messages": [rank[0] for rank in ranks], "bytes": [rank[1] for rank in ranks]}
        figures.append(judged(f"first.messages.{nodes}x{gpus}", f"{label}: messages of a rank for the first call", max(raw["messages"]), None, "", raw))
        figures.append(judged(f"first.bytes.{nodes}x{gpus}", f"{label}: bytes of a rank for the first call", max(raw["bytes"]), None, "", raw))
    return figures


@figure("growth")
def growth(suite):
    """Set-up to 64 ranks: a rank's sockets are its connections, two on each pair of tcp rails for each partner, and UCX's listener."""
    figures = []
    for nodes, gpus in ((2, 2), (4, 4)) if suite.quick else ((2, 2), (2, 4), (4, 4), (8, 4), (8, 8)):
        kib, sockets = suite.found(r"at most (-?[0-9]+) KiB, ([0-9]+) sockets",
                                   [RUN, "--nodes", str(nodes), "--gpus", str(gpus), "--mca", "coll_gpuhier_slice_bytes", "65536", "--mca",
                                    "coll_gpuhier_small_bytes", "0", "--", "./footprint"], "test/nodes")
        raw = {"nodes": nodes, "ranks": nodes * gpus, "kib": kib, "sockets": sockets}
        figures.append(judged(f"growth.sockets.{nodes}x{gpus}", f"{nodes} nodes x {gpus} ranks: sockets of a rank for each other node",
                              sockets / (nodes - 1), 3, "<=", raw))
        figures.append(judged(f"growth.memory.{nodes}x{gpus}", f"{nodes} nodes x {gpus} ranks: host memory of a rank for set-up, MiB", kib / 1024, None, "", raw))
    return figures


@figure("emulator")
def emulator(suite):
    """The ruler: the emulated GPU beside what this machine does without it."""
    text = suite.command(["./bench_twin"], "test/unit")
    ratios = [float(ratio) for ratio in re.findall(r"time ratio ([0-9.]+)", text)]
    if not ratios:
        raise Failure("bench_twin did not print what was expected")
    figures = [judged("emulator.kernel", "emulated kernels: time / a plain loop's, the worst of 12", max(ratios), 1.2, "<=", ratios)]
    library = os.path.join(BUILD, "test/cudasim/lib")
    copy, *calls = suite.found(r"copy / memcpy ([0-9.]+), in us: event record ([0-9.]+), event query ([0-9.]+), launch ([0-9.]+), pointer attribute ([0-9.]+)",
                               ["env", f"LD_LIBRARY_PATH={library}", f"CUDASIM_TWINS={library}/contract_twin.so", "./speed_test"], "test/cudasim")
    figures.append(judged("emulator.copy", "emulated copies: time / memcpy's", copy, 1.25, "<=", copy))
    for name, title, us, most in zip(("record", "query", "launch", "attribute"), ("event record", "event query", "launch", "pointer attribute"), calls, (3, 1, 5, 1)):
        figures.append(judged(f"emulator.{name}", f"emulated driver: {title}, us", us, most, "<=", us))
    return figures


@figure("wire")
def wire(suite):
    """The other ruler: shaped rails carry their rate, and no more than the full buckets at the start add."""
    figures = []
    for label, ranks, rails, mbit in (("one rail", 1, 1, 200), ("two rails", 2, 2, 100)):
        rate, _, _ = suite.found(r"([0-9.]+) ([0-9]+) ([0-9]+)",
                                 [RUN, "--stock", "--gpus", "0", "--ranks", str(ranks), "--rails", str(rails), "--rate", f"{mbit}mbit", "--",
                                  "./vcluster_rate", "8388608", "3"], "test/vcluster")
        name, title = f"wire.{rails}", f"{label} of {mbit} Mbit/s: Open MPI's rate / the wire's"
        figures.append(judged(name + ".least", title, rate / (rails * mbit), 0.97, ">=", rate))
        figures.append(judged(name + ".most", title, rate / (rails * mbit), 1.07, "<=", rate))
    return figures


@figure("lives")
def lives(suite):
    """Does a communicator take longer after many others? A dup with a call and its end, late and early, each in times of one without a call."""
    figures = []
    for label, shape in (("1 node x 2 ranks", "--nodes 1 --gpus 2"), ("2 nodes x 1 rank", "--nodes 2 --gpus 1")):
        early, late, early_plain, late_plain = suite.found(r"([0-9.]+) us early, ([0-9.]+) us late; without a call ([0-9.]+) us and ([0-9.]+) us",
                                                           [RUN, *shape.split(), "--", "./fault_leaks", "1000" if suite.quick else "4000"], "test/fault")
        figures.append(judged(f"lives.{label.replace(' ', '')}", f"{label}: a communicator after {1000 if suite.quick else 4000} others / after few",
                              late * early_plain / (early * late_plain), 2.0, "<=",
                              {"early_us": early, "late_us": late, "early_plain_us": early_plain, "late_plain_us": late_plain}))
    return figures


@figure("leave")
def leave(suite):
    """Whole runs whose end must not wait for a word that does not come: that would take half a minute, or for ever."""
    runs = (("callback", "a call in a callback of MPI_Finalize on some ranks", ["--nodes", "2", "--gpus", "1", "--", "../ranks/last_call", "30000", "callback_mixed"]),
            ("astray", "rails that lead nowhere", ["--nodes", "3", "--gpus", "1", "--rails", "3", "--mca", "btl_tcp_if_include", "10.1.0.0/16", "--",
                                                  os.path.join(SRC, "test/nodes/as"), "astray", "1", "./call_and_barrier", "--stock", "200000", "4"]))
    figures = []
    for name, title, arguments in runs:
        begin = time.monotonic()
        suite.command([RUN, *arguments], "test/nodes")
        seconds = time.monotonic() - begin
        figures.append(judged(f"leave.{name}", f"{title}: seconds of a run", seconds, 20, "<=", seconds))
    return figures


@figure("gpu")
def real_gpu(_suite):
    """What only a real GPU can tell. Nodes and GPUs of this suite are emulated."""
    why = "needs a real GPU"
    return [missing(f"gpu.shared.{ranks}", f"one real GPU shared by {ranks} ranks, 64 MiB and more: time / the plain kernel's in as many processes (goal <= 1.3)", why)
            for ranks in (2, 4, 8)] + [
        missing("gpu.kernel", "bandwidth of the kernel alone / a device copy's (goal >= 0.85; gpu/kernels_real prints it there)", why),
        missing("gpu.small", "8 B to 64 KiB on GPUs of their own, time (goal < 12 us), and by kernel, by host, by kernel into mapped memory", why),
    ]
