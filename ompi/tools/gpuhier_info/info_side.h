/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tool has on a GPU to try things there: memory, and the component's copy kernel. Errors are the driver's.
 */
#ifndef INFO_SIDE_H
#define INFO_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* All zero: not open. The caller owns it; info_side_close() is due even after an error. */
typedef struct info_side {
    CUcontext context;
    CUdeviceptr memory; /* twice `bytes`: the first half is read, the second half is written */
    uint64_t bytes;
    CUmodule module;
    CUfunction kernel; /* NULL: it cannot be loaded, and no_kernel says why */
    CUresult no_kernel;
} info_side_t;

CUresult info_side_open(info_side_t *side, int gpu, uint64_t bytes);
void info_side_close(info_side_t *side, int gpu);

/* Lets kernels of `own` reach memory of `other`. The context of `own` is current, for this call and the next one. */
CUresult info_side_reach(const info_side_t *own, const info_side_t *other);

/* Moves bytes by a kernel on `own`, and waits for its end. */
CUresult info_side_move(const info_side_t *own, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);

/* What a kernel of one GPU does with another GPU's memory, although each call succeeds. */
typedef struct info_trial {
    bool reads;  /* it reads what is there */
    bool writes; /* what it writes arrives */
} info_trial_t;

/*
 * Has a kernel of `own` read a random pattern in memory of `other`, which it reaches, and write another one there, and
 * compares both with what copies show. No context needs to be current.
 */
CUresult info_side_try(const info_side_t *own, const info_side_t *other, info_trial_t *trial_p);

/* "kernels of GPU1 read wrong data", or NULL where both are right. The text is valid until the next call. */
const char *info_trial_text(const info_trial_t *trial, int own);

#define INFO_TRIAL_REMEDY                                                                                           \
    "an IOMMU or PCI Access Control Services redirect this traffic: disable ACS on the PCI bridges (`lspci -vvv`, " \
    "ACSCtl), and boot with iommu=pt or disable the IOMMU"

#endif /* INFO_SIDE_H */
