/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One logical thread of a kernel: which elements it takes and how it moves them. The same source
 * runs on the GPU (memory = plain accesses) and in the twin's exact form (memory = translated
 * and counted accesses). Owns no arithmetic (gpuhier_kernel_ops.h) and no entry points.
 *
 *      0    head                                              count
 *      | e e | chunk 0 | chunk 1 | ...        | chunk n-1 | e e e |
 *            ^ 16-byte boundary of most buffers
 *
 * A chunk is 16 bytes (one element for padded pairs) and one access in each buffer; chunk c goes to
 * thread c mod threads, and so do the elements of head and tail. This needs buffers that are
 * congruent modulo 16, which they are when all were allocated and are used from the same offset on.
 * Otherwise all elements are moved one by one, each access as wide as its own address permits.
 *
 * In place: a thread has read element i from all sources before it writes i anywhere, and no other
 * thread touches i. The compiler keeps that order because nothing here is declared restrict.
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

namespace gpuhier {

/* 16 bytes that are moved by one access; what is in them is the chunk's business. */
struct alignas(16) wide {
    uint32_t word[4];
};

/*
 * Elements that are moved together: as many as fit into 16 bytes, which stay packed but for the moment
 * of an operation (registers are scarce), or one padded pair.
 */
template <class T, bool Padded = is_padded<T>::value> struct chunk {
    static constexpr int elements = (int) (sizeof(wide) / sizeof(T));
    static constexpr uint64_t bytes = sizeof(wide);
    static constexpr uint64_t align = sizeof(wide); /* of an address, for one access per chunk */
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
template <class T> struct chunk<T, true> {
    static constexpr int elements = 1;
    static constexpr uint64_t bytes = sizeof(T);
    static constexpr uint64_t align = alignof(T);
    T element;

    template <class Op> GPUHIER_WALK void combine(const chunk &x)
    {
        element = Op::apply(element, x.element);
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

template <class M, class T> GPUHIER_WALK void store_bytes(const M &memory, uint64_t address, const T &value)
{
    unsigned char byte[sizeof(T)];
    __builtin_memcpy(byte, &value, sizeof(T));
    for (unsigned k = 0; k < sizeof(T); ++k) {
        memory.template put<unsigned char>(address + k, byte[k]);
    }
}

/* How an element is stored: as a whole, or a padded pair field by field. */
template <class T, bool Padded = is_padded<T>::value> struct fields {
    template <class M> static GPUHIER_WALK void store(const M &memory, uint64_t address, const T &value)
    {
        memory.template put<T>(address, value);
    }
    template <class M> static GPUHIER_WALK void store_any(const M &memory, uint64_t address, const T &value)
    {
        store_bytes<M, T>(memory, address, value);
    }
};
template <class A, class B> struct fields<pair<A, B>, true> {
    typedef pair<A, B> T;
    template <class M> static GPUHIER_WALK void store(const M &memory, uint64_t address, const T &value)
    {
        memory.template put<A>(address, value.a);
        memory.template put<B>(address + __builtin_offsetof(T, b), value.b);
    }
    template <class M> static GPUHIER_WALK void store_any(const M &memory, uint64_t address, const T &value)
    {
        store_bytes<M, A>(memory, address, value.a);
        store_bytes<M, B>(memory, address + __builtin_offsetof(T, b), value.b);
    }
};

template <class M, class T> GPUHIER_WALK T load_element(const M &memory, uint64_t address)
{
    memory.touch(address, sizeof(T), false);
    return 0 == address % alignof(T) ? memory.template get<T>(address) : load_bytes<M, T>(memory, address);
}

template <class M, class T> GPUHIER_WALK void store_element(const M &memory, uint64_t address, const T &value)
{
    memory.touch(address, sizeof(T), true);
    if (0 == address % alignof(T)) {
        fields<T>::store(memory, address, value);
    } else {
        fields<T>::store_any(memory, address, value);
    }
}

/* One access for a chunk; the address is a multiple of chunk<T>::align. */
template <class M, class T, bool Padded = is_padded<T>::value> struct one_access {
    static GPUHIER_WALK chunk<T> load(const M &memory, uint64_t address)
    {
        chunk<T> c;
        memory.touch(address, sizeof(wide), false);
        c.packed = memory.template get<wide>(address);
        return c;
    }
    static GPUHIER_WALK void store(const M &memory, uint64_t address, const chunk<T> &c)
    {
        memory.touch(address, sizeof(wide), true);
        memory.template put<wide>(address, c.packed);
    }
};
template <class M, class T> struct one_access<M, T, true> {
    static GPUHIER_WALK chunk<T> load(const M &memory, uint64_t address)
    {
        chunk<T> c;
        memory.touch(address, sizeof(T), false);
        c.element = memory.template get<T>(address);
        return c;
    }
    static GPUHIER_WALK void store(const M &memory, uint64_t address, const chunk<T> &c)
    {
        memory.touch(address, sizeof(T), true);
        fields<T>::store(memory, address, c.element);
    }
};

/* Which elements are moved in chunks; the others are moved one by one. */
struct layout {
    uint64_t head;   /* elements before the first chunk */
    uint64_t chunks; /* 0 unless all buffers are congruent */
    uint64_t single; /* elements outside chunks: head and tail, or all */
};

template <class T> GPUHIER_WALK layout lay_out(const gpuhier_kernel_args_t &args)
{
    const uint64_t base = args.src[0];
    const uint64_t gap = (0 - base) % chunk<T>::align;
    uint64_t differ = gap % sizeof(T);
    layout l = {0, 0, args.count};

    for (uint32_t s = 0; s < args.nsrc; ++s) {
        differ |= args.src[s] ^ base;
    }
    for (uint32_t d = 0; d < args.ndst; ++d) {
        differ |= args.dst[d] ^ base;
    }
    if (0 == differ % chunk<T>::align && gap / sizeof(T) < args.count) {
        l.head = gap / sizeof(T);
        l.chunks = (args.count - l.head) / chunk<T>::elements;
        l.single = args.count - l.chunks * chunk<T>::elements;
    }
    return l;
}

template <class M, class T, class Op>
GPUHIER_WALK void reduce_element(const M &memory, const gpuhier_kernel_args_t &args, uint64_t i)
{
    T acc = load_element<M, T>(memory, args.src[0] + i * sizeof(T));
    for (uint32_t s = 1; s < args.nsrc; ++s) {
        acc = Op::apply(acc, load_element<M, T>(memory, args.src[s] + i * sizeof(T)));
    }
    for (uint32_t d = 0; d < args.ndst; ++d) {
        store_element<M, T>(memory, args.dst[d] + i * sizeof(T), acc);
    }
}

/*
 * The chunks of a thread, one access per chunk and buffer. Sources are taken in groups; all loads of
 * a group, for a batch of chunks, are issued before the first value is needed.
 */
template <class M, class T, class Op, int Group, int Batch>
GPUHIER_WALK void reduce_chunks(const M &memory, const gpuhier_kernel_args_t &args, const layout &l, uint64_t thread,
                                 uint64_t threads)
{
    const uint64_t start = l.head * sizeof(T);

    for (uint64_t c = thread; c < l.chunks; c += Batch * threads) {
        chunk<T> acc[Batch] = {};
        for (uint32_t s = 0; s < args.nsrc; s += Group) {
            chunk<T> x[Group][Batch] = {};
            GPUHIER_UNROLL
            for (int g = 0; g < Group; ++g) {
                GPUHIER_UNROLL
                for (int b = 0; b < Batch; ++b) {
                    const uint64_t at = c + b * threads;
                    if (s + g < args.nsrc && at < l.chunks) {
                        x[g][b] = one_access<M, T>::load(memory, args.src[s + g] + start + at * chunk<T>::bytes);
                    }
                }
            }
            GPUHIER_UNROLL
            for (int g = 0; g < Group; ++g) {
                GPUHIER_UNROLL
                for (int b = 0; b < Batch; ++b) {
                    if (0 == s + g) {
                        acc[b] = x[0][b];
                    } else if (s + g < args.nsrc && c + b * threads < l.chunks) {
                        acc[b].template combine<Op>(x[g][b]);
                    }
                }
            }
        }
        for (uint32_t d = 0; d < args.ndst; ++d) {
            GPUHIER_UNROLL
            for (int b = 0; b < Batch; ++b) {
                const uint64_t at = c + b * threads;
                if (at < l.chunks) {
                    one_access<M, T>::store(memory, args.dst[d] + start + at * chunk<T>::bytes, acc[b]);
                }
            }
        }
    }
}

/* What thread number thread of threads does; every thread of the grid calls this once. */
template <class M, class T, class Op>
GPUHIER_WALK void reduce_thread(const M &memory, const gpuhier_kernel_args_t &args, uint64_t thread, uint64_t threads)
{
    const layout l = lay_out<T>(args);

    for (uint64_t k = thread; k < l.single; k += threads) {
        reduce_element<M, T, Op>(memory, args, k < l.head ? k : k + l.chunks * chunk<T>::elements);
    }
    /* 8 loads in flight, 4 with two sources. A second variant for few sources would double nvcc's time. */
    reduce_chunks<M, T, Op, 4, 2>(memory, args, l, thread, threads);
}

/* Copies of count bytes in units of U; all addresses are congruent modulo sizeof(U). */
template <class M, class U>
GPUHIER_WALK void copy_units(const M &memory, const gpuhier_kernel_args_t &args, uint64_t thread, uint64_t threads)
{
    constexpr int batch = 4;
    const uint64_t gap = (0 - args.src[0]) % sizeof(U);
    const uint64_t head = gap < args.count ? gap : args.count;
    const uint64_t units = (args.count - head) / sizeof(U);
    const uint64_t single = args.count - units * sizeof(U);

    for (uint64_t k = thread; k < single; k += threads) {
        const uint64_t at = k < head ? k : k + units * sizeof(U);
        memory.touch(args.src[0] + at, 1, false);
        const unsigned char value = memory.template get<unsigned char>(args.src[0] + at);
        for (uint32_t d = 0; d < args.ndst; ++d) {
            memory.touch(args.dst[d] + at, 1, true);
            memory.template put<unsigned char>(args.dst[d] + at, value);
        }
    }
    for (uint64_t u = thread; u < units; u += batch * threads) {
        U value[batch] = {};
        GPUHIER_UNROLL
        for (int b = 0; b < batch; ++b) {
            const uint64_t at = u + b * threads;
            if (at < units) {
                memory.touch(args.src[0] + head + at * sizeof(U), sizeof(U), false);
                value[b] = memory.template get<U>(args.src[0] + head + at * sizeof(U));
            }
        }
        for (uint32_t d = 0; d < args.ndst; ++d) {
            GPUHIER_UNROLL
            for (int b = 0; b < batch; ++b) {
                const uint64_t at = u + b * threads;
                if (at < units) {
                    memory.touch(args.dst[d] + head + at * sizeof(U), sizeof(U), true);
                    memory.template put<U>(args.dst[d] + head + at * sizeof(U), value[b]);
                }
            }
        }
    }
}

/* What thread number thread of threads does of gpuhier_copy: the widest units that all addresses permit. */
template <class M>
GPUHIER_WALK void copy_thread(const M &memory, const gpuhier_kernel_args_t &args, uint64_t thread, uint64_t threads)
{
    uint64_t differ = 0;

    for (uint32_t d = 0; d < args.ndst; ++d) {
        differ |= args.dst[d] ^ args.src[0];
    }
    if (0 == differ % sizeof(wide)) {
        copy_units<M, wide>(memory, args, thread, threads);
    } else if (0 == differ % sizeof(uint64_t)) {
        copy_units<M, uint64_t>(memory, args, thread, threads);
    } else if (0 == differ % sizeof(uint32_t)) {
        copy_units<M, uint32_t>(memory, args, thread, threads);
    } else {
        copy_units<M, unsigned char>(memory, args, thread, threads);
    }
}

} /* namespace gpuhier */

#endif /* GPUHIER_KERNEL_BODY_H */
