#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# janitor.sh MARK: makes a folder in /dev/shm and prints its name, waits for the
# end of its standard input, then kills processes whose environment holds MARK
# until there are none, and removes the folder. Started by plain.sh.
set -u
trap '' HUP INT TERM PIPE

mark=$1
folder=$(mktemp -d /dev/shm/vcluster.XXXXXX) || exit 1
echo "$folder" 2>/dev/null
exec >/dev/null
while read -r _; do :; done

# Prints the processes with the mark. Those of other users, and those that have just
# ended, cannot be read and do not count.
marked() {
    grep -lzxF -- "$mark" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'
}

for (( i = 0; i < 100; i++ )); do
    pids=$(marked)
    [[ -n $pids ]] || break
    # shellcheck disable=SC2086 # numbers
    kill -KILL $pids 2>/dev/null
    sleep 0.05
done
rm -rf -- "$folder"
