/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one-shot kernels' twin, from the kernels' own source. Folded form (launch->exact 0): one logical thread, whose
 * lines for neighbouring places are pushed together. Exact form: every logical thread pushes, then every one waits and
 * reduces, then every one gathers, and every access to a user's buffer is reported. Called by the table in
 * gpuhier_twin.cc.
 */
#ifndef __clang__
#    pragma GCC optimize("O2") /* it waits more than it computes */
#endif

#include "gpuhier_twin.h"

#include <bitset>
#include <memory>

namespace [[gnu::visibility("hidden")]] gpuhier
{

/* Lines that the folded form pushes at a time: a push of one line costs the emulator more than the line. They fill a
 * stretch of a mailbox, in any order. */
struct run {
    static constexpr uint64_t most = 512;
    uint64_t address;         /* of lines[0] */
    std::bitset<most> filled; /* lines[] to push */
    line lines[most];
};

/* The runs under way, and where the last line went. */
struct runs {
    run at[GPUHIER_KERNEL_MAX_PEERS];
    uint32_t used, last;
    bool full;      /* one of them */
    uint32_t first; /* to be pushed: kernels that begin with the same peer would queue for its link */
};

struct oneshot_memory : twin_memory {
    const gpuhier_oneshot_args_t *args;
    runs *open;
    mutable uint64_t missing; /* the line that did not have its flag */
    mutable uint64_t unread;  /* bytes of the mailbox that were waited for, and whose loads have taken no time so far */

