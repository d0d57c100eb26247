/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The structures that the files of net/ share. Only they include it.
 *
 *   coll_gpuhier_net.c         the net: contexts, workers, what NICs reach, progress, close
 *   coll_gpuhier_net_peer.c    addresses, connections, peers, failure, leaving without breaking a call of another
 * process coll_gpuhier_net_op.c      sends, receives, the endpoints of a connection, status codes
 *   coll_gpuhier_net_stream.c  the same over a carrier
 *   coll_gpuhier_net_gpu.c     whether UCX is given GPU memory, from facts
 */
#ifndef GPUHIER_NET_INTERNAL_H
#define GPUHIER_NET_INTERNAL_H

#include "base/coll_gpuhier_clock.h"
#include "net/coll_gpuhier_net.h"

#include <ucp/api/ucp.h>

#define GPUHIER_NET_DEVICE_MAX 64
#define GPUHIER_NET_NAME_MAX 96

/* Calls of progress that look at a rail after an operation has ended, since UCX may still hold the last messages. */
#define GPUHIER_NET_WARM_ROUNDS 256

/* One network device with a UCX context and worker of its own, while it is open. Owned by the net. */
typedef struct {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    bool is_tcp;           /* certainly; false where UCX might choose something else */
    gpuhier_net_gpu_t gpu; /* whether its messages may lie in GPU memory */
    char device[GPUHIER_NET_DEVICE_MAX];
    unsigned pending; /* operations that have not ended */
    unsigned warm;    /* calls of progress that still look here, although nothing is pending */
} gpuhier_net_rail_t;

static inline bool gpuhier_net_rail_is_open(const gpuhier_net_rail_t *rail)
{
    return NULL != rail->address;
}

typedef struct gpuhier_net_connection gpuhier_net_connection_t;
typedef struct gpuhier_net_stream gpuhier_net_stream_t;

/* The address of a process over a carrier, in place of a UCX worker's. */
typedef struct gpuhier_net_carrier_address {
    uint64_t job;
    uint64_t rank;
} gpuhier_net_carrier_address_t;

struct gpuhier_net {
    int nrails;
    const gpuhier_net_carrier_t *carrier; /* NULL: UCX */
    bool has_devices;                     /* false: UCX chooses devices for the only rail */
    gpuhier_net_mode_t cuda_mode;
    bool has_new_failure; /* a connection failed and is not reaped yet */
    bool has_unused;      /* a reaped connection may be without use */
    gpuhier_net_rail_t rails[GPUHIER_RAILS_MAX];
    /* To all processes that ever were peers, except those that failed, have no peer left, and are not bound. */
    gpuhier_net_connection_t *connections;
    unsigned pending; /* operations that have not ended, on all rails */
    unsigned rounds;  /* calls of progress */
    uint64_t left_at; /* milliseconds: when gpuhier_net_leave() was called */
    gpuhier_net_error_fn_t error_handler;
    void *error_arg;
};

/*
 * The endpoints between two rails. Two tcp rails have two, one for each direction of payload: on a single one the
 * answers of a rendezvous would queue behind the payload that goes the same way, and both directions would wait for
 * each other. Other transports need only one.
 */
typedef struct {
    int count; /* 0: not connected */
    ucp_ep_h endpoints[2];
} gpuhier_net_link_t;

/*
 * A connection to another process, shared by all peers of that process. Each process makes it once, because UCX joins
 * the endpoints of both sides in the order in which they are made. It has a link between an own rail and a rail of
 * the other process once a logical rail has used the two.
 *
 * The net owns it from the first peer of the process until close: closing its endpoints earlier could lose the last
 * messages. A failed one goes earlier, when it is reaped and nothing uses it, unless its process is bound. So a server
 * whose clients come and go does not grow.
 *
 *   ALIVE --UCX's error callback, a failed connect--> FAILED
 *   FAILED --reap: closes endpoints by force, cancels receives--> REAPED
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
    int status;                   /* OMPI_SUCCESS while alive */
    int nrails;                   /* of the other process */
    uint64_t process;             /* names the other process */
    gpuhier_net_stream_t *stream; /* over a carrier, from the first operation on */
    int sends_on; /* the endpoint of a double link that this process sends by; the other process uses the other one */
    bool is_self;
    bool is_abandoned; /* a peer of a failed communicator is gone, or one with operations pending */
    bool is_bound;     /* its process leaves when this one does */
    bool is_closing;   /* UCX has not said that all endpoints are closed */
    gpuhier_net_link_t links[GPUHIER_RAILS_MAX][GPUHIER_RAILS_MAX]; /* [own rail][its rail] */
    ucp_address_t *addresses[GPUHIER_RAILS_MAX];                    /* inside the blob; NULL: not open */
    bool is_tcp[GPUHIER_RAILS_MAX];
    void *blob; /* the address of the other process with the most rails, copied */
    size_t blob_bytes;
    gpuhier_net_peer_t *peers;
    gpuhier_net_op_t *left;      /* pending operations of peers that were destroyed */
    gpuhier_net_peer_t *leaving; /* one more peer, made by gpuhier_net_leave(): it sends and receives the words */
    gpuhier_net_op_t leave_send;
    gpuhier_net_op_t leave_recv;
    uint64_t leave_ms; /* milliseconds to wait for the word of the other process; UINT64_MAX: no limit */
};

