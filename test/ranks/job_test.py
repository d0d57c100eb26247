#!/usr/bin/env python3
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# mpirun gpuhier_info job: what it says of jobs whose groups, rails and paths are known.
import json
import os
import subprocess
import sys

SRC, BUILD = os.environ["GPUHIER_SRC"], os.environ["GPUHIER_BUILD"]
INFO = BUILD + "/ompi/tools/gpuhier_info/gpuhier_info"
REDUCED = ["reduced by the host", "reduced by the GPUs", "reduced by the GPUs", "reduced by the GPUs"]


def check(what, found, wanted):
    if found != wanted:
        print("job_test: %s: %s, not %s" % (what, found, wanted))
        sys.exit(1)


def run(options, status, command=()):
    line = [SRC + "/test/vcluster/run", *options, "--", *command, INFO, "job"]
    text = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check("status of %s\n%s%s" % (line, text.stdout, text.stderr), text.returncode, status)
    done = subprocess.run(line + ["--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check("status with --json", done.returncode, status)
    job = json.loads(done.stdout.lstrip("\0"))  # Open MPI 5 sends a null byte to stdout with each of its messages
    check("wrong elements", [r["wrong"] for r in job["self_test"]], [0, 0, 0, 0])
    check("bytes", [r["bytes"] for r in job["self_test"]], [8, 65536, 4194304, 4194304])
    return job, text.stdout


def paths(job):
    return [r["path"] for r in job["self_test"]]


# Two groups, and a wire between them.
job, text = run(["--nodes", "2", "--gpus", "2"], 0)
check("groups", (job["groups"], [r["group"] for r in job["ranks"]], [r["index"] for r in job["ranks"]]), (2, [0, 0, 1, 1], [0, 1, 0, 1]))
check("between groups", job["between_groups"], "pinned host memory over UCX")
check("rails", [r["rails"] for r in job["ranks"]], [[{"name": "rail0", "driven": True}]] * 4)
check("GPUs", len({r["pci"] for r in job["ranks"]}), 2)
check("sizes", (job["sizes"][0], job["sizes"][1]["from_bytes"]), ({"from_bytes": 8, "path": "from 8 bytes: reduced by the host"}, 16384))
check("paths", paths(job), REDUCED)
for line in "2 groups; between groups: pinned host memory over UCX", "    rank 3 on node1, pid ", "no benchmark", "rails: rail0":
    check("the text has '%s'\n%s" % (line, text), line in text, True)

# A setting, which is mpirun's or the tool's.
job, _ = run(["--nodes", "1", "--gpus", "2", "--mca", "coll_gpuhier_small_bytes", "0"], 0)
check("one group", (job["groups"], job["between_groups"][:7], paths(job)), (1, "nothing", REDUCED[1:2] + REDUCED[1:]))
check("first size", job["sizes"][0]["from_bytes"], 8)

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
job, text = run(["--nodes", "1", "--gpus", "0", "--ranks", "2", "--stock"], 1)
check("stock", (job["loaded"], job["serves"]), (False, False))
check("the text says so\n" + text, "gpuhier is not loaded" in text, True)
job, _ = run(["--nodes", "1", "--gpus", "2"], 0, [SRC + "/test/nodes/as", "isolated"])
check("isolated", [r["through_host_memory"] for r in job["ranks"]], [True, True])

# The tool itself is no MPI program.
linked = subprocess.run(["ldd", INFO], stdout=subprocess.PIPE, text=True, check=True).stdout
check("linked with MPI:\n" + linked, "libmpi" in linked, False)
print("job_test: right")
