/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The GPU's entry points for multicast addresses, see gpuhier_kernels.h. They are a module of their own, since these
 * instructions need compute capability 9.0 and nvcc of CUDA 12.1. Without either, the module has no kernels, and the
 * component does not use it.
 *
 * Order of memory. A kernel reaches the copies through multicast addresses only, with one exception:
 * gpuhier_multicast_store may load from this GPU's own copy. The same thread then stores to the same place, and the
 * store depends on the load. So no kernel needs a fence.proxy.alias, which is for addresses that stand for the same
 * memory. All other work on these places ends before the kernel starts, or starts after its end. Accesses are relaxed
 * at the scope of the system, because other GPUs work on other places meanwhile. The fence at the end makes a thread
 * wait until its stores have come to all copies. It is not documented that the end of a kernel does the same for stores
 * to multicast addresses.
 */
#include "gpuhier_kernels.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && 100 * __CUDACC_VER_MAJOR__ + __CUDACC_VER_MINOR__ >= 1201

namespace gpuhier {

struct alignas(16) quad {
    float word[4];
};

/* What one instruction moves: 16 bytes of floats, else one element. */
__device__ __forceinline__ void store_all(uint64_t address, const quad &x)
{
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(x.word[0]),
                 "f"(x.word[1]), "f"(x.word[2]), "f"(x.word[3])
                 : "memory");
}
#define GPUHIER_STORE(type, letter, ptx)                                                                               \
    __device__ __forceinline__ void store_all(uint64_t address, type x)                                                \
    {                                                                                                                  \
        asm volatile("multimem.st.relaxed.sys.global." ptx " [%0], %1;" ::"l"(address), letter(x) : "memory");         \
    }
GPUHIER_STORE(uint64_t, "l", "b64")
GPUHIER_STORE(uint32_t, "r", "b32")
GPUHIER_STORE(double, "d", "f64")

/* The reduction of what the copies hold. */
#define GPUHIER_LOAD(name, type, letter, ptx)                                                                          \
    struct load_##name {                                                                                               \
        typedef type unit;                                                                                             \
        static __device__ __forceinline__ type from(uint64_t address)                                                  \
        {                                                                                                              \
            type x;                                                                                                    \
            asm volatile("multimem.ld_reduce.relaxed.sys.global." ptx " %0, [%1];"                                     \
                         : "=" letter(x)                                                                               \
                         : "l"(address)                                                                                \
                         : "memory");                                                                                  \
            return x;                                                                                                  \
        }                                                                                                              \
    };
GPUHIER_LOAD(add_u32, uint32_t, "r", "add.u32")
GPUHIER_LOAD(add_u64, uint64_t, "l", "add.u64")
GPUHIER_LOAD(max_s32, uint32_t, "r", "max.s32")
GPUHIER_LOAD(max_u32, uint32_t, "r", "max.u32")
GPUHIER_LOAD(max_s64, uint64_t, "l", "max.s64")
GPUHIER_LOAD(max_u64, uint64_t, "l", "max.u64")
GPUHIER_LOAD(min_s32, uint32_t, "r", "min.s32")
GPUHIER_LOAD(min_u32, uint32_t, "r", "min.u32")
GPUHIER_LOAD(min_s64, uint64_t, "l", "min.s64")
GPUHIER_LOAD(min_u64, uint64_t, "l", "min.u64")
GPUHIER_LOAD(and_b64, uint64_t, "l", "and.b64")
GPUHIER_LOAD(or_b64, uint64_t, "l", "or.b64")
GPUHIER_LOAD(xor_b64, uint64_t, "l", "xor.b64")
GPUHIER_LOAD(add_f64, double, "d", "add.f64")
struct load_add_f32 {
    typedef quad unit;
    static __device__ __forceinline__ quad from(uint64_t address)
    {
        quad x;
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x.word[0]), "=f"(x.word[1]), "=f"(x.word[2]), "=f"(x.word[3])
                     : "l"(address)
                     : "memory");
        return x;
    }
};

/* Of ordinary memory. */
struct load_own {
    typedef quad unit;
    static __device__ __forceinline__ quad from(uint64_t address)
    {
        return *static_cast<const quad *>(__cvta_global_to_generic(address));
    }
};

/* Neighbouring threads move neighbouring units. Eight loads are under way before the first value is stored. */
template <class Load> __device__ __forceinline__ void multicast_move(const gpuhier_multicast_args_t &args)
{
    typedef typename Load::unit unit;
    constexpr int loads = 8;
    const uint64_t threads = gridDim.x * (uint64_t) blockDim.x, units = args.bytes / sizeof(unit);

    for (uint64_t u = blockIdx.x * (uint64_t) blockDim.x + threadIdx.x; u < units; u += loads * threads) {
        unit x[loads] = {};
#    pragma unroll
        for (int k = 0; k < loads; ++k) {
            if (u + k * threads < units) {
                x[k] = Load::from(args.from + (u + k * threads) * sizeof(unit));
            }
        }
#    pragma unroll
        for (int k = 0; k < loads; ++k) {
            const uint64_t to = args.to + (u + k * threads) * sizeof(unit);
            if (u + k * threads >= units) {
                continue;
            }
            if (args.to_all) {
                store_all(to, x[k]);
            } else {
                *static_cast<unit *>(__cvta_global_to_generic(to)) = x[k];
            }
        }
    }
    __threadfence_system();
}

} /* namespace gpuhier */

#    define GPUHIER_MULTICAST(name, type, op)                                                                          \
        extern "C" __global__ void __launch_bounds__(GPUHIER_KERNEL_BLOCK)                                             \
            gpuhier_multicast_##name(const __grid_constant__ gpuhier_multicast_args_t args)                            \
        {                                                                                                              \
            gpuhier::multicast_move<gpuhier::load_##name>(args);                                                       \
        }
GPUHIER_MULTICAST_LIST(GPUHIER_MULTICAST)

extern "C" __global__ void __launch_bounds__(GPUHIER_KERNEL_BLOCK)
    gpuhier_multicast_store(const __grid_constant__ gpuhier_multicast_args_t args)
{
    gpuhier::multicast_move<gpuhier::load_own>(args);
}

#endif
