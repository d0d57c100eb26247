/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of kernels through the CUDA driver share: the kernels' names by index, and the end of a test that the
 * driver refuses something.
 */
#ifndef KERNEL_DRIVER_H
#define KERNEL_DRIVER_H

#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME(op, type) "gpuhier_" #op "_" #type,
static const char *const kernel_names[] = {GPUHIER_KERNEL_LIST(NAME)};
#undef NAME

static inline void must(CUresult result, const char *what)
{
    if (CUDA_SUCCESS != result) {
        const char *name = "?";
        gpuhier_cu.cuGetErrorName(result, &name);
        printf("%s: %s\n", what, name);
        exit(1);
    }
}

#endif /* KERNEL_DRIVER_H */
