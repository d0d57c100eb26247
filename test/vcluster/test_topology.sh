#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# --topology: the description gives the numbers of GPUs, ranks and rails, and
# reaches every node with its hwloc topology. With a damaged or contradictory
# description, run ends with a message before it starts anything.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

folder=$(mktemp -d)
trap 'rm -rf "$folder" "$errors"' EXIT
good="$folder/two gpus"
cat >"$good" <<'EOF'
gpu 0 pci 0000:11:00.0 numa 0
gpu 1 pci 0000:91:00.0 numa 1
nvlink 0 1 count 2
nic rail0 pci 0000:12:00.0 numa 0
nic rail1 pci 0000:92:00.0 numa 1
EOF

look='echo $VCLUSTER_NODE $OMPI_COMM_WORLD_LOCAL_RANK $CUDASIM_GPUS $VCLUSTER_RAILS $(ls /sys/class/net | grep -c rail)
      [ "$CUDASIM_TOPOLOGY" = "$0" ] && grep -q 0000:91:00.0 $HWLOC_XMLFILE || echo not described'
expect 'ranks, GPUs and rails' $'0 0 2 2 2\n0 1 2 2 2\n1 0 2 2 2\n1 1 2 2 2' \
    "$("$here/run" --stock --timeout 200 --topology "$good" -- sh -c "$look" "$good" 2>"$errors" | sort)"

# refused REGEX FILE OPTION...
refused() {
    local regex=$1 file=$2

    shift 2
    "$here/run" --stock --topology "$file" "$@" -- true >"$folder/said" 2>&1
    expect "status for $file $*" 2 $?
    expect_match "message for $file $*" "^vcluster: $regex" "$(tr -d "\0" <"$folder/said")"
}

refused '--gpus 3, but .* describes 2' "$good" --gpus 3
refused '.*two gpus has a nic rail1, but' "$good" --rails 1
refused '--topology describes emulated GPUs' "$good" --real
sed 's/^gpu 1.*/gpu 1 pci here/' "$good" >"$folder/place"
refused "--topology: $folder/place:2: " "$folder/place"
head -n 1 "$good" | head -c 4 >"$folder/cut"
refused "--topology: $folder/cut:1: " "$folder/cut"
head -c 400 /dev/urandom >"$folder/noise"
refused '--topology: ' "$folder/noise"
: >"$folder/empty"
refused "--topology: '.*/empty' is empty" "$folder/empty"
finish
