/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One logical thread of a one-shot kernel: what it pushes, and what it waits for, reduces and gathers. The same source
 * runs on the GPU and in the twin. Owns neither arithmetic (gpuhier_kernel_ops.h) nor accesses to elements
 * (gpuhier_kernel_body.h), nor the end of a grid (gpuhier_oneshot_entry.h).
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
#include "gpuhier_oneshot.h"

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
 * The elements that travel together. n: how many of them the message has, fewer only in its last unit. Whole units are
 * moved in wide accesses, whatever their alignment; the last one byte by byte, in code that is the same for all types.
 */
template <class T, bool Padded = is_padded<T>::value> struct unit {
    static constexpr uint32_t elements = GPUHIER_ONESHOT_UNIT / sizeof(T);
    static constexpr uint32_t lines = GPUHIER_ONESHOT_UNIT / 8;
    chunk<T> all;

    template <class M> GPUHIER_WALK void load(const M &memory, uint64_t address, uint64_t n)
    {
        if (n >= elements) {
            all.packed = load_wide(memory, address);
            return;
        }
        const uint32_t bytes = (uint32_t) n * sizeof(T);
        memory.touch(address, bytes, false);
        GPUHIER_UNROLL
        for (uint32_t w = 0; w < 4; ++w) {
            uint32_t word = 0;
            GPUHIER_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                if (4 * w + k < bytes) {
                    word |= (uint32_t) memory.template get<unsigned char>(address + 4 * w + k) << 8 * k;
                }
            }
            all.packed.word[w] = word;
        }
    }
    template <class M> GPUHIER_WALK void store(const M &memory, uint64_t address, uint64_t n) const
    {
        if (n >= elements) {
            store_wide(memory, address, all.packed);
            return;
        }
        const uint32_t bytes = (uint32_t) n * sizeof(T);
        memory.touch(address, bytes, true);
        GPUHIER_UNROLL
        for (uint32_t w = 0; w < 4; ++w) {
            GPUHIER_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                if (4 * w + k < bytes) {
                    memory.template put<unsigned char>(address + 4 * w + k,
                                                       (unsigned char) (all.packed.word[w] >> 8 * k));
                }
            }
        }
    }
    template <class Op> GPUHIER_WALK void combine(const unit &x)
    {
        all.template combine<Op>(x.all);
    }
    GPUHIER_WALK void pack(uint32_t data[2 * lines]) const
    {
        __builtin_memcpy(data, &all.packed, sizeof(all.packed));
    }
    GPUHIER_WALK void unpack(const uint32_t data[2 * lines])
    {
        __builtin_memcpy(&all.packed, data, sizeof(all.packed));
    }
};

/* A padded pair: its gap neither travels nor is written. It is kept as the words that travel, since nvcc 13 does not
 * terminate on loops that carry structs with gaps. */
template <class A, class B> struct unit<pair<A, B>, true> {
    typedef pair<A, B> T;
    static constexpr uint32_t elements = 1;
    static constexpr uint32_t lines = sizeof(T) / 8;
    static constexpr uint64_t second = __builtin_offsetof(T, b);
    uint32_t word[2 * lines];

    GPUHIER_WALK void put(A a, B b)
    {
        GPUHIER_UNROLL
        for (uint32_t k = 0; k < 2 * lines; ++k) {
            word[k] = 0;
        }
        __builtin_memcpy(word, &a, sizeof(a));
        __builtin_memcpy(word + second / 4, &b, sizeof(b));
    }
    GPUHIER_WALK void get(A &a, B &b) const
    {
        __builtin_memcpy(&a, word, sizeof(a));
        __builtin_memcpy(&b, word + second / 4, sizeof(b));
    }
    template <class M> GPUHIER_WALK void load(const M &memory, uint64_t address, uint64_t)
    {
        memory.touch(address, sizeof(T), false);
        if (0 == address % alignof(T)) {
            put(memory.template get<A>(address), memory.template get<B>(address + second));
        } else {
            put(load_bytes<M, A>(memory, address), load_bytes<M, B>(memory, address + second));
        }
    }
    template <class M> GPUHIER_WALK void store(const M &memory, uint64_t address, uint64_t) const
    {
        A a;
        B b;
        get(a, b);
        memory.touch(address, sizeof(T), true);
        if (0 == address % alignof(T)) {
            memory.template put<A>(address, a);
            memory.template put<B>(address + second, b);
        } else {
            store_bytes<M, A>(memory, address, a);
            store_bytes<M, B>(memory, address + second, b);
        }
    }
    template <class Op> GPUHIER_WALK void combine(const unit &x)
    {
        T mine, other;
        get(mine.a, mine.b);
        x.get(other.a, other.b);
        const T result = Op::apply(mine, other);
        put(result.a, result.b);
    }
    GPUHIER_WALK void pack(uint32_t data[2 * lines]) const
    {
        __builtin_memcpy(data, word, sizeof(word));
    }
    GPUHIER_WALK void unpack(const uint32_t data[2 * lines])
    {
        __builtin_memcpy(word, data, sizeof(word));
    }
};

