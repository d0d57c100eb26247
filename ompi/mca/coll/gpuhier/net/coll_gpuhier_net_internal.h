/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The structures that the files of the net share; nobody else includes this.
 *
 *   coll_gpuhier_net.c          the net: contexts, workers, progress, close
 *   coll_gpuhier_net_address.c  address blobs
 *   coll_gpuhier_net_link.c     links: the endpoints of a connection
 *   coll_gpuhier_net_peer.c     connections, peers, failure
 *   coll_gpuhier_net_op.c       sends, receives, status codes
 *   coll_gpuhier_net_leave.c    leaving without tearing others out of their calls
 */
#ifndef GPUHIER_NET_INTERNAL_H
#define GPUHIER_NET_INTERNAL_H

#include "base/coll_gpuhier_clock.h"
#include "net/coll_gpuhier_net.h"

#include <ucp/api/ucp.h>

#define GPUHIER_NET_DEVICE_MAX 64
#define GPUHIER_NET_NAME_MAX 96

/* What was sent last may still lie in UCX's buffers: calls of progress that see to it. */
#define GPUHIER_NET_WARM_ROUNDS 256

/* One network device with a UCX context and worker of its own. Owned by the net. */
typedef struct {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    bool is_tcp; /* certainly; false where UCX might choose something else */
    char device[GPUHIER_NET_DEVICE_MAX];
    unsigned pending; /* operations */
    unsigned warm;    /* calls of progress that still look here although nothing is pending */
} gpuhier_net_rail_t;

typedef struct gpuhier_net_connection gpuhier_net_connection_t;

struct gpuhier_net {
    int nrails;
    bool can_cuda;
    bool has_new_failure; /* a peer failed and was not reaped yet */
    bool has_unused;      /* a reaped connection may be of no more use */
    gpuhier_net_rail_t rails[GPUHIER_RAILS_MAX];
    void *blob; /* this process's address, see coll_gpuhier_net_peer.c */
    size_t blob_bytes;
    gpuhier_net_connection_t
        *connections; /* to all processes that were ever peers, but those that came, left, and are not bound */
    unsigned pending;
    unsigned rounds;  /* calls of progress */
    uint64_t left_at; /* milliseconds: when it began to leave */
    gpuhier_net_error_fn_t error_handler;
    void *error_arg;
};

/*
 * Two endpoints for a pair of tcp rails, one for each direction of payload: on
 * a single connection a rendezvous' answers would queue behind the payload that
 * goes the same way, and both directions would wait for each other. Other
 * transports need only one.
 */
typedef struct {
    int count; /* 0: not connected yet */
    ucp_ep_h endpoints[2];
} gpuhier_net_link_t;

/*
 * To another process, whoever asks for it and how often: endpoints are matched
 * with the other side's by the order in which they are made, so each process
 * makes them once. Owned by the net, from the first peer that names the process
 * until close, or until it is reaped and nobody uses it, where the process is not bound to leave with this one, so
 * that a server whose clients come and go does not grow: closing an endpoint earlier could lose what was sent last. A
 * link exists per own rail and per rail of the other that a logical rail ever paired.
 *
 *   ALIVE --UCX's error callback, a failed connect--> FAILED
 *   FAILED --reap: endpoints closed by force, receives cancelled--> REAPED
 */
typedef enum {
    GPUHIER_NET_CONNECTION_ALIVE = 0,
    GPUHIER_NET_CONNECTION_FAILED,
    GPUHIER_NET_CONNECTION_REAPED
} gpuhier_net_connection_state_t;

struct gpuhier_net_connection {
    gpuhier_net_t *net;
    gpuhier_net_connection_t *next;
    gpuhier_net_connection_state_t state;
    int status;   /* OMPI_SUCCESS while alive */
    int nrails;   /* of the other process */
    int sends_on; /* which endpoint of a double link I send by; the other sends by the other */
    bool is_self;
    bool is_abandoned; /* a peer was abandoned, or destroyed with operations pending */
    bool is_bound;     /* leaves when I do */
    bool is_closing;   /* UCX did not say that its endpoints are closed */
    gpuhier_net_link_t links[GPUHIER_RAILS_MAX][GPUHIER_RAILS_MAX]; /* [own rail][its rail] */
    ucp_address_t *addresses[GPUHIER_RAILS_MAX];                    /* inside the blob */
    bool is_tcp[GPUHIER_RAILS_MAX];
    void *blob; /* a copy of what it sent */
    size_t blob_bytes;
    gpuhier_net_peer_t *peers;
    gpuhier_net_op_t *left;      /* pending operations of peers that are gone */
    gpuhier_net_peer_t *leaving; /* one of the peers, from leave on; the words of both sides are its operations */
    gpuhier_net_op_t leave_send;
    gpuhier_net_op_t leave_recv;
    uint64_t leave_ms; /* how long the other's word is waited for; UINT64_MAX: without end */
};

/* One user's view of a connection, with operations of its own. Owned by the net, from peer_create to peer_destroy. */
struct gpuhier_net_peer {
    gpuhier_net_connection_t *connection;
    gpuhier_net_peer_t *next;
    gpuhier_net_peer_t **prev_p;
    gpuhier_net_op_t *ops; /* pending ones */
    char name[GPUHIER_NET_NAME_MAX];
};

/* UCX's status as an Open MPI code. */
int gpuhier_net_code(ucs_status_t status);

/* Make the net's own blob. */
int gpuhier_net_blob_build(gpuhier_net_t *net);

/* Check a connection's copy of what the other process sent, and find the addresses in it. */
int gpuhier_net_blob_parse(gpuhier_net_connection_t *connection);

/* The checksum in a blob's header, which all who have the blob know it by. */
uint64_t gpuhier_net_blob_digest(const void *blob);

/* Marks the connection as failed and reports it to each of its peers once; the next reap ends what is pending. */
void gpuhier_net_connection_mark(gpuhier_net_connection_t *connection, int code, const char *reason);

/* The link of a logical rail, connected when it is not; a failure to connect marks the connection. */
int gpuhier_net_link_get(gpuhier_net_connection_t *connection, int rail, gpuhier_net_link_t **link_p);

/* Close the endpoints of every connection marked as failed since, and cancel receives. Returns how many there were. */
int gpuhier_net_reap(gpuhier_net_t *net);

/* Free connections that were reaped and that nobody uses, of processes that are not bound. */
void gpuhier_net_unused_free(gpuhier_net_t *net);

/* The tag of the word by which the process with this digest says that it leaves. */
static inline uint64_t gpuhier_net_leave_tag(uint64_t digest)
{
    return (uint64_t) GPUHIER_NET_TEAM_RESERVED << 32 | (digest & UINT32_MAX);
}

/* Close all connections by force; then, when the workers are gone, free them and all peers. */
void gpuhier_net_connections_close(gpuhier_net_t *net);
void gpuhier_net_connections_free(gpuhier_net_t *net);

/* End every operation of a list that UCX will not complete any more. Only when UCX cannot touch them. */
void gpuhier_net_ops_abandon(gpuhier_net_op_t **list, int code);

/* Append the operations of a list to another one. */
void gpuhier_net_ops_move(gpuhier_net_op_t **from, gpuhier_net_op_t **to);

/* Cancel the receives of a list. */
void gpuhier_net_ops_cancel(gpuhier_net_op_t *list);

#endif /* GPUHIER_NET_INTERNAL_H */
