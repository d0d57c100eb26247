#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# gpuhier_info: what it says of calls, checked against the formulas by hand, and
# how it takes bad arguments.
set -u
info=$GPUHIER_BUILD/ompi/tools/gpuhier_info/gpuhier_info
failures=0
# UCX's plug-ins leak, and are gone when leaks are told: only a longer stack shows a library that lsan.supp names.
[ -z "${ASAN_OPTIONS:-}" ] || export ASAN_OPTIONS=$ASAN_OPTIONS:malloc_context_size=30:fast_unwind_on_malloc=0

# says STATUS PATTERN argument...: the status must be so, and a line of stdout or stderr match.
says() {
    local status=$1 pattern=$2 output rc
    shift 2

    output=$("$info" "$@" 2>&1)
    rc=$?
    if [ $rc -ne "$status" ] || ! grep -qE "$pattern" <<<"$output"; then
        echo "gpuhier_info $*: status $rc, expected $status and a line that matches: $pattern"
        echo "$output"
        failures=$((failures + 1))
    fi
}

# Without the caller's own settings.
unset "${!OMPI_MCA_coll_gpuhier_@}"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export OMPI_MCA_mca_base_param_files=$folder/none

# 2 nodes of 4: a rank sends its quarter once; 2 P B bytes of GPU memory for 4 ranks are 2 B for each.
call=(plan --nodes 2 --ranks 4 -n 8M)
says 0 '^MPI_Allreduce: 8388608 elements of 8 bytes, 64.0 MiB, on 8 ranks$' "${call[@]}"
says 0 '^MPI_Allreduce: 8388608 elements of 4 bytes, 32.0 MiB, on 8 ranks$' "${call[@]}" -t MPI_FLOAT
says 0 '^MPI_Allreduce: 8388608 elements of 2 bytes, 16.0 MiB, on 8 ranks$' "${call[@]}" --type=int16_t
says 0 '^MPI_Allreduce: 8388608 elements of 24 bytes, 192.0 MiB, on 8 ranks$' "${call[@]}" -t 24
says 0 '^  group 1: ranks 4 to 7$' "${call[@]}"
says 0 '^  piece 2: 1/2 to 3/4, ranks 2 6$' "${call[@]}"
says 0 '^slices: 8 of at most 8.0 MiB, 8 in flight$' "${call[@]}"
says 0 '^slices: 16 of at most 4.0 MiB, 4 in flight$' "${call[@]}" --wire tcp
says 0 '^slices: 16 of at most 4.0 MiB, 4 in flight$' "${call[@]}" --mca coll_gpuhier_slice_bytes 4M
says 0 '^slices: 11 of at most 5.8 MiB, 8 in flight$' "${call[@]}" --mca coll_gpuhier_slice_bytes 4M \
    --mca coll_gpuhier_slice_bytes_max 6M
says 0 'of at most 8.0 KiB, ' "${call[@]}" --mca coll_gpuhier_slice_bytes 100
says 0 '^  step 2: RS\(2\) X\(1\) AG\(0\)$' "${call[@]}"
says 0 '^  network: 128.0 MiB in all, at most 16.0 MiB sent by one rank$' "${call[@]}"
says 0 '^  GPU memory: at most 128.0 MiB ' "${call[@]}"
# 16 MiB at 100 Gbit/s and 128 MiB at 2000 Gbyte/s.
says 0 '^  wire: at least 1342.2 us' "${call[@]}" --rail-gbit 100
says 0 '^  memory: at least 67.1 us' "${call[@]}" --memory-gbyte 2000
# A ring of 4 nodes: 2 * 3/4 of each rank's quarter.
ring=(plan --nodes 4 --ranks 4 -n 8M --mca coll_gpuhier_algorithm ring)
says 0 'at most 24.0 MiB sent by one rank$' "${ring[@]}"
says 0 '^exchange of a piece: ring, 6 steps$' "${ring[@]}"
# The other collectives: by MPI's name or short, in any case. -n are the elements of a block where there are blocks. Of B
# bytes on 2 nodes of 4, a Bcast sends B to the other node and a Reduce as many back, a quarter by each rank; of blocks
# that are B together, each node sends the half that it has, or that the other one takes; a rank of an Alltoall sends
# what its node's ranks have for the four ranks of its rail.
other=(plan --nodes 2 --ranks 4 -n 1M)
for name in bcast MPI_Bcast reduce mpi_reduce; do
    says 0 '^MPI_(Bcast|Reduce): 1048576 elements of 8 bytes, 8.0 MiB, on 8 ranks$' "${other[@]}" --collective $name
    says 0 '^  network: 8.0 MiB in all, at most 2.0 MiB sent by one rank$' "${other[@]}" --collective $name
