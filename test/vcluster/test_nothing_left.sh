#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# test_nothing_left.sh namespaces|plain: however run ends, its processes,
# namespaces, interfaces, shared memory and temporary files end with it.
#
# Processes are recognised by a mark in their environment; namespaces by the
# numbers that marked processes had, looked up afterwards in all processes.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"

kind=$1
if [[ $kind == plain ]]; then
    export VCLUSTER_PLAIN=1
    where=(--nodes 1 --ranks 2)
else
    need_namespaces
    where=(--nodes 2 --ranks 1 --rails 2 --rate 1gbit)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$errors"' EXIT
mkdir "$scratch/tmp"
export TMPDIR=$scratch/tmp

marked() {
    grep -lzxF "VCLUSTER_TEST=$mark" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'
}

# The machine as seen from outside the run. Of /dev/shm only files with the mark or
# run's name count, so that other users of the machine do not matter.
interfaces() {
    ip -o link | cut -d: -f2 | sort
}
shared() {
    # shellcheck disable=SC2010 # names of our own
    ls -A /dev/shm | grep -E "$mark|^vcluster" | sort
}

# ends WHAT STATUS-REGEX SIGNAL DELAY ARGUMENT...: starts run with the arguments,
# sends it SIGNAL (-: none) after DELAY seconds (-: at once; started: when the
# program runs), then looks for what is left.
ends() {
    local what=$1 regex=$2 signal=$3 delay=$4 status pid i before namespaces left tries=100

    shift 4
    mark=$$.$RANDOM
    before=$(interfaces)
    rm -f "$scratch/started"
    VCLUSTER_TEST=$mark SCRATCH=$scratch MARK=$mark env --default-signal \
        "$here/run" "${host_only[@]}" "${where[@]}" --timeout 200 "$@" >"$scratch/log" 2>&1 &
    pid=$!
    if [[ $delay == started ]]; then
        for (( i = 0; i < 3000; i++ )); do
            [[ -e $scratch/started ]] && break
            sleep 0.05
        done
        [[ -e $scratch/started ]] || { cat "$scratch/log" >&2; expect "$what: program" started 'not started'; }
    elif [[ $delay != - ]]; then
        sleep "$delay"
    fi
    namespaces=$(for i in $(marked); do readlink /proc/"$i"/ns/{net,mnt,pid,ipc,uts} 2>/dev/null; done | sort -u |
        grep -vxF -e "$(readlink /proc/self/ns/{net,mnt,pid,ipc,uts})")
    if [[ $delay == started && $kind == namespaces ]]; then
        expect "$what: namespaces of a head and two nodes" 15 "$(wc -w <<<"$namespaces")"
    fi
    [[ $signal != - ]] && kill "-$signal" "$pid"
    wait "$pid" 2>/dev/null
    status=$?
    expect_match "$what: status" "^($regex)\$" "$status"
    # After SIGKILL run cannot wait for the kernel (or the janitor): up to 50 s, on a busy machine. A signal that
    # comes while run looks at its arguments may leave a helper of its shell a moment more: 10 s.
    [[ $signal == KILL ]] && tries=500
    for (( i = 0; i < tries; i++ )); do
        left="$(marked)$(shared)"
        [[ -z $left ]] && break
        sleep 0.1
    done
    expect "$what: processes and shared memory left" '' "$left"
    expect "$what: temporary files left" '' "$(ls -A "$TMPDIR")"
    expect "$what: interfaces" "$before" "$(interfaces)"
    expect "$what: mounts left" '' "$(grep -F "$mark" /proc/self/mountinfo)"
    for i in $namespaces; do
        expect "$what: users of the namespace $i" '' "$(find /proc/[0-9]*/ns -lname "$i" 2>/dev/null)"
        expect "$what: names of the namespace $i" '' "$(grep -F "$i" /proc/self/mountinfo)"
    done
}

# Programs that leave files and children behind; in plain mode only TMPDIR is private.
if [[ $kind == plain ]]; then
    untidy='touch $TMPDIR/$MARK'
else
    untidy='touch $TMPDIR/$MARK /dev/shm/$MARK; ipcmk --shmem 4096 >/dev/null'
fi
# mpirun waits for every process that holds a rank's output.
untidy+='; sleep 3001 >/dev/null 2>&1 & setsid sleep 3002 >/dev/null 2>&1 & touch $SCRATCH/started'

ends 'normal end' 0 - - -- bash -c "$untidy"
ends 'failing program' 3 - - -- bash -c "$untidy; exit 3"
ends 'aborting program' 134 - - -- bash -c "$untidy; kill -ABRT \$\$"
ends '--timeout' 124 - - --timeout 2 -- bash -c "$untidy; sleep 3003"
for signal in TERM INT HUP; do
    number=$(kill -l $signal)
    ends "SIG$signal" $(( 128 + number )) $signal started -- bash -c "$untidy; sleep 3003"
done
ends 'SIGKILL' 137 KILL started -- bash -c "$untidy; sleep 3003"
# While nodes, network and mpirun are being started.
for delay in 0.02 0.1 0.3; do
    ends "SIGKILL after $delay s" 137 KILL $delay -- sleep 3003
    ends "SIGTERM after $delay s" 143 TERM $delay -- sleep 3003
done
finish
