/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections to other processes, the peers that share them, and what happens when a process dies or leaves.
 *
 * How it works: peers of the same process share one connection. Its endpoints have error mode PEER, so UCX watches them
 * and calls back when one breaks. The callback only marks the connection, because UCX is in the middle of its own work.
 * The next reap, at the end of progress, closes the endpoints by force, which ends sends and half-done receives, and
 * cancels the receives that no message has matched.
 *
 * Leaving in peace. When a process closes its endpoints, the other side sees a broken connection, even if it still
 * waits for a message. The last messages may lie in buffers and sockets, and come after that news: on another rail, or
 * on the other endpoint of a double link. So a process closes only when the processes at the other ends of its
 * connections need nothing more: it has ended all its calls, says so to each living connection with an empty message,
 * its word, and waits for the word of the other process, or for the failure of the connection. The tag of a word holds
 * a digest of its sender's address.
 *
 * Addresses. A blob is what a process tells the others so that they can connect. It carries the UCX worker address of
 * each open rail behind a header with a checksum, because UCX trusts the addresses that it is given. Making one creates
 * no endpoint, and costs nothing on the network. Blobs of one process differ when it has opened a rail between them.
 * Rail 0's address is in all of them, and names the process.
 *
 * Called by team/ and engine/ through coll_gpuhier_net.h (own blob, create, bind, destroy; leave at MPI_Finalize and at
 * the end of a session, before close) and by the other files of net/.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/constants.h"

#define BLOB_MAGIC 0x67707568u /* "gpuh" */
#define BLOB_RAIL_IS_TCP 1u
/* Larger than any worker address: a bound for what a blob claims. */
#define BLOB_ADDRESS_MAX 65536

/*
 * The blob, in the native byte order, since all ranks of a job run the same build:
 *
 *   | header | rail 0 .. rail nrails-1 (blob_rail_t each) | address 0 | pad | address 1 | pad ...
 *
 * Each address starts at a multiple of 8 bytes from the start of the blob. Pads are zero.
 */
typedef struct {
    uint32_t magic;
    uint16_t version;
    uint16_t nrails;
    uint64_t bytes;    /* of the whole blob */
    uint64_t checksum; /* of everything after the header */
} blob_header_t;

typedef struct {
    uint32_t bytes; /* of the worker's address, without pad; 0: the rail is not open */
    uint32_t flags;
} blob_rail_t;

_Static_assert(24 == sizeof(blob_header_t), "the blob's header is part of the protocol");
_Static_assert(8 == sizeof(blob_rail_t), "keeps the addresses aligned");

static size_t round8(size_t bytes)
{
    return (bytes + 7) & ~(size_t) 7;
}

/* What names the net's own process in all its addresses. Rail 0 is open. */
static uint64_t process_of(const gpuhier_net_t *net)
{
    return gpuhier_hash(net->rails[0].address, net->rails[0].address_bytes);
}

/* Bytes of a rail's address in the blob. */
static size_t address_bytes(const gpuhier_net_rail_t *rail)
{
    return gpuhier_net_rail_is_open(rail) ? rail->address_bytes : 0;
}

int gpuhier_net_address(const gpuhier_net_t *net, void **blob_p, size_t *bytes_p)
{
    const size_t table = sizeof(blob_header_t);
    size_t at = table + sizeof(blob_rail_t) * (size_t) net->nrails;
    size_t total = at;
    blob_header_t header = {.magic = BLOB_MAGIC, .version = GPUHIER_FORMAT_VERSION, .nrails = (uint16_t) net->nrails};
    for (int i = 0; i < net->nrails; ++i) {
        total += round8(address_bytes(&net->rails[i]));
    }
    char *blob = calloc(1, total);
    if (NULL == blob) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int i = 0; i < net->nrails; ++i) {
        blob_rail_t rail = {.bytes = (uint32_t) address_bytes(&net->rails[i]),
                            .flags = net->rails[i].is_tcp ? BLOB_RAIL_IS_TCP : 0};
        memcpy(blob + table + sizeof(rail) * (size_t) i, &rail, sizeof(rail));
        if (0 != rail.bytes) {
            memcpy(blob + at, net->rails[i].address, rail.bytes);
        }
        at += round8(rail.bytes);
    }
    header.bytes = total;
    header.checksum = gpuhier_hash(blob + table, total - table);
    memcpy(blob, &header, sizeof(header));
    *blob_p = blob;
    *bytes_p = total;
    return OMPI_SUCCESS;
}

