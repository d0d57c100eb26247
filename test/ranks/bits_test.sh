#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Several runs of one layout give the same bits, whatever the timing, and however buffers are reached; with --by-host
# also where kernels reduce all messages between nodes, or the host:
#
#   bits_test.sh [--by-host] OPTIONS-OF-VCLUSTER...
#
# Called by tests.list, in the build folder of a test folder.
set -u
digests=
variants=("-x CUDASIM_ASYNC=eager"
    "-x CUDASIM_ASYNC=thread -x CUDASIM_SEED=41 --mca coll_gpuhier_ipc scratch"
    "-x CUDASIM_ASYNC=thread -x CUDASIM_SEED=42 -x CUDASIM_MAX_DELAY_US=2000 --mca coll_gpuhier_ipc user")
if [ "$1" = --by-host ]; then
    shift
    variants=("--mca coll_gpuhier_tune host_shard_bytes=0" "--mca coll_gpuhier_tune host_shard_bytes=1048576"
        "-x CUDASIM_ASYNC=thread -x CUDASIM_SEED=43")
fi
for variant in "${variants[@]}"; do
    # shellcheck disable=SC2086
    output=$("$GPUHIER_SRC/test/vcluster/run" "$@" $variant --mca coll_gpuhier_slice_bytes 262144 -- ../ranks/allreduce_bits 2>&1) || {
        printf '%s\n' "$output"
        exit 1
    }
    digest=$(sed -n 's/^allreduce_bits: digest //p' <<<"$output")
    echo "digest $digest with $variant"
    digests+="$digest"$'\n'
done
[ "$(sort -u <<<"${digests%$'\n'}" | wc -l)" = 1 ] && [ -n "$digest" ] || {
    echo "runs of one layout have different bits"
    exit 1
}
