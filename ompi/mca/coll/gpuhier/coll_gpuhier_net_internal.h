/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The structures that the files of the net share; nobody else includes this.
 *
 *   coll_gpuhier_net.c          the net: contexts, workers, progress, close
 *   coll_gpuhier_net_peer.c     address blobs, peers, endpoints, failure
 *   coll_gpuhier_net_op.c       sends, receives, status codes
 */
#ifndef MCA_COLL_GPUHIER_NET_INTERNAL_H
#define MCA_COLL_GPUHIER_NET_INTERNAL_H

#include "coll_gpuhier_net.h"

#include <ucp/api/ucp.h>

#define GPUHIER_NET_DEVICE_MAX 64
#define GPUHIER_NET_NAME_MAX 96

/* One network device with a UCX context and worker of its own. Owned by the net. */
typedef struct {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    bool is_tcp; /* certainly; false where UCX might choose something else */
    char device[GPUHIER_NET_DEVICE_MAX];
    uint64_t bytes_sent;
    uint64_t bytes_received;
    uint64_t messages_sent;
    uint64_t messages_received;
} gpuhier_net_rail_t;

struct gpuhier_net {
    int nrails;
    bool can_cuda;
    bool has_new_failure; /* a peer failed and was not reaped yet */
    gpuhier_net_rail_t rails[GPUHIER_NET_MAX_RAILS];
    void *blob; /* this process's address, see coll_gpuhier_net_peer.c */
    size_t blob_bytes;
    gpuhier_net_peer_t *peers;   /* all that are not freed */
    gpuhier_net_op_t *anonymous; /* pending receives that name no peer */
    unsigned pending;
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
 * Another process. Owned by the net; made by peer_create, freed by peer_destroy
 * or close. A link exists per own rail and per rail of the peer that a logical
 * rail ever paired.
 *
 *   ALIVE --UCX's error callback, a failed connect, peer_fail--> FAILED
 *   FAILED --reap: endpoints closed by force, receives cancelled--> REAPED
 */
typedef enum { GPUHIER_NET_PEER_ALIVE = 0, GPUHIER_NET_PEER_FAILED, GPUHIER_NET_PEER_REAPED } gpuhier_net_peer_state_t;

struct gpuhier_net_peer {
    gpuhier_net_t *net;
    gpuhier_net_peer_t *next;
    gpuhier_net_peer_t **prev_p;
    gpuhier_net_peer_state_t state;
    int status; /* OMPI_SUCCESS while alive */
    int nrails; /* of the peer */
    int sends_on; /* which endpoint of a double link I send by; the peer sends by the other */
    bool is_self;
    gpuhier_net_link_t links[GPUHIER_NET_MAX_RAILS][GPUHIER_NET_MAX_RAILS]; /* [own rail][peer's rail] */
    ucp_address_t *addresses[GPUHIER_NET_MAX_RAILS];                        /* inside the blob */
    bool is_tcp[GPUHIER_NET_MAX_RAILS];
    void *blob; /* a copy of what it sent */
    gpuhier_net_op_t *ops; /* pending ones */
    char name[GPUHIER_NET_NAME_MAX];
};

/* UCX's status as an Open MPI code. */
int gpuhier_net_code(ucs_status_t status);

/* The link of a logical rail, connected when it is not; a failure to connect marks the peer. */
int gpuhier_net_peer_link(gpuhier_net_peer_t *peer, int rail, gpuhier_net_link_t **link_p);

/* Make the net's own blob. */
int gpuhier_net_blob_build(gpuhier_net_t *net);

/* Mark the peer and report it once; what is pending on it is ended by the next reap. */
void gpuhier_net_peer_mark(gpuhier_net_peer_t *peer, int code, const char *reason);

/* Close the endpoints of every peer marked since, and cancel its receives. Returns the number of peers reaped. */
int gpuhier_net_reap(gpuhier_net_t *net);

/* End every operation of a list that UCX will not complete any more. Only when UCX cannot touch them. */
void gpuhier_net_ops_abandon(gpuhier_net_op_t **list, int code);

/* Cancel the receives of a list. */
void gpuhier_net_ops_cancel(gpuhier_net_op_t *list);

/* Monotonic clock, milliseconds. */
uint64_t gpuhier_net_now_ms(void);

#endif /* MCA_COLL_GPUHIER_NET_INTERNAL_H */
