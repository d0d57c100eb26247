/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the source files of the kernels' twin share: the exact form of each kernel, and the one-shot kernels, in the
 * order of GPUHIER_KERNEL_LIST; the kernels for multicast addresses; and how the kernels' source reaches memory, which
 * reports accesses in the exact form.
 */
#ifndef GPUHIER_TWIN_H
#define GPUHIER_TWIN_H

#include "cudasim_twin.h"
#include "gpuhier_kernels.h"
#include "gpuhier_oneshot_body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hidden: the library exports its table only. */
namespace [[gnu::visibility("hidden")]] gpuhier
{

/* A GPU ends the context on such an address; here the program ends, since no test is to go on after that. */
inline void twin_demand_aligned(uint64_t address, uint64_t bytes)
{
    if (0 != address % bytes) {
        fprintf(stderr, "twin: an access of %llu bytes at 0x%llx is not aligned\n", (unsigned long long) bytes,
                (unsigned long long) address);
        abort();
    }
}

/* Accesses of the host, translated; an address need not be aligned for the host, but the source believes it is. */
struct twin_memory {
    const cudasim_launch_t *launch;

    template <class U> U get(uint64_t address) const
    {
        U value;
        memcpy(&value, cudasim_host_view(launch, (uintptr_t) address), sizeof(value));
        return value;
    }
    template <class U> void put(uint64_t address, const U &value) const
    {
        memcpy(cudasim_host_view(launch, (uintptr_t) address), &value, sizeof(value));
    }
    void touch(uint64_t address, uint64_t bytes, bool is_write) const
    {
        if (launch->exact) {
            launch->traffic(launch, (uintptr_t) address, (size_t) bytes, is_write);
        }
    }
};

typedef void (*twin_form_t)(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args);
typedef void (*twin_oneshot_t)(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args);

/* to[i] = op over nsrc sources, for n elements. */
typedef void (*twin_combine_t)(void *to, const void *const *from, uint32_t nsrc, uint64_t n);

extern const twin_form_t twin_exact[];
extern const twin_oneshot_t twin_oneshot[];
#define GPUHIER_TWIN_MULTICAST(name, type, op) \
    void twin_multicast_##name(const cudasim_launch_t *launch, void **params);
GPUHIER_MULTICAST_LIST(GPUHIER_TWIN_MULTICAST)
#undef GPUHIER_TWIN_MULTICAST
void twin_multicast_store(const cudasim_launch_t *launch, void **params);

/* A one-shot kernel of a type without gaps, where no modelled time is kept. combine NULL: gpuhier_oneshot_move. */
void twin_oneshot_folded(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args, uint32_t elem_bytes,
                         twin_combine_t combine);
void twin_oneshot_move(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args);

/* By pairs: the accesses to the messages that this rank gives, or takes; to its own one only if it moves. One that is
 * for all is read once, and one that is reduced of all is written once. */
inline void twin_pairs_traffic(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args, bool given)
{
    for (uint32_t s = 0; s < args.nranks; ++s) {
        const gpuhier_oneshot_list_t &list = given ? args.given : args.taken;
        const message m = given ? given_to(args, s) : taken_of(args, s);
        if (s > 0 && list.bytes[s] == list.bytes[s - 1] && list.at[s] == list.at[s - 1]) {
            continue;
        }
        if (m.bytes > 0 && (given || s != args.index || m.at != given_to(args, s).at)) {
            launch->traffic(launch, (uintptr_t) m.at, (size_t) m.bytes, !given);
        }
    }
}

void twin_copy_exact(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args);
void twin_moves_exact(const cudasim_launch_t *launch, const gpuhier_moves_args_t &args);

} /* namespace gpuhier */

#endif /* GPUHIER_TWIN_H */
