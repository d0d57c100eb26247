/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The twin of the kernels for multicast addresses. It stands for the switch as well: it combines what the copies hold
 * in the order in which the emulated driver names them, which is that of no rank. Exact form: the same for each unit
 * that one instruction of a kernel moves, which is then reported alone. Called by the table in gpuhier_twin.cc.
 */
#ifndef __clang__
#    pragma GCC optimize("O3")
#endif

#include "gpuhier_twin.h"

#include "gpuhier_kernel_ops.h"

namespace [[gnu::visibility("hidden")]] gpuhier
{

/* What a multicast address stands for. */
struct copies {
    void *at[CUDASIM_MULTICAST_MAX];
    int count;
};

static copies copies_of(const cudasim_launch_t *launch, uint64_t address, uint64_t bytes)
{
    copies found;
    found.count = cudasim_multicast(launch, (uintptr_t) address, (size_t) bytes, found.at, CUDASIM_MULTICAST_MAX);
    return found;
}

/* Stores what lies at `from` where the kernel does; store_report() follows. */
static void store(const cudasim_launch_t *launch, const gpuhier_multicast_args_t &args, uint64_t offset, uint64_t bytes,
                  const void *from)
{
    if (!args.to_all) {
        memmove(cudasim_host_view(launch, (uintptr_t) (args.to + offset)), from, bytes);
        return;
    }
    const copies to = copies_of(launch, args.to + offset, bytes);
    for (int c = 0; c < to.count; ++c) {
        memmove(to.at[c], from, bytes);
    }
}

static void store_report(const cudasim_launch_t *launch, const gpuhier_multicast_args_t &args, uint64_t offset,
                         uint64_t bytes)
{
    if (args.to_all) {
        cudasim_multimem(launch, (uintptr_t) (args.to + offset), (size_t) bytes, 1);
    } else {
        launch->traffic(launch, (uintptr_t) (args.to + offset), (size_t) bytes, 1);
    }
}

static constexpr uint64_t block_bytes = 16384; /* as in gpuhier_twin.cc */

/* A range of the message, of whole elements. */
template <class T, class Op>
static void reduce_range(const cudasim_launch_t *launch, const gpuhier_multicast_args_t &args, uint64_t offset,
                         uint64_t bytes)
{
    const copies from = copies_of(launch, args.from + offset, bytes);
    T acc[block_bytes / sizeof(T)];
    if (0 == from.count) {
        return;
    }
    cudasim_multimem(launch, (uintptr_t) (args.from + offset), (size_t) bytes, 0);
    for (uint64_t done = 0; done < bytes; done += sizeof(acc)) {
        const uint64_t now = bytes - done < sizeof(acc) ? bytes - done : sizeof(acc);
        memcpy(acc, (const char *) from.at[0] + done, now);
        for (int c = 1; c < from.count; ++c) {
            const T *x = (const T *) (const void *) ((const char *) from.at[c] + done);
            for (uint64_t i = 0; i < now / sizeof(T); ++i) {
                acc[i] = Op::apply(acc[i], x[i]);
            }
        }
        store(launch, args, offset + done, now, acc);
    }
    store_report(launch, args, offset, bytes);
}

static void store_range(const cudasim_launch_t *launch, const gpuhier_multicast_args_t &args, uint64_t offset,
                        uint64_t bytes)
{
    launch->traffic(launch, (uintptr_t) (args.from + offset), (size_t) bytes, 0);
    store(launch, args, offset, bytes, cudasim_host_view(launch, (uintptr_t) (args.from + offset)));
    store_report(launch, args, offset, bytes);
}

typedef void (*range_t)(const cudasim_launch_t *launch, const gpuhier_multicast_args_t &args, uint64_t offset,
                        uint64_t bytes);

/* Every unit by itself, in the order of the threads of the launch. */
static void units_run(const cudasim_launch_t *launch, const gpuhier_multicast_args_t &args, uint64_t unit,
                      range_t range)
{
    const uint64_t threads = (uint64_t) launch->grid[0] * launch->block[0];
    for (uint64_t thread = 0; thread < threads; ++thread) {
        for (uint64_t u = thread; u < args.bytes / unit; u += threads) {
            range(launch, args, u * unit, unit);
        }
    }
}

static void run(const cudasim_launch_t *launch, void **params, uint64_t unit, range_t range)
{
    const gpuhier_multicast_args_t &args = *(const gpuhier_multicast_args_t *) params[0];
    twin_demand_aligned(args.from | args.to, unit);
    cudasim_shape(launch, (uint32_t) (8 * unit), 0); /* eight loads in flight */
    if (launch->exact) {
        units_run(launch, args, unit, range);
    } else {
        range(launch, args, 0, args.bytes);
    }
}

/* Bytes that one instruction of a kernel moves. */
template <class T> struct unit_of {
    static constexpr uint64_t bytes = sizeof(T);
};
template <> struct unit_of<float> {
    static constexpr uint64_t bytes = GPUHIER_MULTICAST_UNIT;
};

#define GPUHIER_TWIN_MULTICAST(name, type, op)                                                         \
    void twin_multicast_##name(const cudasim_launch_t *launch, void **params)                          \
    {                                                                                                  \
        run(launch, params, unit_of<elem_##type>::bytes, reduce_range<elem_##type, op_##op##_##type>); \
    }
GPUHIER_MULTICAST_LIST(GPUHIER_TWIN_MULTICAST)

void twin_multicast_store(const cudasim_launch_t *launch, void **params)
{
    run(launch, params, GPUHIER_MULTICAST_UNIT, store_range);
}

} /* namespace gpuhier */