done
for name in allgather allgatherv reduce_scatter reduce_scatter_block; do
    says 0 '^MPI_[A-Za-z_]*: blocks of 1048576 elements of 8 bytes, 64.0 MiB in all, on 8 ranks$' "${other[@]}" --collective $name
    says 0 '^  network: 64.0 MiB in all, at most 8.0 MiB sent by one rank$' "${other[@]}" --collective $name
    says 0 '^exchange of a piece: halving, 1 step$' "${other[@]}" --collective $name
    says 0 '^  network: 192.0 MiB in all, at most 24.0 MiB sent by one rank$' plan --nodes 4 --ranks 2 -n 1M --collective $name
done
for name in alltoall alltoallv; do
    says 0 '^  network: 256.0 MiB in all, at most 32.0 MiB sent by one rank$' "${other[@]}" --collective $name
    says 0 '^  network: 384.0 MiB in all, at most 48.0 MiB sent by one rank$' plan --nodes 4 --ranks 2 -n 1M --collective $name
    says 0 '^exchange of a piece: pairwise, 3 steps$' plan --nodes 4 --ranks 2 -n 1M --collective $name
done
[ "$("$info" "${other[@]}" --collective allgather | grep -c 'GPU memory')" = 0 ] || { echo "plan: the memory of an Allgather"; failures=$((failures + 1)); }
# What they get and why: one-shot kernels push a message for each rank.
says 0 '^by size, where NVLink' plan --ranks 8 -n 1 --collective bcast
says 0 '^by size of all blocks, where NVLink' plan --ranks 8 -n 1 --collective alltoall
says 0 '^  from 8 bytes: one kernel that waits for those of the peers \(blocking, up to 32 KiB\)$' plan --ranks 8 -n 1 --collective bcast
says 0 '^  from 8 bytes: one kernel that waits for those of the peers \(blocking, up to 256 KiB\)$' plan --ranks 8 -n 1 --collective alltoall
says 0 '^  nonblocking, from 8 bytes: moved by the host \(small_bytes: up to 1 KiB\)$' plan --ranks 8 -n 1 --collective alltoall
says 0 '^  nonblocking, from 8 bytes: moved by the host \(small_bytes: up to 8 KiB\)$' plan --ranks 8 -n 1 --collective allgatherv
says 0 '^  from 262152 bytes: one kernel, or through scratch 1 slice \(too long for the others\)$' plan --ranks 8 -n 1 --collective allgatherv
says 0 '^  from 8 bytes: one kernel that waits for those of the peers \(blocking, up to 256 KiB\)$' plan --ranks 8 -n 1 --collective alltoallv
says 2 "^gpuhier_info: --collective: 'MPI_Scan' is not understood; " plan --ranks 8 -n 1 --collective MPI_Scan
says 2 "^gpuhier_info: such a call cannot be: .* 128 bytes of each rank's block" plan --nodes 4096 --ranks 16 -n 1 --collective allgather