/* Checks a connection's copy of the other process's address, and finds the process and the UCX addresses in it.
 * Errors: OMPI_ERR_BAD_PARAM. */
static int blob_parse(gpuhier_net_connection_t *connection)
{
    const size_t table = sizeof(blob_header_t);
    const size_t bytes = connection->blob_bytes;
    char *blob = connection->blob;
    if (bytes < table) {
        return OMPI_ERR_BAD_PARAM;
    }
    blob_header_t header;
    memcpy(&header, blob, table);
    if (BLOB_MAGIC != header.magic || GPUHIER_FORMAT_VERSION != header.version || bytes != header.bytes
        || 0 == header.nrails || header.nrails > GPUHIER_RAILS_MAX) {
        return OMPI_ERR_BAD_PARAM;
    }
    size_t at = table + sizeof(blob_rail_t) * header.nrails;
    if (at > bytes || header.checksum != gpuhier_hash(blob + table, bytes - table)) {
        return OMPI_ERR_BAD_PARAM;
    }
    for (int i = 0; i < header.nrails; ++i) {
        blob_rail_t rail;
        memcpy(&rail, blob + table + sizeof(rail) * (size_t) i, sizeof(rail));
        if ((0 == i && 0 == rail.bytes) || rail.bytes > BLOB_ADDRESS_MAX || round8(rail.bytes) > bytes - at) {
            return OMPI_ERR_BAD_PARAM;
        }
        connection->addresses[i] = 0 != rail.bytes ? (ucp_address_t *) (blob + at) : NULL;
        if (0 == i) {
            connection->process = gpuhier_hash(blob + at, rail.bytes);
        }
        connection->is_tcp[i] = 0 != (rail.flags & BLOB_RAIL_IS_TCP);
        at += round8(rail.bytes);
    }
    connection->nrails = header.nrails;
    return (at == bytes) ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
}

/* -- connections and peers ------------------------------------------------------------------ */

static void connection_free(gpuhier_net_connection_t *connection)
{
    gpuhier_net_stream_free(connection);
    free(connection->blob);
    free(connection);
}

/* Makes a connection from an address, which it checks. It is not among those of the net yet. */
static int connection_create(gpuhier_net_t *net, const void *blob, size_t bytes,
                             gpuhier_net_connection_t **connection_p)
{
    gpuhier_net_connection_t *connection = calloc(1, sizeof(*connection));
    if (NULL == connection) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    connection->blob = malloc(bytes);
    int rc = OMPI_ERR_OUT_OF_RESOURCE;
    if (NULL != connection->blob) {
        memcpy(connection->blob, blob, bytes);
        connection->blob_bytes = bytes;
        rc = blob_parse(connection);
    }
    if (OMPI_SUCCESS != rc) {
        connection_free(connection);
        return rc;
    }
    /* Both sides compare the same two names, so they choose opposite directions. */
    connection->is_self = connection->process == process_of(net);
    connection->sends_on = connection->process > process_of(net);
    connection->net = net;
    *connection_p = connection;
    return OMPI_SUCCESS;
}

static int rails_known(const gpuhier_net_connection_t *connection)
{
    int known = 0;
    for (int rail = 0; rail < connection->nrails; ++rail) {
        known += NULL != connection->addresses[rail];
    }
    return known;
}

/* Takes over the address of another connection to the process, if that has more rails. A process closes no rail, so the
 * larger of two sets contains the smaller one. */
static void connection_learn(gpuhier_net_connection_t *connection, gpuhier_net_connection_t *other)
{
    if (other->nrails != connection->nrails || rails_known(other) <= rails_known(connection)) {
        return;
    }
    void *blob = connection->blob;
    connection->blob = other->blob;
    connection->blob_bytes = other->blob_bytes;
    memcpy(connection->addresses, other->addresses, sizeof(connection->addresses));
    memcpy(connection->is_tcp, other->is_tcp, sizeof(connection->is_tcp));
    other->blob = blob;
}

