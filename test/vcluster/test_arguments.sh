#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Bad arguments and machines end with one message that names the culprit, and
# with the documented status, before anything is started.
# shellcheck disable=SC2030,SC2031 # a subshell counts for itself and returns it
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"

# refused STATUS REGEX ARGUMENT...: the message is the first line.
refused() {
    local status=$1 regex=$2 text

    shift 2
    text=$("$here/run" "$@" 2>&1 </dev/null)
    expect "status of run $*" "$status" $?
    expect_match "message of run $*" "^vcluster: $regex" "${text%%$'\n'*}"
}

refused 2 'no program'
refused 2 'no program' --nodes 2 --
refused 2 "unknown option '--node'" --node 2 -- true
refused 2 "'true' is no option; the program comes after --" --nodes 2 true
refused 2 '--nodes wants a number' --nodes 0 -- true
refused 2 '--nodes wants a number' --nodes two -- true
refused 2 '--nodes wants a value' --nodes
refused 2 '--nodes 251: at most' --nodes 251 -- true
refused 2 '--gpus wants a number' --gpus -1 -- true
refused 2 '--gpus 0 needs --ranks' --stock --gpus 0 -- true
refused 2 '--ranks wants' --ranks 3, -- true
refused 2 '--ranks wants' --ranks 3,0 -- true
refused 2 '--ranks 3,4 names 2 nodes of 3' --nodes 3 --ranks 3,4 -- true
refused 2 '--rails wants' --rails 17 -- true
refused 2 '--rate wants' --rate fast -- true
refused 2 '--latency wants' --latency 20 -- true
refused 2 '--shm wants' --shm 10X -- true
refused 2 '--timeout wants' --timeout soon -- true
refused 2 '--mca wants a name and a value' --mca pml -- true
refused 2 '-x wants' -x 1=2 -- true
refused 2 '--topology: there is no file' --topology no-such-file -- true
refused 2 '--topology: there is no file' --topology /dev/null -- true
refused 2 '--ompi: there is no /no-such/bin/mpirun' --ompi /no-such -- true
refused 127 "there is no program 'no-such-program' on PATH" "${host_only[@]}" --ranks 1 -- no-such-program
refused 127 "there is no program './no-such-program'" "${host_only[@]}" --ranks 1 -- ./no-such-program
refused 126 "'.*README' is not executable" "${host_only[@]}" --ranks 1 -- "$here/README"

# A build tree without a component, then without emulated GPUs.
(
    failures=0
    export GPUHIER_BUILD
    GPUHIER_BUILD=$(mktemp -d)
    trap 'rm -rf "$GPUHIER_BUILD"' EXIT
    refused 2 'there is no component in' -- true
    refused 2 'there are no emulated CUDA libraries in' --stock -- true
    exit $failures
)
failures=$(( failures + $? ))

# More ranks than the machine can hold, by memory and by processes.
refused 2 '[0-9]+ ranks do not fit: each needs about [0-9]+ MiB and [0-9]+ MiB are available' \
    "${host_only[@]}" --ranks 500000 -- true
(
    failures=0
    ulimit -u 300 2>/dev/null || exit 0
    refused 2 '40 ranks do not fit: ulimit -u is 300' "${host_only[@]}" --ranks 20 -- true
    exit $failures
)
failures=$(( failures + $? ))

expect_match 'run --help' '^usage: .*--timeout S' "$("$here/run" --help)"
finish
