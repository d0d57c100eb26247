#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Prints modelled times of collectives on GPUs that are not there (docs/model.md): gpuhier, the stock Open MPI 5.0.7
# with its own CUDA path under the same model, and what is published of NCCL's all-reduce.
#
#   test/bench/model.sh [--quick | --full] [--model NAME] [--nodes N] [--ranks R,R] [--sizes B,B] [--dilation D]
#                       [--gdr QUERY] [--switch] [--tune LIST] [--json FILE] [--plot DIR] [--no-stock]
#                       [--collective C,C]
#
#   --collective C,C  allreduce (the default), reduce, bcast, allgather, allgatherv, reduce_scatter,
#                 reduce_scatter_block, alltoall, alltoallv, or all
#   --quick       2 ranks, 8 B and 64 KiB; without it 2, 4, 8 and 2 x 2 ranks, 8 B, 64 KiB, 1 MiB and 64 MiB
#   --full        more sizes, and 2 x 4 and 2 x 8 ranks
#   --nodes N     1 or 2 nodes only, and all of 2, 4 and 8 ranks on each
#   --ranks R,R   these ranks on each node (without --nodes, on one)
#   --sizes B,B   these sizes in bytes
#   --dilation D  real ns in a modelled one, for all rows; times must not depend on it
#   --model NAME  a file of test/cudasim/models, or a path (default h100-dgx)
#   --json FILE   one object a row
#   --plot DIR    pictures of time over size, and a timeline of one call of each size for Perfetto (*.trace.json)
#   --no-stock    without the stock Open MPI
#   --gdr QUERY   with GDRCopy; QUERY is alone or blocking, what a query of the default stream tells of
#                 (test/cudasim/README)
#   --switch      GPUs with multicast objects, and coll_gpuhier_reproducible 0: NVSwitches add
#   --tune LIST   more of coll_gpuhier_tune: switch_bytes=1048576 lets NVSwitches add between nodes, too
#
# The stock Open MPI is that of test/peers/build-ompi5, where the cache has it. Works on a finished build:
# GPUHIER_BUILD, else build/ in the source tree. Status 0; 1: a run failed; 2: bad arguments.
set -u
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export GPUHIER_SRC=$src GPUHIER_BUILD=${GPUHIER_BUILD:-$src/build}
export PYTHONDONTWRITEBYTECODE=1

command -v python3 >/dev/null || { echo "model: needs python3" >&2; exit 2; }
[ -x "$GPUHIER_BUILD/test/bench/model_calls" ] || {
    echo "model: no model_calls in $GPUHIER_BUILD/test/bench; build it (test/setup.sh), or set GPUHIER_BUILD" >&2
    exit 2
}
# shellcheck source=test/env.sh
. "$src/test/env.sh"
gpuhier_env_mpi
exec python3 "$src/test/bench/model.py" "$@"
