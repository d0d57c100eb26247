#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The demonstration: does all set-up, then runs the benchmark on two nodes of four GPUs each. It sums 8 bytes to
# 64 MiB of doubles, and shows gpuhier next to what Open MPI does without it. A line for each other collective follows,
# of 16 MiB. Nodes are namespaces of this machine, and GPUs are emulated (test/vcluster, test/cudasim). A user who may
# not make namespaces gets one node of four GPUs. The last line says what ran where.
#
#   test/demo.sh [--real] [--build DIR] [-- BENCH_OPTIONS...]
#
#   --real       on this machine's own GPUs, as one node: one rank a GPU, or four ranks on a single one
#   --build DIR  build folder (default: GPUHIER_BUILD, else build/ in the source tree)
#
# Rows of MPI_Allreduce are also written to demo.json and demo.png in the build folder. Status 0 when every row is right.
set -u
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export GPUHIER_SRC=$src
export GPUHIER_BUILD=${GPUHIER_BUILD:-$src/build}
real=0
bench_options=()

while [ $# -gt 0 ]; do
    case $1 in
    --real) real=1 ;;
    --build)
        [ $# -ge 2 ] || { echo "demo: --build needs a folder" >&2; exit 2; }
        GPUHIER_BUILD=$2
        shift
        ;;
    --)
        shift
        bench_options=("$@")
        break
        ;;
    -h | --help)
        awk 'NR > 4 { if (!/^#/) { exit } sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    *)
        echo "demo: unknown option $1 (see --help)" >&2
        exit 2
        ;;
    esac
    shift
done

# What can be missing is looked for before the build, which takes long.
"$src/test/setup.sh" --build "$GPUHIER_BUILD" --packages-only || exit 1
if [ $real = 1 ]; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
    if [ "$gpus" = 0 ]; then
        echo "demo: --real: nvidia-smi lists no GPU on this machine; omit --real for emulated ones" >&2
        exit 1
    fi
    ranks=$gpus
    [ "$ranks" -gt 1 ] || ranks=4
    cluster=(--nodes 1 --real --gpus "$gpus" --ranks "$ranks")
    where="one node, $ranks ranks on $gpus real GPU(s): $(nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c | xargs)"
else
    . "$src/test/env.sh"
    . "$src/test/vcluster/checks.sh"
    find_namespaces
    if [ "$namespaces" = none ]; then
        echo "demo: one node only, since this user may not make namespaces here (${why//$'\n'/; });" >&2
        echo "    root may, and test/vcluster/README says how to permit it to users" >&2
        cluster=(--nodes 1 --gpus 4)
        where="1 node x 4 emulated GPUs (no real GPU, NVLink or InfiniBand took part)"
    else
        cluster=(--nodes 2 --gpus 4)
        where="2 nodes x 4 emulated GPUs (nodes are namespaces of this machine; no real GPU, NVLink or InfiniBand took part)"
    fi
fi
"$src/test/setup.sh" --build "$GPUHIER_BUILD" || exit 1
GPUHIER_BUILD=$(cd "$GPUHIER_BUILD" && pwd)

table=$GPUHIER_BUILD/demo.txt
# measure OPTION...: runs the benchmark.
measure()
{
    "$src/test/vcluster/run" "${cluster[@]}" --timeout 240 -- "$GPUHIER_BUILD/test/bench/gpuhier_bench" -w 1 "$@" \
        ${bench_options[@]+"${bench_options[@]}"}
}

measure -b 8 -e 64M -f 2 -d double -o sum -n 20 -t 40 --counters --json "$GPUHIER_BUILD/demo.json" \
    --plot "$GPUHIER_BUILD/demo.png" | tee "$table"
status=${PIPESTATUS[0]}
for collective in Reduce Bcast Reduce_scatter_block Reduce_scatter Allgather Allgatherv Alltoall Alltoallv; do
    [ "$status" = 0 ] || break
    measure --collective "${collective,,}" -b 16M -e 16M -n 5 -t 5 | grep '^ *[0-9]' | tee -a "$table" | sed "s/\$/  MPI_$collective/"
    status=${PIPESTATUS[0]}
done

# Counts the table's rows, those on the accelerated path, and the wrong elements, and finds the name of the stock path.
summary=$(awk '
    /^# stock: / { sub(/^# stock: /, ""); stock = $0 }
    /^ *[0-9]/ { rows++; wrong += $9; if ($NF == "gpuhier") { accelerated++ } }
    END { printf "%d of %d rows accelerated, %d wrong; stock is %s", accelerated, rows, wrong, stock }' "$table")
if ! grep -q '^ *[0-9]' "$table"; then
    [ "$status" = 0 ] || echo "demo FAILED (status $status): nothing was measured" >&2
    exit "$status"
fi
version=$(mpirun --version 2>/dev/null | sed -n '1s/.*) //p')
[ "$status" = 0 ] && verdict=passed || verdict="FAILED (status $status)"
echo "demo $verdict: $summary; Open MPI $version; ran on $where"
[ "$status" = 0 ]
