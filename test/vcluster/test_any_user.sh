#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# An ordinary user, whose PATH is Debian's and has no folder of system tools, runs several shaped nodes in a user
# namespace.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"

user=()
if (( EUID == 0 )); then
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/)
fi
"${user[@]}" test -x "$here/run" || skip "user 65534 cannot read $here"
"${user[@]}" unshare --user --map-root-user --net --mount true 2>/dev/null ||
    skip 'unprivileged user namespaces are not permitted'
cd / || exit 1
PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games
text=$("${user[@]}" "$here/run" "${host_only[@]}" --nodes 2 --ranks 1,2 --rails 2 --rate 1gbit --timeout 200 -- hostname 2>"$errors")
expect 'status' 0 $?
expect 'hosts' $'node0\nnode1\nnode1' "$(sort <<<"$text")"
finish
