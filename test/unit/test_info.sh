#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# gpuhier_info: what it says of calls, checked against the formulas by hand, and
# how it takes bad arguments.
set -u
info=$GPUHIER_BUILD/ompi/tools/gpuhier_info/gpuhier_info
failures=0

# says STATUS PATTERN argument...: the status must be so, and a line of stdout or stderr match.
says() {
    local status=$1 pattern=$2 output rc
    shift 2

    output=$("$info" "$@" 2>&1)
    rc=$?
    if [ $rc -ne "$status" ] || ! grep -qE "$pattern" <<<"$output"; then
        echo "gpuhier_info $*: status $rc, expected $status and a line that matches: $pattern"
        echo "$output"
        failures=$((failures + 1))
    fi
}

# 2 nodes of 4: a rank sends its quarter once; 2 P B bytes of GPU memory for 4 ranks are 2 B for each.
call=(--nodes 2 --ranks 4 --bytes 64M)
says 0 '^8388608 elements of 8 bytes, 64.0 MiB, on 8 ranks$' "${call[@]}"
says 0 '^  group 1: ranks 4 to 7$' "${call[@]}"
says 0 '^  piece 2: 1/2 to 3/4, ranks 2 6$' "${call[@]}"
says 0 '^slices: 8 of at most 8.0 MiB, 3 in flight$' "${call[@]}"
says 0 '^slices: 16 of at most 4.0 MiB, 3 in flight$' "${call[@]}" --wire tcp
says 0 '^slices: 16 of at most 4.0 MiB, 3 in flight$' "${call[@]}" --slice-bytes 4M
says 0 '^slices: 11 of at most 5.8 MiB, 3 in flight$' "${call[@]}" --slice-bytes 4M --slice-bytes-max 6M
says 0 '^  step 2: RS\(2\) X\(1\) AG\(0\)$' "${call[@]}"
says 0 '^  network: 128.0 MiB in all, at most 16.0 MiB sent by one rank$' "${call[@]}"
says 0 '^  GPU memory: at most 128.0 MiB ' "${call[@]}"
# 16 MiB at 100 Gbit/s and 128 MiB at 2000 Gbyte/s.
says 0 '^  wire: at least 1342.2 us' "${call[@]}" --rail-gbit 100
says 0 '^  memory: at least 67.1 us' "${call[@]}" --memory-gbyte 2000
# A ring of 4 nodes: 2 * 3/4 of each rank's quarter.
says 0 'at most 24.0 MiB sent by one rank$' --nodes 4 --ranks 4 --bytes 64M --algorithm ring
says 0 '^exchange of a piece: ring, 6 steps$' --nodes 4 --ranks 4 --bytes 64M --algorithm ring
# What other sizes would get.
says 0 '^  from 1 MiB: recursive_doubling in 1 step, 2 slices$' "${call[@]}"
says 0 '^  from 16 MiB: halving in 4 steps, 8 slices$' --nodes 4 --ranks 4 --bytes 1K
says 0 '^  from 16 KiB: recursive_doubling in 2 steps, 1 slice$' --nodes 4 --ranks 4 --bytes 1K
says 0 '^  from 512 KiB: halving in 4 steps, 1 slice$' --nodes 4 --ranks 4 --bytes 1K --wire tcp
says 0 '^  from 8 bytes: reduced by the host$' "${call[@]}"
says 0 '^  from 8 bytes: recursive_doubling in 1 step, 1 slice$' "${call[@]}" --small-bytes 0
# Uneven nodes: the common refinement of sevenths and eighths.
says 0 '^pieces of a slice: 14, ' --nodes 2 --ranks 7,8 --bytes 1M
says 0 'nothing goes over the network$' --nodes 1 --ranks 8 --bytes 1M
says 0 '^slices: 0 ' --nodes 2 --ranks 2 --bytes 0
says 0 '^  network: 0 bytes in all' --nodes 2 --ranks 2 --bytes 0
says 0 '^usage: gpuhier_info' --help
says 2 '^gpuhier_info: --ranks 4,x is not understood$' --nodes 2 --ranks 4,x --bytes 1
says 2 'is not understood$' --nodes 3 --ranks 4,4 --bytes 1
says 2 'is not understood$' --nodes 2
says 2 '^gpuhier_info: --bytes -1 is not understood$' --nodes 2 --ranks 4 --bytes -1
says 2 '^gpuhier_info: --nodes 0 is not understood$' --nodes 0 --ranks 4 --bytes 1
says 2 '^gpuhier_info: --frob 1 is not understood$' --frob 1
says 2 '^gpuhier_info: --bytes  is not understood$' --nodes 2 --ranks 1 --bytes
says 1 '^gpuhier_info: there is no algorithm best; there are: .* ring' --nodes 2 --ranks 4 --bytes 1 --algorithm best
says 1 '^gpuhier_info: a wire is rdma or tcp, not wet$' --nodes 2 --ranks 4 --bytes 1 --wire wet
says 1 'slices in flight' --nodes 2 --ranks 4 --bytes 1 --slices-in-flight 5
says 1 '^gpuhier_info: the list of network devices names nosuch0, which this machine does not have$' --devices nosuch0
# This machine, whatever it is.
says 0 '^UCX [0-9]+\.'
exit $((failures > 0))
