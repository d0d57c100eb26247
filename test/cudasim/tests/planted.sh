#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The emulator catches what it is there to catch: host access to device memory, and a missing synchronisation.
set -u
export LD_LIBRARY_PATH=$PWD/lib
failures=0

# expect STATUS command...
expect()
{
    local want=$1
    shift
    "$@"
    local got=$?
    if [ $got -ne "$want" ]; then
        echo "$*: status $got, expected $want"
        failures=$((failures + 1))
    fi
}

expect 0 ./planted_test access good
expect 139 bash -c 'ulimit -c 0; ./planted_test access read; exit $?' 2>/dev/null
expect 139 bash -c 'ulimit -c 0; ./planted_test access write; exit $?' 2>/dev/null
# With the synchronisation the results are right in every mode; without it they are wrong in the modes that are late.
for mode in eager thread lazy; do
    expect 0 env CUDASIM_ASYNC=$mode CUDASIM_SEED=7 ./planted_test wait present 200
    expect 0 env CUDASIM_ASYNC=$mode CUDASIM_SEED=7 ./planted_test order present 200
done
for what in wait order; do
    expect 3 env CUDASIM_ASYNC=thread CUDASIM_SEED=7 ./planted_test $what missing 200
    expect 3 env CUDASIM_ASYNC=lazy ./planted_test $what missing 20
done
expect 0 env CUDASIM_TWINS="$PWD"/lib/contract_twin.so ./planted_test kernel good
expect 3 env CUDASIM_TWINS="$PWD"/lib/contract_twin.so ./planted_test kernel beyond 2>/dev/null
expect 3 env CUDASIM_TWINS="$PWD"/lib/contract_twin.so CUDASIM_GPUS=2 ./planted_test kernel peer 2>/dev/null
[ $failures -eq 0 ]
