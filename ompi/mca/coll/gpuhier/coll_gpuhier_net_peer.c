/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Address blobs, peers and their endpoints, and what happens when a peer dies.
 *
 * How it works: a blob carries the UCX worker address of each rail behind a
 * header with a checksum, because UCX trusts the addresses that it is given. A
 * peer keeps a copy. An endpoint is created when a logical rail is first used
 * with the peer; it has error mode PEER, so UCX watches the connection and calls
 * back when it breaks. The callback only marks the peer (UCX is in the middle of
 * its own work then); the next reap, at the end of progress, closes the peer's
 * endpoints by force, which ends its sends and half-done receives, and cancels
 * the receives that nothing had matched yet.
 *
 * Called by the engine (create, destroy, fail) and by the other files of the net.
 */
#include "ompi_config.h"

#include "coll_gpuhier_net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/constants.h"

#define BLOB_MAGIC 0x67707568u /* "gpuh" */
#define BLOB_VERSION 1
#define BLOB_RAIL_IS_TCP 1u
/* Larger than any worker address; a bound for what a peer claims. */
#define BLOB_ADDRESS_MAX 65536

/*
 * The blob, in the byte order of the job's one build:
 *
 *   | header | rail 0 .. rail nrails-1 (blob_rail_t each) | address 0 | pad | address 1 | pad ...
 *
 * Each address starts at a multiple of 8 from the blob's start; pads are zero.
 */
typedef struct {
    uint32_t magic;
    uint16_t version;
    uint16_t nrails;
    uint64_t bytes;    /* of the whole blob */
    uint64_t checksum; /* of everything after the header */
} blob_header_t;

typedef struct {
    uint32_t bytes; /* of the worker's address, without pad */
    uint32_t flags;
} blob_rail_t;

_Static_assert(24 == sizeof(blob_header_t), "the blob's header is part of the protocol");
_Static_assert(8 == sizeof(blob_rail_t), "keeps the addresses aligned");

static size_t round8(size_t bytes)
{
    return (bytes + 7) & ~(size_t) 7;
}

