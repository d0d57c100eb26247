#!/usr/bin/env python3
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The timeline of coll_gpuhier_trace: one file, valid JSON, whose events are the calls that the program made.
#
#   trace_test.py calls NODES RANKS PATH [--mca NAME VALUE...]   allreduce_reasons; calls on the GPUs took PATH
#   trace_test.py rows                                           soak: calls of the other collectives
#   trace_test.py clocks                                         the same, on nodes whose clocks are 1000 seconds apart
#   trace_test.py dropped                                        more calls than a rank keeps
#   trace_test.py unwritable                                     a folder that does not exist
#   trace_test.py differs                                        rank 1 has no trace
#   trace_test.py nvtx                                           ranges of NVTX, with a trace and without
import json
import os
import subprocess
import sys
import tempfile

SRC, BUILD = os.environ["GPUHIER_SRC"], os.environ["GPUHIER_BUILD"]
KEPT = 16384
FOLDER = tempfile.TemporaryDirectory()
FILE = FOLDER.name + "/trace.json"


def fail(text):
    print("trace_test:", text)
    sys.exit(1)


def run(nodes, ranks, command, options=(), file=FILE):
    line = [SRC + "/test/vcluster/run", "--nodes", str(nodes), "--gpus", str(ranks), "--mca", "coll_gpuhier_trace", file,
            *options, "--", *command]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        fail("status %d of %s\n%s" % (done.returncode, " ".join(line), done.stdout))
    return done.stdout


def read():
    with open(FILE) as f:
        return json.load(f)


def calls(trace):
    """The calls of each rank, by their begin."""
    of_rank = {}
    for event in trace["traceEvents"]:
        if event.get("cat") == "call":
            of_rank.setdefault(event["pid"], []).append(event)
    for events in of_rank.values():
        events.sort(key=lambda e: e["ts"])
    return of_rank


# The calls of allreduce_reasons: name, elements, type, path, and the beginning of the reason. Those of odd ranks and of even ones.
def expected(odd, path):
    new = "nonblocking, and no blocking call"
    host = "host memory on another rank" if odd else "host memory on this rank"
    posted = "small" if path == "one-shot" else path  # nonblocking calls never are
    call, post, start = "MPI_Allreduce", "MPI_Iallreduce", "MPI_Allreduce_init"
    return [(post, 100, "MPI_DOUBLE", "staged", new), (call, 100, "MPI_DOUBLE", path, None), (post, 100, "MPI_DOUBLE", posted, None),
            (post, 1000, "MPI_DOUBLE", "staged", new), (call, 10000, "MPI_DOUBLE", "saved", "host memory on this rank"),
            (call, 30000, "MPI_DOUBLE", "staged" if odd else "saved", host), (post, 30000, "MPI_DOUBLE", "staged", host),
            (call, 100, "MPI_LONG_DOUBLE", "staged", "no kernel"), (start, 100, "MPI_LONG_DOUBLE", "staged", "no kernel"),
            (call, 100, "MPI_DOUBLE", "staged", "one rank"), (post, 100, "MPI_DOUBLE", "staged", "one rank")]


def check_phases(trace, of_rank):
    """Each lies within a call, the first begins with it, and the last ends with it."""
    for rank, events in of_rank.items():
        for event in events:
            begin, end = event["ts"], event["ts"] + event["dur"]
            within = sorted((p["ts"], p["ts"] + p["dur"]) for p in trace["traceEvents"]
                            if p.get("cat") == "phase" and p["pid"] == rank and p["tid"] == event["tid"] and begin - 1 <= p["ts"] <= end)
            # Phases are kept in microseconds after the start, with 24 bits.
            if not within or abs(within[0][0] - begin) > 1 or abs(max(e for _, e in within) - end) > 1:
                fail("rank %d: the phases of %s are %s" % (rank, event, within))


