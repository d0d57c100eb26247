#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Ranks are where they should be, on hosts that bear the nodes' names; the
# program's arguments, input, environment and status pass through.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

# Prints "rank local-rank host node nodes rails" of all ranks, by rank.
where='echo $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK $(hostname) $VCLUSTER_NODE $VCLUSTER_NODES $VCLUSTER_RAILS $CUDASIM_NODE'
got=$(quiet_run --nodes 3 --ranks 2,1,3 --rails 2 -- bash -c "$where" | sort -n)
wanted='0 0 node0 0 3 2 node0
1 1 node0 0 3 2 node0
2 0 node1 1 3 2 node1
3 0 node2 2 3 2 node2
4 1 node2 2 3 2 node2
5 2 node2 2 3 2 node2'
expect 'places of 2,1,3 ranks' "$wanted" "$got"

expect 'places on one node' $'0 0 node0\n1 1 node0' \
    "$(quiet_run --nodes 1 --ranks 2 -- bash -c "$where" | sort -n | cut -d' ' -f1-3)"

policy=rmaps_base_mapping_policy
[[ $(mpirun --version) == *'Open MPI) 4'* ]] || policy=rmaps_default_mapping_policy
expect 'ranks by the user'"'"'s mapping' $'0 node0\n1 node1\n2 node0\n3 node1' \
    "$(quiet_run --ranks 2 --mca $policy node -- bash -c 'echo $OMPI_COMM_WORLD_RANK $(hostname)' | sort -n)"

# Arguments with blanks and shell characters; variables with -x; input to rank 0.
expect 'arguments' 'a b|$HOME;*|' "$(quiet_run --nodes 1 --ranks 1 -- printf '%s|' 'a b' '$HOME;*')"
expect '-x' $'blue\nblue' "$(quiet_run --ranks 1 -x COLOUR=blue -- sh -c 'echo $COLOUR')"
expect 'standard input' 'hello' "$(echo hello | quiet_run --ranks 1 -- cat)"
expect 'working folder' "$PWD"$'\n'"$PWD" "$(quiet_run --ranks 1 -- pwd)"

for status in 0 1 42; do
    quiet_run --ranks 1 -- sh -c "exit $status" >/dev/null
    expect "status" "$status" $?
done
quiet_run --ranks 1 -- sh -c '[ $VCLUSTER_NODE = 0 ] || exit 7' >/dev/null
expect 'status of one rank on node1' 7 $?
quiet_run --ranks 1 -- sh -c 'kill -KILL $$' >/dev/null
expect 'status of a killed rank' 137 $?
text=$("$here/run" "${host_only[@]}" --ranks 1 --timeout 1 -- sleep 30 2>&1)
expect 'status after --timeout' 124 $?
expect_match 'message of --timeout' 'vcluster: not done after 1 s' "$text"
finish
