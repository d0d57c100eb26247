#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The component's lines and files are at most what size.limits says, and not far below, so that the limits stay true.
# CONTRIBUTING.md says how they change.
#
#   size.sh [FOLDER LIMITS]
#
# Without arguments it first shows, on a folder of its own, that it finds what is too much and what is too little.
# Called by tests.list.
set -u
slack_lines=150
slack_files=3

# check FOLDER LIMITS
check() {
    local lines files most_lines most_files
    mapfile -d '' -t files < <(find "$1" -name '*.[ch]' -print0 -o -name '*.cu' -print0)
    lines=$(cat "${files[@]}" | wc -l)
    most_lines=$(awk '$1 == "lines" { print $2 }' "$2")
    most_files=$(awk '$1 == "files" { print $2 }' "$2")
    echo "size: $lines lines in ${#files[@]} files; at most $most_lines and $most_files"
    if [ "$lines" -gt "$most_lines" ] || [ "${#files[@]}" -gt "$most_files" ]; then
        echo "size: too much: make something superfluous, or raise test/unit/size.limits with a reason in the commit"
        return 1
    elif [ "$lines" -lt $((most_lines - slack_lines)) ] || [ "${#files[@]}" -lt $((most_files - slack_files)) ]; then
        echo "size: lower test/unit/size.limits to what the component has"
        return 1
    fi
}

# expect STATUS LINES FILES: for a folder of 200 lines in 10 files
expect() {
    printf 'lines %d\nfiles %d\n' "$2" "$3" >"$dir/limits"
    check "$dir/component" "$dir/limits" >/dev/null
    [ $? = "$1" ] || {
        echo "size: does not find $1 for limits of $2 lines and $3 files"
        exit 1
    }
}

if [ $# = 2 ]; then
    check "$1" "$2"
    exit
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/component/folder"
for i in 1 2 3 4 5 6 7 8 9; do
    seq 20 >"$dir/component/file$i.c"
done
seq 20 >"$dir/component/folder/kernels.cu"
seq 1000 >"$dir/component/folder/text.txt" # does not count
expect 0 200 10
expect 0 350 13
expect 1 199 10
expect 1 200 9
expect 1 351 10
expect 1 200 14
check "$GPUHIER_SRC/ompi/mca/coll/gpuhier" "$GPUHIER_SRC/test/unit/size.limits"