def check_overlap(trace, of_rank):
    """No rank ends an all-reduce before the last one has begun it: so the clocks agree, but for what the file says."""
    unsure = {r["rank"]: r["clock_unsure_us"] for r in trace["otherData"]["ranks"]}
    for number in range(len(of_rank[0])):
        same = [of_rank[rank][number] for rank in of_rank]
        if same[0]["name"] != "MPI_Allreduce" or same[0]["args"]["comm"] != "MPI_COMM_WORLD":
            continue
        last = max(same, key=lambda e: e["ts"])
        first = min(same, key=lambda e: e["ts"] + e["dur"])
        if last["ts"] > first["ts"] + first["dur"] + unsure[last["pid"]] + unsure[first["pid"]]:
            fail("call %d: rank %d begins at %f, after rank %d's end at %f" %
                 (number, last["pid"], last["ts"], first["pid"], first["ts"] + first["dur"]))


def check_calls(nodes, ranks, path):
    trace = read()
    of_rank = calls(trace)
    if sorted(of_rank) != list(range(nodes * ranks)) or [r["rank"] for r in trace["otherData"]["ranks"]] != sorted(of_rank):
        fail("the ranks are %s" % sorted(of_rank))
    for rank, events in of_rank.items():
        wanted = expected(rank % 2 == 1, path)
        if len(events) != len(wanted):
            fail("rank %d has %d events, not %d" % (rank, len(events), len(wanted)))
        for event, (name, count, kind, where, reason) in zip(events, wanted):
            got = event["args"]
            size = 16 if kind == "MPI_LONG_DOUBLE" else 8
            # MPI_Allreduce_init on Open MPI 4.1 is MPIX_Allreduce_init; the name in the file is MPI's.
            if (event["name"], got["count"], got["type"], got["path"], got["bytes"], got["op"]) != \
                    (name, count, kind, where, count * size, "MPI_SUM") or \
                    (reason is None) != ("reason" not in got) or (reason and not got["reason"].startswith(reason)):
                fail("rank %d: expected %s, got %s" % (rank, (name, count, kind, where, reason), event))
    check_phases(trace, of_rank)
    check_overlap(trace, of_rank)
    return trace


def check_rows(of_rank):
    """All other collectives in their three ways, on the GPUs and left to Open MPI, with an operation where they reduce."""
    reduce = {"Reduce", "Reduce_scatter_block", "Reduce_scatter"}
    move = {"Bcast", "Allgather", "Allgatherv", "Alltoall", "Alltoallv"}
    ways = {form % (name[0].lower() if form == "MPI_I%s" else name[0]) + name[1:] + end: name
            for name in reduce | move for form, end in (("MPI_%s", ""), ("MPI_I%s", ""), ("MPI_%s", "_init"))}
    for rank, events in of_rank.items():
        rows = [e for e in events if e["name"] in ways]
        blocking = {e["name"] for e in rows if "reason" not in e["args"]}
        missing = {"MPI_" + name for name in reduce | move} - blocking
        if missing:
            fail("rank %d has no event on the GPUs of %s" % (rank, missing))
        # Open MPI 4.1.4's nonblocking MPI_Alltoallv goes wrong, so soak makes none.
        missing = set(ways) - {e["name"] for e in rows} - {"MPI_Ialltoallv", "MPI_Alltoallv_init"}
        if missing:
            fail("rank %d has no event of %s" % (rank, missing))
        paths = {(way, e["args"]["path"] in ("staged", "saved")) for e in rows for way in ("_init", "MPI_I") if way in e["name"]}
        if len(paths) != 4:
            fail("rank %d: nonblocking and persistent calls on the GPUs and left to Open MPI: %s" % (rank, paths))
        for event in rows:
            if (event["args"]["op"] != "none") != (ways[event["name"]] in reduce):
                fail("rank %d: the operation of %s" % (rank, event))


