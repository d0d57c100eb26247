/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tagged messages between the ranks of different groups, over UCX.
 *
 * What it gives: a process opens one net (one UCX context and worker per rail),
 * hands its address blob to the others by whatever means it has, makes a peer
 * from each blob it received, and then sends and receives tagged buffers in host
 * or CUDA memory. Endpoints are connected at a peer's first operation.
 *
 * Matching. A message is matched by its 64-bit tag alone, all bits, per rail;
 * two messages that are in flight to one process on one rail at the same time
 * must have different tags, or be received in any order. A rail is named by a
 * logical number >= 0: a send on logical rail L leaves by the sender's rail
 * (L modulo its rails) and arrives at the receiver's rail (L modulo its rails),
 * so both sides just name the same L even when they have a different number.
 *
 * Memory. A payload above the rendezvous threshold (GPUHIER_NET_EAGER_MAX, or GPUHIER_NET_TCP_EAGER_MAX)
 * moves only into a posted receive; before that it costs its receiver a small
 * header. Messages up to the threshold are sent at once and are buffered by the
 * receiver when not yet posted: whoever sends them bounds their number.
 *
 * Failures. Endpoints watch their peer. When it dies, every operation on it ends
 * with an error, and so does every later one; the error handler is called once
 * per peer. What it had sent before, if it left in peace, is still received.
 *
 * Threads. Workers are UCS_THREAD_MODE_SERIALIZED: any thread may call, one at a
 * time, under the caller's lock. Nothing here blocks, except open and
 * close, which wait at most GPUHIER_NET_DRAIN_MS for UCX, and a first
 * operation on a peer, which connects. All calls want the CUDA context that was
 * current at open to be current again, progress included.
 *
 * Configuration. Variables GPUHIER_UCX_<X> set UCX's option X for gpuhier only
 * and win over what gpuhier sets itself, except the devices of explicit rails.
 * UCX_<X> is seen too, but never for the options that could leave gpuhier without
 * a transport (see the table in coll_gpuhier_net.c).
 *
 * Codes are Open MPI's (OMPI_SUCCESS, OMPI_ERR_...). No MPI call is made here.
 */
#ifndef GPUHIER_NET_H
#define GPUHIER_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_limits.h"

/* Largest payload in bytes that is sent before its receive is posted: a short message's 8 KiB and its header. */
#define GPUHIER_NET_EAGER_MAX 8256
/* The same on a rail that is certainly tcp. */
#define GPUHIER_NET_TCP_EAGER_MAX 65600
/* The upper 32 bits of tags that are the net's own. */
#define GPUHIER_NET_TEAM_RESERVED UINT32_MAX
/* How long close waits for UCX to let go, in milliseconds. */
#define GPUHIER_NET_DRAIN_MS 2000

typedef struct gpuhier_net gpuhier_net_t;
typedef struct gpuhier_net_peer gpuhier_net_peer_t;

/* What can_cuda() answers: what UCX says, or what the user forced. */
typedef enum {
    GPUHIER_NET_CUDA_AUTO = 0,
    GPUHIER_NET_CUDA_STAGED, /* never hand CUDA memory to UCX */
    GPUHIER_NET_CUDA_DIRECT  /* an error where UCX cannot */
} gpuhier_net_cuda_mode_t;

typedef enum {
    GPUHIER_NET_OP_IDLE = 0,
    GPUHIER_NET_OP_PENDING,
    GPUHIER_NET_OP_DONE,
    GPUHIER_NET_OP_ERROR
} gpuhier_net_op_state_t;

/*
 * One send or receive. The caller owns the memory and zeroes it before first
 * use; from send/recv until state leaves PENDING it belongs to the net and must
 * not move. Written only inside calls of this file's functions. May be reused
 * once it is DONE or ERROR.
 */
typedef struct gpuhier_net_op {
    gpuhier_net_op_state_t state;
    int status;   /* OMPI_SUCCESS, or why it is in ERROR */
    size_t bytes; /* DONE: payload bytes moved; a receive may be shorter than its buffer */
    /* private to the net */
    gpuhier_net_t *net;
    struct gpuhier_net_connection *connection;
    void *request;
    struct gpuhier_net_op *next;
    struct gpuhier_net_op **prev_p;
    int rail;
    bool is_receive;
} gpuhier_net_op_t;

/*
 * Called once for each peer whose connection failed, from progress or from the call that found
 * it. May be called while the net is in the middle of a call: it must not call
 * back into the net. text is one line that names the peer and UCX's reason.
 */
typedef void (*gpuhier_net_error_fn_t)(void *arg, gpuhier_net_peer_t *peer, int code, const char *text);

/*
 * Open the net on nrails devices named as UCX names them ("mlx5_0:1", "eth0"),
 * one rail each, in this order; nrails 0 opens one rail on whatever devices UCX
 * finds. Call it with the CUDA context current that will be current later.
 * Errors: OMPI_ERR_BAD_PARAM (too many rails), OMPI_ERR_NOT_FOUND (no such
 * device), OMPI_ERR_NOT_SUPPORTED (direct was forced and UCX has no CUDA), or
 * what UCX reported. error_p, if not NULL, receives one line that says why and
 * what to do; it is valid until this thread's next call of this function.
 */