int gpuhier_net_peer_create(gpuhier_net_t *net, const void *blob, size_t bytes, const char *name,
                            gpuhier_net_peer_t **peer_p)
{
    if (NULL == blob || 0 == bytes) {
        return OMPI_ERR_BAD_PARAM;
    }
    gpuhier_net_peer_t *peer = calloc(1, sizeof(*peer));
    if (NULL == peer) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_net_connection_t *connection, *made;
    int rc = connection_create(net, blob, bytes, &made);
    if (OMPI_SUCCESS != rc) {
        free(peer);
        return rc;
    }
    connection = net->connections;
    while (NULL != connection && connection->process != made->process) {
        connection = connection->next;
    }
    if (NULL == connection) {
        connection = made;
        connection->next = net->connections;
        net->connections = connection;
    } else {
        connection_learn(connection, made);
        connection_free(made);
    }
    snprintf(peer->name, sizeof(peer->name), "%s", (NULL == name) ? "a peer" : name);
    peer->connection = connection;
    peer->next = connection->peers;
    connection->peers = peer;
    *peer_p = peer;
    return OMPI_SUCCESS;
}

/* Closes by force. Returns false when UCX does not close it in time, and so may still call back. */
static bool endpoint_close(gpuhier_net_rail_t *rail, ucp_ep_h endpoint)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t result = ucp_ep_close_nbx(endpoint, &param);
    if (!UCS_PTR_IS_PTR(result)) {
        return true;
    }
    const uint64_t deadline = gpuhier_clock_ms() + GPUHIER_NET_DRAIN_MS;
    while (UCS_INPROGRESS == ucp_request_check_status(result) && gpuhier_clock_ms() < deadline) {
        ucp_worker_progress(rail->worker);
    }
    const bool closed = UCS_INPROGRESS != ucp_request_check_status(result);
    ucp_request_free(result);
    return closed;
}

/* Closes all endpoints. Each operation of the connection then ends here or in a later progress. */
static void connection_reap(gpuhier_net_connection_t *connection)
{
    connection->state = GPUHIER_NET_CONNECTION_REAPED;
    for (int mine = 0; mine < connection->net->nrails; ++mine) {
        for (int theirs = 0; theirs < connection->nrails; ++theirs) {
            gpuhier_net_link_t *link = &connection->links[mine][theirs];
            while (link->count > 0) {
                if (!endpoint_close(&connection->net->rails[mine], link->endpoints[--link->count])) {
                    connection->is_closing = true;
                }
            }
        }
    }
    gpuhier_net_stream_close(connection);
    for (gpuhier_net_peer_t *peer = connection->peers; NULL != peer; peer = peer->next) {
        gpuhier_net_ops_cancel(peer->ops);
    }
    gpuhier_net_ops_cancel(connection->left);
    connection->net->has_unused = true;
}

int gpuhier_net_reap(gpuhier_net_t *net)
{
    int reaped = 0;
    while (net->has_new_failure) {
        net->has_new_failure = false;
        for (gpuhier_net_connection_t *connection = net->connections; NULL != connection;
             connection = connection->next) {
            if (GPUHIER_NET_CONNECTION_FAILED == connection->state) {
                connection_reap(connection);
                reaped++;
            }
        }
    }
    return reaped;
}

void gpuhier_net_unused_free(gpuhier_net_t *net)
{
    gpuhier_net_connection_t **place = &net->connections;
    net->has_unused = false;
    while (NULL != *place) {
        gpuhier_net_connection_t *connection = *place;
        if (GPUHIER_NET_CONNECTION_REAPED != connection->state || connection->is_bound || connection->is_closing
            || NULL != connection->peers || NULL != connection->left || gpuhier_net_stream_is_used(connection)) {
            place = &connection->next;
            continue;
        }
        *place = connection->next;
        /* The process may have sent its word when this one did not wait for it. */
        (void) gpuhier_net_discard(net, gpuhier_net_leave_tag(connection->process), UINT64_MAX);
        connection_free(connection);
    }
}

/* Appends the operations of a list to another one. */
static void ops_move(gpuhier_net_op_t **from, gpuhier_net_op_t **to)
{
    gpuhier_net_op_t *first = *from;
    if (NULL == first) {
        return;
    }
    while (NULL != *to) {
        to = &(*to)->next;
    }
    *to = first;
    first->prev_p = to;
    *from = NULL;
}

