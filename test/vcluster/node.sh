#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# node.sh N: one node. Started by cluster.sh as the first process of the
# node's own namespaces. Gives them a host name and private file systems, writes
# its process number (as the head sees it) to file descriptor 5, and stays, since
# namespaces live as long as their processes. Reaps the processes that daemons
# leave behind. Other processes enter the node through agent.sh.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/network.sh"
n=$1
read -r pid _ </proc/self/stat

# Writes the topology that hwloc is to see on this node. agent.sh names the file to hwloc.
make_topology() {
    [[ -z ${VCLUSTER_TOPOLOGY_TOOL:-} ]] ||
        "$VCLUSTER_TOPOLOGY_TOOL" "$VCLUSTER_TOPOLOGY_XML" >/dev/shm/.vcluster/hwloc.xml
}

make_node() {
    local size=${VCLUSTER_SHM:+,size=$VCLUSTER_SHM}

    hostname "node$n" &&
    mount -t sysfs sysfs /sys &&
    mount -t tmpfs -o "mode=1777$size" tmpfs /dev/shm &&
    # Open MPI's session files have a file system of their own: a full /dev/shm
    # must not stop them, and they must not fill /dev/shm.
    mkdir /dev/shm/.vcluster &&
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm/.vcluster &&
    # The head's /proc shows the processes of all nodes: emulated GPUs need it
    # where NVLink joins nodes.
    mkdir /dev/shm/.vcluster/proc &&
    mount --bind /proc /dev/shm/.vcluster/proc &&
    mount -t proc proc /proc &&
    # Open MPI's daemons look for the agent, although they start nothing.
    cp "$here/agent.sh" /dev/shm/.vcluster/agent && chmod +x /dev/shm/.vcluster/agent &&
    make_topology
}

if ! make_node; then
    echo "$n failed" >&5
    exit 125
fi
quiet_ipv6
# Sets the usual default of Linux, since a host's own choice, such as bbr, fills
# a short shaped rail less well.
if [[ -w /proc/sys/net/ipv4/tcp_congestion_control ]]; then
    echo cubic 2>/dev/null >/proc/sys/net/ipv4/tcp_congestion_control
fi
[[ -z $VCLUSTER_LATENCY ]] || tune_tcp 2>/dev/null
echo "$n $pid" >&5
exec 5>&-
sleep infinity &
while :; do
    wait
done
