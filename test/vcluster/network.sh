# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The network of the nodes, made from the head by cluster.sh: rail r of every
# node is one veth pair, whose far end is a port of the head's bridge r, so
# each rail is a switch of its own (subnet 10.(r+1).0.0/16). Shaping is done at
# both ends, so that a node neither sends nor receives faster than RATE.
#
#      node0                  head                  node1
#     rail0 ==== n0r0 --- [ switch0 ] --- n1r0 ==== rail0
#     rail1 ==== n0r1 --- [ switch1 ] --- n1r1 ==== rail1
#        ^tbf     ^tbf                     ^tbf      ^tbf
#
# With a latency, each rail's switch is a process instead (vcluster_relay.c), which also shapes the rail to RATE.

readonly mtu=9000
# The bucket holds one burst, which is larger than the largest packet that is
# handed down at once (64 KiB). A full queue drops packets, so it is so long that
# TCP's windows slow down senders that share a receiver's rail before it is full.
readonly shape=(burst 256kb latency 200ms)

# rail_address RAIL NODE: node -1 is the head.
rail_address() {
    local host=$(( $2 < 0 ? 65534 : $2 + 1 ))

    echo "10.$(( $1 + 1 )).$(( host / 256 )).$(( host % 256 ))"
}

# IPv6 would add packets of its own (router and duplicate address queries) to
# the counters that tests read.
quiet_ipv6() {
    local file

    for file in /proc/sys/net/ipv6/conf/{all,default}/disable_ipv6; do
        [[ -w $file ]] && echo 1 >"$file"
    done
    return 0
}

make_switches() {
    local r

    quiet_ipv6
    if [[ -n $VCLUSTER_LATENCY ]]; then
        {
            echo link set lo up
            echo link add name head0 mtu $mtu type veth peer name port0 mtu $mtu
            echo link set port0 up
            echo link set head0 up
            echo addr add "$(rail_address 0 -1)/16" dev head0
        } >"$home/ip"
        must 'make the port of the head' ip -batch "$home/ip"
        return 0
    fi
    {
        echo link set lo up
        for (( r = 0; r < VCLUSTER_RAILS; r++ )); do
            echo link add name "switch$r" mtu $mtu type bridge mcast_snooping 0
            echo link set "switch$r" up
        done
        echo addr add "$(rail_address 0 -1)/16" dev switch0
    } >"$home/ip"
    must 'make the switches' ip -batch "$home/ip"
}

# start_relays: when all nodes are there. Sets relays to their process numbers.
start_relays() {
    local r n names

    relays=()
    for (( r = 0; r < VCLUSTER_RAILS; r++ )); do
        names=()
        (( r > 0 )) || names=(port0)
        for (( n = 0; n < VCLUSTER_NODES; n++ )); do
            names+=("n${n}r$r")
        done
        # shellcheck disable=SC2046 # two words
        "$VCLUSTER_RELAY" $(relay_figures) $(( r == 0 )) "${names[@]}" </dev/null >"$home/relay$r" &
        relays+=($!)
        until [[ -s $home/relay$r ]]; do
            kill -0 $! 2>/dev/null || fail "the relay of rail $r cannot start"
            sleep 0.02
        done
    done
}

# Nanoseconds for a byte, and the latency in nanoseconds.
relay_figures() {
    awk -v rate="$VCLUSTER_RATE" -v latency="$VCLUSTER_LATENCY" 'BEGIN {
        scale["k"] = 1e3; scale["m"] = 1e6; scale["g"] = 1e9; scale["t"] = 1e12
        unit["us"] = 1e3; unit["ms"] = 1e6; unit["s"] = 1e9
        bytes = rate + 0
        letter = substr(rate, match(rate, /[kmgt]?(bit|bps)?$/), 1)
        bytes *= letter in scale ? scale[letter] : 1
        bytes /= rate ~ /bps$/ ? 1 : 8
        match(latency, /[a-z]+$/)
        printf "%.6f %.0f\n", rate == "" ? 0 : 1e9 / bytes, latency * unit[substr(latency, RSTART)]
    }'
}

# With a latency, TCP must fill a rail without waiting for acknowledgements, and must not take a long queue for a loss:
# the rail stands for one on which hardware does the work of TCP.
tune_tcp() {
    echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle
    echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
    echo '4096 4194304 8388608' >/proc/sys/net/ipv4/tcp_rmem
    echo '4096 1048576 1048576' >/proc/sys/net/ipv4/tcp_wmem
}

# connect_node NODE PID: PID is a process of that node, as the head sees it.
connect_node() {
    local node=$1 pid=$2 r

    for (( r = 0; r < VCLUSTER_RAILS; r++ )); do
        echo link add name "n${node}r$r" mtu $mtu type veth peer name "rail$r" mtu $mtu netns "$pid"
        if [[ -n $VCLUSTER_LATENCY ]]; then
            echo link set "n${node}r$r" up
        else
            echo link set "n${node}r$r" master "switch$r" up
        fi
    done >"$home/ip"
    must "connect node$node" ip -batch "$home/ip"
    {
        echo link set lo up
        for (( r = 0; r < VCLUSTER_RAILS; r++ )); do
            echo addr add "$(rail_address "$r" "$node")/16" dev "rail$r"
            echo link set "rail$r" up
            [[ -z $VCLUSTER_LATENCY ]] ||
                echo route change "10.$(( r + 1 )).0.0/16" dev "rail$r" src "$(rail_address "$r" "$node")" \
                    initcwnd 200 initrwnd 200 rto_min 10s
        done
    } >"$home/ip"
    must "set up the rails of node$node" nsenter --target "$pid" --net ip -batch "$home/ip"
    [[ -n $VCLUSTER_RATE && -z $VCLUSTER_LATENCY ]] || return 0
    for (( r = 0; r < VCLUSTER_RAILS; r++ )); do
        echo qdisc add dev "rail$r" root tbf rate "$VCLUSTER_RATE" "${shape[@]}"
    done >"$home/tc"
    must "shape the rails of node$node" nsenter --target "$pid" --net tc -batch "$home/tc"
    for (( r = 0; r < VCLUSTER_RAILS; r++ )); do
        echo qdisc add dev "n${node}r$r" root tbf rate "$VCLUSTER_RATE" "${shape[@]}"
    done >"$home/tc"
    must "shape the switch ports of node$node" tc -batch "$home/tc"
}
