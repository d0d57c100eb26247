#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Which rails are chosen, and that payload goes over them.
#
#   rails_test.sh near   the devices near each GPU, as gpuhier_info tells and as the interfaces' counters show
#   rails_test.sh even   ranks share equally near devices; a rank alone with two uses both
#   rails_test.sh list   coll_gpuhier_devices restricts them; a wrong name is said, and the result still right
#   rails_test.sh link   interfaces that are up with addresses of their link only are no rails
set -u
run=$GPUHIER_SRC/test/vcluster/run
program=$GPUHIER_BUILD/test/ranks/allreduce_counts
failures=0

# Runs on the nodes, before the program: two more interfaces that are up, one as a board's management port has it, one that
# is cabled and was given no address (where this kernel has IPv6).
linked='ip link add bmc0 type veth peer name idle0 && ip addr add 169.254.3.1/16 dev bmc0 || exit 3
file=/proc/sys/net/ipv6/conf/idle0/disable_ipv6
[ -w "$file" ] && echo 0 >"$file"
ip link set bmc0 up && ip link set idle0 up || exit 3
ip -6 addr add fe80::1/64 dev idle0 nodad 2>/dev/null
"$@"'

# Runs on the nodes, beside each program: the bytes that the node sent over each rail.
counted='"$@"; rc=$?; sleep 0.3
[ "$OMPI_COMM_WORLD_LOCAL_RANK" = 0 ] || exit $rc
for rail in /sys/class/net/rail*; do echo "sent node$VCLUSTER_NODE $(basename "$rail") $(cat "$rail/statistics/tx_bytes")"; done
exit $rc'

fail() {
    echo "rails_test: $*"
    failures=$((failures + 1))
}

# counters OPTION...: runs the program on two nodes; its output is in $output.
counters() {
    output=$("$run" --nodes 2 "$@" -- bash -c "$counted" bash "$program" 2>&1) || fail "the program failed with $*"
    echo "$output"
}

# sent NODE RAIL: bytes.
sent() {
    awk -v node="node$1" -v rail="rail$2" '/^sent/ && $2 == node && $3 == rail { print $4 }' <<<"$output"
}

# share NODE RAIL LOW HIGH: the rail's part of what the node sent must be LOW .. HIGH percent.
share() {
    local part all

    part=$(sent "$1" "$2")
    all=$(awk -v node="node$1" '/^sent/ && $2 == node { sum += $4 } END { print sum + 0 }' <<<"$output")
    [ -n "$part" ] && [ "$all" -gt 1000000 ] || { fail "no counters of node $1 rail $2"; return; }
    [ $((part * 100)) -ge $((all * $3)) ] && [ $((part * 100)) -le $((all * $4)) ] \
        || fail "node $1 sent $part of $all bytes over rail$2, which is not $3 to $4 percent"
}

case ${1:-} in
near)
    output=$("$run" --nodes 2 --topology "$GPUHIER_SRC/test/nodes/rails.topo" --ranks 1 -- \
        "$GPUHIER_BUILD/ompi/tools/gpuhier_info/gpuhier_info" topo 2>&1) || fail "gpuhier_info failed"
    echo "$output"
    [ "$(grep -c 'rank 0 drives: rail1$' <<<"$output")" = 2 ] || fail "rank 0 should drive rail1"
    [ "$(grep -c 'rank 1 drives: rail0 rail2$' <<<"$output")" = 2 ] || fail "rank 1 should drive rail0 and rail2"
    counters --topology "$GPUHIER_SRC/test/nodes/rails.topo" --ranks 2
    for node in 0 1; do
        share $node 1 40 60
    done
    ;;
even)
    counters --gpus 2 --rails 2
    for node in 0 1; do
        share $node 0 40 60
        share $node 1 40 60
    done
    counters --gpus 1 --rails 2
    for node in 0 1; do
        share $node 0 30 70
        share $node 1 30 70
    done
    ;;
list)
    counters --gpus 2 --rails 2 --mca coll_gpuhier_devices rail1
    for node in 0 1; do
        share $node 1 90 100
    done
    # The wire of all traffic is then MPI's own, on the rails that Open MPI chooses.
    output=$("$run" --nodes 2 --gpus 1 --mca coll_gpuhier_devices nosuch0 -- "$GPUHIER_BUILD/test/ranks/allreduce_sequence" 5 1 2>&1) \
        || fail "a wrong name must not break the program"
    grep -q nosuch0 <<<"$output" || fail "the wrong name must be said"
    ;;
link)
    output=$("$run" --nodes 2 --gpus 1 -- bash -c "$linked" bash "$GPUHIER_BUILD/ompi/tools/gpuhier_info/gpuhier_info" topo 2>&1) || fail "gpuhier_info failed"
    echo "$output"
    [ "$(grep -c 'rank 0 drives: rail0$' <<<"$output")" = 2 ] || fail "rank 0 should drive rail0 only"
    for name in bmc0 idle0; do
        [ "$(grep -c "$name .*not taken: *is down or has no address beyond the link" <<<"$output")" = 2 ] || fail "$name should not be taken"
    done
    output=$("$run" --nodes 2 --gpus 1 -- bash -c "$linked" bash "$program" 2>&1) || fail "the program failed: $output"
    ;;
*)
    echo "usage: rails_test.sh near|even|list|link" >&2
    exit 2
    ;;
esac
exit $((failures > 0))