template <class T> GPUHIER_WALK uint64_t units_of(uint64_t count)
{
    return (count + unit<T>::elements - 1) / unit<T>::elements;
}

/* Bytes of a unit, in a buffer and in a mailbox. */
template <class T> struct unit_bytes {
    static constexpr uint64_t buffer = unit<T>::elements * sizeof(T);
    static constexpr uint64_t box = unit<T>::lines * sizeof(line);
};

/* From the beginning of a part to the first line at a place. The unit's next line is next_line further. */
template <class T> GPUHIER_WALK uint64_t place_at(uint64_t place)
{
    constexpr uint64_t together = GPUHIER_ONESHOT_PLACES;
    return place / together * together * unit_bytes<T>::box + place % together * sizeof(line);
}
constexpr uint64_t next_line = GPUHIER_ONESHOT_PLACES * sizeof(line);

template <class M, class T>
GPUHIER_WALK unit<T> unit_load(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t u)
{
    unit<T> x;
    x.load(memory, args.in + u * unit_bytes<T>::buffer, args.count - u * unit<T>::elements);
    return x;
}

template <class M, class T>
GPUHIER_WALK void unit_push(const M &memory, uint64_t address, uint32_t flag, const uint32_t data[2 * unit<T>::lines])
{
    GPUHIER_UNROLL
    for (uint32_t l = 0; l < unit<T>::lines; ++l) {
        const line x = {{flagged(flag, data[2 * l]), flagged(flag, data[2 * l + 1])}};
        memory.push(address + l * next_line, x);
    }
}

/* Pushes a unit to where a place lies, the same for all peers, each rank beginning with the next one, so that no link
 * is used by all.
 */
template <class M, class T>
GPUHIER_WALK void unit_push_all(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t place,
                                const uint32_t data[2 * unit<T>::lines])
{
    for (uint32_t k = 1; k < args.nranks; ++k) {
        const uint32_t peer = (args.index + k) % args.nranks;
        unit_push<M, T>(memory, args.box[peer] + place, args.flag[peer], data);
    }
}

/* Pushes this thread's units: to all peers, or in two shots each to the rank that reduces it. */
template <class M, class T>
GPUHIER_WALK void oneshot_push(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    const uint64_t units = units_of<T>(args.count);

    for (uint64_t u = thread; u < units; u += threads) {
        const uint32_t peer = (uint32_t) u % args.nranks, place = (uint32_t) u / args.nranks;
        uint32_t data[2 * unit<T>::lines];
        if (0 == args.two_shots) {
            unit_load<M, T>(memory, args, u).pack(data);
            unit_push_all<M, T>(memory, args, place_at<T>(u), data);
        } else if (peer != args.index) {
            unit_load<M, T>(memory, args, u).pack(data);
            unit_push<M, T>(memory, args.box[peer] + place_at<T>(place), args.flag[peer], data);
        }
    }
}

