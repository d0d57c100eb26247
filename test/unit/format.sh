#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The component, its tools and the tests are laid out as .clang-format says; and the check sees a line that is not.
set -u
command -v clang-format >/dev/null || { echo "needs clang-format"; exit 77; }
cd "$GPUHIER_SRC" || exit 1

# check FILE...: names the lines that the formatter would lay out in another way.
check()
{
    clang-format --style=file:"$GPUHIER_SRC/.clang-format" --dry-run -Werror "$@"
}

mapfile -t files < <(find ompi test -name '*.[ch]' -o -name '*.cc')
[ ${#files[@]} -gt 200 ] || { echo "found ${#files[@]} files only"; exit 1; }
check "${files[@]}" || { echo "run clang-format -i on these files"; exit 1; }

planted=$(mktemp --suffix .c) || exit 1
trap 'rm -f "$planted"' EXIT
echo 'int  f(void) { return 0; }' >"$planted"
! check "$planted" 2>/dev/null || { echo "a planted line was not found"; exit 1; }

# What the formatter cannot break: long strings and comments.
! awk 'length > 120 { print FILENAME ":" FNR ": longer than 120 columns"; found = 1 } END { exit !found }' "${files[@]}"
