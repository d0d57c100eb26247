#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Nodes share nothing but their rails. This script runs on each node, and looks
# there for what the other node (or the machine) has.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"

# Leaves traces on every node, meets the other node, then looks at what it sees.
if [[ ${1:-} == inside ]]; then
    echo "$VCLUSTER_NODE" >"/dev/shm/trace.$VCLUSTER_NODE"
    echo "$VCLUSTER_NODE" >"$TMPDIR/trace.$VCLUSTER_NODE"
    ipcmk --shmem 4096 >/dev/null
    (exec -a "trace-$VCLUSTER_NODE" sleep 300 >/dev/null 2>&1 &)
    # The meeting: as many lines in the file as there are nodes.
    echo "$VCLUSTER_NODE" >>"$2"
    for (( i = 0; i < 2000; i++ )); do
        (( $(wc -l <"$2") >= VCLUSTER_NODES )) && break
        sleep 0.05
    done
    expect 'nodes that met' "$VCLUSTER_NODES" "$(wc -l <"$2")"
    expect '/dev/shm' "/dev/shm/trace.$VCLUSTER_NODE" "$(echo /dev/shm/trace.*)"
    expect 'TMPDIR' "$TMPDIR/trace.$VCLUSTER_NODE" "$(echo "$TMPDIR"/trace.*)"
    expect 'System V segments' 1 "$(ipcs -m | grep -c ' 4096 ')"
    expect 'processes' "trace-$VCLUSTER_NODE" "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep '^trace-')"
    # shellcheck disable=SC2012 # names of our own
    expect 'interfaces in /sys' 'lo rail0 rail1' "$(ls /sys/class/net | sort | xargs)"
    expect 'addresses' "10.1.0.$(( VCLUSTER_NODE + 1 ))/16 10.2.0.$(( VCLUSTER_NODE + 1 ))/16" \
        "$(ip -o -4 addr show scope global | awk '{ print $4 }' | sort | xargs)"
    expect 'MTU' 9000 "$(cat /sys/class/net/rail1/mtu)"
    expect 'no IPv6' '' "$(ip -6 addr)"
    # Names stand in /etc/hosts, if the machine has that file.
    [[ ! -e /etc/hosts ]] || expect 'name of the other node' "10.1.0.$(( 2 - VCLUSTER_NODE ))" \
        "$(getent ahostsv4 "node$(( 1 - VCLUSTER_NODE ))" | awk 'NR == 1 { print $1 }')"
    echo "seen $VCLUSTER_NODE"
    finish
fi

need_namespaces
meeting=$(mktemp)
trap 'rm -f "$meeting" "$errors"' EXIT
text=$(quiet_run --ranks 1 --rails 2 -- "$0" inside "$meeting")
expect "status" 0 $?
expect 'nodes that looked' $'seen 0\nseen 1' "$(grep '^seen' <<<"$text" | sort)"
finish
