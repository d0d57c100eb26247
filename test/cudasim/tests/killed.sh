#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# A process that exports and imports memory and is killed leaves nothing, and what it imported is free again.
set -u
export LD_LIBRARY_PATH=$PWD/lib
before=$(ls -A /dev/shm)
coproc victim { exec ./limits_test hold; }
# shellcheck disable=SC2154 # set by coproc
pid=$victim_PID
read -r -t 100 line <&"${victim[0]}" || { echo "the process did not start"; exit 1; }
kill -9 "$pid"
wait "$pid" 2>/dev/null
after=$(ls -A /dev/shm)
if [ "$before" != "$after" ]; then
    echo "left in /dev/shm: $after"
    exit 1
fi
[ "$line" = holding ]
