/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Address blobs: what a process tells the others so that they can connect.
 *
 * A blob carries the UCX worker address of each open rail behind a header with a checksum, because UCX trusts the
 * addresses that it is given. Making one creates no endpoint, and costs nothing on the network. Blobs of one process
 * differ when it has opened a rail between them. Rail 0's address is in all of them, and names the process.
 *
 * Called by team/ through coll_gpuhier_net.h (own blob), and by coll_gpuhier_net_peer.c (the blobs of others).
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_limits.h"
#include "net/coll_gpuhier_net_internal.h"

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

uint64_t gpuhier_net_process(const gpuhier_net_t *net)
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

int gpuhier_net_blob_parse(gpuhier_net_connection_t *connection)
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
