#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# agent HOST COMMAND...: mpirun runs it on the head in place of ssh. It enters
# the namespaces of node HOST and runs COMMAND there in a shell. Unlike ssh it
# hands on the whole environment.
set -u

host=$1
shift
if [[ ! $host =~ ^node[0-9]+$ || ! -r /dev/shm/.vcluster/nodes/${host#node} ]]; then
    echo "vcluster: there is no node '$host'" >&2
    exit 1
fi
read -r pid <"/dev/shm/.vcluster/nodes/${host#node}"
export VCLUSTER_NODE=${host#node} CUDASIM_NODE=$host HOSTNAME=$host CUDASIM_PROC=/dev/shm/.vcluster/proc
# Without HWLOC_THISSYSTEM hwloc binds nothing, which is right: the description
# may have more NUMA nodes than this machine has processors.
if [[ -n ${VCLUSTER_TOPOLOGY_TOOL:-} ]]; then
    export HWLOC_XMLFILE=/dev/shm/.vcluster/hwloc.xml
fi
exec nsenter --target "$pid" --mount --uts --ipc --net --pid -- \
    sh -c 'cd "$0" 2>/dev/null; eval "$1"' "$PWD" "$*"
