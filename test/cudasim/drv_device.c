/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices and their attributes.
 *
 * Owns what the driver says about a GPU: an H100 in most respects, since that is
 * the machine this is written for, at the place that the topology gives it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "sim_model.h"
#include "sim_context.h"
#include "sim_fabric.h"
#include "sim_memory.h"
#include "sim_multicast.h"

#define DEVICE_NAME "Emulated GPU"

static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 0},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
};

/* The compute capability of GPUs with this generation of NVLink: P100, V100, A100, H100, B200. 0: an H100. */
static const int generation_majors[] = {9, 6, 7, 8, 9, 10};

static const sim_gpu_t *gpu_of(CUdevice device)
{
    if (device < 0 || device >= sim_driver.ndevices) {
        return NULL;
    }
    return &sim_driver.topology.gpus[sim_driver.devices[device].physical];
}

int sim_device_ordinal(int physical)
{
    int i;

    for (i = 0; i < sim_driver.ndevices; i++) {
        if (physical == sim_driver.devices[i].physical) {
            return i;
        }
    }
    return -1;
}

CUresult sim_cuDeviceGet(CUdevice *device_p, int ordinal)
{
    if (NULL == device_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu_of(ordinal)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device_p = ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetCount(int *count_p)
{
    if (NULL == count_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count_p = sim_driver.ndevices;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name_p, int length, CUdevice device)
{
    if (NULL == name_p || length <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu_of(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name_p, (size_t) length, "%s", DEVICE_NAME);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid_p, CUdevice device)
{
    const sim_gpu_t *gpu = gpu_of(device);

    if (NULL == uuid_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    memcpy(uuid_p->bytes, gpu->uuid, sizeof(uuid_p->bytes));
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid_p, CUdevice device)
{
    return sim_cuDeviceGetUuid(uuid_p, device);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes_p, CUdevice device)
{
    const sim_gpu_t *gpu = gpu_of(device);

    if (NULL == bytes_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes_p = gpu->memory;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetAttribute(int *value_p, CUdevice_attribute attribute, CUdevice device)
{
    const sim_gpu_t *gpu = gpu_of(device);
    size_t i;

    if (NULL == value_p || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *value_p = 0;
    switch ((int) attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        *value_p = (int) gpu->pci.domain;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value_p = (int) gpu->pci.bus;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        *value_p = (int) gpu->pci.device;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        *value_p = gpu->numa;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
        *value_p = -1; /* the GPU's memory is no NUMA node of the host */
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        *value_p = sim_driver.topology.is_fabric;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value_p = sim_multicast_supported(sim_driver.devices[device].physical);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
        *value_p = NULL != getenv("CUDASIM_DISPLAY");
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value_p = generation_majors[sim_driver.topology.nvlink_generation];
        return CUDA_SUCCESS;
    default:
        break;
    }
    for (i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        if (attribute == attributes[i].attribute) {
            *value_p = attributes[i].value;
            if (sim_model.on && CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == attribute) {
                *value_p = (int) sim_model.sms;
            }
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major_p, int *minor_p, CUdevice device)
{
    CUresult rc = sim_cuDeviceGetAttribute(major_p, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    return sim_cuDeviceGetAttribute(minor_p, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *device_p, const char *text)
{
    const sim_gpu_t *gpu;
    char with_function[64];
    sim_pci_t pci;
    int i;

    if (NULL == device_p || NULL == text) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(with_function, sizeof(with_function), "%s%s", text, NULL == strchr(text, '.') ? ".0" : "");
    if (0 != sim_pci_parse(with_function, &pci)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < sim_driver.ndevices; i++) {
        gpu = gpu_of(i);
        if (gpu->pci.domain == pci.domain && gpu->pci.bus == pci.bus && gpu->pci.device == pci.device) {
            *device_p = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceGetPCIBusId(char *text_p, int length, CUdevice device)
{
    const sim_gpu_t *gpu = gpu_of(device);
    char text[48];

    if (NULL == text_p || length < 13) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    sim_pci_print(&gpu->pci, text);
    snprintf(text_p, (size_t) length, "%s", text);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceCanAccessPeer(int *can_p, CUdevice device, CUdevice peer)
{
    if (NULL == can_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu_of(device) || NULL == gpu_of(peer)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *can_p = sim_device_peer(sim_driver.devices[device].physical, sim_driver.devices[peer].physical);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value_p, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    int a, b, links;

    if (NULL == value_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == gpu_of(from) || NULL == gpu_of(to) || from == to) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    a = sim_driver.devices[from].physical;
    b = sim_driver.devices[to].physical;
    links = sim_topology_links(&sim_driver.topology, a, b);
    switch ((int) attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value_p = links > 0 ? 0 : 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value_p = sim_device_peer(a, b);
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value_p = sim_device_peer(a, b) && links > 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
