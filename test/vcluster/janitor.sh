#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# janitor.sh MARK FOLDER: waits for the end of its standard input, then kills
# every process whose environment holds MARK until there is none, and removes
# FOLDER. Started by plain.sh.
set -u
trap '' HUP INT TERM

mark=$1 folder=$2
while read -r _; do :; done

# Processes of other users and those that just ended cannot be read: not ours.
marked() {
    local file

    for file in /proc/[0-9]*/environ; do
        grep -qzxF -- "$mark" "$file" 2>/dev/null && echo "${file//[^0-9]/}"
    done
}

for (( i = 0; i < 100; i++ )); do
    pids=$(marked)
    [[ -n $pids ]] || break
    kill -KILL $pids 2>/dev/null
    sleep 0.05
done
rm -rf -- "$folder"
