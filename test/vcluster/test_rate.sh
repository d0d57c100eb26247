#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Shaped rails reach their rate and do not exceed it, in both directions of
# shaping, alone and together; the interface counters tell the payload.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

rate=$GPUHIER_BUILD/test/vcluster/vcluster_rate
[[ -x $rate ]] || { echo "there is no $rate: make check builds it" >&2; exit 1; }

# carries WHAT WANTED_MBIT BYTES OPTION...: from 97 % of the rate, and at most
# what the full buckets at the start add (256 KiB at each end of a rail: 6 % of
# the smallest transfer here). The best of 3 rounds, up to 4 tries: another job on
# the processors can only slow it down. Counters: payload to payload + 1.5 %.
carries() {
    local what=$1 wanted=$2 bytes=$3 mbit payload=0 counted=0 try text ok=0

    shift 3
    for try in 1 2 3 4; do
        (( try == 1 )) || sleep 2
        text=$(quiet_run "$@" -- "$rate" "$bytes" 3)
        read -r mbit payload counted <<<"$text"
        [[ $counted =~ ^[0-9]+$ ]] || break
        echo "$what: $mbit Mbit/s of $wanted; payload $payload, counted $counted bytes"
        ok=$(awk -v got="$mbit" -v want="$wanted" 'BEGIN { print (got >= 0.97 * want && got <= 1.07 * want) }')
        (( ok )) && break
    done
    expect "$what: rate reached in $try tries" 1 "$ok"
    expect_match "$what: measurement" '^[0-9.]+ [0-9]+ [0-9]+$' "$text"
    expect "$what: counters" 1 "$(( counted >= payload && counted * 1000 <= payload * 1015 ))"
}

ucx=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_LOG_LEVEL=error)
carries 'one rail' 200 8388608 --ranks 1 --rate 200mbit
carries 'two rails' 200 8388608 --ranks 2 --rails 2 --rate 100mbit
if ompi_info --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
    carries 'one rail, UCX' 500 33554432 --ranks 1 --rate 500mbit "${ucx[@]}"
fi
finish
