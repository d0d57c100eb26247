#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# gpuhier_info on emulated machines with planted faults: measure and doctor must name them, and topo must cope with
# descriptions that are damaged, GPUs that do not answer, and machines of which it sees a part.
set -u
. "$GPUHIER_SRC/test/env.sh"
gpuhier_env_mpi
gpuhier_env_component || exit 1
gpuhier_env_emulator
unset "${!OMPI_MCA_coll_gpuhier_@}" HWLOC_XMLFILE CUDASIM_GPUS SLURM_GPUS_PER_TASK
info=$GPUHIER_BUILD/ompi/tools/gpuhier_info/gpuhier_info
machines=$GPUHIER_SRC/test/golden/machines
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# Without the caller's own settings.
unset OMPI_MCA_coll
export OMPI_MCA_mca_base_param_files=$folder/none/file
mkdir "$folder/none"
failures=0

fail() {
    echo "test_info_machine: $*"
    failures=$((failures + 1))
}

# runs STATUS argument...: the output is in $output.
runs() {
    local status=$1 rc
    shift
    output=$("$info" "$@" 2>&1)
    rc=$?
    [ $rc -eq "$status" ] || fail "gpuhier_info $*: status $rc, expected $status: $output"
}

# says REGEX, keeps_quiet REGEX: a line of the output of the last run matches, or none does.
says() {
    grep -qE -- "$1" <<<"$output" || fail "no line matches $1 in: $output"
}
keeps_quiet() {
    ! grep -qE -- "$1" <<<"$output" || fail "a line matches $1 in: $output"
}

# A copy of what doctor reads of a machine: root NAME has one RDMA port beside the GPU, and nvidia_peermem.
root() {
    local at=$folder/$1 device
    mkdir -p "$at/sys/class/net" "$at/sys/class/infiniband" "$at/sys/class/infiniband_verbs/uverbs0" \
        "$at/sys/module/nvidia_peermem" "$at/dev/infiniband" "$at/dev/shm"
    device=$at/sys/devices/pci0000:17/0000:18:00.0
    mkdir -p "$device/infiniband/mlx5_0/ports/1"
    echo '4: ACTIVE' >"$device/infiniband/mlx5_0/ports/1/state"
    echo '200 Gb/sec (4X HDR)' >"$device/infiniband/mlx5_0/ports/1/rate"
    ln -s "$device" "$device/infiniband/mlx5_0/device"
    ln -s "$device/infiniband/mlx5_0" "$at/sys/class/infiniband/mlx5_0"
    echo mlx5_0 >"$at/sys/class/infiniband_verbs/uverbs0/ibdev"
    : >"$at/dev/infiniband/uverbs0"
    mkdir -p "$at/sys/bus/pci/devices/0000:17:00.0"
    echo 16 >"$at/sys/bus/pci/devices/0000:17:00.0/current_link_width"
    echo 16 >"$at/sys/bus/pci/devices/0000:17:00.0/max_link_width"
}

# ---- measure: four GPUs, all linked; then the link between 1 and 3 is held to 20 MB/s ----
cat >"$folder/quad" <<'END'
gpu 0 pci 0000:17:00.0
gpu 1 pci 0000:27:00.0
gpu 2 pci 0000:37:00.0
gpu 3 pci 0000:47:00.0
nvlink 0 1
nvlink 0 2
nvlink 0 3
nvlink 1 2
nvlink 1 3
nvlink 2 3
END
export CUDASIM_TOPOLOGY=$folder/quad
runs 0 measure --bytes 256K
says '^machine: .*: 4 emulated GPUs, '
says '^emulated: these rates are the processor'
says '^nothing is far below'
keeps_quiet '^wrong:'
keeps_quiet 'not measured'
{ cat "$folder/quad"; echo 'slow 1 3 20'; } >"$folder/slow"
CUDASIM_TOPOLOGY=$folder/slow runs 1 measure --bytes 256K
says '^wrong: GPU1 to GPU3 \(NV1\): far below its like'
says '^wrong: GPU3 to GPU1 \(NV1\): far below its like'
[ "$(grep -c '^wrong:' <<<"$output")" = 2 ] || fail "only one pair is slow: $output"
CUDASIM_TOPOLOGY=$folder/slow runs 1 measure --bytes 256K --json
python3 -c '
import json, sys
data = json.load(sys.stdin)
wrong = sorted((pair["from"], pair["to"]) for pair in data["pairs"] if pair["wrong"])
sys.exit(0 if data["emulated"] and wrong == [(1, 3), (3, 1)] and len(data["pairs"]) == 12 else 1)' <<<"$output" ||
    fail "measure --json: $output"