# What other sizes would get.
says 0 '^  from 8 MiB: recursive_doubling in 1 step, 2 slices$' "${call[@]}"
says 0 '^  from 32 MiB: halving in 4 steps, 8 slices$' plan --nodes 4 --ranks 4 -n 128
says 0 '^  from 8200 bytes: recursive_doubling in 2 steps by the host, 1 slice \(too long for the others\)$' plan --nodes 4 --ranks 4 -n 128
says 0 '^  from 128 KiB: recursive_doubling in 2 steps, 1 slice$' plan --nodes 4 --ranks 4 -n 128
says 0 '^  from 512 KiB: halving in 4 steps, 1 slice$' plan --nodes 4 --ranks 4 -n 128 --wire tcp
says 0 '^  from 8 bytes: reduced by the host \(small_bytes: up to 8 KiB\)$' "${call[@]}"
says 0 '^  from 8200 bytes: recursive_doubling in 1 step, 1 slice \(too long for the others\)$' "${call[@]}"
# Uneven nodes: the common refinement of sevenths and eighths. Without --nodes, --ranks names them.
says 0 '^pieces of a slice: 14, ' plan --nodes 2 --ranks 7,8 -n 128K
says 0 '^pieces of a slice: 14, ' plan --ranks 7,8 -n 128K
says 0 'nothing goes over the network$' plan --ranks 8 -n 128K
says 0 '^slices: 0 ' plan --nodes 2 --ranks 2 -n 0
says 0 '^  network: 0 bytes in all' plan --nodes 2 --ranks 2 -n 0
# Many nodes: recursive doubling over 4096 would be 12 steps, halving is 24.
says 0 'on 32768 ranks$' plan --nodes 4096 --ranks 8 -n 128M
says 0 '^exchange of a piece: halving, 24 steps$' plan --nodes 4096 --ranks 8 -n 128M

# The settings of a job, the strongest first: --mca, the environment, the user's file, the site's file.
no_host='^  from 8 bytes: recursive_doubling in 1 step, 1 slice$'
says 0 "$no_host" "${call[@]}" --mca coll_gpuhier_small_bytes 0
OMPI_MCA_coll_gpuhier_small_bytes=0 says 0 "$no_host" "${call[@]}"
OMPI_MCA_coll_gpuhier_small_bytes=0 says 0 '^  from 8 bytes: reduced by the host \(small_bytes: up to 4 KiB\)$' "${call[@]}" \
    --mca coll_gpuhier_small_bytes 4096
printf '# a comment\n coll_gpuhier_small_bytes = 0\n' >"$folder/site"
printf 'coll_gpuhier_small_bytes=4096\n' >"$folder/user"
OMPI_MCA_mca_base_param_files=$folder/site says 0 "$no_host" "${call[@]}"
OMPI_MCA_mca_base_param_files=$folder/user:$folder/site says 0 '^  from 8 bytes: reduced by the host \(small_bytes: up to 4 KiB\)$' "${call[@]}"
mkdir -p "$folder/home/.openmpi" && cp "$folder/site" "$folder/home/.openmpi/mca-params.conf"
(unset OMPI_MCA_mca_base_param_files; HOME=$folder/home says 0 "$no_host" "${call[@]}"; exit $failures) || failures=$((failures + 1))
OMPI_MCA_coll_gpuhier_tune=ipc_uses=1,slices_in_flight=1 says 0 ', 4 in flight$' "${call[@]}"
# On one node: what blocking calls of each length get, and why; then nonblocking ones, for which no kernel waits.
node=(plan --nodes 1 --ranks 8 -n 1024)
says 0 '^  from 8 bytes: one kernel that waits for those of the peers \(blocking, up to 256 KiB\)$' "${node[@]}"
says 0 '^  from 64 KiB: one kernel that waits for those of the peers \(blocking, in two shots, up to 256 KiB\)$' "${node[@]}"
says 0 '^  from 262152 bytes: one kernel, or through scratch 1 slice \(too long for the others\)$' "${node[@]}"
says 0 '^  nonblocking, from 8 bytes: reduced by the host \(small_bytes: up to 8 KiB\)$' "${node[@]}"
says 0 '^  nonblocking, from 8200 bytes: one kernel, or through scratch 1 slice ' "${node[@]}"
OMPI_MCA_coll_gpuhier_tune=oneshot_bytes=1024 says 0 '^  from 1032 bytes: reduced by the host \(small_bytes: up to 8 KiB\)$' "${node[@]}"
OMPI_MCA_coll_gpuhier_tune=oneshot_bytes=0 says 0 '^  from 8 bytes: reduced by the host ' "${node[@]}"