int gpuhier_net_open(const char *const *devices, int nrails, gpuhier_net_cuda_mode_t cuda_mode, gpuhier_net_t **net_p,
                     const char **error_p);

/*
 * Begin to leave: tell all processes that are connected that nothing more is
 * wanted of them. To be called before close when everything this process waited
 * for has come; then progress, until gpuhier_net_has_left() says that all of
 * them have told us the same, are gone, or keep us waiting too long. all_leave: all
 * do this sooner or later, as in MPI_Finalize. Then there is no limit for a process
 * that is bound or of which there is a peer still, unless one of its peers was abandoned.
 * Otherwise it is half a minute while there is a peer, and a second when there is none.
 */
void gpuhier_net_leave(gpuhier_net_t *net, bool all_leave);
bool gpuhier_net_has_left(const gpuhier_net_t *net);

/*
 * Send out what was sent, for GPUHIER_NET_DRAIN_MS at most; then end every
 * pending operation with an error, destroy all peers of this net, and free it.
 * NULL is ignored.
 */
void gpuhier_net_close(gpuhier_net_t *net);

void gpuhier_net_set_error_handler(gpuhier_net_t *net, gpuhier_net_error_fn_t handler, void *arg);

int gpuhier_net_rails(const gpuhier_net_t *net);
/* May is_cuda be true? */
bool gpuhier_net_can_cuda(const gpuhier_net_t *net);

/*
 * This process's address: one blob for all rails, to be sent to the others.
 * The caller frees it with free().
 */
int gpuhier_net_address(const gpuhier_net_t *net, void **blob_p, size_t *bytes_p);

/*
 * A peer from the blob that it sent, which is checked first: OMPI_ERR_BAD_PARAM
 * if it is not an intact blob of this version. name appears in messages only
 * ("rank 3 on node17"). The blob may be freed after the call. The peer lives
 * until peer_destroy or close. Peers of the same process (of several
 * communicators, say) share its connection: it is made once, stays until close,
 * and when it fails, it fails for all of them. One that has failed is forgotten with
 * its last peer, unless it was bound: its process is gone for good.
 */
int gpuhier_net_peer_create(gpuhier_net_t *net, const void *blob, size_t bytes, const char *name,
                            gpuhier_net_peer_t **peer_p);

/* The peer's process is bound to leave when this one does: it will be waited for then, also when the peer is gone. */
void gpuhier_net_peer_bind(gpuhier_net_peer_t *peer);

/*
 * Forget the peer. What was sent still goes out, and receives that nothing has matched are
 * taken back. Other operations of this peer stay pending, with their memory in use, until they
 * end: others may share the connection. Waits for nothing. NULL is ignored.
 */
void gpuhier_net_peer_destroy(gpuhier_net_peer_t *peer);

/*
 * The same for a peer of a communicator that failed; receives stay pending, too. Unless others share
 * the connection, its process is not waited for long when this one leaves.
 */
void gpuhier_net_peer_abandon(gpuhier_net_peer_t *peer);

/*
 * Start sending bytes at buf to the peer. Done means that buf may be reused, not
 * that the peer has it. bytes may be 0. Returns OMPI_SUCCESS with op pending or
 * done, else the error, which is in op too.
 */
int gpuhier_net_send(gpuhier_net_peer_t *peer, int rail, uint64_t tag, const void *buf, size_t bytes, bool is_cuda,
                     gpuhier_net_op_t *op);

/*
 * Start receiving up to bytes bytes into buf. The peer is the one expected to send:
 * its death ends the operation. A message longer than the
 * buffer ends it with OMPI_ERR_BUFFER. Returns as gpuhier_net_send does.
 */
int gpuhier_net_recv(gpuhier_net_peer_t *peer, int rail, uint64_t tag, void *buf, size_t bytes, bool is_cuda,
                     gpuhier_net_op_t *op);

/*
 * Take back a receive that is not matched yet: it ends with OMPI_ERR_INTERUPTED
 * before this returns. One that is being filled goes on, and so does any send: a
 * send ends by its peer receiving it or failing. Look at op->state afterwards.
 */
void gpuhier_net_cancel(gpuhier_net_op_t *op);

/*
 * Throw away messages that have come and that no receive waits for, those whose tag is `tag` in the bits of `mask`.
 * Their sends end as if they had been received. Returns how many there were.
 */
int gpuhier_net_discard(gpuhier_net_t *net, uint64_t tag, uint64_t mask);

static inline bool gpuhier_net_op_is_pending(const gpuhier_net_op_t *op)
{
    return GPUHIER_NET_OP_PENDING == op->state;
}

/* A bounded amount of work on all rails. Returns the number of events, 0 when there was nothing to do. */
int gpuhier_net_progress(gpuhier_net_t *net);

#endif /* GPUHIER_NET_H */
