# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# How a test of this folder comes by what it runs on; sourced by bash. Each function
# ends the test with status 77 and one line that says why where that is not possible.
#
#   use_ompi5      sets ompi5, the prefix of the CUDA-aware Open MPI 5.0.7, and drops
#                  what the environment says about another Open MPI
#   use_osu_like   compiles osu_like.c with that Open MPI; sets osu_like, the program

# use_prefix SCRIPT: sets prefix, what build-SCRIPT made
use_prefix()
{
    local check=--check
    if [ "${GPUHIER_BUILD_PEERS:-0}" = 1 ]; then
        check=
    fi
    # shellcheck disable=SC2086
    prefix=$("$GPUHIER_SRC/test/peers/build-$1" $check) || exit
    prefix=${prefix##*$'\n'}
}

use_ompi5()
{
    use_prefix ompi5
    ompi5=$prefix
    unset OMPI_MCA_mca_base_component_path GPUHIER_OMPI_COMPONENT_DIR OPAL_PREFIX
}

use_osu_like()
{
    local cuda=${CUDA_HOME:-/usr/local/cuda} source=$GPUHIER_SRC/test/peers/osu_like.c
    osu_like=$PWD/osu_like
    if [ "$osu_like" -nt "$source" ] && [ "$osu_like" -nt "$ompi5/bin/mpicc" ]; then
        return
    fi
    # Tests may run at the same time: each writes its own file, the rename is one step.
    "$ompi5/bin/mpicc" -std=gnu11 -O2 -Wall -Wextra -isystem "$cuda/include" "$source" -o "$osu_like.$$" \
        -L"$cuda/lib64" -lcudart || exit 1
    mv "$osu_like.$$" "$osu_like"
}