# predict takes the forms that plan names: a message that is 8 bytes longer is in the other form, and no faster. Without
# one-shot kernels no short call is faster.
predicted() { # BYTES [OPTION...]: path and microseconds
    local bytes=$1
    shift
    "$info" predict --link nvlink4 --ranks 8 --json -n $((bytes / 8)) "$@" |
        python3 -c 'import json, sys; row = json.load(sys.stdin)["rows"][0]; print(row["path"].replace(" ", "_"), row["us"])'
}
for bound in '262144 two-shot_kernel one_kernel' '1024 one-shot_kernel on_the_host -- coll_gpuhier_tune oneshot_bytes=1024'; do
    read -r bytes at beyond option <<<"$bound"
    # shellcheck disable=SC2086 # a name and a value
    read -r path us <<<"$(predicted "$bytes" ${option:+--mca ${option#-- }})"
    # shellcheck disable=SC2086
    read -r longer more <<<"$(predicted $((bytes + 8)) ${option:+--mca ${option#-- }})"
    if [ "$path $longer" != "$at $beyond" ] || ! awk "BEGIN { exit !($us + 0 > 0 && $us <= $more) }"; then
        echo "predict: $bytes bytes $path $us us, 8 bytes more $longer $more us"
        failures=$((failures + 1))
    fi
done
# The same of the other collectives, at the lengths that plan names for them.
for bound in 'bcast 32768 one-shot_kernel one_kernel' 'reduce 32768 one-shot_kernel one_kernel' \
    'allgather 262144 one-shot_kernel one_kernel' 'reduce_scatter_block 262144 one-shot_kernel one_kernel' \
    'reduce_scatter 262144 one-shot_kernel one_kernel' 'allgatherv 262144 one-shot_kernel one_kernel' \
    'alltoall 262144 one-shot_kernel one_kernel'; do
    read -r name bytes at beyond <<<"$bound"
    blocks=8
    [ "$name" != bcast ] && [ "$name" != reduce ] || blocks=1
    read -r path us <<<"$(predicted $((bytes / blocks)) --collective "$name")"
    read -r longer more <<<"$(predicted $((bytes / blocks + 8)) --collective "$name")"
    if [ "$path $longer" != "$at $beyond" ]; then
        echo "predict $name: $bytes bytes $path $us us, 8 bytes more of a block $longer $more us"
        failures=$((failures + 1))
    fi
done
# The modelled times of docs/model.md for 64 MiB on 8 x H100, within an eighth.
for modelled in 'bcast 8M 196' 'reduce 8M 206' 'allgather 1M 168' 'reduce_scatter 1M 166' 'alltoall 1M 171' 'alltoallv 1M 172'; do
    read -r name count us <<<"$modelled"
    "$info" predict --link nvlink4 --ranks 8 --json -n "$count" --collective "$name" | python3 -c '
import json, sys
row, us = json.load(sys.stdin)["rows"][0], float(sys.argv[1])
factor = 1 if sys.argv[2] in ("bcast", "reduce") else 7 / 8
sys.exit(0 if abs(row["bytes"] / (64 << 20) - 1) < 1e-4 and abs(row["us"] / us - 1) < 0.125
         and abs(row["busbw_gbyte"] / (factor * row["bytes"] / row["us"] / 1e3) - 1) < 1e-3
         and (row["flat_ring_us"] is None) == sys.argv[2].startswith("alltoall") else 1)' "$us" "$name" ||
        { echo "predict $name: not the modelled $us us, or another bus bandwidth"; failures=$((failures + 1)); }
