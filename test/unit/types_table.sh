#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The table of docs/types.md is what the component and Open MPI say today; --update writes it, with Open MPI 4.1.
# GPUHIER_SRC and GPUHIER_BUILD are set. Called by tests.list, in the build folder of test/unit.
set -u
. "$GPUHIER_SRC/test/env.sh"
gpuhier_env_mpi
doc=$GPUHIER_SRC/docs/types.md
# Without mpirun; shared memory is kept out since a singleton may leave its file behind.
table=$(OMPI_MCA_btl=self "$GPUHIER_BUILD/test/unit/types_table") || exit 1
if [ "${1:-}" = --update ]; then
    text=$(sed '/^| type |/,$d' "$doc")
    printf '%s\n\n%s\n' "$text" "$table" >"$doc"
    exit
fi
# The page is about the Open MPI of Debian 12; another one may have fewer types, but says the same about those.
if ! ompi_info --version 2>/dev/null | grep -q 'v4\.1\.'; then
    differing=$(grep -vxFf "$doc" <<<"$table")
    [ -z "$differing" ] && echo "docs/types.md holds for the $(wc -l <<<"$table") rows of this Open MPI" && exit
    printf 'not in docs/types.md:\n%s\n' "$differing"
    exit 1
fi
diff <(sed -n '/^| type |/,$p' "$doc") - <<<"$table" && echo "docs/types.md is up to date"
