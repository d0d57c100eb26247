# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# What run checks before it starts anything: the program, the topology file,
# the size of the machine, and which namespaces are permitted. Each check
# either returns or ends run with one message that says what to do.

say() {
    printf 'vcluster: %s\n' "$1" >&2
}

# fail STATUS MESSAGE
fail() {
    say "$2"
    exit "$1"
}

# What one rank needs at least: Open MPI, UCX and the component together were
# measured at 30 to 60 MiB and up to 8 threads. GPU memory comes on top.
readonly rank_mib=64 rank_threads=8

check_program() {
    if [[ $1 == */* ]]; then
        [[ -e $1 ]] || fail 127 "there is no program '$1'"
        [[ -f $1 && -x $1 ]] || fail 126 "'$1' is not executable"
    else
        type -P -- "$1" >/dev/null || fail 127 "there is no program '$1' on PATH"
    fi
}

check_topology() {
    [[ -n $1 ]] || return 0
    if [[ ! -e $1 && $1 != */* ]]; then
        [[ -f $here/../golden/machines/$1.topo ]] ||
            fail 2 "--topology: there is no file '$1', and no machine of that name in test/golden/machines"
        topology=$(cd "$here/../golden/machines" && pwd)/$1.topo
        known_machine=1
        return 0
    fi
    [[ -f $1 ]] || fail 2 "--topology: there is no file '$1'"
    [[ -r $1 ]] || fail 2 "--topology: cannot read '$1'"
    [[ -s $1 ]] || fail 2 "--topology: '$1' is empty"
    topology=$(cd "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
}

# Sets gpus to the number of this machine's GPUs, or ends with what to do.
count_real_gpus() {
    local list=(/proc/driver/nvidia/gpus/*)

    [[ -e ${list[0]} ]] || fail 2 '--real: no NVIDIA GPU found (/proc/driver/nvidia/gpus); give --gpus N if there is one'
    gpus=${#list[@]}
}

# Prints how much memory this process may have, in MiB: the least of what is free and what its cgroup permits.
available_mib() {
    local key value line mib=0 file

    while read -r key value _; do
        [[ $key == MemAvailable: ]] && mib=$(( value / 1024 ))
    done </proc/meminfo
    while IFS= read -r line; do
        case $line in
        0::*) file=/sys/fs/cgroup${line#0::}/memory.max ;;
        *:memory:*) file=/sys/fs/cgroup/memory${line#*:memory:}/memory.limit_in_bytes ;;
        *) continue ;;
        esac
        value=max
        [[ -r $file ]] && read -r value <"$file"
        [[ $value == max || ${#value} -gt 18 ]] || (( value / 1048576 >= mib )) || mib=$(( value / 1048576 ))
    done </proc/self/cgroup
    echo "$mib"
}

# Sets threads_limit and threads_by: the smallest bound on threads, and its name.
find_threads_limit() {
    local value file

    threads_limit=$(ulimit -u) threads_by='ulimit -u'
    [[ $threads_limit == unlimited ]] && threads_limit=4194304
    for file in /proc/sys/kernel/threads-max /proc/sys/kernel/pid_max; do
        if [[ -r $file ]] && read -r value <"$file" && (( value < threads_limit )); then
            threads_limit=$value threads_by=$file
        fi
    done
    file=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/pids.max
    if [[ -r $file ]] && read -r value <"$file" && [[ $value != max ]] && (( value < threads_limit )); then
        threads_limit=$value threads_by=$file
    fi
}

# check_machine RANKS NODES
check_machine() {
    local mib most

    mib=$(available_mib)
    most=$(( mib / rank_mib ))
    (( $1 <= most )) || fail 2 "$1 ranks do not fit: each needs about $rank_mib MiB and $mib MiB \
are available (MemAvailable or the memory cgroup), enough for $most ranks; ask for fewer"
    find_threads_limit
    most=$(( (threads_limit - 200) / rank_threads - $2 ))
    (( most < 0 )) && most=0
    (( $1 <= most )) || fail 2 "$1 ranks do not fit: $threads_by is $threads_limit, enough for $most \
ranks of about $rank_threads threads; ask for fewer, or raise it"
}

# Tries in a throw-away namespace all that making the nodes takes. Prints what fails.
try_namespaces() {
    timeout 100 unshare $1 --mount --uts --ipc --net --pid --fork --kill-child bash -c '
        mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && mount -t sysfs sysfs /sys &&
        ip link add name try0 type bridge && ip link add name try1 type veth peer name try2 &&
        unshare --mount --net --pid --fork true' 2>&1
}

# Sets namespaces to unshare's options ('' for root, '--user --map-root-user'
# for others), or to 'none' and why to the reason.
find_namespaces() {
    local tool missing=()

    namespaces=none
    for tool in hostname:hostname unshare:util-linux nsenter:util-linux setpriv:util-linux mount:mount ip:iproute2 tc:iproute2; do
        type -P "${tool%:*}" >/dev/null || missing+=("${tool%:*} (package ${tool#*:})")
    done
    if (( ${#missing[@]} > 0 )); then
        why="missing: ${missing[*]}"
    elif [[ -n ${VCLUSTER_PLAIN:-} ]]; then
        why='VCLUSTER_PLAIN is set'
    elif (( EUID == 0 )) && why=$(try_namespaces ''); then
        namespaces=
    elif why=$(try_namespaces '--user --map-root-user'); then
        namespaces='--user --map-root-user'
    fi
}

# One node needs no namespaces.
choose_namespaces() {
    local why

    find_namespaces
    [[ $namespaces == none ]] || return 0
    (( nodes == 1 && rails == 1 )) && [[ -z $rate && -z $latency && -z $shm ]] && return 0
    fail 125 "more than one node, rail, --rate, --latency and --shm need namespaces, which this user may not make here (${why//$'\n'/; }).
  Run it as root (in a container: with CAP_SYS_ADMIN and CAP_NET_ADMIN, for instance docker run --privileged),
  or permit unprivileged user namespaces: sysctl user.max_user_namespaces=10000, and where they exist
  kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0;
  the packages needed are util-linux, mount, hostname and iproute2. One node with one rail runs without."
}
