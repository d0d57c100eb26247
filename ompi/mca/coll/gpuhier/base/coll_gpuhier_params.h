/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The MCA parameters of the component. All layers read them.
 */
#ifndef GPUHIER_PARAMS_H
#define GPUHIER_PARAMS_H

#include <float.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_compat.h"

/* The values of parameters that have names, from 0 on. Those of `algorithm` are gpuhier_algorithm_names. */
#define GPUHIER_IPC_NAMES "auto", "scratch", "user"
#define GPUHIER_NET_NAMES "auto", "direct", "staged"
typedef enum gpuhier_ipc_mode { GPUHIER_IPC_AUTO, GPUHIER_IPC_SCRATCH, GPUHIER_IPC_USER } gpuhier_ipc_mode_t;
typedef enum gpuhier_net_mode { GPUHIER_NET_AUTO, GPUHIER_NET_DIRECT, GPUHIER_NET_STAGED } gpuhier_net_mode_t;

/*
 * X(name, type, standard, path, level, scope, choices, text)
 * path: EQUAL if the value decides which path a call takes, so that it must be equal on all ranks; GIVEN if it does so
 * by being set; else OWN. Ranks exchange a hash of these at start. level: its audience; ompi_info shows that of USER by
 * default. choices: ANY value of the type, or one of a list.
 */
#define GPUHIER_PARAMS(X)                                                                                          \
    X(priority, INT, 100, EQUAL, SITE, FIXED, ANY,                                                                 \
      "Priority among Open MPI's coll components: the highest gets the calls, of equal ones gpuhier. More"         \
      " than 100 is 100. Below 0 gpuhier is not used. Must be equal on all ranks")                                 \
    X(enable, BOOL, true, EQUAL, USER, OPEN, ANY,                                                                  \
      "Whether gpuhier serves communicators made from now on. MPI_T may change it, on all ranks at once")          \
    X(probe, INT, 1, EQUAL, SITE, FIXED, ANY,                                                                      \
      "Whether to ask all ranks now and then if they pass device memory (1), or never (0), so that no "            \
      "call runs on the GPUs. Must be equal on all ranks")                                                         \
    X(print_info, BOOL, false, OWN, USER, FIXED, ANY,                                                              \
      "Print groups, rails, what messages of each size get, and why calls are left to Open MPI, for each "         \
      "communicator")                                                                                              \
    X(report, BOOL, false, OWN, USER, FIXED, ANY,                                                                  \
      "Print a page at the end: rank 0's calls by path, size and time, and why calls were left to Open "           \
      "MPI")                                                                                                       \
    X(trace, STRING, NULL, GIVEN, USER, FIXED, ANY,                                                                \
      "Write a timeline of all ranks' calls into this file at the end, for Perfetto or chrome://tracing. "         \
      "Must be set on all ranks or on none")                                                                       \
    X(devices, STRING, NULL, OWN, SITE, FIXED, ANY,                                                                \
      "Network devices to use, by UCX's names, for example mlx5_0:1,mlx5_1:1. Default: the nearest to "            \
      "each GPU")                                                                                                  \
    X(net, INT, GPUHIER_NET_AUTO, OWN, TUNER, FIXED, NET,                                                          \
      "How data reaches the network: from GPU memory (direct), through page-locked host memory (staged), "         \
      "or direct if the NICs of all ranks reach GPU memory (auto)")                                                \
    X(ipc, INT, GPUHIER_IPC_AUTO, OWN, TUNER, FIXED, IPC,                                                          \
      "How peers on the node reach a user's buffer: through a copy in scratch memory (scratch), mapped at"         \
      " its first use (user), or mapped once it was used a few times (auto)")                                      \
    X(algorithm, INT, 0, EQUAL, TUNER, FIXED, ALGORITHM,                                                           \
      "Exchange between groups of GPUs. auto chooses by the number of groups and the length of the "               \
      "message; gpuhier_info shows the choice. Must be equal on all ranks")                                        \
    X(reproducible, BOOL, true, EQUAL, USER, FIXED, ANY,                                                           \
      "Whether results have the same bits in every run with the same ranks on the same nodes. If not, "            \
      "NVSwitches may add floating-point numbers, in an order of their own. Must be equal on all ranks")           \
    X(slice_bytes, SIZE_T, 4u << 20, EQUAL, TUNER, FIXED, ANY,                                                     \
      "Messages pass in slices of at most this many bytes, at least 4096. Each GPU spends eight of them "          \
      "on scratch memory. Must be equal on all ranks")                                                             \
    X(slice_bytes_max, SIZE_T, 8u << 20, EQUAL, TUNER, FIXED, ANY,                                                 \
      "As slice_bytes, for long messages between groups of GPUs. The first one spends 16 of them on "              \
      "scratch memory. Default: 8388608, or slice_bytes where that is set. Must be equal on all ranks")            \
    X(small_bytes, SIZE_T, 8u << 10, EQUAL, TUNER, FIXED, ANY,                                                     \
      "Messages of at most this many bytes, 0 to 1048576, are reduced by the host. Must be equal on all "          \
      "ranks")                                                                                                     \
    X(ipc_cache_bytes, SIZE_T, 0, OWN, TUNER, FIXED, ANY,                                                          \
      "Bytes of peers' buffers that stay mapped from call to call. 0: a quarter of the GPU's memory")              \
    X(stage_bytes, SIZE_T, 64u << 20, OWN, TUNER, FIXED, ANY,                                                      \
      "Bytes of page-locked host memory kept for calls that run in host memory. 0: none")                          \
    X(timeout, DOUBLE, 0, OWN, SITE, FIXED, ANY,                                                                   \
      "Seconds without progress after which a call fails. 0: never, since MPI lets a rank be late")                \
    X(report_after, DOUBLE, 30.0, OWN, SITE, FIXED, ANY,                                                           \
      "Seconds without progress after which the state of all ranks is printed. 0: never")                          \
    X(sync_before, BOOL, false, OWN, USER, FIXED, ANY,                                                             \
      "Synchronise the device before the send buffer is read. This finds programs that forgot to")                 \
    X(tune, STRING, NULL, OWN, EXPERT, FIXED, ANY,                                                                 \
      "For experts: KEY=NUMBER,... Keys are slices_in_flight, oneshot_bytes, oneshot_shared, gdr_bytes, "          \
      "levels_bytes, host_shard_bytes and switch_bytes, which must be equal on all ranks, ipc_uses and ipc_idle; " \
      "docs/tuning.md explains them")