# Kernels of GPU 1 see other memory than that of GPU 2, those of 0 cannot write to 3; copies are right.
CUDASIM_DAMAGE=1:2:shifted,0:3:lost runs 1 measure --bytes 256K
says '^wrong: GPU2 to GPU1 \(NV1\): kernels of GPU1 read wrong data, and their writes do not arrive: '
says '^wrong: GPU3 to GPU0 \(NV1\): writes of kernels of GPU0 do not arrive: '
says '^where kernels read or write wrong data: .*disable ACS'
[ "$(grep -c '^wrong:' <<<"$output")" = 2 ] || fail "two ways are damaged: $output"
CUDASIM_DAMAGE=3:1:stale runs 1 measure --bytes 256K --json
python3 -c '
import json, sys
wrong = [(pair["from"], pair["to"], pair["wrong"]) for pair in json.load(sys.stdin)["pairs"] if pair["wrong"]]
sys.exit(0 if wrong == [(1, 3, "kernels of GPU3 read wrong data, and their writes do not arrive")] else 1)' <<<"$output" ||
    fail "measure --json of a damaged way: $output"
# Reads go by the component's kernel; without its twin the emulator cannot run it.
CUDASIM_TWINS='' runs 0 measure --bytes 256K
says '^reads are not measured: '
# A pair that the driver refuses is copied through the host, and not read.
{ cat "$folder/quad"; echo 'nopeer 0 2'; } >"$folder/refused"
CUDASIM_TOPOLOGY=$folder/refused runs 0 measure --bytes 256K

# ---- a GPU that vanishes: at the first question, and later ----
CUDASIM_FAIL=cuDeviceGetUuid:3:CUDA_ERROR_DEVICE_UNAVAILABLE runs 0 topo
says '^GPU2: .*does not answer and is left out: cuDeviceGetUuid returns CUDA_ERROR_DEVICE_UNAVAILABLE$'
says '^  group 0: GPU0 GPU1 GPU3, '
CUDASIM_FAIL=cuDeviceGetUuid:3:CUDA_ERROR_DEVICE_UNAVAILABLE runs 1 doctor
says '^problem +GPUs: GPU2 does not answer'
CUDASIM_FAIL=cuDeviceGetUuid:3:CUDA_ERROR_DEVICE_UNAVAILABLE runs 1 measure --bytes 256K
says '^wrong: GPU2 does not answer'
CUDASIM_FAIL=cuMemcpyPeer:1:CUDA_ERROR_UNKNOWN runs 1 measure --bytes 256K
says '^wrong: GPU0 to GPU1 \(NV1\): CUDA_ERROR_UNKNOWN$'
CUDASIM_FAIL=cuMemAlloc:4:CUDA_ERROR_OUT_OF_MEMORY runs 1 measure --bytes 256K
says '^wrong: GPU3 does not answer and is left out: it cannot be set up: CUDA_ERROR_OUT_OF_MEMORY$'
CUDASIM_DISABLE=1 runs 0 topo
says '^GPUs: none: cuInit returns CUDA_ERROR_NO_DEVICE$'
CUDASIM_DISABLE=1 runs 1 doctor
says '^problem +GPUs: none: '
CUDASIM_DISABLE=1 runs 3 measure
says '^gpuhier_info: there is nothing to measure: cuInit returns CUDA_ERROR_NO_DEVICE$'
CUDA_VISIBLE_DEVICES='' runs 0 topo
says '^GPUs: none: '