done
# Between nodes the busiest rank counts: with a root at rank 0, a Reduce takes what a Bcast takes but for its reductions.
for name in bcast reduce; do
    "$info" predict --link nvlink4 --ranks 8 --nodes 2 --rail ndr --json -n 32M --collective $name
done | python3 -c '
import json, sys
text = sys.stdin.read()
first, end = json.JSONDecoder().raw_decode(text)
second, end = json.JSONDecoder().raw_decode(text[end:].lstrip())
one, other = first["rows"][0]["us"], second["rows"][0]["us"]
sys.exit(0 if abs(one / other - 1) < 0.01 else 1)' || { echo "predict: Bcast and Reduce differ"; failures=$((failures + 1)); }
for bytes in 8 8192 65536 262144; do
    read -r path us <<<"$(predicted $bytes)"
    read -r other more <<<"$(predicted $bytes --mca coll_gpuhier_tune oneshot_bytes=0)"
    if [[ $path != *-shot_kernel || $other == *-shot_kernel ]] || ! awk "BEGIN { exit !($us + 0 > 0 && $us < $more) }"; then
        echo "predict: $bytes bytes $path $us us, without one-shot kernels $other $more us"
        failures=$((failures + 1))
    fi
done
says 2 "^gpuhier_info: coll_gpuhier_small_bytes is 'much' \(--mca\); a number of bytes is expected$" "${call[@]}" \
    --mca coll_gpuhier_small_bytes much
OMPI_MCA_coll_gpuhier_algorithm=best says 2 \
    "^gpuhier_info: coll_gpuhier_algorithm is 'best' \(the environment\); one of .* ring " "${call[@]}"

# Settings that no job would take as they are meant: one line, also from verbs that do not use them.
for verb in 'topo' 'doctor' 'plan --ranks 4 -n 1' 'predict --link nvlink4 --ranks 4'; do
    # shellcheck disable=SC2086 # a verb and its options
    set -- $verb
    says 2 "^gpuhier_info: coll_gpuhier_ipc is 'foo' \(--mca\); one of auto scratch user is expected$" "$@" --mca coll_gpuhier_ipc foo
    says 2 "^gpuhier_info: coll_gpuhier_tune is 'ipc_uses=1,oneshot_bytes=abc' .*; not 'oneshot_bytes=abc', but KEY=NUMBER, .* oneshot_bytes .* is expected$" \
        "$@" --mca coll_gpuhier_tune ipc_uses=1,oneshot_bytes=abc
    says 2 "^gpuhier_info: coll_gpuhier_tune is 'oneshot_byte=1' " "$@" --mca coll_gpuhier_tune oneshot_byte=1
    says 2 '^gpuhier_info: there is no parameter coll_gpuhier_ipcs \(--mca\); man 7 gpuhier lists them$' "$@" --mca coll_gpuhier_ipcs auto
    OMPI_MCA_coll_gpuhier_smallbytes=1 says 2 '^gpuhier_info: there is no parameter coll_gpuhier_smallbytes \(the environment\)' "$@"
    OMPI_MCA_coll_gpuhier_timeout=soon says 2 "^gpuhier_info: coll_gpuhier_timeout is 'soon' \(the environment\); a number is expected$" "$@"
    says 2 "^gpuhier_info: coll_gpuhier_enable is 'maybe' \(--mca\); true or false is expected$" "$@" --mca coll_gpuhier_enable maybe
    says 2 "^gpuhier_info: coll_gpuhier_probe is '1x' \(--mca\); a whole number is expected$" "$@" --mca coll_gpuhier_probe 1x
