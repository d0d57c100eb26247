# shellcheck shell=bash disable=SC2034
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# What the tests of run share; sourced by test_*.sh. Most of these tests use
# neither the component nor a GPU (--stock --gpus 0): they judge run alone.
set -u

here=$GPUHIER_SRC/test/vcluster
host_only=(--stock --gpus 0)
failures=0

# expect WHAT WANTED GOT
expect() {
    if [[ $2 != "$3" ]]; then
        printf 'FAIL %s: wanted "%s", got "%s"\n' "$1" "$2" "$3" >&2
        failures=$(( failures + 1 ))
    fi
}

# expect_match WHAT REGEX GOT
expect_match() {
    if [[ ! $3 =~ $2 ]]; then
        printf 'FAIL %s: wanted a match of /%s/, got "%s"\n' "$1" "$2" "$3" >&2
        failures=$(( failures + 1 ))
    fi
}

# Runs run; what mpirun and the ranks say on standard error goes to a file, since
# some Open MPIs warn there, and is shown only when a test fails.
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
quiet_run() {
    "$here/run" "${host_only[@]}" --timeout 200 "$@" 2>"$errors"
}

skip() {
    echo "skipped: $1"
    exit 77
}

# Skips the test where more than one node cannot be had.
need_namespaces() {
    local text

    text=$("$here/run" "${host_only[@]}" --nodes 2 --ranks 1 --timeout 200 -- true 2>&1) && return 0
    [[ $text == *'need namespaces'* ]] && skip 'this user may not make namespaces'
    return 0
}

finish() {
    (( failures == 0 )) || { cat "$errors"; echo "$failures failures"; } >&2
    exit $(( failures > 0 ))
}
