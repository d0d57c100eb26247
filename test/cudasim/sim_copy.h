/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies and fills.
 */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_side {
    SIM_ANY,     /* whatever lies at the address */
    SIM_ON_HOST, /* the caller says that it is host memory */
    SIM_ON_GPU   /* the caller says that it is device memory */
};

/* A copy of height rows of width bytes; a plain copy has one row. */
struct sim_copy {
    uintptr_t to, from;
    enum sim_side to_side, from_side;
    size_t width, height;
    size_t to_pitch, from_pitch; /* bytes from row to row */
    CUcontext to_ctx, from_ctx;  /* NULL: one GPU must reach both ends; see reaches() */
};

/* Queues the copy, and waits where the driver's documentation says that the call waits. */
CUresult sim_copy(const struct sim_copy *copy, CUstream stream, bool async);

/* Fills height rows of count elements of 1, 2 or 4 bytes. */
CUresult sim_fill(uintptr_t to, size_t pitch, uint32_t value, size_t element, size_t count, size_t height,
                  CUstream stream, bool async);

#endif /* SIM_COPY_H */