void gpuhier_net_peer_destroy(gpuhier_net_peer_t *peer, bool failed)
{
    if (NULL == peer) {
        return;
    }
    gpuhier_net_connection_t *connection = peer->connection;
    if (!failed) {
        gpuhier_net_ops_cancel(peer->ops);
    }
    connection->is_abandoned = connection->is_abandoned || failed || NULL != peer->ops;
    ops_move(&peer->ops, &connection->left);
    if (GPUHIER_NET_CONNECTION_REAPED == connection->state) {
        connection->net->has_unused = true;
    }
    gpuhier_net_peer_t **place = &connection->peers;
    while (peer != *place) {
        place = &(*place)->next;
    }
    *place = peer->next;
    free(peer);
}

void gpuhier_net_peer_bind(gpuhier_net_peer_t *peer)
{
    peer->connection->is_bound = true;
}

void gpuhier_net_connections_close(gpuhier_net_t *net)
{
    for (gpuhier_net_connection_t *connection = net->connections; NULL != connection; connection = connection->next) {
        if (GPUHIER_NET_CONNECTION_ALIVE == connection->state) {
            connection->status = OMPI_ERR_INTERUPTED;
        }
        if (GPUHIER_NET_CONNECTION_REAPED != connection->state) {
            connection_reap(connection);
        }
    }
}

/* Ends all operations of a list. UCX cannot touch them: the workers are gone. */
static void ops_abandon(gpuhier_net_op_t **list)
{
    while (NULL != *list) {
        gpuhier_net_op_t *op = *list;
        gpuhier_net_op_unlink(op);
        gpuhier_net_op_end(op, OMPI_ERR_TIMEOUT, 0);
    }
}

void gpuhier_net_connections_free(gpuhier_net_t *net)
{
    while (NULL != net->connections) {
        gpuhier_net_connection_t *connection = net->connections;
        net->connections = connection->next;
        while (NULL != connection->peers) {
            gpuhier_net_peer_destroy(connection->peers, true);
        }
        ops_abandon(&connection->left);
        connection_free(connection);
    }
}

/*
 * How long a process waits for the word of another one, in milliseconds. MPI_Finalize is collective over all connected
 * processes, so the word comes, however late the other is in its last call; or the other dies, and the connection
 * fails. At the end of a session the other process may keep its own session, and send no word. A process that has no
 * peer here may have been disconnected, and live on without a word. So may one that had a peer of a failed
 * communicator.
 */
#define LEAVE_FINALIZE_MS UINT64_MAX
#define LEAVE_MS 30000
#define LEAVE_STRANGER_MS 1000

static uint64_t leave_ms(const gpuhier_net_connection_t *connection, bool all_leave)
{
    const bool is_peer = NULL != connection->peers;
    if (all_leave && !connection->is_abandoned && (is_peer || connection->is_bound)) {
        return LEAVE_FINALIZE_MS;
    }
    return is_peer ? LEAVE_MS : LEAVE_STRANGER_MS;
}

void gpuhier_net_leave(gpuhier_net_t *net, bool all_leave)
{
    net->left_at = gpuhier_clock_ms();
    for (gpuhier_net_connection_t *connection = net->connections; NULL != connection; connection = connection->next) {
        if (GPUHIER_NET_CONNECTION_ALIVE != connection->state || connection->is_self) {
            continue;
        }
        connection->leave_ms = leave_ms(connection, all_leave);
        const char *name = NULL != connection->peers ? connection->peers->name : "a former peer";
        if (OMPI_SUCCESS
            != gpuhier_net_peer_create(net, connection->blob, connection->blob_bytes, name, &connection->leaving)) {
            continue; /* without memory it leaves without a word */
        }
        int rc = gpuhier_net_recv(connection->leaving, 0, gpuhier_net_leave_tag(connection->process), NULL, 0, false,
                                  &connection->leave_recv);
        rc = OMPI_SUCCESS != rc ? rc
                                : gpuhier_net_send(connection->leaving, 0, gpuhier_net_leave_tag(process_of(net)), NULL,
                                                   0, false, &connection->leave_send);
        if (OMPI_SUCCESS != rc) {
            gpuhier_net_cancel(&connection->leave_recv); /* or both processes could wait for each other for ever */
        }
    }
}

bool gpuhier_net_has_left(const gpuhier_net_t *net)
{
    const uint64_t waited = gpuhier_clock_ms() - net->left_at;
    for (const gpuhier_net_connection_t *connection = net->connections; NULL != connection;
         connection = connection->next) {
        if (gpuhier_net_op_is_pending(&connection->leave_recv) && waited < connection->leave_ms) {
            return false;
        }
    }
    return true;
}