# ---- doctor: all is well, then one thing after the other is not ----
root good
runs 1 doctor --root "$folder/good"    # UCX has no mlx5_0 here
says '^ok +GPUDirect RDMA: nvidia_peermem is loaded$'
says '^warning +network: UCX .* cannot use the RDMA ports, so that .* TCP: there is no network device named mlx5_0:1'
says '^ok +peer access: granted between all 6 pairs$'
says '^ok +peer data: kernels read and write right data, tried 12 ways$'
says '^ok +Open MPI: gpuhier is found, and nothing stands above its priority of 100$'
says '^note +GDRCopy: libgdrapi 2\.5 cannot be opened; else short messages would need neither a kernel nor a copy engine$'
keeps_quiet '^(warning|problem) +(GPUs|GPUDirect|PCIe|peer|MPI|Open MPI|settings)'
CUDASIM_GDR=16M runs 1 doctor --root "$folder/good"
says '^ok +GDRCopy: libgdrapi 2\.5: the host reads and writes short messages in GPU memory$'
root peermem && rmdir "$folder/peermem/sys/module/nvidia_peermem"
runs 1 doctor --root "$folder/peermem"
says '^warning +GPUDirect RDMA: the NIC cannot read GPU memory: nvidia_peermem is not loaded and there is no dma-buf$'
says '-> `modprobe nvidia_peermem`'
runs 1 doctor --root "$folder/peermem" --json
python3 -c '
import json, sys
found = [f for f in json.load(sys.stdin)["findings"] if f["subject"] == "GPUDirect RDMA"]
sys.exit(0 if [f["level"] for f in found] == ["warning"] and "modprobe" in found[0]["remedy"] else 1)' <<<"$output" ||
    fail "doctor --json: $output"
root narrow && echo 8 >"$folder/narrow/sys/bus/pci/devices/0000:17:00.0/current_link_width"
runs 1 doctor --root "$folder/narrow"
says '^warning +PCIe: GPU0 runs on 8 lanes, it has 16$'
root closed && rm "$folder/closed/dev/infiniband/uverbs0"
runs 1 doctor --root "$folder/closed"
says '^warning +network: mlx5_0:1 is active but this process may not open it$'
root noshm && rmdir "$folder/noshm/dev/shm"
runs 1 doctor --root "$folder/noshm"
says '^problem +/dev/shm: there is none'
CUDASIM_TOPOLOGY=$folder/refused runs 1 doctor --root "$folder/good"
says '^warning +peer access: the driver refuses it between 1 of 6 pairs, for instance GPU0 and GPU2'
CUDASIM_DAMAGE=1:2:stale,0:3:lost runs 1 doctor --root "$folder/good"
says '^problem +peer data: memory of GPU2, which the driver lets GPU1 reach: kernels of GPU1 read wrong data, and their '
says '^problem +peer data: memory of GPU3, which the driver lets GPU0 reach: writes of kernels of GPU0 do not arrive$'
says '^ +-> an IOMMU or PCI Access Control Services redirect this traffic: disable ACS'
[ "$(grep -c 'peer data' <<<"$output")" = 2 ] || fail "two ways are damaged: $output"
CUDASIM_DAMAGE=0:1:lost,0:2:lost,0:3:lost,1:0:lost,1:2:lost,1:3:lost,2:0:lost,2:1:lost,2:3:lost,3:0:lost runs 1 doctor \
    --root "$folder/good"
