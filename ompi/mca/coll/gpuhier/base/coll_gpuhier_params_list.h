/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of the MCA parameters: their names, types, values and texts. The component registers what stands here
 * (params), and gpuhier_info checks settings against it. Needs nothing of Open MPI.
 */
#ifndef GPUHIER_PARAMS_LIST_H
#define GPUHIER_PARAMS_LIST_H

#include <float.h>
#include <limits.h>

/* The values of parameters that have names, from 0 on. Those of `algorithm` are gpuhier_algorithm_names. */
#define GPUHIER_IPC_NAMES "auto", "scratch", "user"
#define GPUHIER_NET_NAMES "auto", "direct", "staged"

/*
 * X(name, type, level, scope, choices, text)
 * level: its audience; ompi_info shows that of USER by default. choices: ANY value of the type, or one of a list.
 */
#define GPUHIER_PARAMS(X)                                                                                          \
    X(priority, INT, SITE, FIXED, ANY,                                                                             \
      "Priority among Open MPI's coll components: the highest gets the calls, of equal ones gpuhier. More"         \
      " than 100 is 100. Below 0 gpuhier is not used. Must be equal on all ranks")                                 \
    X(enable, BOOL, USER, OPEN, ANY,                                                                               \
      "Whether gpuhier serves communicators made from now on. MPI_T may change it, on all ranks at once")          \
    X(probe, INT, SITE, FIXED, ANY,                                                                                \
      "Whether to ask all ranks now and then if they pass device memory (1), or never (0), so that no "            \
      "call runs on the GPUs. Must be equal on all ranks")                                                         \
    X(print_info, BOOL, USER, FIXED, ANY,                                                                          \
      "Print groups, rails, what messages of each size get, and why calls are left to Open MPI, for each "         \
      "communicator")                                                                                              \
    X(report, BOOL, USER, FIXED, ANY,                                                                              \
      "Print a page at the end: rank 0's calls by path, size and time, and why calls were left to Open "           \
      "MPI")                                                                                                       \
    X(trace, STRING, USER, FIXED, ANY,                                                                             \
      "Write a timeline of all ranks' calls into this file at the end, for Perfetto or chrome://tracing. "         \
      "Must be set on all ranks or on none")                                                                       \
    X(devices, STRING, SITE, FIXED, ANY,                                                                           \
      "Network devices to use, by UCX's names, for example mlx5_0:1,mlx5_1:1. Default: the nearest to "            \
      "each GPU")                                                                                                  \
    X(net, INT, TUNER, FIXED, NET,                                                                                 \
      "How data reaches the network: from GPU memory (direct), through page-locked host memory (staged), "         \
      "or direct if the NICs of all ranks reach GPU memory (auto)")                                                \
    X(ipc, INT, TUNER, FIXED, IPC,                                                                                 \
      "How peers on the node reach a user's buffer: through a copy in scratch memory (scratch), mapped at"         \
      " its first use (user), or mapped once it was used a few times (auto)")                                      \
    X(algorithm, INT, TUNER, FIXED, ALGORITHM,                                                                     \
      "Exchange between groups of GPUs. auto chooses by the number of groups and the length of the "               \
      "message; gpuhier_info shows the choice. Must be equal on all ranks")                                        \
    X(reproducible, BOOL, USER, FIXED, ANY,                                                                        \
      "Whether results have the same bits in every run with the same ranks on the same nodes. If not, "            \
      "NVSwitches may add floating-point numbers, in an order of their own. Must be equal on all ranks")           \
    X(slice_bytes, SIZE_T, TUNER, FIXED, ANY,                                                                      \
      "Messages pass in slices of at most this many bytes, at least 4096. Each GPU spends eight of them "          \
      "on scratch memory. Must be equal on all ranks")                                                             \
    X(slice_bytes_max, SIZE_T, TUNER, FIXED, ANY,                                                                  \
      "As slice_bytes, for long messages between groups of GPUs. The first one spends 16 of them on "              \
      "scratch memory. Default: 8388608, or slice_bytes where that is set. Must be equal on all ranks")            \
    X(small_bytes, SIZE_T, TUNER, FIXED, ANY,                                                                      \
      "Messages of at most this many bytes, 0 to 1048576, are reduced by the host. Must be equal on all "          \
      "ranks")                                                                                                     \
    X(ipc_cache_bytes, SIZE_T, TUNER, FIXED, ANY,                                                                  \
      "Bytes of peers' buffers that stay mapped from call to call. 0: a quarter of the GPU's memory")              \
    X(stage_bytes, SIZE_T, TUNER, FIXED, ANY,                                                                      \
      "Bytes of page-locked host memory kept for calls that run in host memory. 0: none")                          \
    X(timeout, DOUBLE, SITE, FIXED, ANY,                                                                           \
      "Seconds without progress after which a call fails. 0: never, since MPI lets a rank be late")                \
    X(report_after, DOUBLE, SITE, FIXED, ANY,                                                                      \
      "Seconds without progress after which the state of all ranks is printed. 0: never")                          \
    X(sync_before, BOOL, USER, FIXED, ANY,                                                                         \
      "Synchronise the device before the send buffer is read. This finds programs that forgot to")                 \
    X(tune, STRING, EXPERT, FIXED, ANY,                                                                            \
      "For experts: KEY=NUMBER,... Keys are slices_in_flight, oneshot_bytes, oneshot_shared, gdr_bytes, "          \
      "levels_bytes, host_shard_bytes and switch_bytes, which must be equal on all ranks, ipc_uses and ipc_idle; " \
      "docs/tuning.md explains them")

/* Keys of the parameter `tune`: X(name, standard, least, most). Values beyond are clamped. */
#define GPUHIER_TUNE_KEYS(X)                  \
    X(slices_in_flight, 4, 2, 4)              \
    X(oneshot_bytes, 256 << 10, 0, 1 << 20)   \
    X(oneshot_shared, 0, 0, 1)                \
    X(gdr_bytes, 1024, 0, 65536)              \
    X(levels_bytes, 512 << 10, 0, INT_MAX)    \
    X(host_shard_bytes, 64 << 10, 0, 1 << 20) \
    X(switch_bytes, -1, -1, INT_MAX)          \
    X(ipc_uses, 3, 0, INT_MAX)                \
    X(ipc_idle, 10, 0, DBL_MAX)

#endif /* GPUHIER_PARAMS_LIST_H */
