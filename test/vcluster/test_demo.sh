#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The demonstration, of two short messages, as users run it: one whose PATH is Debian's, and one who may make no
# namespaces. Its last line names the nodes that ran, and none when nothing ran. The build is the one under test, in a
# folder of links that the user may write to; the set-up is replaced by one that notes how it is called.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"

# demo OPTION...: sets text and status; the folder says has what goes to standard error.
demo() {
    : >"$place/calls"
    text=$("${user[@]}" "$place/test/demo.sh" --build "$place/build" -- -b 64 -e 128 -n 3 -t 1 "$@" 2>"$place/says")
    status=$?
}

if [[ ${1:-} == inside ]]; then
    place=$2 user=()
    for file in /proc/sys/user/max_*_namespaces; do
        echo 0 >"$file" || skip "cannot write $file"
    done
    demo
    expect 'status without namespaces' 0 $status
    expect_match 'what ran without namespaces' 'demo passed: 18 of 18 rows accelerated, 0 wrong; .* ran on 1 node x 4 emulated GPUs' "$text"
    expect_match 'the reason' '^demo: one node only, since this user may not make namespaces here' "$(<"$place/says")"
    finish
fi

place=$(mktemp -d)
trap 'rm -rf "$place" "$errors"' EXIT
mkdir "$place/build" "$place/test" && ln -s "$GPUHIER_BUILD"/* "$place/build" && ln -s "$here/.."/* "$place/test" || exit 1
rm -f "$place/build/demo".* "$place/test/setup.sh"
printf '#!/bin/sh\necho "$@" >>%s/calls\n' "$place" >"$place/test/setup.sh"
touch "$place/calls" "$place/says"
chmod 755 "$place/test/setup.sh" && chmod 777 "$place" "$place/build" "$place/calls" || exit 1
need_namespaces

user=()
if (( EUID == 0 )); then
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ TMPDIR=/tmp)
fi
"${user[@]}" test -x "$place/test/vcluster/run" || skip "user 65534 cannot read $here"
"${user[@]}" unshare --user --map-root-user --net --mount true 2>/dev/null ||
    skip 'unprivileged user namespaces are not permitted'
cd / || exit 1
PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games
demo
expect 'status' 0 $status
expect_match 'what ran' 'demo passed: 18 of 18 rows accelerated, 0 wrong; .* ran on 2 nodes x 4 emulated GPUs' "$text"
expect 'calls of the set-up' "--build $place/build --packages-only"$'\n'"--build $place/build" "$(<"$place/calls")"

demo --no-such-option
expect 'status of a bad option' 2 $status
expect_match 'a run that measures nothing' 'demo FAILED \(status 2\): nothing was measured$' "$(<"$place/says")"
expect 'nodes of a run that measures nothing' '' "$(grep 'nodes x' <<<"$text")"

(( failures == 0 )) || { cat "$place/says" >&2; finish; }
rm -f "$place"/build/demo.*
unshare --user --map-root-user --mount bash "$0" inside "$place"
