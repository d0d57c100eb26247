#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# cluster.sh COMMAND...: makes the nodes and the network between them, runs
# COMMAND (mpirun) beside them, and returns its status.
#
# Started by start.sh as the first process of new PID, mount, network, host name
# and IPC namespaces: the "head", a machine of its own on which mpirun runs but
# no rank. Nothing is undone here: when this process ends, the kernel kills all
# others, and each namespace ends with its last process. File descriptor 7 is
# run's pipe.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/network.sh"

# /proc is still that of the outside here. It has the numbers of this process and,
# in the fourth word, of its parent there (the second word is "(bash)").
read -r outside _ _ parent _ </proc/self/stat
[[ $parent == "$VCLUSTER_PARENT" ]] || exit 125
echo "$outside" >&7
exec 7>&-

fail() {
    printf 'vcluster: %s\n' "$1" >&2
    exit 125
}

# must WHAT COMMAND...: runs COMMAND, or ends with its error message.
must() {
    local what=$1 text

    shift
    text=$("$@" 2>&1) || fail "cannot $what: ${text//$'\n'/; }"
}

# What mpirun needs to reach the nodes is on a file system of the head's own.
# The agent is there, too, since its path must have no blanks.
home=/dev/shm/.vcluster

make_head() {
    local n

    must 'mount /proc' mount -t proc proc /proc
    must 'mount /dev/shm' mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mkdir -p "$home/nodes" && cp "$here/agent.sh" "$home/agent" && chmod +x "$home/agent" ||
        fail "cannot write to $home"
    must 'set the host name' hostname head
    {
        echo 127.0.0.1 localhost
        echo "$(rail_address 0 -1) head"
        for (( n = 0; n < VCLUSTER_NODES; n++ )); do
            echo "$(rail_address 0 "$n") node$n"
        done
    } >"$home/hosts"
    if [[ -e /etc/hosts ]]; then
        must 'mount /etc/hosts' mount --bind "$home/hosts" /etc/hosts
    fi
    make_switches
}

# Starts all nodes, then waits until each has written its process number to the pipe.
make_nodes() {
    local n pid

    must 'make a pipe' mkfifo "$home/ready"
    exec 5<>"$home/ready"
    for (( n = 0; n < VCLUSTER_NODES; n++ )); do
        unshare --mount --uts --ipc --net --pid --fork --kill-child \
            bash "$here/node.sh" "$n" </dev/null &
    done
    for (( n = 0; n < VCLUSTER_NODES; n++ )); do
        read -r -t 300 -u 5 node pid || fail 'a node was not ready within 300 s'
        [[ $pid != failed ]] || fail "node$node could not be made"
        echo "$pid" >"$home/nodes/$node"
        connect_node "$node" "$pid"
    done
    exec 5>&-
}

make_head
make_nodes
[[ -z $VCLUSTER_LATENCY ]] || start_relays
export TMPDIR=$home
started=$SECONDS
exec 6<&0
"$@" <&6 6<&- &
command=$!
# A relay ends only if it fails.
wait -n "$command" ${relays[@]+"${relays[@]}"}
status=$?
! kill -0 "$command" 2>/dev/null || fail 'a relay has ended'
if [[ -n $VCLUSTER_TIMEOUT ]] &&
    (( status == 124 || (status == 137 && SECONDS - started >= VCLUSTER_TIMEOUT) )); then
    printf 'vcluster: not done after %s s, killed\n' "$VCLUSTER_TIMEOUT" >&2
    status=124
fi
exit $status
