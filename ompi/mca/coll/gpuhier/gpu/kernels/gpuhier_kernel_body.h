/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One logical thread of a kernel: which elements it takes and how it moves them. The same source runs on the GPU, where
 * memory is plain accesses, and in the twin's exact form, where accesses are translated and counted. Owns no arithmetic
 * (gpuhier_kernel_ops.h) and no entry points (gpuhier_kernels.cu).
 *
 *      0    head                                              count
 *      | e e | chunk 0 | chunk 1 | ...        | chunk n-1 | e e e |
 *            ^ 16-byte boundary of most buffers
 *
 * A chunk is 16 bytes. Chunk c goes to thread c mod threads, and so do the elements of head and tail. Buffers are
 * usually congruent modulo 16: allocated memory, used from the same offset on. A chunk is then one access in each
 * buffer. Otherwise chunks begin on the boundaries of most buffers. A chunk of a misaligned source is cut out of two
 * aligned loads, and a chunk goes to a misaligned destination in stores as wide as its alignment permits. So a
 * misaligned buffer of one rank costs accesses of that buffer only.
 *
 * Padded pairs are stored field by field, since the gap in MPI's type map belongs to the program. All else is the same
 * for them: gaps are loaded with the fields, and what they held is dropped.
 *
 * In place: a thread reads element i from all sources before it writes i anywhere, and no other thread touches i. The
 * compiler keeps that order because nothing here is declared restrict.
 */
#ifndef GPUHIER_KERNEL_BODY_H
#define GPUHIER_KERNEL_BODY_H

#include "gpuhier_kernel_ops.h"
#include "gpuhier_kernels.h"

#ifdef __CUDACC__
#    define GPUHIER_WALK __device__ __forceinline__
#    define GPUHIER_UNROLL _Pragma("unroll") /* full: all loops so marked have constant bounds */
#else
#    define GPUHIER_WALK inline /* at the compiler's discretion: the twin's exact form need not be fast */
#    define GPUHIER_UNROLL
#endif