/* FNV-1a, 64 bit: finds damage and mix-ups; it is no defence against malice. */
static uint64_t checksum(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    size_t i;

    for (i = 0; i < bytes; ++i) {
        sum = (sum ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

int gpuhier_net_blob_build(gpuhier_net_t *net)
{
    const size_t table = sizeof(blob_header_t);
    size_t at = table + sizeof(blob_rail_t) * (size_t) net->nrails;
    size_t total = at;
    blob_header_t header = {.magic = BLOB_MAGIC, .version = BLOB_VERSION, .nrails = (uint16_t) net->nrails};
    char *blob;
    int i;

    for (i = 0; i < net->nrails; ++i) {
        total += round8(net->rails[i].address_bytes);
    }
    blob = calloc(1, total);
    if (NULL == blob) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (i = 0; i < net->nrails; ++i) {
        blob_rail_t rail = {.bytes = (uint32_t) net->rails[i].address_bytes,
                            .flags = net->rails[i].is_tcp ? BLOB_RAIL_IS_TCP : 0};

        memcpy(blob + table + sizeof(rail) * (size_t) i, &rail, sizeof(rail));
        memcpy(blob + at, net->rails[i].address, rail.bytes);
        at += round8(rail.bytes);
    }
    header.bytes = total;
    header.checksum = checksum(blob + table, total - table);
    memcpy(blob, &header, sizeof(header));
    net->blob = blob;
    net->blob_bytes = total;
    return OMPI_SUCCESS;
}

int gpuhier_net_address(const gpuhier_net_t *net, void **blob_p, size_t *bytes_p)
{
    void *copy = malloc(net->blob_bytes);

    if (NULL == copy) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memcpy(copy, net->blob, net->blob_bytes);
    *blob_p = copy;
    *bytes_p = net->blob_bytes;
    return OMPI_SUCCESS;
}

/* Check the peer's copy of its blob and find the addresses in it. */
static int blob_parse(gpuhier_net_peer_t *peer, size_t bytes)
{
    const size_t table = sizeof(blob_header_t);
    char *blob = peer->blob;
    blob_header_t header;
    size_t at;
    int i;

    if (bytes < table) {
        return OMPI_ERR_BAD_PARAM;
    }
    memcpy(&header, blob, table);
    if (BLOB_MAGIC != header.magic || BLOB_VERSION != header.version || bytes != header.bytes || 0 == header.nrails
        || header.nrails > GPUHIER_NET_MAX_RAILS) {
        return OMPI_ERR_BAD_PARAM;
    }
    at = table + sizeof(blob_rail_t) * header.nrails;
    if (at > bytes || header.checksum != checksum(blob + table, bytes - table)) {
        return OMPI_ERR_BAD_PARAM;
    }
    for (i = 0; i < header.nrails; ++i) {
        blob_rail_t rail;

        memcpy(&rail, blob + table + sizeof(rail) * (size_t) i, sizeof(rail));
        if (0 == rail.bytes || rail.bytes > BLOB_ADDRESS_MAX || round8(rail.bytes) > bytes - at) {
            return OMPI_ERR_BAD_PARAM;
        }
        peer->addresses[i] = (ucp_address_t *) (blob + at);
        peer->is_tcp[i] = 0 != (rail.flags & BLOB_RAIL_IS_TCP);
        at += round8(rail.bytes);
    }
    peer->nrails = header.nrails;
    return (at == bytes) ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
}

int gpuhier_net_peer_create(gpuhier_net_t *net, const void *blob, size_t bytes, const char *name,
                            gpuhier_net_peer_t **peer_p)
{
    gpuhier_net_peer_t *peer;
    int rc = OMPI_ERR_OUT_OF_RESOURCE;

    if (NULL == blob || 0 == bytes) {
        return OMPI_ERR_BAD_PARAM;
    }
    peer = calloc(1, sizeof(*peer));
    if (NULL == peer) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    peer->blob = malloc(bytes);
    if (NULL == peer->blob) {
        goto free_peer;
    }
    memcpy(peer->blob, blob, bytes);
    rc = blob_parse(peer, bytes);
    if (OMPI_SUCCESS != rc) {
        goto free_blob;
    }
    /* Both sides compare the same two blobs, so they choose opposite directions. */
    peer->sends_on = (bytes < net->blob_bytes) ? 0 : (bytes > net->blob_bytes) ? 1 : memcmp(blob, net->blob, bytes) > 0;
    peer->is_self = bytes == net->blob_bytes && 0 == memcmp(blob, net->blob, bytes);
    snprintf(peer->name, sizeof(peer->name), "%s", (NULL == name) ? "a peer" : name);
    peer->net = net;
    peer->next = net->peers;
    peer->prev_p = &net->peers;
    if (NULL != net->peers) {
        net->peers->prev_p = &peer->next;
    }
    net->peers = peer;
    *peer_p = peer;
    return OMPI_SUCCESS;

free_blob:
    free(peer->blob);
free_peer:
    free(peer);
    return rc;
}

void gpuhier_net_peer_mark(gpuhier_net_peer_t *peer, int code, const char *reason)
{
    gpuhier_net_t *net = peer->net;
    char text[GPUHIER_NET_NAME_MAX + 160];

    if (GPUHIER_NET_PEER_ALIVE != peer->state) {
        return;
    }
    peer->state = GPUHIER_NET_PEER_FAILED;
    peer->status = code;
    net->has_new_failure = true;
    if (NULL != net->error_handler) {
        snprintf(text, sizeof(text), "the connection to %s is lost: %s", peer->name, reason);
        net->error_handler(net->error_arg, peer, code, text);
    }
}

/* UCX's callback for a broken endpoint; the endpoint stays until reap closes it. */
static void endpoint_failed(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    (void) endpoint;
    /* Whatever UCX calls it, the peer cannot be reached any more. */
    gpuhier_net_peer_mark(arg, OMPI_ERR_UNREACH, ucs_status_string(status));
}

static ucs_status_t link_connect(gpuhier_net_peer_t *peer, int mine, int theirs, gpuhier_net_link_t *link)
{
    const gpuhier_net_rail_t *rail = &peer->net->rails[mine];
    int wanted = (rail->is_tcp && peer->is_tcp[theirs] && !peer->is_self) ? 2 : 1;
    ucp_ep_params_t params = {0};
    ucs_status_t status;

    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                        | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = peer->addresses[theirs];
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = endpoint_failed;
    params.err_handler.arg = peer;
    /* Both at once and in this order: UCX pairs the n-th endpoint of one side with the n-th of the other. */
    while (link->count < wanted) {
        status = ucp_ep_create(rail->worker, &params, &link->endpoints[link->count]);
        if (UCS_OK != status) {
            return status;
        }
        link->count++;
    }
    return UCS_OK;
}

int gpuhier_net_peer_link(gpuhier_net_peer_t *peer, int rail, gpuhier_net_link_t **link_p)
{
    int mine = rail % peer->net->nrails;
    int theirs = rail % peer->nrails;
    gpuhier_net_link_t *link = &peer->links[mine][theirs];
    ucs_status_t status;

    if (GPUHIER_NET_PEER_ALIVE == peer->state && 0 == link->count) {
        status = link_connect(peer, mine, theirs, link);
        if (UCS_OK != status) {
            gpuhier_net_peer_mark(peer, OMPI_ERR_UNREACH, ucs_status_string(status));
        }
    }
    if (GPUHIER_NET_PEER_ALIVE != peer->state) {
        return peer->status;
    }
    *link_p = link;
    return OMPI_SUCCESS;
}

static void endpoint_close(gpuhier_net_rail_t *rail, ucp_ep_h endpoint)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t result = ucp_ep_close_nbx(endpoint, &param);
    uint64_t deadline = gpuhier_net_now_ms() + GPUHIER_NET_DRAIN_MS;

    if (!UCS_PTR_IS_PTR(result)) {
        return;
    }
    while (UCS_INPROGRESS == ucp_request_check_status(result) && gpuhier_net_now_ms() < deadline) {
        ucp_worker_progress(rail->worker);
    }
    ucp_request_free(result);
}

/* Close what is open; every operation on the peer then ends here or in a later progress. */
static void peer_reap(gpuhier_net_peer_t *peer)
{
    int mine;
    int theirs;

    peer->state = GPUHIER_NET_PEER_REAPED;
    for (mine = 0; mine < peer->net->nrails; ++mine) {
        for (theirs = 0; theirs < peer->nrails; ++theirs) {
            gpuhier_net_link_t *link = &peer->links[mine][theirs];

            while (link->count > 0) {
                endpoint_close(&peer->net->rails[mine], link->endpoints[--link->count]);
            }
        }
    }
    gpuhier_net_ops_cancel(peer->ops);
}

int gpuhier_net_reap(gpuhier_net_t *net)
{
    gpuhier_net_peer_t *peer;
    int reaped = 0;

    while (net->has_new_failure) {
        net->has_new_failure = false;
        for (peer = net->peers; NULL != peer; peer = peer->next) {
            if (GPUHIER_NET_PEER_FAILED == peer->state) {
                peer_reap(peer);
                reaped++;
            }
        }
    }
    return reaped;
}

void gpuhier_net_peer_fail(gpuhier_net_peer_t *peer, int code)
{
    gpuhier_net_peer_mark(peer, (OMPI_SUCCESS == code) ? OMPI_ERR_UNREACH : code, "reported dead");
}

void gpuhier_net_peer_destroy(gpuhier_net_peer_t *peer)
{
    gpuhier_net_t *net;
    uint64_t deadline;

    if (NULL == peer) {
        return;
    }
    net = peer->net;
    if (GPUHIER_NET_PEER_ALIVE == peer->state) {
        /* The owner lets it go: no failure to report. */
        peer->status = OMPI_ERR_INTERUPTED;
    }
    if (GPUHIER_NET_PEER_REAPED != peer->state) {
        peer_reap(peer);
    }
    deadline = gpuhier_net_now_ms() + GPUHIER_NET_DRAIN_MS;
    while (NULL != peer->ops && gpuhier_net_now_ms() < deadline) {
        gpuhier_net_progress(net);
    }
    if (NULL != peer->ops) {
        /* UCX still holds requests that point here: close() frees the peer with the workers. */
        return;
    }
    *peer->prev_p = peer->next;
    if (NULL != peer->next) {
        peer->next->prev_p = peer->prev_p;
    }
    free(peer->blob);
    free(peer);
}

int gpuhier_net_peer_status(const gpuhier_net_peer_t *peer)
{
    return peer->status;
}

const char *gpuhier_net_peer_name(const gpuhier_net_peer_t *peer)
{
    return peer->name;
}