/* Takes a unit out of the mailbox. False: not all of it is there. */
template <class M, class T>
GPUHIER_WALK bool unit_take(const M &memory, uint64_t address, uint32_t flag, uint32_t data[2 * unit<T>::lines])
{
    bool there = true;
    GPUHIER_UNROLL
    for (uint32_t l = 0; l < unit<T>::lines; ++l) {
        const line x = memory.take(address + l * next_line);
        GPUHIER_UNROLL
        for (uint32_t k = 0; k < 2; ++k) {
            there = there && flag == (uint32_t) (x.word[k] >> 32);
            data[2 * l + k] = (uint32_t) x.word[k];
        }
    }
    return there;
}

/*
 * Waits for the peers' share of this thread's units, and reduces; in two shots the units of this rank's shard, and
 * pushes the results. False: the kernel must leave.
 */
template <class M, class T, class Op>
GPUHIER_WALK bool oneshot_reduce(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    constexpr uint32_t group = 4; /* sources whose loads are under way at once */
    const uint64_t units = units_of<T>(args.count);
    const uint32_t flag = args.flag[args.index];

    for (uint64_t u = thread; u < units; u += threads) {
        if (0 != args.two_shots && args.index != (uint32_t) u % args.nranks) {
            continue;
        }
        const uint64_t place = place_at<T>(0 == args.two_shots ? u : (uint32_t) u / args.nranks);
        const unit<T> mine = unit_load<M, T>(memory, args, u);
        unit<T> acc = mine;
        for (uint32_t first = 0; first < args.nranks; first += group) {
            uint32_t data[group][2 * unit<T>::lines];
            uint32_t turns = 0;
            bool there = false;
            while (!there) {
                there = true;
                GPUHIER_UNROLL
                for (uint32_t g = 0; g < group; ++g) {
                    const uint32_t s = first + g;
                    if (s < args.nranks && s != args.index) {
                        const uint64_t from = args.own + s * args.part_bytes + place;
                        there = unit_take<M, T>(memory, from, flag, data[g]) && there;
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
                    unit<T> x = mine;
                    if (s != args.index) {
                        x.unpack(data[g]);
                    }
                    if (0 == s) {
                        acc = x;
                    } else {
                        acc.template combine<Op>(x);
                    }
                }
            }
        }
        if (0 != args.two_shots) {
            uint32_t data[2 * unit<T>::lines];
            acc.pack(data);
            unit_push_all<M, T>(memory, args, args.part_bytes / 2 + place, data);
        }
        acc.store(memory, args.out + u * unit_bytes<T>::buffer, args.count - u * unit<T>::elements);
    }
    return true;
}

/* In two shots: waits for the peers' results of this thread's units. False: the kernel must leave. */
template <class M, class T>
GPUHIER_WALK bool oneshot_gather(const M &memory, const gpuhier_oneshot_args_t &args, uint64_t thread, uint64_t threads)
{
    const uint64_t units = 0 == args.two_shots ? 0 : units_of<T>(args.count);
    const uint32_t flag = args.flag[args.index];

    for (uint64_t u = thread; u < units; u += threads) {
        const uint32_t peer = (uint32_t) u % args.nranks, place = (uint32_t) u / args.nranks;
        const uint64_t from = args.own + peer * args.part_bytes + args.part_bytes / 2 + place_at<T>(place);
        uint32_t data[2 * unit<T>::lines];
        uint32_t turns = 0;
        if (peer == args.index) {
            continue;
        }
        while (!unit_take<M, T>(memory, from, flag, data)) {
            if (memory.stops(args, ++turns)) {
                return false;
            }
        }
        unit<T> x;
        x.unpack(data);
        x.store(memory, args.out + u * unit_bytes<T>::buffer, args.count - u * unit<T>::elements);
    }
    return true;
}

} /* namespace gpuhier */

#endif /* GPUHIER_ONESHOT_BODY_H */