/* One user's view of a connection, with its own operations. The net owns it from peer_create to peer_destroy. */
struct gpuhier_net_peer {
    gpuhier_net_connection_t *connection;
    gpuhier_net_peer_t *next;
    gpuhier_net_op_t *ops; /* that have not ended */
    char name[GPUHIER_NET_NAME_MAX];
};

/* Open MPI's code for a status of UCX. */
int gpuhier_net_code(ucs_status_t status);

/*
 * Finds the link of a logical rail, which is open here, and connects it if need be. A failure to connect marks the
 * connection. Returns the status of a connection that has failed, or OMPI_ERR_NOT_FOUND if the other process's address
 * does not have the rail.
 */
int gpuhier_net_link_get(gpuhier_net_connection_t *connection, int rail, gpuhier_net_link_t **link_p);

/* Marks the connection as failed, and calls the error handler for each peer. The next reap ends its operations. */
void gpuhier_net_connection_mark(gpuhier_net_connection_t *connection, int code, const char *reason);

/*
 * Closes the endpoints of each connection that is marked as failed, and cancels its receives. Returns the number of
 * such connections.
 */
int gpuhier_net_reap(gpuhier_net_t *net);

/* Frees the reaped connections of processes that are not bound, if they have neither peers nor operations. */
void gpuhier_net_unused_free(gpuhier_net_t *net);

/* The tag of the message by which this process says that it leaves. */
static inline uint64_t gpuhier_net_leave_tag(uint64_t process)
{
    return (uint64_t) GPUHIER_NET_TEAM_RESERVED << 32 | (process & UINT32_MAX);
}

/*
 * What the functions of coll_gpuhier_net.h with these names do over a carrier. send and recv return an error if nothing
 * has started. recv ends the operation itself if the connection has failed.
 */
int gpuhier_net_stream_send(gpuhier_net_peer_t *peer, uint64_t tag, const void *buf, size_t bytes,
                            gpuhier_net_op_t *op);
int gpuhier_net_stream_recv(gpuhier_net_peer_t *peer, uint64_t tag, void *buf, size_t bytes, gpuhier_net_op_t *op);
void gpuhier_net_stream_cancel(gpuhier_net_op_t *op);
int gpuhier_net_stream_discard(gpuhier_net_t *net, uint64_t tag, uint64_t mask);
int gpuhier_net_stream_progress(gpuhier_net_t *net);

/* Stops listening on a connection. */
void gpuhier_net_stream_close(gpuhier_net_connection_t *connection);

/* Does the carrier still use memory of the connection's stream? */
bool gpuhier_net_stream_is_used(const gpuhier_net_connection_t *connection);
void gpuhier_net_stream_free(gpuhier_net_connection_t *connection);

/* Puts an operation on a list, and takes it off. */
void gpuhier_net_op_link(gpuhier_net_op_t *op, gpuhier_net_op_t **list);
void gpuhier_net_op_unlink(gpuhier_net_op_t *op);

/* Ends an operation that is on no list. Writes the state last, which hands the operation back to the caller. */
void gpuhier_net_op_end(gpuhier_net_op_t *op, int code, size_t bytes);

/* Takes an operation off its list and ends it. On a failed connection an error becomes the connection's: the reason is
 * the death, whether UCX reports a cancelled request, a reset, or a time-out. */
void gpuhier_net_op_finish(gpuhier_net_op_t *op, int code, size_t bytes);

/* Closes all connections by force. Later, when the workers are gone, the second frees them and all peers. */
void gpuhier_net_connections_close(gpuhier_net_t *net);
void gpuhier_net_connections_free(gpuhier_net_t *net);

/* Cancels the receives of a list. */
void gpuhier_net_ops_cancel(gpuhier_net_op_t *list);

#endif /* GPUHIER_NET_INTERNAL_H */
