/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one-shot kernels' folded form where no modelled time is kept: the whole grid as loops over blocks of units, which
 * are as fast as host code can move them. It is for all types without gaps; of a type it needs the size of an element
 * only, and the loop that combines elements (gpuhier_twin.cc). Called by gpuhier_twin_oneshot.cc.
 *
 * Blocks are pushed from the last to the first, so a part of a mailbox is complete once its first word has arrived, and
 * a peer can sleep on that word.
 */
#ifndef __clang__
#    pragma GCC optimize("O3")
#endif

#include "gpuhier_twin.h"

#include <memory>

namespace [[gnu::visibility("hidden")]] gpuhier
{

static constexpr uint64_t unit_size = GPUHIER_ONESHOT_UNIT;
static constexpr uint64_t place_size = unit_size * GPUHIER_ONESHOT_WIRE; /* of a unit, in a mailbox */
static constexpr uint64_t group = GPUHIER_ONESHOT_PLACES;                /* of units, whose lines lie together */
static constexpr uint64_t block_units = 256;

/* A line, or the data of a unit. As in the kernels, each half of a line is loaded whole. */
typedef uint32_t words __attribute__((vector_size(16), may_alias));

static inline words mixed(words a, words b, words order)
{
#ifdef __clang__
    words all[2] = {a, b};
    return words{((uint32_t *) all)[order[0]], ((uint32_t *) all)[order[1]], ((uint32_t *) all)[order[2]],
                 ((uint32_t *) all)[order[3]]};
#else
    return __builtin_shuffle(a, b, order);
#endif
}

struct alignas(16) block {
    uint32_t word[block_units * unit_size / 4];
};

/* A shard of a message: in one shot, and by pairs, all of it. */
struct part : message {
    uint32_t shard;
};

struct folded {
    const cudasim_launch_t *launch;
    const gpuhier_oneshot_args_t &args;
    uint64_t bytes; /* of the longest message */

    uint64_t half() const
    {
        return args.two_shots ? args.part_bytes / 2 : args.part_bytes;
    }
    /* What this rank gives to a rank, and what it writes of what it takes of one. */
    part given(uint32_t rank) const
    {
        return args.by_pairs ? part{given_to(args, rank), 0} : shard_of(args.in, rank);
    }
    part taken(uint32_t rank) const
    {
        return args.by_pairs ? part{taken_of(args, rank), 0} : shard_of(args.out, rank);
    }
    part shard_of(uint64_t at, uint32_t rank) const
    {
        return {{at, bytes}, args.two_shots ? rank : 0};
    }

    /* Units between two neighbouring places of a part; its units, the number of one of them, and its length. */
    uint64_t stride() const
    {
        return args.two_shots ? args.nranks : 1;
    }
    uint64_t places(const part &p) const
    {
        return ((p.bytes + unit_size - 1) / unit_size + stride() - 1 - p.shard) / stride();
    }
    uint64_t unit_at(const part &p, uint64_t place) const
    {
        return place * stride() + p.shard;
    }
    uint64_t length(const part &p, uint64_t unit) const
    {
        return p.bytes - unit * unit_size < unit_size ? p.bytes - unit * unit_size : unit_size;
    }
    /* How many of n units from a place on are whole. */
    uint64_t whole(const part &p, uint64_t place, uint64_t n) const
    {
        return length(p, unit_at(p, place + n - 1)) < unit_size ? n - 1 : n;
    }

    /* The units at n places, one behind the other; the message's last one is filled up with zeros. */
    void load(block &to, const part &p, uint64_t place, uint64_t n) const
    {
        const auto *begin = (const char *) cudasim_host_view(launch, (uintptr_t) p.at);
        const char *from = begin + unit_at(p, place) * unit_size; /* at any alignment */
        auto *data = (words *) to.word;
        const uint64_t all = whole(p, place, n), step = stride() * unit_size;
        for (uint64_t k = 0; k < all; ++k) {
            memcpy(&data[k], from + k * step, unit_size);
        }
        if (all < n) {
            data[all] = words{};
            memcpy(&data[all], from + all * step, length(p, unit_at(p, place + all)));
        }
    }
    void store(const block &from, const part &p, uint64_t place, uint64_t n) const
    {
        auto *begin = (char *) cudasim_host_view(launch, (uintptr_t) p.at);
        char *to = begin + unit_at(p, place) * unit_size; /* at any alignment */
        const auto *data = (const words *) from.word;
        const uint64_t all = whole(p, place, n), step = stride() * unit_size;
        for (uint64_t k = 0; k < all; ++k) {
            memcpy(to + k * step, &data[k], unit_size);
        }
        if (all < n) {
            memcpy(to + all * step, &data[all], length(p, unit_at(p, place + all)));
        }
    }

