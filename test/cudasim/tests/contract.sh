#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the contract test and compares what it prints with contract/contract.golden.
#
#   contract.sh eager|thread|lazy   on the emulated driver; a difference is a failure
#   contract.sh --real              on the machine's own driver, which is the judge: differences
#                                   are shown, and tell where the golden file (and so the
#                                   emulator) is wrong; fails only if the program itself does
set -u
mode=${1:-eager}
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/../contract/contract.golden
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
if [ "$mode" = --real ]; then
    if [ ! -e /dev/nvidiactl ] || ! ldconfig -p | grep -q 'libcuda\.so\.1 '; then
        echo "no NVIDIA driver on this machine"
        exit 77
    fi
else
    export CUDASIM_ASYNC=$mode CUDASIM_TWINS=$PWD/lib/contract_twin.so LD_LIBRARY_PATH=$PWD/lib
fi
./contract_test contract_kernels.fatbin >"$out"
status=$?
if [ $status -ne 0 ]; then
    cat "$out"
    echo "the contract test ended with status $status"
    exit 1
fi
if diff -u "$golden" "$out"; then
    echo "all $(wc -l <"$golden") lines as expected"
    exit 0
fi
if [ "$mode" = --real ]; then
    echo "$(diff "$golden" "$out" | grep -c '^>') lines differ: here the real driver does something else than the emulator"
    exit 0
fi
echo "the emulated driver does not keep its contract (lines with + are what it did)"
exit 1
