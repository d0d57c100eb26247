#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The man page of the parameters is what contrib/man-page makes of the component's tables, and is a page without
# warnings. `ompi_info` shows a user only what is for every user, and gpuhier's own version.
set -u
. "$GPUHIER_SRC/test/env.sh"
if ! ompi_info --version 2>/dev/null | grep -q 'v4\.1\.'; then
    echo "the page is made with Open MPI 4.1"
    exit 77
fi
if [ -n "${ASAN_OPTIONS:-}" ]; then
    echo "ompi_info cannot load a component with AddressSanitizer"
    exit 77
fi
gpuhier_env_component || exit 1
unset "${!OMPI_MCA_coll_gpuhier_@}"
export OMPI_MCA_mca_base_param_files=/nonexistent
page=$GPUHIER_SRC/ompi/tools/gpuhier_info/gpuhier.7
"$GPUHIER_SRC/contrib/man-page" | diff "$page" - || { echo "man_page: make it anew: contrib/man-page > $page"; exit 1; }
if command -v man >/dev/null; then
    for one in "$page" "${page%/*}/gpuhier_info.1"; do
        warnings=$(LC_ALL=C.UTF-8 man --warnings -l "$one" 2>&1 >/dev/null)
        [ -z "$warnings" ] || { echo "$warnings"; exit 1; }
    done
fi
shown=$(ompi_info --param coll gpuhier | grep -oE '"coll_gpuhier_[a-z_]*"' | tr -d '\n')
[ "$shown" = '"coll_gpuhier_enable""coll_gpuhier_print_info""coll_gpuhier_report""coll_gpuhier_trace""coll_gpuhier_reproducible""coll_gpuhier_sync_before"' ] ||
    { echo "man_page: ompi_info shows a user $shown"; exit 1; }
version=$(sed -n 's/^AC_INIT(\[gpuhier\], \[\(.*\)\])/\1/p' "$GPUHIER_SRC/configure.ac")
ompi_info | grep -q "MCA coll: gpuhier (.*Component v$version)" || { echo "man_page: the component's version is not $version"; exit 1; }