def main():
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "calls":
        nodes, ranks, path = int(rest[0]), int(rest[1]), rest[2]
        run(nodes, ranks, ["./allreduce_reasons"], rest[3:])
        trace = check_calls(nodes, ranks, path)
        stages = {e["name"] for e in trace["traceEvents"] if e.get("cat") == "stage"}
        wanted = set() if path == "small" else {"reduce-scatter"} if nodes == 1 else {"reduce-scatter", "exchange", "all-gather"}
        if path == "scratch":
            wanted |= {"input", "output"}
        if stages != wanted:
            fail("the stages are %s, not %s" % (stages, wanted))
        hosts = {r["host"] for r in trace["otherData"]["ranks"]}
        if len(hosts) != nodes:
            fail("the hosts are %s" % hosts)
    elif what == "rows":
        run(1, 3, ["./soak", "600", "6"])
        trace = read()
        check_phases(trace, calls(trace))
        check_rows(calls(trace))
    elif what == "clocks":
        ahead = ["unshare", "--time", "--monotonic", "1000"]
        if subprocess.run(ahead + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            print("no time namespace may be made here")
            sys.exit(77)
        run(2, 1, ["bash", "-c", '[ "$OMPI_COMM_WORLD_RANK" = 0 ] && exec "$@"; exec %s "$@"' % " ".join(ahead), "-", "./allreduce_reasons"])
        trace = check_calls(2, 1, "small")
        clock = trace["otherData"]["ranks"][1]["clock_ahead_us"]
        if not 999e6 < clock < 1001e6:
            fail("rank 1's clock is %f microseconds ahead" % clock)
    elif what == "dropped":
        made = KEPT + 600
        run(1, 2, [BUILD + "/test/bench/gpuhier_bench", "-b", "8", "-e", "8", "-n", str(made), "--mode", "gpuhier"])
        trace = read()
        for rank, events in calls(trace).items():
            told = trace["otherData"]["ranks"][rank]
            if len(events) != KEPT or told["events"] != KEPT or told["dropped"] < 600:
                fail("rank %d: %d events, and the file says %s" % (rank, len(events), told))
            if any(a["ts"] + a["dur"] > b["ts"] + 1e-3 for a, b in zip(events, events[1:])):
                fail("rank %d: events of one thread overlap" % rank)
    elif what == "unwritable":
        out = run(1, 2, ["./allreduce_reasons"], file=FOLDER.name + "/none/trace.json")
        if "cannot write the timeline" not in out or "No such file or directory" not in out:
            fail("nothing was said:\n" + out)
    elif what == "differs":
        command = ["bash", "-c", '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || unset OMPI_MCA_coll_gpuhier_trace; exec "$@"', "-",
                   BUILD + "/test/bench/gpuhier_bench", "--host", "-b", "8", "-e", "8", "-n", "10"]
        out = run(1, 2, command)
        if "rank 0's calls only" not in out or [r["rank"] for r in read()["otherData"]["ranks"]] != [0]:
            fail("the file does not have rank 0 only:\n" + out)
    elif what == "nvtx":
        # Of allreduce_reasons' calls, 5 are blocking, 5 nonblocking, and one starts a persistent request.
        wanted = "pushes 5 pops 5 depth 0 starts 6 ends 6 bytes 575200 strange 0"
        tool = ["-x", "NVTX_INJECTION64_PATH=" + BUILD + "/test/ranks/.libs/libnvtx_tool.so"]
        for file in FILE, "":
            out = run(1, 2, ["./allreduce_reasons"], tool, file)
            if sorted(line for line in out.splitlines() if "nvtx_tool" in line) != ["nvtx_tool: rank %d %s" % (r, wanted) for r in (0, 1)]:
                fail("the ranges are not 'rank R %s':\n%s" % (wanted, out))
        check_calls(1, 2, "one-shot")
        if "nvtx_tool" in run(1, 2, ["./allreduce_reasons"]):
            fail("there are ranges without a profiler")
    else:
        fail("what is '%s'?" % what)
    print("trace_test:", what, "right")


main()
