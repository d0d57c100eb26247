/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether messages between groups lie in GPU memory or in pinned host memory: the decision, and its reasons. It is
 * pure; coll_gpuhier_net_facts.c finds out the facts of a rail.
 */
#ifndef GPUHIER_NET_GPU_H
#define GPUHIER_NET_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, reason, remedy), as parts of a sentence. The first is that of a rank that has not answered. */
#define GPUHIER_NET_GPU_ANSWERS(X)                                                                                     \
    X(NOT_ASKED, "UCX has not been asked", "")                                                                         \
    X(YES, "all NICs reach GPU memory", "")                                                                            \
    X(FORCED, "coll_gpuhier_net is direct", "")                                                                        \
    X(STAGED, "coll_gpuhier_net is staged", "")                                                                        \
    X(MPI, "Open MPI carries the messages", "")                                                                        \
    X(TCP, "a rail is not an RDMA port", "")                                                                           \
    X(NO_CUDA, "UCX has no CUDA support", "install a UCX that is built with CUDA")                                     \
    X(UNKNOWN, "UCX does not tell what its NICs reach", "set coll_gpuhier_net to direct if they reach GPU memory")     \
    X(NO_REGISTRATION, "a NIC cannot register GPU memory",                                                             \
      "load nvidia_peermem, or use dma-buf: Linux 5.12, the driver's open kernel modules, and UCX 1.14")               \
    X(NO_RC, "no transport of a NIC lets it access GPU memory safely when a peer dies", "let GPUHIER_UCX_TLS have rc") \
    X(NO_FLUSH, "the GPU cannot flush what a NIC writes", "")                                                          \
    X(LOST, "a CUDA context was destroyed", "")

#define GPUHIER_NET_GPU_NUMBER(name, reason, remedy) GPUHIER_NET_GPU_##name,
typedef enum gpuhier_net_gpu {
    GPUHIER_NET_GPU_ANSWERS(GPUHIER_NET_GPU_NUMBER) GPUHIER_NET_GPU_COUNT
} gpuhier_net_gpu_t;
#undef GPUHIER_NET_GPU_NUMBER

/* Whether UCX gets CUDA memory. */
typedef enum {
    GPUHIER_NET_CUDA_AUTO = 0, /* if the NICs of all rails reach it */
    GPUHIER_NET_CUDA_STAGED,   /* never */
    GPUHIER_NET_CUDA_DIRECT    /* always; open fails if UCX does not take it */
} gpuhier_net_cuda_mode_t;

/* What is known of a rail. Bits stand for memory domains of its UCX context, by their index there. */
typedef struct gpuhier_net_gpu_facts {
    bool takes_cuda; /* UCX takes CUDA memory, if only to copy it to the host piece by piece (cuda_copy) */
    bool is_tcp;     /* the rail is certainly tcp; then the members below are not filled in */
    bool is_known;   /* `nics` is known, and, if it is not 0, so are the last two members */
    uint64_t nics;   /* domains whose devices need a key for host memory, as NICs do, and tcp does not */
    uint64_t on_gpu; /* domains whose devices have got a key for some GPU memory */
    bool has_rc;     /* the rail has rc, whose connections end with a peer, and all remote access with them */
} gpuhier_net_gpu_facts_t;

/*
 * The answer for one rail.
 *
 * A NIC reaches GPU memory if it has registered some: with nvidia_peermem or dma-buf. Otherwise UCX's cuda_copy, which
 * makes it take GPU memory in any case, moves each message in pieces through the host, one after the other.
 *
 * Peers' deaths are watched (UCP_ERR_HANDLING_MODE_PEER). For that UCX lets NICs access memory of a peer only over
 * connections that end with it (rc), or with keys that it can invalidate. UCX does not say whether it can invalidate
 * keys, so only rc counts. Without rc, messages go through the host as with tcp.
 */
gpuhier_net_gpu_t gpuhier_net_gpu_decide(gpuhier_net_cuda_mode_t mode, const gpuhier_net_gpu_facts_t *facts);

static inline bool gpuhier_net_gpu_is_yes(gpuhier_net_gpu_t answer)
{
    return GPUHIER_NET_GPU_YES == answer || GPUHIER_NET_GPU_FORCED == answer;
}

/*
 * Combines a rank's answer with that of another rank: if the other rank cannot give UCX GPU memory, neither does this
 * one. A forced answer stays as it is. Returns true if *answer has become the other rank's answer.
 */
bool gpuhier_net_gpu_hear(gpuhier_net_gpu_t *answer, gpuhier_net_gpu_t other);

/* The reason for an answer, and what the user can do about it, "" if nothing. */
const char *gpuhier_net_gpu_reason(gpuhier_net_gpu_t answer);
const char *gpuhier_net_gpu_remedy(gpuhier_net_gpu_t answer);

/*
 * Reads which memory domains have a key in the packed key of some memory (ucp_rkey_pack()): one that is not
 * empty. The layout is part of UCX's wire protocol, so it is the same in UCX 1.13 to 1.22:
 *
 *   | domains (8 bytes, a bit each) | memory type (1) | for each domain: bytes of its key (1), key | ...
 *
 * Returns false if this is no such key.
 */
bool gpuhier_net_gpu_keys(const void *packed, size_t bytes, uint64_t *domains_p);

#endif /* GPUHIER_NET_GPU_H */