    /* Pushes n units to places from `to` on, where a group of lines begins. */
    void push(uint64_t to, uint32_t flag, const block &from, uint64_t n) const
    {
        alignas(16) words lines[block_units * GPUHIER_ONESHOT_WIRE];
        const words flags = {flag, flag, flag, flag};
        const auto *data = (const words *) from.word;
        for (uint64_t k = 0; k < n; k += group) {
            words *line = lines + k * GPUHIER_ONESHOT_WIRE;
            const uint64_t some = n - k < group ? n - k : group;
            for (uint64_t i = 0; i < some; ++i) {
                line[i] = mixed(data[k + i], flags, words{0, 4, 1, 5});
                line[group + i] = mixed(data[k + i], flags, words{2, 6, 3, 7});
            }
        }
        const uint64_t rest = n % group, whole = n - rest;
        if (rest > 0) {
            const uint64_t end = to + whole * place_size;
            const words *line = lines + whole * GPUHIER_ONESHOT_WIRE;
            cudasim_push(launch, (uintptr_t) (end + group * unit_size), line + group, (size_t) (rest * unit_size));
            cudasim_push(launch, (uintptr_t) end, line, (size_t) (rest * unit_size));
        }
        if (whole > 0) {
            cudasim_push(launch, (uintptr_t) to, lines, (size_t) (whole * place_size));
        }
    }
    /* To the same places for all peers. */
    void push_all(uint64_t offset, const block &from, uint64_t n) const
    {
        for (uint32_t k = 1; k < args.nranks; ++k) {
            const uint32_t peer = (args.index + k) % args.nranks;
            push(args.box[peer] + offset, args.flag[peer], from, n);
        }
    }

    /* Takes n units out of the mailbox. False: not all of them are there. */
    bool look(block &to, uint64_t from, uint64_t n) const
    {
        const auto *lines = (const volatile words *) cudasim_host_view(launch, (uintptr_t) from);
        auto *data = (words *) to.word;
        const uint32_t flag = args.flag[args.index];
        const words flags = {0, flag, 0, flag}, upper = {0, ~0u, 0, ~0u};
        words wrong = {};
        for (uint64_t k = 0; k < n; k += group) {
            const volatile words *line = lines + k * GPUHIER_ONESHOT_WIRE;
            const uint64_t some = n - k < group ? n - k : group;
            for (uint64_t i = 0; i < some; ++i) {
                const words one = line[i], two = line[group + i];
                wrong |= (one ^ flags) | (two ^ flags);
                data[k + i] = mixed(one, two, words{0, 2, 4, 6});
            }
        }
        wrong &= upper;
        return 0 == (wrong[1] | wrong[3]);
    }
    /* Waits until they are there, for the part of the mailbox that begins at `part`. False: the kernel must leave. */
    bool take(block &to, uint64_t part, uint64_t place, uint64_t n) const
    {
        const auto *stop = (const uint64_t *) cudasim_host_view(launch, (uintptr_t) args.words + GPUHIER_ONESHOT_ABORT);
        const auto *first = (const uint64_t *) cudasim_host_view(launch, (uintptr_t) part);
        const uint32_t flag = args.flag[args.index];
        for (;;) {
            const uint32_t seen = (uint32_t) (__atomic_load_n(first, __ATOMIC_ACQUIRE) >> 32);
            if (flag == seen && look(to, part + place * place_size, n)) {
                return true;
            }
            cudasim_await(launch, (uintptr_t) part, flag == seen ? ~seen : seen);
            if (args.number == __atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
                return false;
            }
        }
    }
    uint64_t part_of(uint32_t rank) const
    {
        return args.own + rank * args.part_bytes;
    }

    /* Blocks of places, of which shard 0 of the longest message has the most; and what a part has of block number b. */
    uint64_t blocks() const
    {
        return (places(shard_of(0, 0)) + block_units - 1) / block_units;
    }
    uint64_t within(const part &p, uint64_t b) const
    {
        const uint64_t all = places(p), before = b * block_units;
        return all <= before ? 0 : all - before < block_units ? all - before : block_units;
    }

