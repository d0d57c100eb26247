/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The reductions of GPUHIER_KERNEL_LIST on host memory, for messages too small to be worth a kernel.
 * Results have the bits of the kernels' (except for the payload of a NaN). Needs libc only: no MPI, no CUDA.
 */
#ifndef GPUHIER_HOST_REDUCE_H
#define GPUHIER_HOST_REDUCE_H

#include <stddef.h>

/*
 * to = ((from[0] op from[1]) op ..) op from[nsources - 1], element by element; count in elements,
 * nsources >= 1. index: of the kernel, see coll_gpuhier_reduce.h. All addresses are aligned as the element's fields
 * are; with a single source, which is copied, they may have any alignment. to may be one of the first two sources and
 * overlaps nothing else. Gaps of padded pairs are not written.
 */
void gpuhier_host_reduce(int index, void *to, const void *const from[], int nsources, size_t count);

#endif /* GPUHIER_HOST_REDUCE_H */