    void flush() const
    {
        if (open->used > 0 && unread > 0) {
            launch->traffic(launch, (uintptr_t) args->own, (size_t) unread, 0);
            unread = 0;
        }
        for (uint32_t k = 0; k < open->used; ++k) {
            run_push(open->at[(open->first + k) % open->used]);
        }
        open->used = 0;
        open->full = false;
    }
    /* Pushes what is filled, without the gaps. */
    void run_push(const run &r) const
    {
        for (uint64_t end, begin = 0; begin < run::most; begin = end) {
            for (end = begin + 1; end < run::most && r.filled[end] == r.filled[begin]; ++end) {
            }
            if (r.filled[begin]) {
                cudasim_push(launch, (uintptr_t) (r.address + begin * sizeof(line)), &r.lines[begin],
                             (size_t) (end - begin) * sizeof(line));
            }
        }
    }
    void push(uint64_t address, const line &x) const
    {
        twin_demand_aligned(address, sizeof(x.word));
        if (launch->exact) {
            cudasim_push(launch, (uintptr_t) address, x.word, sizeof(x.word));
            return;
        }
        run &r = run_of(address);
        const uint64_t at = (address - r.address) / sizeof(line);
        r.lines[at] = x;
        r.filled.set(at);
        open->full = open->full || r.filled.all();
    }
    /* The run in whose stretch the address lies: the last one, or one after it, or a new one. Where one is full, so are
     * those of the other peers before a new one is needed. */
    run &run_of(uint64_t address) const
    {
        for (uint32_t k = 0; k < open->used; ++k) {
            const uint32_t i = (open->last + k) % open->used;
            if (address - open->at[i].address < sizeof(open->at[i].lines)) {
                open->last = i;
                return open->at[i];
            }
        }
        if (open->full || GPUHIER_KERNEL_MAX_PEERS == open->used) {
            flush();
        }
        run &r = open->at[open->last = open->used++];
        r.address = address;
        r.filled.reset();
        return r;
    }
    line take(uint64_t address) const
    {
        twin_demand_aligned(address, sizeof(line));
        const uint64_t *word = (const uint64_t *) cudasim_host_view(launch, (uintptr_t) address);
        const line x{{__atomic_load_n(word, __ATOMIC_ACQUIRE), __atomic_load_n(word + 1, __ATOMIC_ACQUIRE)}};
        if (x.word[0] >> 32 != args->flag[args->index] || x.word[1] >> 32 != args->flag[args->index]) {
            missing = address;
        }
        return x;
    }
    /* Sleeps until the peer whose line is missing begins to push, or for a moment if it has begun. */
    void rest() const
    {
        const uint64_t half = args->two_shots ? args->part_bytes / 2 : args->part_bytes;
        const uint64_t first = missing - (missing - args->own) % half;
        const auto *word = (const uint64_t *) cudasim_host_view(launch, (uintptr_t) first);
        const uint32_t seen = (uint32_t) (__atomic_load_n(word, __ATOMIC_ACQUIRE) >> 32);
        cudasim_await(launch, (uintptr_t) first, seen == args->flag[args->index] ? ~seen : seen);
    }
    bool stops(const gpuhier_oneshot_args_t &args, uint32_t) const
    {
        const uint64_t *word =
            (const uint64_t *) cudasim_host_view(launch, (uintptr_t) args.words + GPUHIER_ONESHOT_ABORT);
        flush();
        rest();
        return args.number == __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
};

static void oneshot_end(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args, bool complete)
{
    const uint64_t done = args.number << 2 | (complete ? GPUHIER_ONESHOT_COMPLETE : GPUHIER_ONESHOT_LEFT);
    cudasim_push(launch, (uintptr_t) args.words + GPUHIER_ONESHOT_DONE, &done, sizeof(done));
}

/* What the kernel waits for, by pairs: bytes of the mailbox. */
static uint64_t pairs_unread(const gpuhier_oneshot_args_t &args)
{
    uint64_t units = 0;
    for (uint32_t s = 0; s < args.nranks; ++s) {
        units += s == args.index ? 0 : units_of(taken_of(args, s).bytes);
    }
    return units * unit_bytes * GPUHIER_ONESHOT_WIRE;
}

void twin_oneshot_move(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args)
{
    const std::unique_ptr<runs> open(new runs());
    const oneshot_memory memory = {{launch}, &args, open.get(), 0, 0};
    const uint64_t threads = launch->exact ? (uint64_t) launch->grid[0] * launch->block[0] : 1;
    bool complete = true;

    cudasim_shape(launch, 64, 4);
    if (!launch->exact) {
        twin_pairs_traffic(launch, args, true);
    }
    for (uint64_t thread = 0; thread < threads; ++thread) {
        oneshot_give(memory, args, thread, threads);
    }
    memory.flush();
    memory.unread = launch->exact ? 0 : pairs_unread(args);
    for (uint64_t thread = 0; thread < threads && complete; ++thread) {
        complete = oneshot_move(memory, args, thread, threads);
    }
    memory.flush();
    if (!launch->exact && complete) {
        twin_pairs_traffic(launch, args, false);
    }
    oneshot_end(launch, args, complete);
}

template <class T, class Op> static void oneshot_run(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args)
{
    const std::unique_ptr<runs> open(new runs);
    const oneshot_memory memory = {{launch}, &args, open.get(), 0, 0};
    const uint64_t threads = launch->exact ? (uint64_t) launch->grid[0] * launch->block[0] : 1;
    const size_t bytes = (size_t) args.count * sizeof(T);
    const uint64_t mine = (units_of(bytes) + args.nranks - 1 - args.index) / args.nranks; /* my shard's units */
    bool complete = true;

    open->used = open->last = 0;
    open->full = false;
    open->first = args.two_shots ? args.index : 0;

    cudasim_shape(launch, 64, 4);
    if (!launch->exact && args.by_pairs) {
        twin_pairs_traffic(launch, args, true);
    } else if (!launch->exact) {
        launch->traffic(launch, (uintptr_t) args.in, bytes, 0);
    }
    for (uint64_t thread = 0; thread < threads; ++thread) {
        oneshot_push<oneshot_memory, T>(memory, args, thread, threads);
    }
    memory.flush();
    open->first = 0;
    if (!launch->exact && args.by_pairs) {
        memory.unread = pairs_unread(args);
    } else if (!launch->exact) {
        const uint64_t again = args.two_shots ? mine * unit_bytes : bytes;
        launch->traffic(launch, (uintptr_t) args.in, (size_t) (again < bytes ? again : bytes), 0);
        memory.unread = args.two_shots ? mine * unit_bytes * GPUHIER_ONESHOT_WIRE * (args.nranks - 1) : 0;
    }
    for (uint64_t thread = 0; thread < threads && complete; ++thread) {
        complete = oneshot_reduce<oneshot_memory, T, Op>(memory, args, thread, threads);
    }
    memory.flush();
    for (uint64_t thread = 0; thread < threads && complete; ++thread) {
        complete = oneshot_gather<oneshot_memory, T>(memory, args, thread, threads);
    }
    const uint64_t written = args.by_pairs ? args.given.bytes[args.index] : bytes;
    if (!launch->exact && complete && written > 0) {
        launch->traffic(launch, (uintptr_t) args.out, (size_t) written, 1);
    }
    oneshot_end(launch, args, complete);
}

#define GPUHIER_TWIN_ONESHOT(op, type) oneshot_run<elem_##type, op_##op##_##type>,
const twin_oneshot_t twin_oneshot[] = {GPUHIER_KERNEL_LIST(GPUHIER_TWIN_ONESHOT)};

} /* namespace gpuhier */