says '^problem +peer data: 2 more are damaged$'
CUDASIM_FAIL=cuLaunchKernel:1:CUDA_ERROR_LAUNCH_FAILED runs 1 doctor --root "$folder/good"
says '^problem +peer data: memory of GPU1, which the driver lets GPU0 reach: CUDA_ERROR_LAUNCH_FAILED$'
CUDASIM_TWINS='' runs 1 doctor --root "$folder/good"
keeps_quiet 'peer data: memory'
CUDASIM_FAIL=cuModuleLoadData:2:CUDA_ERROR_UNSUPPORTED_PTX_VERSION runs 1 doctor --root "$folder/good"
says '^problem +kernels: GPU1 does not load .* CUDA [0-9]+\.[0-9] built: CUDA_ERROR_UNSUPPORTED_PTX_VERSION$'
[ "$(grep -cE '^problem +kernels' <<<"$output")" = 1 ] || fail "one GPU does not load the kernels: $output"
CUDASIM_FAIL=cuIpcGetMemHandle:2:CUDA_ERROR_NOT_SUPPORTED runs 1 doctor --root "$folder/good"
says '^warning +CUDA IPC: GPU1 gives no handle .*: cuIpcGetMemHandle returns CUDA_ERROR_NOT_SUPPORTED$'
says '^ok +CUDA IPC: 3 GPUs give handles'
SLURM_GPUS_PER_TASK=1 runs 1 doctor --root "$folder/good"
says '^warning +Slurm: --gpus-per-task is set'
# An EFA port looks like any other RDMA device but for its driver.
root efa && mkdir -p "$folder/efa/sys/bus/pci/drivers/efa" &&
    ln -s "$folder/efa/sys/bus/pci/drivers/efa" "$folder/efa/sys/devices/pci0000:17/0000:18:00.0/driver"
runs 1 doctor --root "$folder/efa"
says '^warning +network: UCX .* cannot use the EFA ports, so that data between groups goes over TCP: '
runs 0 topo --root "$folder/efa"
says '^UCX cannot use the RDMA ports here, so that a job goes on over TCP:$'
says '^path between groups: pinned host memory over tcp rails, since UCX cannot use the RDMA ports, or by Open MPI.s own messages if these have a fabric$'
OMPI_MCA_coll_gpuhier_devices=mlx5_0:1 runs 0 topo --root "$folder/efa"
says '^  rank 0 drives: none: coll_gpuhier_devices names RDMA ports$'
says '^path between groups: none: UCX cannot be opened'
# What Open MPI would use.
OMPI_MCA_coll=^gpuhier runs 1 doctor --root "$folder/good"
says "^problem +settings: coll is '\^gpuhier' \(the environment\), which leaves gpuhier out$"
OMPI_MCA_coll=tuned,basic,libnbc runs 1 doctor --root "$folder/good"
says '^problem +settings: coll is'
OMPI_MCA_coll_gpuhier_probe=0 runs 1 doctor --root "$folder/good"
says '^warning +settings: gpuhier is switched off: coll_gpuhier_probe is 0$'
# Open MPI takes more than 100 for 100, and of equal components gpuhier gets the calls.
OMPI_MCA_coll_tuned_priority=120 runs 1 doctor --root "$folder/good"
says '^ok +Open MPI: gpuhier is found, and nothing stands above its priority of 100$'
OMPI_MCA_coll_gpuhier_priority=20 runs 1 doctor --root "$folder/good"
says "^warning +Open MPI: components of a higher priority than gpuhier's 20 get the calls that they serve: .*tuned \(30\)"
runs 1 doctor --root "$folder/good" --mca coll_gpuhier_priority 40 --mca coll_tuned_priority 41
says "^warning +Open MPI: components of a higher priority than gpuhier's 40 .*: .*tuned \(41\)"
OMPI_MCA_mca_base_component_path=$folder/none runs 1 doctor --root "$folder/good"
says '^(problem|warning) +Open MPI: '
PATH=$folder/none:/nonexistent runs 1 doctor --root "$folder/good"
says '^warning +MPI: mpirun does not run$'
says '^warning +Open MPI: ompi_info does not run'