namespace gpuhier
{

/* 16 bytes that one access moves. */
struct alignas(16) wide {
    uint32_t word[4];
};

/*
 * Elements that are moved together: as many as fit into 16 bytes. They are unpacked only during an operation, since
 * registers are scarce.
 */
template <class T> struct chunk {
    static constexpr int elements = (int) (sizeof(wide) / sizeof(T));
    wide packed;

    template <class Op> GPUHIER_WALK void combine(const chunk &x)
    {
        T a[elements], b[elements];
        __builtin_memcpy(a, &packed, sizeof(a));
        __builtin_memcpy(b, &x.packed, sizeof(b));
        GPUHIER_UNROLL
        for (int k = 0; k < elements; ++k) {
            a[k] = Op::apply(a[k], b[k]);
        }
        __builtin_memcpy(&packed, a, sizeof(a));
    }
};

/*
 * Accesses. A memory offers get<U>(address), put<U>(address, value) and touch(address, bytes, is_write);
 * touch() counts an element as a whole, gap included, whichever way it is moved.
 */
template <class M, class T> GPUHIER_WALK T load_bytes(const M &memory, uint64_t address)
{
    unsigned char byte[sizeof(T)];
    T value;
    for (unsigned k = 0; k < sizeof(T); ++k) {
        byte[k] = memory.template get<unsigned char>(address + k);
    }
    __builtin_memcpy(&value, byte, sizeof(T));
    return value;
}

/* A value in stores of one Unit each. */
template <class Unit, class M, class T> GPUHIER_WALK void store_units(const M &memory, uint64_t address, const T &value)
{
    constexpr unsigned units = sizeof(T) / sizeof(Unit);
    Unit unit[units];
    __builtin_memcpy(unit, &value, sizeof(value));
    GPUHIER_UNROLL
    for (unsigned k = 0; k < units; ++k) {
        memory.template put<Unit>(address + k * sizeof(Unit), unit[k]);
    }
}

template <class M, class T> GPUHIER_WALK T load_element(const M &memory, uint64_t address)
{
    memory.touch(address, sizeof(T), false);
    return 0 == address % alignof(T) ? memory.template get<T>(address) : load_bytes<M, T>(memory, address);
}

/* An element without gaps, or a field. IsAligned: the caller knows that the address is. */
template <bool IsAligned, class M, class T>
GPUHIER_WALK void store_field(const M &memory, uint64_t address, const T &value)
{
    if (IsAligned || 0 == address % alignof(T)) {
        memory.template put<T>(address, value);
    } else {
        store_units<unsigned char>(memory, address, value);
    }
}

template <bool IsAligned, class M, class T>
GPUHIER_WALK void store_element(const M &memory, uint64_t address, const T &value)
{
    memory.touch(address, sizeof(T), true);
    if constexpr (is_padded<T>::value) {
        store_field<IsAligned>(memory, address, value.a);
        store_field<IsAligned>(memory, address + __builtin_offsetof(T, b), value.b);
    } else {
        store_field<IsAligned>(memory, address, value);
    }
}

/* Loads 16 bytes from any address. Misaligned ones are cut out of the two aligned units of 16 bytes in which they
 * lie. */
template <class M> GPUHIER_WALK wide load_wide(const M &memory, uint64_t address)
{
    const uint64_t from = address - address % sizeof(wide);

    memory.touch(address, sizeof(wide), false);
    /* No branch around the shift: then both loads are in flight at once. */
    const wide low = memory.template get<wide>(from);
    wide high = low;
    if (from != address) {
        high = memory.template get<wide>(from + sizeof(wide));
    }
    const uint32_t words = (uint32_t) (address / 4) % 4, bits = (uint32_t) (address % 4) * 8;
    uint32_t w[8];
    wide value;
    __builtin_memcpy(w, &low, sizeof(low));
    __builtin_memcpy(w + 4, &high, sizeof(high));
    /* Shifts by two words, by one, and by bits. All indices are constants, or w would lie in memory. */
    GPUHIER_UNROLL
    for (int k = 0; k < 6; ++k) {
        w[k] = words & 2 ? w[k + 2] : w[k];
    }
    GPUHIER_UNROLL
    for (int k = 0; k < 5; ++k) {
        w[k] = words & 1 ? w[k + 1] : w[k];
    }
    GPUHIER_UNROLL
    for (int k = 0; k < 4; ++k) {
        value.word[k] = (uint32_t) (((uint64_t) w[k + 1] << 32 | w[k]) >> bits);
    }
    return value;
}

template <class M> GPUHIER_WALK void store_wide(const M &memory, uint64_t address, const wide &value)
{
    memory.touch(address, sizeof(wide), true);
    if (0 == address % sizeof(wide)) {
        memory.template put<wide>(address, value);
    } else if (0 == address % sizeof(uint64_t)) {
        store_units<uint64_t>(memory, address, value);
    } else if (0 == address % sizeof(uint32_t)) {
        store_units<uint32_t>(memory, address, value);
    } else {
        store_units<unsigned char>(memory, address, value);
    }
}

template <bool IsAligned, class M, class T>
GPUHIER_WALK void store_chunk(const M &memory, uint64_t address, const chunk<T> &c)
{
    if constexpr (is_padded<T>::value) {
        T element[chunk<T>::elements];
        __builtin_memcpy(element, &c.packed, sizeof(element));
        GPUHIER_UNROLL
        for (int k = 0; k < chunk<T>::elements; ++k) {
            store_element<IsAligned>(memory, address + k * sizeof(T), element[k]);
        }
    } else if constexpr (IsAligned) {
        memory.touch(address, sizeof(wide), true);
        memory.template put<wide>(address, c.packed);
    } else {
        store_wide(memory, address, c.packed);
    }
}

/* Which elements are moved in chunks; the others are moved one by one. */
struct layout {
    uint64_t head; /* elements before the first chunk */
    uint64_t chunks;
    uint64_t single; /* elements outside chunks: head and tail, or all */
    bool misaligned; /* some buffers' chunks do not begin on a boundary */
};

/* An address to which more than half of the buffers are congruent, if there is one; else that of some buffer. */
template <class A> GPUHIER_WALK uint64_t usual_address(const A &args, uint32_t nsrc)
{
    uint64_t usual = args.dst[0];
    uint32_t votes = 0;

    for (uint32_t i = 0; i < nsrc + args.ndst; ++i) {
        const uint64_t address = i < nsrc ? args.src[i] : args.dst[i - nsrc];
        if (0 == (address ^ usual) % sizeof(wide)) {
            ++votes;
        } else if (0 == votes) {
            usual = address;
            votes = 1;
        } else {
            --votes;
        }
    }
    return usual;
}

/* A range of gpuhier_moves, as the arguments of a copy. The source may be a peer's, so loads are the aligned ones. */
struct move {
    uint64_t src[1], dst[1], count;
    uint32_t ndst;
};

GPUHIER_WALK uint64_t usual_address(const move &args, uint32_t)
{
    return args.src[0];
}

template <class T, class A> GPUHIER_WALK layout lay_out(const A &args, uint32_t nsrc)
{
    uint64_t base = args.src[0], differ = 0;
    layout l = {0, 0, args.count, false};

    for (uint32_t s = 0; s < nsrc; ++s) {
        differ |= args.src[s] ^ base;
    }
    for (uint32_t d = 0; d < args.ndst; ++d) {
        differ |= args.dst[d] ^ base;
    }
    if (0 != differ % sizeof(wide)) {
        l.misaligned = true;
        base = usual_address(args, nsrc);
    }
    uint64_t gap = (0 - base) % sizeof(wide);
    if (0 != gap % sizeof(T)) {
        l.misaligned = true; /* no element begins on a boundary */
        gap = 0;
    }
    if (gap / sizeof(T) < args.count) {
        l.head = gap / sizeof(T);
        l.chunks = (args.count - l.head) / chunk<T>::elements;
        /* The second of the loads that a misaligned chunk is cut from must not reach beyond the buffer. */
        l.chunks -= l.misaligned && l.chunks > 0 ? 1 : 0;
        l.single = args.count - l.chunks * chunk<T>::elements;
    }
    return l;
}

template <class M, class T, class Op, class A>
GPUHIER_WALK void reduce_element(const M &memory, const A &args, uint32_t nsrc, uint64_t i)
{
    T acc = load_element<M, T>(memory, args.src[0] + i * sizeof(T));
    for (uint32_t s = 1; s < nsrc; ++s) {
        acc = Op::apply(acc, load_element<M, T>(memory, args.src[s] + i * sizeof(T)));
    }
    for (uint32_t d = 0; d < args.ndst; ++d) {
        store_element<false>(memory, args.dst[d] + i * sizeof(T), acc);
    }
}

/*
 * The chunks of a thread, one access per chunk and buffer. Eight loads are issued before the first value is needed: of
 * one chunk from eight sources, of two chunks from four, of four from two, of eight from one. So up to eight peers are
 * read at the same time. Values are still combined in the order of the sources.
 */
template <class M, class T, class Op, class A>
GPUHIER_WALK void reduce_chunks(const M &memory, const A &args, uint32_t nsrc, const layout &l, uint64_t thread,
                                uint64_t threads)
{
    constexpr int loads = 8;
    const uint64_t start = l.head * sizeof(T);
    const uint32_t shift = nsrc > 4 ? 3 : nsrc > 2 ? 2 : nsrc > 1 ? 1 : 0; /* 1 << shift: sources at once */

    for (uint64_t c = thread; c < l.chunks; c += (loads >> shift) * threads) {
        chunk<T> acc = {};
        for (uint32_t first = 0; first < nsrc; first += 1u << shift) {
            chunk<T> x[loads] = {};
            GPUHIER_UNROLL
            for (uint32_t k = 0; k < loads; ++k) {
                const uint32_t s = first + k % (1u << shift);
                const uint64_t at = c + (k >> shift) * threads;
                if (s < nsrc && at < l.chunks) {
                    memory.touch(args.src[s] + start + at * sizeof(wide), sizeof(wide), false);
                    x[k].packed = memory.template get<wide>(args.src[s] + start + at * sizeof(wide));
                }
            }
            GPUHIER_UNROLL
            for (uint32_t k = 0; k < loads; ++k) {
                const uint32_t s = first + k % (1u << shift);
                const uint64_t at = c + (k >> shift) * threads;
                if (s >= nsrc || at >= l.chunks) {
                    continue;
                }
                if (0 == s) {
                    acc = x[k];
                } else {
                    acc.template combine<Op>(x[k]);
                }
                for (uint32_t d = 0; s + 1 == nsrc && d < args.ndst; ++d) {
                    store_chunk<true>(memory, args.dst[d] + start + at * sizeof(wide), acc);
                }
            }
        }
    }
}

/*
 * The same as reduce_chunks() where some buffers are misaligned: two chunks at a time, one source after the other. This
 * code is in every kernel, and a loop as long as that of reduce_chunks() would double the size of the kernels.
 */
template <class M, class T, class Op, class A>
GPUHIER_WALK void misaligned_chunks(const M &memory, const A &args, uint32_t nsrc, const layout &l, uint64_t thread,
                                    uint64_t threads)
{
    constexpr int batch = 2;
    const uint64_t start = l.head * sizeof(T);

    for (uint64_t c = thread; c < l.chunks; c += batch * threads) {
        chunk<T> acc[batch] = {};
        for (uint32_t s = 0; s < nsrc; ++s) {
            chunk<T> x[batch] = {};
            GPUHIER_UNROLL
            for (int b = 0; b < batch; ++b) {
                const uint64_t at = c + b * threads;
                if (at < l.chunks) {
                    x[b].packed = load_wide(memory, args.src[s] + start + at * sizeof(wide));
                }
            }
            GPUHIER_UNROLL
            for (int b = 0; b < batch; ++b) {
                if (0 == s) {
                    acc[b] = x[b];
                } else if (c + b * threads < l.chunks) {
                    acc[b].template combine<Op>(x[b]);
                }
            }
        }
        for (uint32_t d = 0; d < args.ndst; ++d) {
            GPUHIER_UNROLL
            for (int b = 0; b < batch; ++b) {
                const uint64_t at = c + b * threads;
                if (at < l.chunks) {
                    store_chunk<false>(memory, args.dst[d] + start + at * sizeof(wide), acc[b]);
                }
            }
        }
    }
}

/* The work of one of `threads` threads. Every thread of the grid calls this once. nsrc: args.nsrc, or 1 in a copy. */
template <class M, class T, class Op, class A>
GPUHIER_WALK void reduce_thread(const M &memory, const A &args, uint32_t nsrc, uint64_t thread, uint64_t threads)
{
    const layout l = lay_out<T>(args, nsrc);
    for (uint64_t k = thread; k < l.single; k += threads) {
        reduce_element<M, T, Op>(memory, args, nsrc, k < l.head ? k : k + l.chunks * chunk<T>::elements);
    }
    if (l.misaligned) {
        misaligned_chunks<M, T, Op>(memory, args, nsrc, l, thread, threads);
    } else {
        reduce_chunks<M, T, Op>(memory, args, nsrc, l, thread, threads);
    }
}

/* A copy reduces nothing: it has one source. */
struct op_copy {
    static GPUHIER_WALK uint8_t apply(uint8_t a, uint8_t)
    {
        return a;
    }
};

/* The work of one of the `threads` threads of a block, which finds the range that the block works on. */
template <class M>
GPUHIER_WALK void moves_thread(const M &memory, const gpuhier_moves_args_t &args, uint32_t block, uint32_t thread,
                               uint32_t threads)
{
    uint32_t i = 0;
    for (uint32_t step = GPUHIER_MOVES_MAX / 2; step > 0; step /= 2) {
        i += i + step < args.count && args.end[i + step - 1] <= block ? step : 0;
    }
    const uint32_t first = 0 == i ? 0 : args.end[i - 1];
    const move range = {{args.src[i]}, {args.dst[i]}, args.bytes[i], 1};
    reduce_thread<M, uint8_t, op_copy>(memory, range, 1, (block - first) * (uint64_t) threads + thread,
                                       (args.end[i] - first) * (uint64_t) threads);
}

} /* namespace gpuhier */

#endif /* GPUHIER_KERNEL_BODY_H */
