#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# start.sh RUN UNSHARE-OPTION... -- COMMAND...: becomes the unshare whose child is
# cluster.sh. Both die with process RUN, the parent of unshare.
#
# Started by run under setpriv --pdeathsig KILL. The kernel sends that signal
# only if the parent dies after the signal was asked for, and the same holds for
# unshare --kill-child. So both children check that their parent is still there:
# this script checks for run, and cluster.sh (by VCLUSTER_PARENT) for unshare.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
run=$1
shift
(( PPID == run )) || exit 125
options=()
while [[ $1 != -- ]]; do
    options+=("$1")
    shift
done
shift
# Takes the number from /proc, since cluster.sh compares it with what /proc says.
read -r VCLUSTER_PARENT _ </proc/self/stat
export VCLUSTER_PARENT
exec unshare ${options[@]+"${options[@]}"} --mount --uts --ipc --net --pid --fork --kill-child \
    bash "$here/cluster.sh" "$@"
