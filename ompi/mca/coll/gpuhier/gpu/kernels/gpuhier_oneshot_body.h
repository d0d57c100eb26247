/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One logical thread of a one-shot kernel: what it pushes, and what it waits for, reduces and gathers. The same source
 * runs on the GPU and in the twin. Owns neither arithmetic (gpuhier_kernel_ops.h) nor accesses to elements
 * (gpuhier_kernel_body.h), nor the end of a grid (gpuhier_kernels.cu).
 *
 * A memory offers, beside get, put and touch: push(address, line), which stores two words; take(address), which loads
 * two words, each of them whole; and stops(args, turns), one turn of waiting, which says whether the kernel must
 * leave.
 *
 * Unit u belongs to thread u mod threads, in all parts of the kernel and on all ranks. So in place is safe: a thread
 * reads a unit of `in`, pushes it, reads it again for its own share of the result, and only then writes it. And a
 * thread waits for threads of the same number only: it pushes all its input first, and all its results before it waits
 * for those of the peers.
 */
#ifndef GPUHIER_ONESHOT_BODY_H
#define GPUHIER_ONESHOT_BODY_H

#include "gpuhier_kernel_body.h"
#include "gpuhier_kernels.h"

namespace gpuhier
{

/* What one access moves in a mailbox. */
struct alignas(16) line {
    uint64_t word[2];
};

GPUHIER_WALK uint64_t flagged(uint32_t flag, uint32_t data)
{
    return (uint64_t) flag << 32 | data;
}

/*
 * A unit is a chunk of the message. `left` is what the message has from there on, in bytes: less than a unit only for
 * the last one. Whole units are moved in wide accesses, whatever their alignment; a shorter one byte by byte, in code
 * that is the same for all types.
 */
constexpr uint64_t unit_bytes = GPUHIER_ONESHOT_UNIT, lines = 2;
constexpr uint32_t warp = GPUHIER_ONESHOT_PLACES; /* neighbouring threads have neighbouring places */
constexpr uint64_t next_line = GPUHIER_ONESHOT_PLACES * sizeof(line); /* from a unit's first line to its second one */

GPUHIER_WALK uint64_t units_of(uint64_t bytes)
{
    return (bytes + unit_bytes - 1) / unit_bytes;
}

/* From the beginning of a part to the first line at a place. */
GPUHIER_WALK uint64_t place_at(uint64_t place)
{
    constexpr uint64_t together = GPUHIER_ONESHOT_PLACES;
    return place / together * together * lines * sizeof(line) + place % together * sizeof(line);
}

template <class M> GPUHIER_WALK wide unit_load(const M &memory, uint64_t address, uint64_t left)
{
    wide value;
    if (left >= unit_bytes) {
        return load_wide(memory, address);
    }
    memory.touch(address, left, false);
    GPUHIER_UNROLL
    for (uint32_t w = 0; w < 4; ++w) {
        value.word[w] = 0;
        GPUHIER_UNROLL
        for (uint32_t k = 0; k < 4; ++k) {
            if (4 * w + k < left) {
                value.word[w] |= (uint32_t) memory.template get<unsigned char>(address + 4 * w + k) << 8 * k;
            }
        }
    }
    return value;
}

template <class M, class T>
GPUHIER_WALK void unit_store(const M &memory, uint64_t address, uint64_t left, const chunk<T> &value)
{
    if (left >= unit_bytes) {
        store_chunk<false>(memory, address, value);
        return;
    }
    if constexpr (is_padded<T>::value) {
        T first; /* of two */
        __builtin_memcpy(&first, &value.packed, sizeof(first));
        store_element<false>(memory, address, first);
        return;
    }
    memory.touch(address, left, true);
    GPUHIER_UNROLL
    for (uint32_t w = 0; w < 4; ++w) {
        GPUHIER_UNROLL
        for (uint32_t k = 0; k < 4; ++k) {
            if (4 * w + k < left) {
                memory.template put<unsigned char>(address + 4 * w + k,
                                                   (unsigned char) (value.packed.word[w] >> 8 * k));
            }
        }
    }
}

template <class M> GPUHIER_WALK void unit_push(const M &memory, uint64_t address, uint32_t flag, const wide &value)
{
    GPUHIER_UNROLL
    for (uint32_t l = 0; l < lines; ++l) {
        const line x = {{flagged(flag, value.word[2 * l]), flagged(flag, value.word[2 * l + 1])}};
        memory.push(address + l * next_line, x);
    }
}

/* Pushes a unit to where a place lies, the same for all peers, each rank beginning with the next one, so that no link
 * is used by all.
 */
template <class M>
GPUHIER_WALK void unit_push_all(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t place, const wide &value)
{
    for (uint32_t k = 1; k < args.nranks; ++k) {
        const uint32_t peer = (args.index + k) % args.nranks;
        unit_push(memory, args.box[peer] + place, args.flag[peer], value);
    }
}

/* Takes a unit out of the mailbox. False: not all of it is there. */
template <class M> GPUHIER_WALK bool unit_take(const M &memory, uint64_t address, uint32_t flag, wide &value)
{
    bool there = true;
    GPUHIER_UNROLL
    for (uint32_t l = 0; l < lines; ++l) {
        const line x = memory.take(address + l * next_line);
        GPUHIER_UNROLL
        for (uint32_t k = 0; k < 2; ++k) {
            there = there && flag == (uint32_t) (x.word[k] >> 32);
            value.word[2 * l + k] = (uint32_t) x.word[k];
        }
    }
    return there;
}

/* By pairs: a message that this rank gives to a rank, or takes of it. */
struct message {
    uint64_t at, bytes;
};

GPUHIER_WALK message given_to(const gpuhier_oneshot_args_t &args, uint32_t rank)
{
    return {args.in + args.given.at[rank], args.given.bytes[rank]};
}

GPUHIER_WALK message taken_of(const gpuhier_oneshot_args_t &args, uint32_t rank)
{
    return {args.out + args.taken.at[rank], args.taken.bytes[rank]};
}

/* Pushes this thread's units of the messages, the longest of which has so many bytes, that this rank gives to the
 * peers. */
template <class M>
GPUHIER_WALK void oneshot_push_pairs(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t longest,
                                     uint64_t thread, uint64_t threads)
{
    for (uint64_t u = thread; u < units_of(longest); u += threads) {
        for (uint32_t k = 1; k < args.nranks; ++k) {
            const uint32_t peer = (args.index + k) % args.nranks;
            const message given = given_to(args, peer);
            if (u * unit_bytes < given.bytes) {
                const wide value = unit_load(memory, given.at + u * unit_bytes, given.bytes - u * unit_bytes);
                unit_push(memory, args.box[peer] + place_at(u), args.flag[peer], value);
            }
        }
    }
}

/* Pushes this thread's units: to all peers, or in two shots each to the rank that reduces it. */
template <class M, class T>
GPUHIER_WALK void oneshot_push(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    const uint64_t bytes = args.count * sizeof(T);

    if (0 != args.by_pairs) {
        oneshot_push_pairs(memory, args, bytes, thread, threads);
        return;
    }
    for (uint64_t u = thread; u < units_of(bytes); u += threads) {
        const uint32_t peer = (uint32_t) u % args.nranks, place = (uint32_t) u / args.nranks;
        if (0 != args.two_shots && peer == args.index) {
            continue;
        }
        const wide value = unit_load(memory, args.in + u * unit_bytes, bytes - u * unit_bytes);
        if (0 != args.two_shots) {
            unit_push(memory, args.box[peer] + place_at(place), args.flag[peer], value);
        } else {
            unit_push_all(memory, args, place_at(u), value);
        }
    }
}

/*
 * Waits for the peers' share of this thread's units, and reduces; in two shots the units of this rank's shard, and
 * pushes the results. False: the kernel must leave.
 */
template <class M, class T, class Op>
GPUHIER_WALK bool oneshot_reduce(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    constexpr uint32_t group = 4; /* sources whose loads are under way at once */
    const auto [in, bytes] = 0 != args.by_pairs ? given_to(args, args.index) : message{args.in, args.count * sizeof(T)};
    const uint32_t flag = args.flag[args.index];

    for (uint64_t u = thread; u < units_of(bytes); u += threads) {
        if (0 != args.two_shots && args.index != (uint32_t) u % args.nranks) {
            continue;
        }
        const uint64_t place = place_at(0 == args.two_shots ? u : (uint32_t) u / args.nranks);
        const wide mine = unit_load(memory, in + u * unit_bytes, bytes - u * unit_bytes);
        chunk<T> acc = {mine};
        for (uint32_t first = 0; first < args.nranks; first += group) {
            wide taken[group];
            uint32_t turns = 0;
            bool there = false;
            while (!there) {
                there = true;
                GPUHIER_UNROLL
                for (uint32_t g = 0; g < group; ++g) {
                    const uint32_t s = first + g;
                    if (s < args.nranks && s != args.index) {
                        const uint64_t from = args.own + s * args.part_bytes + place;
                        there = unit_take(memory, from, flag, taken[g]) && there;
                    }
                }
                if (!there && memory.stops(args, ++turns)) {
                    return false;
                }
            }
            GPUHIER_UNROLL
            for (uint32_t g = 0; g < group; ++g) {
                const uint32_t s = first + g;
                if (s < args.nranks) {
                    const chunk<T> x = {s != args.index ? taken[g] : mine};
                    if (0 == s) {
                        acc = x;
                    } else {
                        acc.template combine<Op>(x);
                    }
                }
            }
        }
        if (0 != args.two_shots) {
            unit_push_all(memory, args, args.part_bytes / 2 + place, acc.packed);
        }
        unit_store(memory, args.out + u * unit_bytes, bytes - u * unit_bytes, acc);
    }
    return true;
}

/* In two shots: waits for the peers' results of this thread's units. False: the kernel must leave. */
template <class M, class T>
GPUHIER_WALK bool oneshot_gather(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    const uint64_t bytes = args.count * sizeof(T), units = 0 == args.two_shots ? 0 : units_of(bytes);
    const uint32_t flag = args.flag[args.index];

    for (uint64_t u = thread; u < units; u += threads) {
        const uint32_t peer = (uint32_t) u % args.nranks, place = (uint32_t) u / args.nranks;
        const uint64_t from = args.own + peer * args.part_bytes + args.part_bytes / 2 + place_at(place);
        chunk<T> result;
        uint32_t turns = 0;
        if (peer == args.index) {
            continue;
        }
        while (!unit_take(memory, from, flag, result.packed)) {
            if (memory.stops(args, ++turns)) {
                return false;
            }
        }
        unit_store(memory, args.out + u * unit_bytes, bytes - u * unit_bytes, result);
    }
    return true;
}

/*
 * gpuhier_oneshot_move has a thread for each unit of each pair of ranks, so that it waits for one load and not for one
 * after the other. A warp has neighbouring units of one pair, and the next warp those of another one. Both ranks of a
 * pair give it the same number, so here, too, threads wait for threads of the same number, and in place one thread
 * reads a unit and then overwrites it.
 */
struct pair_unit {
    uint32_t peer;
    uint64_t at; /* bytes before it in the messages */
};

GPUHIER_WALK uint32_t pair_units(const gpuhier_oneshot_args_t &args)
{
    return ((uint32_t) units_of(args.count) + warp - 1) / warp * warp * args.nranks;
}

GPUHIER_WALK pair_unit pair_unit_of(const gpuhier_oneshot_args_t &args, uint32_t number)
{
    const uint32_t pair = number / warp % args.nranks, unit = number / warp / args.nranks * warp + number % warp;
    return {(pair + args.nranks - args.index) % args.nranks, unit * unit_bytes};
}

/* Pushes this thread's units of the messages that this rank gives to the peers. */
template <class M>
GPUHIER_WALK void oneshot_give(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    for (uint32_t n = (uint32_t) thread; n < pair_units(args); n += (uint32_t) threads) {
        const auto [peer, at] = pair_unit_of(args, n);
        const message given = given_to(args, peer);
        if (peer != args.index && at < given.bytes) {
            unit_push(memory, args.box[peer] + place_at(at / unit_bytes), args.flag[peer],
                      unit_load(memory, given.at + at, given.bytes - at));
        }
    }
}

/* Waits for this thread's units of the peers' messages, and stores them and those of its own one. False: the kernel
 * must leave. */
template <class M>
GPUHIER_WALK bool oneshot_move(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    const uint32_t flag = args.flag[args.index];
    const uint64_t own = given_to(args, args.index).at;

    for (uint32_t n = (uint32_t) thread; n < pair_units(args); n += (uint32_t) threads) {
        const auto [peer, at] = pair_unit_of(args, n);
        const message taken = taken_of(args, peer);
        const bool is_own = peer == args.index;
        const uint64_t from = args.own + peer * args.part_bytes + place_at(at / unit_bytes);
        chunk<unsigned char> value;
        uint32_t turns = 0;
        if (at >= taken.bytes || (is_own && own == taken.at)) {
            continue;
        }
        if (is_own) {
            value.packed = unit_load(memory, own + at, taken.bytes - at);
        }
        while (!is_own && !unit_take(memory, from, flag, value.packed)) {
            if (memory.stops(args, ++turns)) {
                return false;
            }
        }
        unit_store(memory, taken.at + at, taken.bytes - at, value);
    }
    return true;
}

} /* namespace gpuhier */

#endif /* GPUHIER_ONESHOT_BODY_H */
