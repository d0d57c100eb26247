/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * net/: tagged messages between processes, over UCX, or over a carrier that the caller provides.
 *
 * The folder owns the nets of a process: a UCX context and worker for each open rail, the connections to other
 * processes, and their end. It calls UCX and base/, and nothing else: no MPI, no CUDA, and of Open MPI only its error
 * codes. team/ opens the net, makes the peers, and leaves at MPI_Finalize. team/ and engine/ send and receive.
 * gpuhier_info opens a net to see what UCX can do. Nothing else in the component calls it.
 *
 * Carriers. Where UCX has no network, something else that carries messages in order takes its place: Open MPI's own
 * point-to-point layer, which team/ hands in as functions (gpuhier_net_carrier_t). All below holds for it as well,
 * except that such a net has one rail, takes no CUDA memory, and learns of deaths from the carrier.
 *
 * Use. A process opens a net, hands its address to the others by whatever means it has, and makes a peer from each
 * address that it receives. Then it sends and receives tagged buffers in host or CUDA memory. The first operation on a
 * peer connects.
 *
 * Matching. A message matches a receive with the same 64-bit tag on the same rail. The sender does not count: two
 * messages that travel to one process on one rail at the same time need different tags, unless their order does not
 * matter. Callers name a rail by a logical number >= 0. A message on logical rail L leaves by the sender's rail
 * (L modulo its rails) and arrives at the receiver's rail (L modulo its rails). Both sides name the same L, even when
 * their numbers of rails differ.
 *
 * Memory. A payload above the rendezvous threshold (GPUHIER_NET_EAGER_MAX, or GPUHIER_NET_TCP_EAGER_MAX) moves only
 * into a posted receive; until then it costs its receiver a small header. A message up to the threshold is sent at
 * once, and the receiver's UCX buffers it until a receive is posted. The sender has to bound the number of those.
 *
 * Failures. UCX watches each connection. When the other process dies, all operations on it end with an error, so does
 * each later one, and the error handler is called once for each of its peers. A message that a process sent before it
 * left in peace is still received.
 *
 * Threads and locks. The folder has neither. Workers are UCS_THREAD_MODE_SERIALIZED: any thread may call, one at a
 * time, and the caller holds a lock (the engine's). No call blocks, except for open and close, which wait for UCX for
 * a few times GPUHIER_NET_DRAIN_MS at most, and the first operation on a peer, which connects. The CUDA context that
 * was current at open must be current in all calls, in progress too.
 *
 * Configuration. A variable GPUHIER_UCX_<X> sets UCX's option X for gpuhier only. It overrides gpuhier's own choice,
 * except for the device of a rail that open names. UCX_<X> counts too, but not for the options that could leave gpuhier
 * without a transport: see the table in coll_gpuhier_net.c.
 */
#ifndef GPUHIER_NET_H
#define GPUHIER_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_limits.h"
#include "base/coll_gpuhier_params.h"

/* -- whether messages between groups lie in GPU memory or in pinned host memory: pure, in coll_gpuhier_net_gpu.c */

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
 * The answer for one rail. mode: AUTO if the NICs of all rails reach CUDA memory, STAGED never, DIRECT always: then
 * open fails if UCX does not take it.
 *
 * A NIC reaches GPU memory if it has registered some: with nvidia_peermem or dma-buf. Otherwise UCX's cuda_copy, which
 * makes it take GPU memory in any case, moves each message in pieces through the host, one after the other.
 *
 * Peers' deaths are watched (UCP_ERR_HANDLING_MODE_PEER). For that UCX lets NICs access memory of a peer only over
 * connections that end with it (rc), or with keys that it can invalidate. UCX does not say whether it can invalidate
 * keys, so only rc counts. Without rc, messages go through the host as with tcp.
 */
gpuhier_net_gpu_t gpuhier_net_gpu_decide(gpuhier_net_mode_t mode, const gpuhier_net_gpu_facts_t *facts);

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

/* -- the net --------------------------------------------------------------------------------- */

/* The largest payload, in bytes, that is sent before its receive is posted: 8 KiB of a short message and its header. */
#define GPUHIER_NET_EAGER_MAX 8256
/* The same on a rail that is certainly tcp. */
#define GPUHIER_NET_TCP_EAGER_MAX 65600
/* The upper 32 bits of the net's own tags. */
#define GPUHIER_NET_TEAM_RESERVED UINT32_MAX
/* The longest wait for UCX in each step of close, in milliseconds. */
#define GPUHIER_NET_DRAIN_MS 2000

typedef struct gpuhier_net gpuhier_net_t;
typedef struct gpuhier_net_peer gpuhier_net_peer_t;

typedef enum {
    GPUHIER_NET_OP_IDLE = 0,
    GPUHIER_NET_OP_PENDING,
    GPUHIER_NET_OP_DONE,
    GPUHIER_NET_OP_ERROR
} gpuhier_net_op_state_t;

/*
 * One send or receive. The caller owns the memory and zeroes it before the first use. From send or recv until the
 * state leaves PENDING it belongs to the net and must not move. Only functions of this header write it, in the calling
 * thread. It may be used again when it is DONE or ERROR.
 */
typedef struct gpuhier_net_op {
    gpuhier_net_op_state_t state;
    int status;   /* OMPI_SUCCESS, or the reason for ERROR */
    size_t bytes; /* DONE: payload bytes moved; a message may be shorter than the buffer of its receive */
    /* private to the net */
    gpuhier_net_t *net;
    struct gpuhier_net_connection *connection;
    void *request;
    void *announcement; /* over a carrier, like the next three: the request of the word that precedes a payload */
    uint64_t word[2];   /* the word: tag and bytes; of a receive, the bytes that it has room for */
    void *buffer;       /* of a receive */
    void *unasked;      /* of a receive whose payload came into memory of its own */
    struct gpuhier_net_op *next;
    struct gpuhier_net_op **prev_p;
    int rail;
    bool is_receive;
} gpuhier_net_op_t;

/*
 * The net calls it once for each peer whose connection failed: in progress, or in the call that found the failure. It
 * must not call the net. text is one line that names the peer and gives UCX's reason.
 */
typedef void (*gpuhier_net_error_fn_t)(void *arg, gpuhier_net_peer_t *peer, int code, const char *text);

/*
 * Makes a net with one rail for each of the nrails devices, in this order. Devices have UCX's names ("mlx5_0:1",
 * "eth0"). With nrails 0 the net has one rail, for which UCX chooses devices itself. Opens the rails of the bit set
 * `rails`, and rail 0. Each costs memory, sockets or queue pairs, and each of its calls of progress costs time, so a
 * process opens those that it sends or receives by.
 * Errors: OMPI_ERR_BAD_PARAM (too many rails), OMPI_ERR_NOT_FOUND (no such device), OMPI_ERR_NOT_SUPPORTED
 * (GPUHIER_NET_DIRECT, and UCX does not take CUDA memory), OMPI_ERR_OUT_OF_RESOURCE, or UCX's error.
 * *error_p becomes one line that says what is wrong and what to do, or "". It is valid until this thread calls the
 * function again.
 */
int gpuhier_net_open(const char *const *devices, int nrails, unsigned rails, gpuhier_net_mode_t cuda_mode,
                     gpuhier_net_t **net_p, const char **error_p);

/* Opens more rails: those of the set that are not open. Addresses that are made later name them. Errors are those of
 * gpuhier_net_open(); rails that are open stay open. */
int gpuhier_net_open_rails(gpuhier_net_t *net, unsigned rails, const char **error_p);

/*
 * Point-to-point messages of something other than UCX. Messages from one process to another on one stream arrive in the
 * order in which they are sent. No function may block. Those that return an int return an Open MPI code.
 */
typedef struct gpuhier_net_carrier {
    /* Starts a message to or from a rank. *request_p is set if it has started. */
    int (*send)(uint32_t rank, uint32_t stream, const void *buf, size_t bytes, void **request_p);
    int (*recv)(uint32_t rank, uint32_t stream, void *buf, size_t bytes, void **request_p);
    /* Has it ended? Then *request_p becomes NULL, and *rc_p its outcome. */
    bool (*test)(void **request_p, int *rc_p);
    /* Cancels a receive; it ends at once or when its message has come. */
    void (*cancel)(void *request);
    /* Moves messages on. Only close calls it: at other times the carrier moves by itself. */
    void (*progress)(void);
} gpuhier_net_carrier_t;

/* The streams that a carrier has, from 0. */
#define GPUHIER_NET_CARRIER_STREAMS 65537u

/*
 * Opens a net over a carrier. job and rank name this process; processes of another job cannot be reached. Errors:
 * OMPI_ERR_OUT_OF_RESOURCE.
 */
int gpuhier_net_open_carrier(const gpuhier_net_carrier_t *carrier, uint64_t job, uint32_t rank, gpuhier_net_t **net_p);

/*
 * Begins to leave: tells all connected processes that this one wants nothing more of them. Call it before close, when
 * everything that this process waited for has come. Then call progress until gpuhier_net_has_left() says that each of
 * them has told this one the same, is gone, or takes too long.
 *
 * all_leave says that every process does the same sooner or later, as in MPI_Finalize. Then there is no limit for a
 * process that is bound or still has a peer here, unless one of its peers was of a communicator that failed. In all
 * other cases the limit is half a minute for a process that has a peer here, and a second for one that has none.
 */
void gpuhier_net_leave(gpuhier_net_t *net, bool all_leave);
bool gpuhier_net_has_left(const gpuhier_net_t *net);

/*
 * Sends what is still to be sent, for GPUHIER_NET_DRAIN_MS at most. Then ends all pending operations with an error,
 * destroys all peers, and frees the net. Ignores NULL.
 */
void gpuhier_net_close(gpuhier_net_t *net);

void gpuhier_net_set_error_handler(gpuhier_net_t *net, gpuhier_net_error_fn_t handler, void *arg);

/* The number of rails, open or not: 1 to GPUHIER_RAILS_MAX. */
int gpuhier_net_rails(const gpuhier_net_t *net);

/* May is_cuda be true in a send or a receive? The answer of the first rail that cannot. */
gpuhier_net_gpu_t gpuhier_net_gpu(const gpuhier_net_t *net);

/*
 * Copies this process's address, one blob for all open rails, which the caller sends to other processes and frees with
 * free(). Rail 0 is open. Errors: OMPI_ERR_OUT_OF_RESOURCE.
 */
int gpuhier_net_address(const gpuhier_net_t *net, void **blob_p, size_t *bytes_p);

/*
 * Makes a peer from the address of another process; the blob may be freed after the call. Of several addresses of one
 * process the one with the most rails counts. name appears in messages only ("rank 3 on node17"). The peer lives until
 * it is destroyed, or until close.
 *
 * Peers of the same process, of several communicators for example, share its connection. It is made once, and lasts
 * until close. When it fails, it fails for all of them. A failed connection is forgotten with its last peer, unless its
 * process is bound.
 * Errors: OMPI_ERR_BAD_PARAM (not an intact blob of this format version), OMPI_ERR_OUT_OF_RESOURCE.
 */
int gpuhier_net_peer_create(gpuhier_net_t *net, const void *blob, size_t bytes, const char *name,
                            gpuhier_net_peer_t **peer_p);

/* Binds the peer's process to this one: gpuhier_net_leave() then waits for it, even after the peer is destroyed. */
void gpuhier_net_peer_bind(gpuhier_net_peer_t *peer);

/*
 * Forgets the peer, without a wait. Messages that were sent still go out. Receives that no message has matched are
 * cancelled. All other operations of this peer stay pending, and keep their memory in use, until they end; the
 * connection lives on for the other peers that share it. failed: the peer is of a communicator that failed. Its
 * receives stay pending too, and gpuhier_net_leave() does not wait long for its process. Ignores NULL.
 */
void gpuhier_net_peer_destroy(gpuhier_net_peer_t *peer, bool failed);

/*
 * Starts to send `bytes` bytes at buf, 0 or more, to the peer. DONE means that buf may be reused, not that the message
 * has arrived. Returns OMPI_SUCCESS with op PENDING or DONE. Otherwise returns the error, which is in op as well:
 * OMPI_ERR_BAD_PARAM (rail < 0, no buf), OMPI_ERR_NOT_SUPPORTED (is_cuda where gpuhier_net_gpu() says no),
 * OMPI_ERR_UNREACH (the peer is dead), OMPI_ERR_NOT_FOUND (the rail is not open, or not in the peer's address), or
 * UCX's error.
 */
int gpuhier_net_send(gpuhier_net_peer_t *peer, int rail, uint64_t tag, const void *buf, size_t bytes, bool is_cuda,
                     gpuhier_net_op_t *op);

/*
 * Starts to receive at most `bytes` bytes into buf. The peer is the expected sender: its death ends the operation. A
 * message longer than the buffer ends it with OMPI_ERR_BUFFER. Returns what gpuhier_net_send() returns.
 */
int gpuhier_net_recv(gpuhier_net_peer_t *peer, int rail, uint64_t tag, void *buf, size_t bytes, bool is_cuda,
                     gpuhier_net_op_t *op);

/*
 * Cancels a receive that no message has matched: it ends with OMPI_ERR_INTERUPTED before the call returns. A receive
 * that is being filled goes on, and so does a send, which ends when the peer receives it or fails. Check op->state
 * after the call.
 */
void gpuhier_net_cancel(gpuhier_net_op_t *op);

/*
 * Discards messages that have come and that no receive waits for, if their tag equals `tag` in the bits of `mask`.
 * Their sends end as if they had been received. Returns their number.
 */
int gpuhier_net_discard(gpuhier_net_t *net, uint64_t tag, uint64_t mask);

static inline bool gpuhier_net_op_is_pending(const gpuhier_net_op_t *op)
{
    return GPUHIER_NET_OP_PENDING == op->state;
}

/* A pair: what a rank sends to one group and receives from another in one step. Have both messages ended? 1 if so, 0
 * if not, < 0 for an error. */
static inline int gpuhier_net_pair_done(const gpuhier_net_op_t *send, const gpuhier_net_op_t *recv)
{
    if (GPUHIER_NET_OP_ERROR == recv->state) {
        return recv->status;
    }
    if (GPUHIER_NET_OP_ERROR == send->state) {
        return send->status;
    }
    return !gpuhier_net_op_is_pending(recv) && !gpuhier_net_op_is_pending(send);
}

static inline bool gpuhier_net_pair_in_use(const gpuhier_net_op_t *send, const gpuhier_net_op_t *recv)
{
    return gpuhier_net_op_is_pending(send) || gpuhier_net_op_is_pending(recv);
}

/* Does a bounded amount of work on all rails. Returns the number of events: 0 when there was nothing to do. */
int gpuhier_net_progress(gpuhier_net_t *net);

#endif /* GPUHIER_NET_H */
