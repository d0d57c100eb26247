#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Every test that README.md, CONTRIBUTING.md and docs/ name, as `folder/name` with or without a glob, is there.
# Called by tests.list.
set -u
cd "$GPUHIER_SRC" || exit 1
mapfile -t tests < <(bash test/check.sh --list --full)
folders=$(printf '%s\n' "${tests[@]%%/*}" | sort -u | paste -s -d '|')
mapfile -t named < <(grep -ohE "\`($folders)/[a-zA-Z0-9_*+-]+\`" README.md CONTRIBUTING.md docs/*.md | tr -d '`' |
    sort -u)
missing=0
for name in "${named[@]}"; do
    # shellcheck disable=SC2053 # it may be a glob
    for test in "${tests[@]}"; do
        [[ $test != $name ]] || continue 2
    done
    echo "named_tests: docs name $name, which is no test"
    missing=$((missing + 1))
done
echo "${#named[@]} names of ${#tests[@]} tests"
[ ${#named[@]} -gt 50 ] && [ $missing = 0 ]
