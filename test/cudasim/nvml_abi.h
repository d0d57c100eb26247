/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The part of NVML's interface that the emulated library has.
 *
 * NVML's own header comes in a package that is not everywhere, so the types and
 * numbers are declared here, as the published interface has them; "sim" names keep
 * them apart from the real ones in a program that includes both.
 */
#ifndef CUDASIM_NVML_ABI_H
#define CUDASIM_NVML_ABI_H

#include <stddef.h>

typedef enum sim_nvml_return {
    SIM_NVML_SUCCESS = 0,
    SIM_NVML_UNINITIALIZED = 1,
    SIM_NVML_INVALID_ARGUMENT = 2,
    SIM_NVML_NOT_SUPPORTED = 3,
    SIM_NVML_NOT_FOUND = 6,
    SIM_NVML_INSUFFICIENT_SIZE = 7,
    SIM_NVML_DRIVER_NOT_LOADED = 9,
    SIM_NVML_VERSION_MISMATCH = 25,
    SIM_NVML_UNKNOWN = 999
} sim_nvml_return_t;

typedef struct sim_gpu *sim_nvml_device_t;

/* nvmlPciInfo_t since its third version. */
typedef struct sim_nvml_pci {
    char legacy_id[16];
    unsigned domain, bus, device;
    unsigned device_id; /* device in the high, vendor in the low half */
    unsigned subsystem_id;
    char id[32];
} sim_nvml_pci_t;

/* The first versions. */
typedef struct sim_nvml_pci_v1 {
    char id[16];
    unsigned domain, bus, device;
    unsigned device_id;
    unsigned subsystem_id;
    unsigned reserved[4];
} sim_nvml_pci_v1_t;

typedef struct sim_nvml_memory {
    unsigned long long total, free, used; /* bytes */
} sim_nvml_memory_t;

#define SIM_NVML_FIELD_NVLINK_SPEED 90 /* MB/s of a link */
#define SIM_NVML_FIELD_NVLINK_COUNT 91
#define SIM_NVML_TYPE_UNSIGNED 1

typedef struct sim_nvml_field {
    unsigned field, scope;
    long long timestamp, latency;
    int value_type;
    sim_nvml_return_t result;
    union {
        double number;
        unsigned word;
        unsigned long long big;
    } value;
} sim_nvml_field_t;

#define SIM_NVML_LINK_CAP_P2P 0
#define SIM_NVML_LINK_CAP_P2P_ATOMICS 2
#define SIM_NVML_LINK_CAP_VALID 5
#define SIM_NVML_LINK_CAPS 6
#define SIM_NVML_REMOTE_GPU 0
#define SIM_NVML_REMOTE_SWITCH 2

#define SIM_NVML_P2P_OK 0
#define SIM_NVML_P2P_NOT_SUPPORTED 5
#define SIM_NVML_P2P_NVLINK 2
#define SIM_NVML_P2P_ATOMICS 3
#define SIM_NVML_P2P_CAPS 5

/* nvmlSystemConfComputeSettings_v1_t. The first word is the caller's: this version of the structure. */
typedef struct sim_nvml_confidential {
    unsigned version, environment, feature, tools, multi_gpu;
} sim_nvml_confidential_t;

#define SIM_NVML_CONFIDENTIAL_V1 (1u << 24 | (unsigned) sizeof(sim_nvml_confidential_t))

#define SIM_NVML_LEVEL_INTERNAL 0
#define SIM_NVML_LEVEL_NODE 40
#define SIM_NVML_LEVEL_SYSTEM 50

#endif /* CUDASIM_NVML_ABI_H */