# ---- blind: no NVML; no /sys ----
mkdir -p "$folder/lib" && ln -s "$GPUHIER_BUILD/test/cudasim/lib/libcuda.so.1" "$folder/lib/"
if ! ldconfig -p | grep -q libnvidia-ml.so.1; then
    LD_LIBRARY_PATH=$folder/lib runs 0 topo
    says '^NVLink: not known: there is no NVML'
    says '^  group 0: GPU0 GPU1 GPU2 GPU3, 0 of 6 pairs by NVLink$'
fi
runs 0 topo --root "$folder/none"
says '^network devices: not known: there is no /sys/class/net$'
runs 1 doctor --root "$folder/none"
says '^problem +/dev/shm'

# ---- damaged descriptions: one line that names file and line, and status 2, from every verb that reads them ----
refused() {
    local regex=$1
    for verb in topo predict; do
        runs 2 $verb --machine "$folder/damaged"
        [ "$(grep -c . <<<"$output")" = 1 ] || fail "not one line: $output"
        says "^gpuhier_info: .*damaged:$regex"
    done
}
head -c 700 "$machines/dgx1v.topo" >"$folder/damaged" && printf '\ngp 1\n' >>"$folder/damaged" && refused '[0-9]+: .* is expected'
sed 's/^nvlink 0 1 count 1/&\nnvlink 1 0 count 2/' "$machines/dgx1v.topo" >"$folder/damaged"
refused '[0-9]+: 2 links between gpu 1 and gpu 0 contradict the 1 above$'
sed 's/^gpu 3 pci [^ ]*/gpu 3 pci 0000:0a:00.0/' "$machines/dgx1v.topo" >"$folder/damaged"
refused '[0-9]+: PCI address 0000:0a:00.0 contradicts a line above: gpu 2 has it$'
sed '/^gpu 5/d' "$machines/dgx1v.topo" >"$folder/damaged" && refused '[0-9]+: gpu 6 comes here, but gpu 5 is expected'
: >"$folder/damaged" && refused '0: the file ends without a gpu line'
head -c 5000 /dev/urandom >"$folder/damaged"
runs 2 topo --machine "$folder/damaged"
runs 2 topo --machine "$folder"
runs 2 topo --machine "$folder/nowhere"
says '^gpuhier_info: cannot read the topology file .*nowhere: No such file'
CUDASIM_TOPOLOGY=$folder/damaged runs 0 topo
says '^GPUs: none: cuInit returns '

