/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels' host twin behind the contract of cudasim_twin.h: its table, and the folded form of
 * each kernel. Called by the emulated driver at a launch.
 *
 * Folded form (launch->exact 0): the whole grid as one loop. It works in blocks that stay in the
 * cache: all sources of a block are combined into the first destination, which is then
 * copied to the other destinations. As in the kernel, element i is read from every source before it
 * is written anywhere, so in-place calls are right. The arithmetic is the kernels' own source.
 * Exact form (launch->exact 1): gpuhier_twin_exact.cc.
 *
 * Compiled without contraction of a*b+c, as the kernels are: the same bits on both.
 */
#include "gpuhier_twin.h"

#include "gpuhier_kernel_ops.h"

#include <string.h>

/* "No iteration depends on another": source and destination are either the same range or disjoint. */
#ifdef __clang__
#    pragma clang diagnostic ignored "-Wpass-failed" /* some types do not vectorise, and need not */
#    define GPUHIER_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#    define GPUHIER_IVDEP _Pragma("GCC ivdep")
#endif

namespace gpuhier
{

static constexpr uint64_t block_bytes = 16384; /* of a buffer, at a time: measured best from 2 to 8 sources */
static constexpr uint32_t max_combined = 8;    /* sources that one loop reads */

/* An element at any address: what the host may read anywhere must be declared so. */
template <class T> struct __attribute__((packed)) loose {
    T value;
};

static void report(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args, uint32_t nsrc, size_t bytes)
{
    if (0 == bytes) {
        return;
    }
    /* As gpuhier_kernel_body.h moves chunks: 8 accesses of 16 bytes in flight, of up to 8 sources. */
    cudasim_shape(launch, 128, 8);
    for (uint32_t s = 0; s < nsrc; ++s) {
        launch->traffic(launch, (uintptr_t) args.src[s], bytes, 0);
    }
    for (uint32_t d = 0; d < args.ndst; ++d) {
        launch->traffic(launch, (uintptr_t) args.dst[d], bytes, 1);
    }
}

/* to[i] = op over N sources, for n elements. */
template <class T, class Op, int N> static void combine_fixed(loose<T> *to, const loose<T> *const *from, uint64_t n)
{
    const loose<T> *src[N];
    for (int s = 0; s < N; ++s) {
        src[s] = from[s];
    }
    GPUHIER_IVDEP
    for (uint64_t i = 0; i < n; ++i) {
        T acc = src[0][i].value;
        for (int s = 1; s < N; ++s) {
            acc = Op::apply(acc, src[s][i].value);
        }
        to[i].value = acc;
    }
}

/* How many of that many sources the next loop reads: a loop for every number would take long to compile. */
static uint32_t combined_of(uint32_t nsrc)
{
    return nsrc >= max_combined ? max_combined : nsrc > 4 ? 4 : nsrc;
}

/* The same for any number of sources, in passes over a block that stays in the cache. */
template <class T, class Op> static void combine(loose<T> *to, const loose<T> *const *from, uint32_t nsrc, uint64_t n)
{
    const loose<T> *pass[max_combined];
    uint32_t done = 0;

    if (1 == nsrc) {
        memmove(to, from[0], n * sizeof(T));
        return;
    }
    while (done < nsrc) {
        const uint32_t before = done > 0; /* what is in to already counts as one source */
        const uint32_t used = combined_of(before + nsrc - done);
        pass[0] = to;
        for (uint32_t k = before; k < used; ++k) {
            pass[k] = from[done++];
        }
        if (2 == used) {
            combine_fixed<T, Op, 2>(to, pass, n);
        } else if (3 == used) {
            combine_fixed<T, Op, 3>(to, pass, n);
        } else if (4 == used) {
            combine_fixed<T, Op, 4>(to, pass, n);
        } else {
            combine_fixed<T, Op, max_combined>(to, pass, n);
        }
    }
}

/* Stores n results: a copy, or for padded pairs the fields only. */
template <class T, bool Padded = is_padded<T>::value> struct results {
    static void copy(loose<T> *to, const loose<T> *from, uint64_t n)
    {
        memcpy(to, from, n * sizeof(T));
    }
};
template <class T> struct results<T, true> {
    static void copy(loose<T> *to, const loose<T> *from, uint64_t n)
    {
        for (uint64_t i = 0; i < n; ++i) {
            const T value = from[i].value;
            char *fields = (char *) (to + i);
            memcpy(fields, &value.a, sizeof(value.a));
            memcpy(fields + __builtin_offsetof(T, b), &value.b, sizeof(value.b));
        }
    }
};

template <class T, class Op>
static void reduce_folded(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args)
{
    constexpr uint64_t block = block_bytes / sizeof(T);
    const loose<T> *src[GPUHIER_KERNEL_MAX_PEERS];
    loose<T> *dst[GPUHIER_KERNEL_MAX_PEERS];
    loose<T> scratch[block];

    for (uint32_t s = 0; s < args.nsrc; ++s) {
        src[s] = (const loose<T> *) cudasim_host_view(launch, (uintptr_t) args.src[s]);
    }
    for (uint32_t d = 0; d < args.ndst; ++d) {
        dst[d] = (loose<T> *) cudasim_host_view(launch, (uintptr_t) args.dst[d]);
    }
    /* A destination may be a source, so a result that takes several passes, or has gaps, waits in scratch. */
    const bool direct = args.nsrc == combined_of(args.nsrc) && !is_padded<T>::value;
    for (uint64_t i = 0; i < args.count; i += block) {
        const uint64_t n = args.count - i < block ? args.count - i : block;
        loose<T> *to = direct ? dst[0] + i : scratch;
        const loose<T> *from[GPUHIER_KERNEL_MAX_PEERS];
        for (uint32_t s = 0; s < args.nsrc; ++s) {
            from[s] = src[s] + i;
        }
        combine<T, Op>(to, from, args.nsrc, n);
        for (uint32_t d = direct ? 1 : 0; d < args.ndst; ++d) {
            results<T>::copy(dst[d] + i, to, n);
        }
    }
    report(launch, args, args.nsrc, args.count * sizeof(T));
}

static void copy_folded(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args)
{
    const char *src = (const char *) cudasim_host_view(launch, (uintptr_t) args.src[0]);

    for (uint64_t i = 0; i < args.count; i += block_bytes) {
        const uint64_t n = args.count - i < block_bytes ? args.count - i : block_bytes;
        for (uint32_t d = 0; d < args.ndst; ++d) {
            memmove((char *) cudasim_host_view(launch, (uintptr_t) args.dst[d]) + i, src + i, n);
        }
    }
    report(launch, args, 1, args.count);
}

/* All ranges at once, each 8 accesses of 16 bytes by the threads of its own blocks. */
static void moves_folded(const cudasim_launch_t *launch, const gpuhier_moves_args_t &args)
{
    cudasim_shape(launch, 128, 0);
    for (uint32_t i = 0; i < args.count; ++i) {
        memmove(cudasim_host_view(launch, (uintptr_t) args.dst[i]), cudasim_host_view(launch, (uintptr_t) args.src[i]),
                args.bytes[i]);
        launch->traffic(launch, (uintptr_t) args.src[i], args.bytes[i], 0);
        launch->traffic(launch, (uintptr_t) args.dst[i], args.bytes[i], 1);
    }
}

enum {
#define GPUHIER_TWIN_NUMBER(op, type) number_##op##_##type,
    GPUHIER_KERNEL_LIST(GPUHIER_TWIN_NUMBER) kernel_count
};

template <class T, class Op, int Number> static void run(const cudasim_launch_t *launch, void **params)
{
    const gpuhier_kernel_args_t &args = *(const gpuhier_kernel_args_t *) params[0];
    (launch->exact ? twin_exact[Number] : reduce_folded<T, Op>) (launch, args);
}

static void run_copy(const cudasim_launch_t *launch, void **params)
{
    const gpuhier_kernel_args_t &args = *(const gpuhier_kernel_args_t *) params[0];
    (launch->exact ? twin_copy_exact : copy_folded)(launch, args);
}

static void run_moves(const cudasim_launch_t *launch, void **params)
{
    const gpuhier_moves_args_t &args = *(const gpuhier_moves_args_t *) params[0];
    (launch->exact ? twin_moves_exact : moves_folded)(launch, args);
}

template <class T, class Op> static void combine_any(void *to, const void *const *from, uint32_t nsrc, uint64_t n)
{
    combine<T, Op>((loose<T> *) to, (const loose<T> *const *) from, nsrc, n);
}

template <class T, class Op, int Number> static void run_oneshot(const cudasim_launch_t *launch, void **params)
{
    const gpuhier_oneshot_args_t &args = *(const gpuhier_oneshot_args_t *) params[0];
    if (launch->exact || launch->timed || is_padded<T>::value) {
        twin_oneshot[Number](launch, args);
    } else {
        twin_oneshot_folded(launch, args, sizeof(T), combine_any<T, Op>);
    }
}

static void run_oneshot_move(const cudasim_launch_t *launch, void **params)
{
    const gpuhier_oneshot_args_t &args = *(const gpuhier_oneshot_args_t *) params[0];
    if (launch->exact || launch->timed) {
        twin_oneshot_move(launch, args);
    } else {
        twin_oneshot_folded(launch, args, 1, nullptr);
    }
}

static const uint32_t param_bytes[1] = {sizeof(gpuhier_kernel_args_t)};
static const uint32_t moves_bytes[1] = {sizeof(gpuhier_moves_args_t)};
static const uint32_t oneshot_bytes[1] = {sizeof(gpuhier_oneshot_args_t)};
static const uint32_t multicast_bytes[1] = {sizeof(gpuhier_multicast_args_t)};

#define GPUHIER_TWIN(op, type) \
    {"gpuhier_" #op "_" #type, 1, param_bytes, run<elem_##type, op_##op##_##type, number_##op##_##type>, 0},
#define GPUHIER_TWIN_ONESHOT(op, type)                   \
    {"gpuhier_oneshot_" #op "_" #type, 1, oneshot_bytes, \
     run_oneshot<elem_##type, op_##op##_##type, number_##op##_##type>, 1},
#define GPUHIER_TWIN_MULTICAST(name, type, op) \
    {"gpuhier_multicast_" #name, 1, multicast_bytes, twin_multicast_##name, 0},
static const cudasim_kernel_t kernels[] = {
    /* clang-format off */
    GPUHIER_KERNEL_LIST(GPUHIER_TWIN)
    GPUHIER_KERNEL_LIST(GPUHIER_TWIN_ONESHOT)
    GPUHIER_MULTICAST_LIST(GPUHIER_TWIN_MULTICAST)
    {"gpuhier_multicast_store", 1, multicast_bytes, twin_multicast_store, 0},
    {"gpuhier_copy", 1, param_bytes, run_copy, 0},
    {"gpuhier_moves", 1, moves_bytes, run_moves, 0},
    {"gpuhier_oneshot_move", 1, oneshot_bytes, run_oneshot_move, 1},
    /* clang-format on */
};

} /* namespace gpuhier */

const cudasim_twin_table_t cudasim_twins = {
    CUDASIM_TWIN_ABI,
    sizeof(gpuhier::kernels) / sizeof(gpuhier::kernels[0]),
    gpuhier::kernels,
};
