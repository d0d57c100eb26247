#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Damaged description files: each ends cuInit and nvmlInit with an error and one message that names the file,
# the line and what is expected.
set -u
export LD_LIBRARY_PATH=$PWD/lib
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

# expect NAME LINE WORD: the file $dir/NAME is refused with a message "...NAME:LINE: ...WORD..."
expect()
{
    local file=$dir/$1 text lines
    text=$(CUDASIM_TOPOLOGY=$file ./limits_test init-fails 2>&1)
    if [ $? -ne 0 ]; then
        echo "$1: cuInit accepted it: $text"
        failures=$((failures + 1))
    fi
    lines=$(grep -c . <<<"$text")
    if [ "$lines" -ne 1 ] || ! grep -q "$1:$2: .*$3" <<<"$text"; then
        echo "$1: wrong message: $text"
        failures=$((failures + 1))
    fi
    if ./cudasim_topo "$file" >/dev/null 2>&1; then
        echo "$1: cudasim_topo accepted it"
        failures=$((failures + 1))
    fi
}

printf 'gpu 0\ngpu 2\n' >"$dir/gap"
expect gap 2 'gpu 1 is expected'
printf '# only a comment\n' >"$dir/empty"
expect empty 1 'gpu 0'
printf 'gpu 0 pci 0000:zz:00.0\n' >"$dir/pci"
expect pci 1 'PCI address'
printf 'gpu 0 memory 12X\n' >"$dir/memory"
expect memory 1 'memory size'
printf 'gpu 0\n\ncpu 1\n' >"$dir/keyword"
expect keyword 3 'gpu, nvlink, nopeer or nic'
printf 'gpu 0\ngpu 1\nnvlink 0 2\n' >"$dir/link"
expect link 3 'a GPU listed above'
printf 'gpu 0\ngpu 1\nnvlink 1 1\n' >"$dir/self"
expect self 3 'two different GPUs'
printf 'gpu 0\ngpu 1\nnvlink 0 1 count 19\n' >"$dir/many"
expect many 3 'number of links'
printf 'gpu 0\ngpu 1\nnvlink 0 1 count 2\nnvlink 1 0 count 3\n' >"$dir/contrary"
expect contrary 4 '3 links .* contradict the 2 above'
printf 'gpu 0 pci 0000:17:00.0\ngpu 1 pci 0000:17:00.0\n' >"$dir/address"
expect address 2 '0000:17:00.0 contradicts a line above: gpu 0'
printf 'switch a numa 1\ngpu 0 numa 0 on a\n' >"$dir/moved"
expect moved 2 'contradicts its switch a'
printf 'gpu 0 on b\n' >"$dir/nowhere"
expect nowhere 1 'not a switch listed above'
printf 'gpu 0\nnic a\nnic a\n' >"$dir/twice"
expect twice 3 'listed twice'
printf 'gpu 0\nnic a kind wet\n' >"$dir/kind"
expect kind 2 'kind of NIC'
printf 'gpu 0\nnic a<b\n' >"$dir/name"
expect name 2 'interface name'
printf 'gpu 0\nnic a\001b\n' >"$dir/control"
expect control 2 'character 6 '
printf 'gpu 0\nnodes 0\n' >"$dir/nodes"
expect nodes 2 'nodes 0'
printf 'gpu 0\nnvswitch 18 multi\n' >"$dir/multi"
expect multi 2 'nvswitch LINKS \[fabric\] \[multicast\]'
printf 'gpu 0\nnvswitch 0 multicast\n' >"$dir/unlinked"
expect unlinked 2 '0 links contradict multicast'
printf 'gpu 0\nnvswitch 12 multicast\nnvlink-generation 3\n' >"$dir/older"
expect older 3 'nvlink-generation 3 contradicts multicast'
printf 'gpu 0\ngpu 1\nslow 0 1 0\n' >"$dir/slow"
expect slow 3 'above 0'
printf 'gpu 0 numa\n' >"$dir/value"
expect value 1 'its value is expected'
head -c 4000 /dev/zero | tr '\0' 'x' >"$dir/long"
expect long 1 'at most'
head -c 600 /dev/urandom | tr '\n' 'a' >"$dir/noise"
if CUDASIM_TOPOLOGY=$dir/noise ./cudasim_topo >/dev/null 2>&1; then
    echo "noise was accepted"
    failures=$((failures + 1))
fi
text=$(CUDASIM_TOPOLOGY=$dir/missing ./limits_test init-fails 2>&1) && grep -q "missing.*No such file" <<<"$text" || {
    echo "a missing file: $text"
    failures=$((failures + 1))
}
for setting in CUDASIM_GPUS=0 CUDASIM_GPUS=many CUDASIM_MEMORY=big CUDASIM_ASYNC=never CUDASIM_FAIL=cuInit \
    CUDASIM_FAIL=cuInit:0:1 CUDASIM_FAIL=cuInit:1:NO_SUCH_ERROR CUDASIM_TWINS=/nonexistent.so CUDASIM_SEED=x; do
    text=$(env "$setting" ./limits_test init-fails 2>&1)
    if [ $? -ne 0 ] || [ "$(grep -c "${setting%%=*}" <<<"$text")" -ne 1 ]; then
        echo "$setting: $text"
        failures=$((failures + 1))
    fi
done
# A limit on address space leaves no room for device addresses: said so. (Sanitizers need that space themselves.)
if ! ldd ./limits_test | grep -q 'lib[at]san'; then
    text=$(ulimit -v 4000000; ./limits_test init-fails 2>&1)
    if [ $? -ne 0 ] || ! grep -q 'ulimit -v' <<<"$text"; then
        echo "ulimit -v: $text"
        failures=$((failures + 1))
    fi
fi
# A good file comes back from cudasim_topo as it was meant.
printf 'gpu 0 pci 0000:17:00.0 numa 0 memory 8G\ngpu 1 pci 0000:65:00.0 numa 1\nnvlink 0 1 count 4\nnopeer 0 1\nnic eth1 pci 0000:18:00.0 numa 1\n' >"$dir/good"
./cudasim_topo "$dir/good" >"$dir/once" && ./cudasim_topo "$dir/once" >"$dir/twice" && cmp "$dir/once" "$dir/twice" &&
    grep -q '^nvlink 0 1 count 4' "$dir/once" && grep -q '^nopeer 0 1' "$dir/once" && grep -q '^nic eth1 .*numa 1' "$dir/once" || {
    echo "a good file does not come back"
    failures=$((failures + 1))
}
# So do the machines that others have.
for file in "$GPUHIER_SRC"/test/golden/machines/*.topo; do
    ./cudasim_topo "$file" >"$dir/once" && ./cudasim_topo "$dir/once" >"$dir/twice" && cmp "$dir/once" "$dir/twice" &&
        ./cudasim_topo --hwloc-xml "$file" >"$dir/xml" &&
        [ "$(./cudasim_topo --hwloc-xml "$dir/once")" = "$(cat "$dir/xml")" ] || {
        echo "$file does not come back"
        failures=$((failures + 1))
    }
done
[ $failures -eq 0 ]
