#!/usr/bin/env python3
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# mpirun gpuhier_info job: what it says of jobs whose groups, rails and paths are known.
#
#   job_test.py            jobs that gpuhier serves
#   job_test.py unserved   jobs on GPUs that it does not serve: no GPU memory may reach Open MPI
import json
import os
import subprocess
import sys

SRC, BUILD = os.environ["GPUHIER_SRC"], os.environ["GPUHIER_BUILD"]
INFO = BUILD + "/ompi/tools/gpuhier_info/gpuhier_info"
REDUCED = ["reduced by the host"] + 5 * ["reduced by the GPUs"] + 3 * ["moved by the GPUs"]


def check(what, found, wanted):
    if found != wanted:
        print("job_test: %s: %s, not %s" % (what, found, wanted))
        sys.exit(1)


def run(options, status, command=(), rows=9):
    line = [SRC + "/test/vcluster/run", *options, "--", *command, INFO, "job"]
    text = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check("status of %s\n%s%s" % (line, text.stdout, text.stderr), text.returncode, status)
    done = subprocess.run(line + ["--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check("status with --json", done.returncode, status)
    job = json.loads(done.stdout.lstrip("\0"))  # Open MPI 5 sends a null byte to stdout with each of its messages
    check("wrong elements", [r["wrong"] for r in job["self_test"]], rows * [0])
    check("bytes", [r["bytes"] for r in job["self_test"]], ([8, 65536] + 7 * [4194304])[:rows])
    return job, text.stdout


def paths(job):
    return [r["path"] for r in job["self_test"]]


def unserved(options, why, loaded, by, command=(), rank=0):
    job, text = run(["--nodes", "1", "--gpus", "2", *options], 1, command, rows=0)
    check("loaded, serves", (job["loaded"], job["serves"]), (loaded, False))
    check("MPI_Allreduce", (job["collectives"][0]["call"], job["collectives"][0]["by"]), ("MPI_Allreduce", by))
    check("why not: " + str(job["ranks"][rank]["not_served"]), why in job["ranks"][rank]["not_served"], True)
    for line in "gpuhier does not serve MPI_Allreduce on rank %d on node0: " % rank, why, "no self-test":
        check("the text has '%s'\n%s" % (line, text), line in text, True)
    return text


if sys.argv[1:] == ["unserved"]:
    asked = subprocess.run(["ompi_info", "--param", "mca", "base", "--level", "9", "--parsable"], stdout=subprocess.PIPE, text=True, check=True).stdout
    key = "mca:mca:base:param:mca_base_component_path:value:"
    default = [line[len(key):].strip('"') for line in asked.splitlines() if line.startswith(key)][0]
    component, shadow = BUILD + "/ompi/mca/coll/gpuhier/component", BUILD + "/test/ranks/shadow/.libs"
    unserved(["--mca", "mca_base_component_path", default], "not loaded: ompi_info", False, "tuned")
    text = unserved(["--mca", "coll", "^gpuhier"], "the parameter coll is '^gpuhier'", False, "tuned")
    check("the text names the others\n" + text, "MPI_COMM_WORLD: MPI_Allreduce by tuned (priority 30); MPI_Iallreduce by libnbc (" in text, True)
    unserved(["--mca", "coll_gpuhier_enable", "0"], "coll_gpuhier_enable is 0", True, "tuned")
    unserved(["--mca", "coll_gpuhier_priority", "-1"], "coll_gpuhier_priority is below 0", True, "tuned")
    unserved(["--mca", "mca_base_component_path", ":".join([shadow, component, default]), "--mca", "coll_gpuhier_priority", "50"],
             "shadow's priority 100 is above gpuhier's 50: raise coll_gpuhier_priority", True, "shadow")
    # On one rank of two.
    unserved([], "the parameter coll is '^gpuhier'", True, "gpuhier", [SRC + "/test/fault/on_rank", "1", "OMPI_MCA_coll=^gpuhier"], 1)
    print("job_test: right")
    sys.exit(0)

# Two groups, and a wire between them.
job, text = run(["--nodes", "2", "--gpus", "2"], 0)
check("groups", (job["groups"], [r["group"] for r in job["ranks"]], [r["index"] for r in job["ranks"]]), (2, [0, 0, 1, 1], [0, 1, 0, 1]))
check("between groups", job["between_groups"], "pinned host memory over UCX")
check("rails", [r["rails"] for r in job["ranks"]], [[{"name": "rail0", "driven": True}]] * 4)
check("GPUs", len({r["pci"] for r in job["ranks"]}), 2)
check("collectives", job["collectives"][0], {"call": "MPI_Allreduce", "by": "gpuhier", "else": "tuned"})
# Of those that gpuhier stages or runs on the GPUs, most.
check("others", job["others_by_gpuhier"] > 20, True)
check("sizes", (job["sizes"][0], job["sizes"][1]["from_bytes"]), ({"from_bytes": 8, "path": "from 8 bytes: reduced by the host (small_bytes: up to 8 KiB)"}, 8200))
check("paths", paths(job), REDUCED)
for line in "; %d others by gpuhier, on the GPUs or by host copies" % job["others_by_gpuhier"], "2 groups; between groups: pinned host memory over UCX", "    rank 3 on node1, pid ", "no benchmark", "rails: rail0":
    check("the text has '%s'\n%s" % (line, text), line in text, True)

# A setting, which is mpirun's or the tool's.
job, _ = run(["--nodes", "1", "--gpus", "2", "--mca", "coll_gpuhier_small_bytes", "0"], 0)
check("one group", (job["groups"], job["between_groups"][:7], paths(job)), (1, "nothing", REDUCED[1:2] + REDUCED[1:]))
check("first size", job["sizes"][0]["from_bytes"], 8)

# A job, a plan for such ranks, and print_info name the same forms.
job, text = run(["--nodes", "1", "--gpus", "2"], 0)
planned = subprocess.run([INFO, "plan", "--nodes", "1", "--ranks", "2", "-n", "1", "--json"], stdout=subprocess.PIPE, text=True, check=True)
rows = [row["path"] for row in json.loads(planned.stdout)["by_size"]]
check("a kernel that waits", rows[0], "from 8 bytes: one kernel that waits for those of the peers (blocking, up to 256 KiB)")
check("rows", [row["path"] for row in job["sizes"]], rows)
check("the text has them\n" + text, [row for row in rows if "  %s\n" % row not in text], [])
line = [SRC + "/test/vcluster/run", "--nodes", "1", "--gpus", "2", "--mca", "coll_gpuhier_print_info", "1", "--", BUILD + "/test/ranks/allreduce_bits"]
printed = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
check("print_info has them\n" + printed, [row for row in rows if "coll:gpuhier:   %s\n" % row not in printed], [])

# What goes wrong has its reason.
job, text = run(["--nodes", "1", "--gpus", "2", "--mca", "coll_gpuhier_probe", "0"], 1)
# Blocking calls are not staged where Open MPI takes GPU memory.
check("switched off", {p.replace(", staged", "") for p in paths(job)}, {"left to Open MPI: coll_gpuhier_probe is 0"})
check("switched off, nonblocking", paths(job)[3], "left to Open MPI, staged: coll_gpuhier_probe is 0")
check("the text says so\n" + text, "the self-test says why" in text, True)
job, text = run(["--nodes", "1", "--gpus", "2"], 1, [SRC + "/test/nodes/as", "no-gpu", "1"])
check("no GPU", (job["ranks"][0]["no_gpu"], job["ranks"][1]["no_gpu"] is None), (None, False))
check("no GPU, paths", set(p[:16] for p in paths(job)), {"left to Open MPI"})
check("the text names the rank\n" + text, "rank 1 on node0 has no GPU: " in text, True)
job, text = run(["--nodes", "1", "--gpus", "2"], 1, [SRC + "/test/fault/on_rank", "1", "OMPI_MCA_coll_gpuhier_slice_bytes=8192"])
check("a rank differs", (job["members"], "on the GPUs, since rank 1 has other parameters\n" in text), ("rank 1 has other parameters", True))
check("a rank differs, paths", set(p.replace(", staged", "") for p in paths(job)), {"left to Open MPI: rank 1 has other parameters"})
job, _ = run(["--nodes", "1", "--gpus", "2"], 1, [SRC + "/test/nodes/as", "no-driver", "0,1"])
check("no driver, paths", set(paths(job)), {"left to Open MPI: rank 0 has no CUDA driver"})
job, _ = run(["--nodes", "1", "--gpus", "2"], 1, [SRC + "/test/nodes/as", "no-gpu", "0,1"])
check("no GPU at all, paths", set(paths(job)), {"left to Open MPI: host memory on this rank"})
job, _ = run(["--nodes", "1", "--gpus", "2"], 0, [SRC + "/test/nodes/as", "isolated"])
check("isolated", [r["through_host_memory"] for r in job["ranks"]], [True, True])

# The tool itself is no MPI program.
linked = subprocess.run(["ldd", INFO], stdout=subprocess.PIPE, text=True, check=True).stdout
check("linked with MPI:\n" + linked, "libmpi" in linked, False)
print("job_test: right")
