/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one-shot kernels' twin, from the kernels' own source. Folded form (launch->exact 0): one logical thread, which
 * pushes blocks of many units at a time. Exact form: every logical thread pushes, then every logical thread waits and
 * reduces, and every access to a user's buffer is reported. Called by the table in gpuhier_twin.cc.
 */
#ifndef __clang__
#    pragma GCC optimize("O2") /* it waits more than it computes */
#endif

#include "gpuhier_twin.h"

#include "gpuhier_oneshot_body.h"

namespace [[gnu::visibility("hidden")]] gpuhier
{

struct oneshot_memory : twin_memory {
    void push(uint64_t address, const line &x) const
    {
        cudasim_push(launch, (uintptr_t) address, x.word, sizeof(x.word));
    }
    line take(uint64_t address) const
    {
        const uint64_t *word = (const uint64_t *) cudasim_host_view(launch, (uintptr_t) address);
        return line{{__atomic_load_n(word, __ATOMIC_ACQUIRE), __atomic_load_n(word + 1, __ATOMIC_ACQUIRE)}};
    }
    bool stops(const gpuhier_oneshot_args_t &args, uint32_t) const
    {
        const uint64_t *word =
            (const uint64_t *) cudasim_host_view(launch, (uintptr_t) args.words + GPUHIER_ONESHOT_ABORT);
        cudasim_wait(launch);
        return args.number == __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
};

static constexpr uint64_t push_units = 256; /* at a time, folded */

/* As oneshot_push with one thread, in blocks: a push of a line costs the emulator more than the line. */
template <class T> static void push_folded(const oneshot_memory &memory, const gpuhier_oneshot_args_t &args)
{
    const uint64_t units = units_of<T>(args.count);

    for (uint64_t first = 0; first < units; first += push_units) {
        const uint64_t n = units - first < push_units ? units - first : push_units;
        uint32_t data[push_units][2 * unit<T>::lines];
        uint64_t words[push_units * 2 * unit<T>::lines];
        for (uint64_t u = 0; u < n; ++u) {
            unit_load<oneshot_memory, T>(memory, args, first + u).pack(data[u]);
        }
        for (uint32_t k = 1; k < args.nranks; ++k) {
            const uint32_t peer = (args.index + k) % args.nranks;
            for (uint64_t w = 0; w < n * 2 * unit<T>::lines; ++w) {
                words[w] = flagged(args.flag[peer], (&data[0][0])[w]);
            }
            cudasim_push(memory.launch, (uintptr_t) (args.box[peer] + first * unit_bytes<T>::box), words,
                         n * unit_bytes<T>::box);
        }
    }
}

template <class T, class Op> static void oneshot_run(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args)
{
    const oneshot_memory memory = {{launch}};
    const uint64_t threads = launch->exact ? (uint64_t) launch->grid[0] * launch->block[0] : 1;
    const size_t bytes = (size_t) args.count * sizeof(T);
    bool complete = true;

    cudasim_shape(launch, 64, 4);
    if (launch->exact) {
        for (uint64_t thread = 0; thread < threads; ++thread) {
            oneshot_push<oneshot_memory, T>(memory, args, thread, threads);
        }
    } else {
        launch->traffic(launch, (uintptr_t) args.in, bytes, 0);
        push_folded<T>(memory, args);
        launch->traffic(launch, (uintptr_t) args.in, bytes, 0);
    }
    for (uint64_t thread = 0; thread < threads && complete; ++thread) {
        complete = oneshot_reduce<oneshot_memory, T, Op>(memory, args, thread, threads);
    }
    if (!launch->exact && complete) {
        launch->traffic(launch, (uintptr_t) args.out, bytes, 1);
    }
    const uint64_t done = args.number << 2 | (complete ? GPUHIER_ONESHOT_COMPLETE : GPUHIER_ONESHOT_LEFT);
    cudasim_push(launch, (uintptr_t) args.words + GPUHIER_ONESHOT_DONE, &done, sizeof(done));
}

#define GPUHIER_TWIN_ONESHOT(op, type) oneshot_run<t_##type, op_##op<t_##type>>,
const twin_oneshot_t twin_oneshot[] = {GPUHIER_KERNEL_LIST(GPUHIER_TWIN_ONESHOT)};

} /* namespace gpuhier */
