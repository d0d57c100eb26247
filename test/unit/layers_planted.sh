#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# layers.py must find an upward include, an upward call, a circle of headers, a circle of calls and a function without
# a caller that are planted in a copy of the component; and a listed function that has a caller. Started in any folder; needs GPUHIER_SRC and GPUHIER_BUILD.
set -u
component=ompi/mca/coll/gpuhier
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
source=$scratch/source objects=$scratch/objects

# A fresh copy of the sources, and of the objects by links.
copy()
{
    rm -rf "$source" "$objects"
    cp -r "$GPUHIER_SRC/$component" "$source" && cp -rs "$GPUHIER_BUILD/$component" "$objects" || exit 1
}

# compile UNIT CODE: puts an object with the code in place of, or beside, the component's own.
compile()
{
    mkdir -p "$objects/$(dirname "$1")/.libs"
    touch "$source/$1.c"
    rm -f "$objects/$(dirname "$1")/.libs/$(basename "$1").o"
    echo "$2" | ${CC:-cc} -x c -c -o "$objects/$(dirname "$1")/.libs/$(basename "$1").o" - || exit 1
}

# expect TEXT: layers.py must fail, and say so.
expect()
{
    local output
    if output=$("$GPUHIER_SRC/test/unit/layers.py" "$source" "$objects"); then
        echo "not found: $1" >&2
        exit 1
    fi
    if ! grep -qF -- "$1" <<<"$output"; then
        printf '%s\nfound something, but did not say: %s\n' "$output" "$1" >&2
        exit 1
    fi
}

copy
echo '#include "team/coll_gpuhier_team.h"' >> "$source/net/coll_gpuhier_net.h"
expect "upward: net/coll_gpuhier_net.h includes team/coll_gpuhier_team.h"

copy
compile base/coll_gpuhier_planted 'void gpuhier_queue_run(void); void planted(void) { gpuhier_queue_run(); }'
expect "upward: base/coll_gpuhier_planted.c uses gpuhier_queue_run of engine/coll_gpuhier_queue.c"

copy
echo '#include "plan/coll_gpuhier_schedule.h"' >> "$source/plan/coll_gpuhier_hierarchy.h"
expect "circle of 2: plan/coll_gpuhier_hierarchy.h plan/coll_gpuhier_schedule.h"

copy
compile base/coll_gpuhier_one 'void two(void); void one(void) { two(); }'
compile base/coll_gpuhier_two 'void one(void); void two(void) { one(); }'
expect "circle of 2: base/coll_gpuhier_one.c base/coll_gpuhier_two.c"

copy
compile base/coll_gpuhier_planted 'int planted; void dead(void) { planted = 1; }'
expect "alone: base/coll_gpuhier_planted.c defines dead, which no other file uses"

copy
compile base/coll_gpuhier_planted 'int gpuhier_nics_address_counts(void); int planted(void) { return gpuhier_nics_address_counts(); }'
expect "listed: gpuhier_nics_address_counts is not defined, or other files use it"