    /* Block by block, and not shard by shard: the shards' units lie side by side in the input. */
    void push_input(block &data) const
    {
        for (uint64_t b = blocks(); b-- > 0;) {
            const uint64_t place = b * block_units;
            if (!args.two_shots && !args.by_pairs) {
                load(data, given(0), place, within(given(0), b));
                push_all(place * place_size, data, within(given(0), b));
                continue;
            }
            for (uint32_t k = 1; k < args.nranks; ++k) {
                const uint32_t peer = (args.index + k) % args.nranks;
                if (const uint64_t n = within(given(peer), b); n > 0) {
                    load(data, given(peer), place, n);
                    push(args.box[peer] + place * place_size, args.flag[peer], data, n);
                }
            }
        }
    }
    /* In two shots `results` has room for all of this rank's shard. */
    bool reduce(block *data, block *results, uint32_t elem_bytes, twin_combine_t combine) const
    {
        const void *from[GPUHIER_KERNEL_MAX_PEERS];
        for (uint64_t b = blocks(); b-- > 0;) {
            const uint64_t place = b * block_units, n = within(given(args.index), b);
            block &result = args.two_shots ? results[b] : *results;
            if (0 == n) {
                continue;
            }
            load(data[args.index], given(args.index), place, n);
            for (uint32_t s = 0; s < args.nranks; ++s) {
                from[s] = data + s;
                if (s != args.index && !take(data[s], part_of(s), place, n)) {
                    return false;
                }
            }
            combine(&result, from, args.nranks, n * unit_size / elem_bytes);
            if (args.two_shots) {
                push_all(half() + place * place_size, result, n);
            } else {
                store(result, taken(args.index), place, n);
            }
        }
        return true;
    }
    bool move(block &data) const
    {
        const part mine = taken(args.index);
        if (mine.bytes > 0 && mine.at != given(args.index).at) {
            memcpy(cudasim_host_view(launch, (uintptr_t) mine.at),
                   cudasim_host_view(launch, (uintptr_t) given(args.index).at), mine.bytes);
        }
        for (uint64_t b = blocks(); b-- > 0;) {
            const uint64_t place = b * block_units;
            for (uint32_t s = 0; s < args.nranks; ++s) {
                if (const uint64_t n = s == args.index ? 0 : within(taken(s), b); n > 0) {
                    if (!take(data, part_of(s), place, n)) {
                        return false;
                    }
                    store(data, taken(s), place, n);
                }
            }
        }
        return true;
    }
    bool gather(block &data, const block *results) const
    {
        for (uint64_t b = args.two_shots ? blocks() : 0; b-- > 0;) {
            const uint64_t place = b * block_units;
            for (uint32_t shard = 0; shard < args.nranks; ++shard) {
                const uint64_t n = within(taken(shard), b);
                if (n > 0 && shard != args.index && !take(data, part_of(shard) + half(), place, n)) {
                    return false;
                }
                if (n > 0) {
                    store(shard == args.index ? results[b] : data, taken(shard), place, n);
                }
            }
        }
        return true;
    }
};

void twin_oneshot_folded(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args, uint32_t elem_bytes,
                         twin_combine_t combine)
{
    const uint64_t bytes = args.count * elem_bytes;
    const folded all = {launch, args, bytes};
    const std::unique_ptr<block[]> data(new block[args.nranks + (args.two_shots ? all.blocks() : 1)]);
    block *results = data.get() + args.nranks;
    const bool pairs = args.by_pairs;
    const uint64_t shard = all.places(all.given(args.index)) * unit_size;

    if (pairs) {
        twin_pairs_traffic(launch, args, true);
    } else {
        launch->traffic(launch, (uintptr_t) args.in, (size_t) bytes, 0);
    }
    all.push_input(data[0]);
    if (!pairs) {
        launch->traffic(launch, (uintptr_t) args.in, (size_t) (shard < bytes ? shard : bytes), 0);
    }
    const bool complete = nullptr == combine
                              ? all.move(data[0])
                              : all.reduce(data.get(), results, elem_bytes, combine) && all.gather(data[0], results);
    if (complete && nullptr == combine) {
        twin_pairs_traffic(launch, args, false);
    } else if (complete && all.taken(args.index).bytes > 0) {
        launch->traffic(launch, (uintptr_t) args.out, (size_t) all.taken(args.index).bytes, 1);
    }
    const uint64_t done = args.number << 2 | (complete ? GPUHIER_ONESHOT_COMPLETE : GPUHIER_ONESHOT_LEFT);
    cudasim_push(launch, (uintptr_t) args.words + GPUHIER_ONESHOT_DONE, &done, sizeof(done));
}

} /* namespace gpuhier */