/* Keys of the parameter `tune`: X(name, type, standard, least, most, path). Values beyond are clamped. */
#define GPUHIER_TUNE_KEYS(X)                                                                                           \
    X(slices_in_flight, INT, 4, 2, 4, EQUAL)              /* slice buffers of a lane */                                \
    X(oneshot_bytes, INT, 256 << 10, 0, 1 << 20, EQUAL)   /* kernels that wait for each other reduce up to this */     \
    X(oneshot_shared, INT, 0, 0, 1, EQUAL)                /* 1: also those of ranks that share a GPU, for tests */     \
    X(gdr_bytes, INT, 1024, 0, 65536, EQUAL)              /* the host reads and writes GPU memory up to this */        \
    X(levels_bytes, INT, 512 << 10, 0, INT_MAX, EQUAL)    /* messages run in levels from this on; 0: none */           \
    X(host_shard_bytes, INT, 64 << 10, 0, 1 << 20, EQUAL) /* between groups the host reduces so much for each rank */  \
    X(switch_bytes, INT, -1, -1, INT_MAX, EQUAL)          /* NVSwitches reduce from this on; 0: none; -1: by the rules \
                                                             of gpuhier_choice_switch_from() */                        \
    X(ipc_uses, INT, 3, 0, INT_MAX, OWN)                  /* calls that use a buffer before it is mapped */            \
    X(ipc_idle, DOUBLE, 10, 0, DBL_MAX, OWN) /* seconds until an unused mapping is closed; 0: only to make             \
                                                room */

#define GPUHIER_PARAM_INT int
#define GPUHIER_PARAM_BOOL bool
#define GPUHIER_PARAM_SIZE_T size_t
#define GPUHIER_PARAM_DOUBLE double
#define GPUHIER_PARAM_STRING char *
#define GPUHIER_PARAM_FIELD(name, type, ...) GPUHIER_PARAM_##type name;

/* The MCA system writes them when the component is registered, and MPI_T may write `enable` later. */
typedef struct gpuhier_params {
    GPUHIER_PARAMS(GPUHIER_PARAM_FIELD)
    GPUHIER_TUNE_KEYS(GPUHIER_PARAM_FIELD)
} gpuhier_params_t;
#undef GPUHIER_PARAM_FIELD

extern gpuhier_params_t gpuhier_params;

/*
 * Registers the parameters as those of a component. algorithms: [count] the names of the values of `algorithm`, from 0
 * on. An entry of `tune` that cannot be read is reported and ignored. The folder of the help text must be known to Open
 * MPI. Returns an Open MPI code.
 */
int gpuhier_params_register(const mca_base_component_t *component, const char *const *algorithms, int count);

/* The hash of what must be equal on all ranks. */
uint64_t gpuhier_params_hash(void);

#endif /* GPUHIER_PARAMS_H */
