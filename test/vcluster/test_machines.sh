#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# --topology NAME: on known machines (test/golden/machines) the results of MPI_Allreduce are right, and the groups and
# rails are those of the machine.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

folder=$(mktemp -d)
trap 'rm -rf "$folder" "$errors"' EXIT

# runs_on NAME RANKS NODES PATTERN...: the results are right on RANKS ranks, and the output matches each pattern.
runs_on() {
    local name=$1 ranks=$2 nodes=$3 pattern

    shift 3
    "$here/run" --timeout 300 --topology "$name" --mca coll_gpuhier_print_info 1 -- \
        sh -c 'echo "rank $OMPI_COMM_WORLD_RANK node $VCLUSTER_NODE"; exec "$0" "$@"' \
        "$GPUHIER_BUILD/test/ranks/allreduce_sequence" 40 1 >"$folder/said" 2>&1
    expect "$name: status" 0 $?
    expect "$name: ranks" "$ranks" "$(grep -c '^rank [0-9]* node [0-9]*$' "$folder/said")"
    expect "$name: nodes" "$nodes" "$(grep -o '^rank [0-9]* node [0-9]*$' "$folder/said" | awk '{ print $4 }' | sort -u | wc -l)"
    for pattern in "$@"; do
        expect_match "$name" "$pattern" "$(cat "$folder/said")"
    done
}

runs_on dgx1v 8 1 '8 ranks in 2 groups.* GPU memory that partners map, over links between groups' 'group 1 index 0: rank 4, ' \
    "rail3 +taken: +is an interface that is up, below the GPU's PCI switch"
runs_on summit 6 1 '6 ranks in 2 groups' 'group 1 index 0: rank 3, ' \
    'host memory that they share between groups' 'no memory of other groups is mapped, since rank 0 got CUDA_ERROR_PEER_ACCESS_UNSUPPORTED'
runs_on mig7 7 1 '7 ranks in 1 group,' "cannot map each other's memory"
runs_on hgx-h100-x2 16 2 '16 ranks in 2 groups' 'group 1 index 7: rank 15, '
text=$("$here/run" --topology no-such-machine -- true 2>&1)
expect 'status of a name that is none' 2 $?
expect_match 'a name that is none' "there is no file 'no-such-machine', and no machine of that name" "$text"
finish
