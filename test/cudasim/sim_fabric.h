/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of GPUs on other nodes of one NVLink domain, by fabric handles.
 */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#if CUDA_VERSION < 12030 /* as later headers have them */
typedef struct CUmemFabricHandle_st {
    unsigned char data[64];
} CUmemFabricHandle;
#    define CU_MEM_HANDLE_TYPE_FABRIC 8
#    define CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED 128
#endif

/* Which domain this process's node belongs to, and the part of it that its GPUs can reach. */
typedef struct sim_fabric_place {
    uint64_t cluster; /* 0: none */
    uint32_t clique;
} sim_fabric_place_t;

/* Reads the environment. Returns 0, or -1 after a message. */
int sim_fabric_setup(void);

/* Constant after setup. */
extern sim_fabric_place_t sim_fabric_place;

/*
 * May memory be made that has fabric handles, or opened by one? CUDA_ERROR_NOT_SUPPORTED where the NVSwitches reach one
 * node only, CUDA_ERROR_NOT_PERMITTED without an IMEX channel.
 */
CUresult sim_fabric_check(void);

/* Writes the handle of memory that lies in a file of this process; id: of the memory, as the file says it. */
void sim_fabric_export(int fd, uint64_t id, CUmemFabricHandle *handle_p);

/*
 * Opens the file that a handle names. *id_p: what the file has to say of itself, or the memory is gone and the file is
 * another one. CUDA_ERROR_INVALID_VALUE for a handle of another domain or clique, or of a process that has ended.
 */
CUresult sim_fabric_open(const CUmemFabricHandle *handle, int *fd_p, uint64_t *id_p);

#endif /* SIM_FABRIC_H */
