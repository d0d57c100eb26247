#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# --rate shapes the rails, and they carry everything: the interface counters show the payload. The suite
# (test/bench/suite.sh) measures how fast they are.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

program=$GPUHIER_BUILD/test/vcluster/vcluster_rate
[[ -x $program ]] || { echo "there is no $program: make check builds it" >&2; exit 1; }

# carries WHAT RAILS RATE BYTES OPTION...: each node's end of each rail is shaped to the rate, as tc prints it, and a
# transfer counts between its payload and 1.5 % more.
carries() {
    local what=$1 rails=$2 rate=$3 bytes=$4 payload=0 counted=0 mbit text n r wanted=

    shift 4
    for (( n = 0; n < 2; n++ )); do
        for (( r = 0; r < rails; r++ )); do
            wanted+="node$n rail$r $rate"$'\n'
        done
    done
    expect "$what: shaped" "${wanted%$'\n'}" "$(quiet_run --rails "$rails" "$@" --ranks 1 -- sh -c \
        'tc qdisc show | sed -n "s/^qdisc tbf .* dev \(rail[0-9]*\) .* rate \([0-9A-Za-z]*\) .*/$(hostname) \1 \2/p"' | sort)"
    text=$(quiet_run --rails "$rails" "$@" -- "$program" "$bytes" 1)
    expect_match "$what: measurement" '^[0-9.]+ [0-9]+ [0-9]+$' "$text"
    read -r mbit payload counted <<<"$text"
    echo "$what: payload $payload, counted $counted bytes, $mbit Mbit/s"
    expect "$what: counters" 1 "$(( counted >= payload && counted * 1000 <= payload * 1015 ))"
}

ucx=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_LOG_LEVEL=error)
carries 'one rail' 1 200Mbit 8388608 --ranks 1 --rate 200mbit
carries 'two rails' 2 100Mbit 8388608 --ranks 2 --rate 100mbit
if ompi_info --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
    carries 'one rail, UCX' 1 500Mbit 33554432 --ranks 1 --rate 500mbit "${ucx[@]}"
fi
finish
