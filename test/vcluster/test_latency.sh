#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Rails with a latency: no transfer is faster than the latency and the rate permit, on each rail, and everything comes
# through exactly once, over Open MPI's TCP and over UCX. Only modelled times show whether a transfer is much slower.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

program=$GPUHIER_BUILD/test/vcluster/vcluster_rate
[[ -x $program ]] || { echo "there is no $program: make check builds it" >&2; exit 1; }

# carries WHAT BYTES MOST OPTION...: a transfer of BYTES of each rank on node0 carries at most MOST Mbit/s together, and
# the counters show between the payload and 1.5 % more, so nothing is sent twice.
carries() {
    local what=$1 bytes=$2 most=$3 payload=0 counted=0 mbit text

    shift 3
    text=$(quiet_run "$@" -- "$program" "$bytes" 3)
    expect_match "$what: measurement" '^[0-9.]+ [0-9]+ [0-9]+$' "$text"
    read -r mbit payload counted <<<"$text"
    echo "$what: payload $payload, counted $counted bytes, $mbit Mbit/s"
    expect "$what: counters" 1 "$(( counted >= payload && counted * 1000 <= payload * 1015 ))"
    expect "$what: at most $most Mbit/s" 1 "$(awk -v is="$mbit" -v most="$most" 'BEGIN { print (is <= most) }')"
}

ucx=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_LOG_LEVEL=error)
# A round is the message and the barrier, so it takes the latency at least twice.
carries 'latency' 100000 8 --ranks 1 --latency 50ms
carries 'latency and rate' 4194304 200 --ranks 1 --latency 500us --rate 200mbit
carries 'two rails' 2097152 200 --ranks 2 --rails 2 --latency 1ms --rate 12500kbps
if ompi_info --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
    carries 'UCX' 4194304 200 --ranks 1 --latency 5ms --rate 200mbit "${ucx[@]}"
fi
expect 'three nodes' 6 \
    "$(quiet_run --nodes 3 --ranks 2 --latency 2ms -- sh -c 'echo "$VCLUSTER_LATENCY"' | grep -c '^2ms$')"
finish