done
printf 'coll_gpuhier_reprot = 1\n' >"$folder/site"
OMPI_MCA_mca_base_param_files=$folder/site says 2 "^gpuhier_info: there is no parameter coll_gpuhier_reprot \($folder/site\)" "${call[@]}"
# What is right stays so: all parameters by their names, values as Open MPI takes them, and those of other components.
names=$(sed -nE 's/^    X\(([a-z_]+), (INT|BOOL|SIZE_T|DOUBLE|STRING), [^,]+, (EQUAL|GIVEN|OWN), .*/\1/p' "$GPUHIER_SRC/ompi/mca/coll/gpuhier/base/coll_gpuhier_params.h")
[ "$(wc -w <<<"$names")" -gt 15 ] || { echo "the list of parameters is not read: $names"; failures=$((failures + 1)); }
for name in $names; do
    [ "$name" = tune ] || says 0 '^MPI_Allreduce: 8388608 elements' "${call[@]}" --mca "coll_gpuhier_$name" 1
done
says 0 '^MPI_Allreduce: 8388608 elements' "${call[@]}" --mca coll_gpuhier_report enabled --mca coll_gpuhier_ipc user --mca coll_gpuhier_timeout 2.5 \
    --mca coll_gpuhier_stage_bytes 64M --mca coll_tuned_priority 3 --mca coll_gpuhier_tune 'ipc_idle=0.5, gdr_bytes=0'
# A call that gpuhier would not run is not planned.
for off in enable probe; do
    says 2 "^gpuhier_info: gpuhier is switched off, so it runs no such call: coll_gpuhier_$off is " "${call[@]}" --mca coll_gpuhier_$off 0
done
OMPI_MCA_coll_gpuhier_priority=-1 says 2 'coll_gpuhier_priority is below 0$' "${call[@]}"
OMPI_MCA_coll_gpuhier_enable=no says 2 'coll_gpuhier_enable is false$' predict --link nvlink4 --ranks 4
for verb in topo doctor measure; do
    says 2 '^gpuhier_info: --root /nonexistent is no folder$' $verb --root /nonexistent
done

# With --json an error is JSON, and nothing else is printed.
fails_in_json() {
    local text=$1 rc
    shift
    "$info" "$@" >"$folder/out" 2>"$folder/err"
    rc=$?
    if [ $rc -ne 2 ] || [ -s "$folder/err" ] ||
        ! python3 -c 'import json, sys; sys.exit(sys.argv[1] not in json.load(sys.stdin)["error"])' "$text" <"$folder/out"; then
        echo "gpuhier_info $*: status $rc, and no error in JSON alone that has: $text"
        cat "$folder/out" "$folder/err"
        failures=$((failures + 1))
    fi
}
fails_in_json "coll_gpuhier_ipc is 'foo'" topo --json --mca coll_gpuhier_ipc foo
fails_in_json "is no folder" doctor --root /nonexistent --json
fails_in_json "has no option --frob" plan --frob --json
fails_in_json "there is no verb 'frob'" frob --json
fails_in_json "switched off" "${call[@]}" --json --mca coll_gpuhier_enable 0
OMPI_COMM_WORLD_RANK=0 fails_in_json "coll_gpuhier_ipc is 'foo'" job --json --mca coll_gpuhier_ipc foo
# Of a job's ranks only one speaks.
[ -z "$(OMPI_COMM_WORLD_RANK=1 "$info" job --mca coll_gpuhier_ipc foo 2>&1)" ] || { echo "job: rank 1 speaks, too"; failures=$((failures + 1)); }

# Every verb has help, and says what it does not understand, in one line.
for verb in topo plan predict measure doctor; do
    says 0 "^usage: gpuhier_info $verb " $verb --help
    says 0 '  --json ' $verb --help
    says 0 '^gpuhier_info [0-9]+\.[0-9]+\.[0-9]+' $verb --version
    says 2 "^gpuhier_info: $verb has no option --frob; " $verb --frob
    says 2 "^gpuhier_info: 'word' is no option; " $verb word
    says 2 '^gpuhier_info: --mca wants a value; ' $verb --mca
    says 2 "^gpuhier_info: --mca: 'coll_gpuhier_probe' is not understood; " $verb --mca coll_gpuhier_probe
    [ "$("$info" $verb --frob 2>&1 | wc -l)" = 1 ] || { echo "$verb --frob: not one line"; failures=$((failures + 1)); }
