#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# start.sh RUN UNSHARE-OPTION... -- COMMAND...: becomes the unshare whose child is
# cluster.sh, in a way that both die with process RUN, their grandparent.
#
# Started by run under setpriv --pdeathsig KILL. The kernel sends that signal
# only if the parent dies later than it was asked for, and the same holds for
# unshare --kill-child: hence both children look whether their parent is
# still there, this one for run, cluster.sh (by VCLUSTER_PARENT) for unshare.
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
# The number that /proc tells, since it is /proc where cluster.sh looks.
read -r VCLUSTER_PARENT _ </proc/self/stat
export VCLUSTER_PARENT
exec unshare ${options[@]+"${options[@]}"} --mount --uts --ipc --net --pid --fork --kill-child \
    bash "$here/cluster.sh" "$@"
