#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the contract test and compares what it prints with a golden file of contract/.
#
#   contract.sh eager|thread|lazy [multicast]   on the emulated driver; a difference is a failure
#   contract.sh --real [multicast]              on the machine's own driver, which is the judge: differences
#                                               are shown, and tell where the golden file (and so the
#                                               emulator) is wrong; fails only if the program itself does
#
# multicast: the part on multicast objects, which needs two GPUs that can be in a team. Without them the calls' answers
# are compared, and on a real driver the test counts as skipped.
set -u
mode=${1:-eager}
part=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/../contract/contract.golden
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
if [ "$mode" = --real ]; then
    # The loader's list may lack a driver that LD_LIBRARY_PATH names.
    if [ ! -e /dev/nvidiactl ] || ! python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; then
        echo "no NVIDIA driver on this machine"
        exit 77
    fi
else
    export CUDASIM_ASYNC=$mode CUDASIM_TWINS=$PWD/lib/contract_twin.so LD_LIBRARY_PATH=$PWD/lib
fi
./contract_test contract_kernels.fatbin ${part:+"$part"} >"$out"
status=$?
if [ "$part" = multicast ]; then
    case $status in
    0) golden=$here/../contract/multicast.golden ;;
    77) golden=$here/../contract/no_multicast.golden ;;
    esac
fi
if [ $status -ne 0 ] && ! [ "$part:$status" = multicast:77 ]; then
    cat "$out"
    echo "the contract test ended with status $status"
    exit 1
fi
if diff -u "$golden" "$out"; then
    echo "all $(wc -l <"$golden") lines as expected"
    same=1
else
    same=0
fi
if [ "$mode" = --real ]; then
    if [ $same -eq 0 ]; then
        echo "$(diff "$golden" "$out" | grep -c '^>') lines differ: here the real driver does something else than the emulator"
    fi
    exit $status
fi
if [ $same -eq 0 ]; then
    echo "the emulated driver does not keep its contract (lines with + are what it did)"
    exit 1
fi