# ---- predict: bounds by hand ----
# 8 ranks on switches, 1 GiB: 2 x 7/8 GiB over 18 x 25 x 0.87 GB/s are 4799.8 us, a kernel is 5, and the hosts' two turns are 6.
runs 0 predict --link nvlink4 --ranks 8 -n 128M
says '^1\.0 GiB +one kernel +[0-9]+ +4810\.[0-9] +390\.'
# A flat ring of 16 ranks over one NDR rail: 30 x (3 us + 64 MiB / 48.5 GB/s).
runs 0 predict --link nvlink4 --ranks 8 --nodes 2 --rail ndr -n 128M
says ' 416(0|1)[0-9]\.[0-9] +48\.'
# Two trays of four GPUs over NVLink, 1 GiB: links of 18 x 50 x 0.87 GB/s carry 2 x 3/4 B in the trays and B/4 between
# them, 2399.8 us; two kernels, and a step of two messages and a copy: 21 us more.
runs 0 predict --machine "$machines/gb200-nvl72.topo" --nodes 2 -n 128M
says '^1\.0 GiB +recursive_doubling +128 +2420\.[0-9] +776\.'
# Two sockets of four PCIe GPUs, flat: 4 B each way over the 20 GB/s between them, 214748.4 us. In three levels: 1.75 B
# over each slot's 25.2 GB/s, 74565.4 us, and four kernels.
OMPI_MCA_coll_gpuhier_tune=levels_bytes=0 runs 0 predict --machine "$machines/pcie8.topo" -n 128M
says '^1\.0 GiB +one kernel +[0-9]+ +214759\.'
runs 0 predict --machine "$machines/pcie8.topo" -n 128M
says '^1\.0 GiB +three levels +[0-9]+ +74591\.'
# On two nodes RS and AG of a slice pass the same links: the first slice goes through all stages, and 127 more follow.
OMPI_MCA_coll_gpuhier_tune=levels_bytes=0 runs 0 predict --machine "$machines/pcie8.topo" --nodes 2 -n 128M
says '^1\.0 GiB +recursive_doubling +128 +2151[0-9]{2}\.'
runs 0 predict --machine "$machines/pcie8.topo" --nodes 2 -n 128M
says '^1\.0 GiB +recursive_doubling +128 +749[0-9]{2}\.'
# Over PCIe one-shot kernels take up to 64 KiB. From there on messages are flat, and in levels from 512 KiB on.
runs 0 predict --machine "$machines/pcie8.topo" -n 8K
says '^64\.0 KiB +two-shot kernel +1 '
runs 0 predict --machine "$machines/pcie8.topo" -n 16K
says '^128\.0 KiB +one kernel +1 '
# Over switches, 8 ranks: 8 KiB take one shot, 5 + 1 us + 2 x 7 x 8 KiB / 391.5 GB/s, and 64 KiB take two.
runs 0 predict --link nvlink4 --ranks 8 -n 1K
says '^8\.0 KiB +one-shot kernel +1 +6\.3 '
runs 0 predict --link nvlink4 --ranks 8 -n 8K
says '^64\.0 KiB +two-shot kernel +1 '
# Slingshot is TCP here: a rank gets 3 GB/s of it, however fast the port is.
runs 0 predict --machine "$machines/perlmutter.topo" --nodes 2 -n 128M
says '; rails: 4 x 200 Gbit/s, 3\.0 GB/s each way$'
runs 2 predict --link wet --ranks 2
says '^gpuhier_info: --link wet: one of pcie3, .*nvlink5 is expected$'
runs 2 predict --link pcie4 --ranks 2 --nodes 2 --rail wet
says '^gpuhier_info: --rail wet: one of hdr100, .*400gbe is expected$'
runs 2 predict --machine "$machines/pcie2.topo" --ranks 4
says '^gpuhier_info: --ranks 4, but the machine has 2 GPUs$'
runs 2 predict --link pcie4 --ranks 2,3
# Every known machine can be predicted and drawn.
for file in "$machines"/*.topo; do
    runs 0 predict --machine "$file"
    [ "$(grep -cE '^[0-9.]+ [a-zA-Z]+ +[a-z_ -]+ +[0-9]+ +[0-9.]+ ' <<<"$output")" = 7 ] || fail "$file: $output"
    runs 0 topo --machine "$file" --svg "$folder/drawn.svg"
    python3 - "$folder/drawn.svg" "$(grep -c '^gpu ' "$file")" <<'END' || fail "$file: its picture is damaged"
import sys
import xml.etree.ElementTree as tree
picture = tree.parse(sys.argv[1]).getroot()
tag = "{http://www.w3.org/2000/svg}"
texts = [text.text or "" for text in picture.iter(tag + "text")]
low = max(float(text.get("y")) for text in picture.iter(tag + "text"))
wide = max(float(box.get("x", 0)) + float(box.get("width")) for box in picture.iter(tag + "rect"))
good = low < float(picture.get("height")) and wide <= float(picture.get("width"))
sys.exit(0 if good and sum(text.startswith("rank ") for text in texts) == int(sys.argv[2]) else 1)
END
done
runs 3 topo --machine "$machines/pcie2.topo" --svg "$folder/nowhere/x.svg"
says '^gpuhier_info: --svg: cannot write .*No such file'
exit $((failures > 0))
