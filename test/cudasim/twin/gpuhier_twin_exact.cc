/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exact form of the kernels' twin: every logical thread of the grid runs the kernel's own
 * source, one after the other, and reports every access. Some 40 times slower than the folded
 * form; it finds wrong launch geometry and wrong indices. Called from gpuhier_twin.cc.
 */
#ifndef __clang__
#    pragma GCC optimize("O1") /* its speed does not matter, the time to compile it does */
#endif

#include "gpuhier_twin.h"

#include "gpuhier_kernel_body.h"

namespace gpuhier
{

template <class T, class Op> static void reduce_exact(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args)
{
    const twin_memory memory = {launch};
    const uint64_t threads = (uint64_t) launch->grid[0] * launch->block[0];
    for (uint64_t thread = 0; thread < threads; ++thread) {
        reduce_thread<twin_memory, T, Op>(memory, args, args.nsrc, thread, threads);
    }
}

void twin_copy_exact(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args)
{
    const twin_memory memory = {launch};
    const uint64_t threads = (uint64_t) launch->grid[0] * launch->block[0];
    for (uint64_t thread = 0; thread < threads; ++thread) {
        reduce_thread<twin_memory, uint8_t, op_copy>(memory, args, 1, thread, threads);
    }
}

void twin_moves_exact(const cudasim_launch_t *launch, const gpuhier_moves_args_t &args)
{
    const twin_memory memory = {launch};
    for (uint32_t block = 0; block < launch->grid[0]; ++block) {
        for (uint32_t thread = 0; thread < launch->block[0]; ++thread) {
            moves_thread(memory, args, block, thread, launch->block[0]);
        }
    }
}

#define GPUHIER_TWIN_EXACT(op, type) reduce_exact<elem_##type, op_##op##_##type>,
const twin_form_t twin_exact[] = {GPUHIER_KERNEL_LIST(GPUHIER_TWIN_EXACT)};

} /* namespace gpuhier */
