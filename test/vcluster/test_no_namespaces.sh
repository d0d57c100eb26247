#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Where no namespaces may be made (here their allowed number is 0), one node still
# runs. What needs namespaces ends with a message that says what to do.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"

# Inside: a user namespace whose owner may not make any further ones.
if [[ ${1:-} == inside ]]; then
    for file in /proc/sys/user/max_*_namespaces; do
        echo 0 >"$file" || skip "cannot write $file"
    done
    unshare --net true 2>/dev/null && skip 'the limit on namespaces has no effect here'
    text=$(quiet_run --nodes 1 --ranks 2 -- sh -c 'echo rank $OMPI_COMM_WORLD_RANK')
    expect 'status of one node' 0 $?
    expect 'ranks of one node' $'rank 0\nrank 1' "$(sort <<<"$text")"
    expect 'complaints of the shell' '' "$(grep 'test/vcluster/.*: line ' "$errors")"
    for options in '--nodes 2 --ranks 1' '--nodes 1 --ranks 1 --rails 2' '--nodes 1 --ranks 1 --rate 1gbit' '--nodes 1 --ranks 1 --latency 1ms' \
        '--nodes 1 --ranks 1 --shm 1M'; do
        # shellcheck disable=SC2086 # a list of options
        text=$("$here/run" "${host_only[@]}" $options -- true 2>&1)
        expect "status of $options" 125 $?
        expect_match "message of $options" '^vcluster: .*need namespaces.*Run it as root.*user.max_user_namespaces' "$text"
    done
    finish
fi

unshare --user --map-root-user --mount true 2>/dev/null || skip 'user namespaces are not permitted'
exec timeout 250 unshare --user --map-root-user --mount bash "$0" inside