done
says 0 '^usage: gpuhier_info VERB' --help
says 0 '^gpuhier_info [0-9]+\.[0-9]+\.[0-9]+' --version
says 2 "^gpuhier_info: there is no verb 'frob'$" frob
says 2 '^usage: gpuhier_info VERB'
says 2 "^gpuhier_info: --ranks: '4,x' is not understood" plan --nodes 2 --ranks 4,x -n 1
says 2 '^gpuhier_info: --ranks names 2 nodes, --nodes 3: ' plan --nodes 3 --ranks 4,4 -n 1
says 2 '^gpuhier_info: plan wants -n COUNT and --ranks' plan --nodes 2
says 2 "^gpuhier_info: -n: '-1' is not understood" plan --nodes 2 --ranks 4 -n -1
says 2 "^gpuhier_info: --nodes: '0' is not understood" plan --nodes 0 --ranks 4 -n 1
says 2 "^gpuhier_info: -t: 'wet' is not understood" plan --ranks 4 -n 1 -t wet
says 2 '^gpuhier_info: -n wants a value' plan --ranks 1 -n
says 2 '^gpuhier_info: --wire wet: rdma, tcp or nvlink is expected$' plan --ranks 4,4 -n 1 --wire wet
says 2 '^gpuhier_info: .* ranks are too many' plan --nodes 1M --ranks 64 -n 1
says 2 '^gpuhier_info: such a call cannot be' plan --ranks 4,4 -n 2000000T -t double_complex
says 2 '^gpuhier_info: the list of network devices names nosuch0, which this machine does not have$' topo --devices nosuch0
OMPI_MCA_coll_gpuhier_devices=nosuch0 says 2 'names nosuch0, which' topo

# The manual page has every option, and is good troff.
page=$GPUHIER_SRC/ompi/tools/gpuhier_info/gpuhier_info.1
for verb in topo plan predict measure doctor; do
    for option in $("$info" $verb --help | grep -oE '^  (-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        grep -q -- "${option//-/\\\\-}" "$page" || { echo "gpuhier_info.1 lacks $option of $verb"; failures=$((failures + 1)); }
    done
done
if command -v groff >/dev/null; then
    [ -z "$(groff -man -ww -z "$page" 2>&1)" ] || { groff -man -ww -z "$page"; failures=$((failures + 1)); }
fi

# JSON is JSON, and agrees with the text.
json() {
    local expression=$1
    shift
    "$info" "$@" --json | python3 -c "
import json, sys
data = json.load(sys.stdin)
sys.exit(0 if ($expression) else 1)" || { echo "gpuhier_info $* --json: not so: $expression"; failures=$((failures + 1)); }
}
json 'data["slices"] == 8 and data["groups"] == [4, 4] and data["exchange"] == "recursive_doubling"' "${call[@]}"
json 'data["network_bytes_of_a_rank"] == 16 << 20' "${call[@]}"
json 'data["by_size"][0] == {"from_bytes": 8, "blocking": True, "path": "from 8 bytes: reduced by the host (small_bytes: up to 8 KiB)", "on_host": True, "exchange_on_host": False, "exchange": None, "slices": 0}' "${call[@]}"
json '"nics" in data and data["described"] is False' topo
json 'len(data["findings"]) > 2' doctor

# This machine, whatever it is; and blind: without NVIDIA's libraries, and with empty folders for /sys, /proc and /dev.
says 0 '^UCX [0-9]+\.[0-9.]+: (takes|is not given) GPU memory: [a-zA-Z]' topo
mkdir -p "$folder/blind/dev/shm"
says 0 '^network devices: not known: there is no /sys/class/net$' topo --root "$folder/blind"
says 0 '^network devices: none' topo --root "$folder/blind"
CUDASIM_DISABLE=1 says 3 '^gpuhier_info: there is nothing to measure: ' measure --root "$folder/blind"
exit $((failures > 0))
