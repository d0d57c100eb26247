/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the host copies of a call's operands: which bytes of a buffer are copied. How bytes are copied is in staging.
 *
 * The host copy has the layout of the user's buffer, so that counts, displacements and types hold for it as they are:
 * it is as long as all blocks with what lies between them. Only regions, which blocks become that lie end to end, are
 * copied. Memory between them is allocated and never touched. A packed copy has the data alone.
 *
 * Called by fallback, and by the collectives.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "host/coll_gpuhier_operand.h"
#include "ompi/datatype/ompi_datatype.h"

static ptrdiff_t extent_of(const struct ompi_datatype_t *dtype)
{
    return dtype->super.ub - dtype->super.lb;
}

/* Blocks `from` to `end`; equal ones are one region. */
static gpuhier_region_t block(const gpuhier_operand_t *o, size_t from, size_t end)
{
    gpuhier_region_t r = {0, 0, o->count, o->dtype};
    if (GPUHIER_LAYOUT_EQUAL == o->layout) {
        r.at = (ptrdiff_t) (from * o->count) * extent_of(o->dtype);
        r.count = (end - from) * o->count;
        return r;
    }
    r.count = GPUHIER_COUNTS_AT(o->counts, from);
    switch (o->layout) {
    case GPUHIER_LAYOUT_LISTED:
        r.at = GPUHIER_DISPS_AT(o->disps, from) * extent_of(o->dtype);
        break;
    case GPUHIER_LAYOUT_TYPED:
        r.at = GPUHIER_DISPS_AT(o->disps, from);
        r.dtype = o->dtypes[from];
        break;
    default:
        r.at = (ptrdiff_t) GPUHIER_DISPS_AT(o->aints, from);
        r.dtype = o->dtypes[from];
    }
    return r;
}

static size_t step(const gpuhier_operand_t *o, size_t from, size_t end)
{
    return GPUHIER_LAYOUT_EQUAL == o->layout ? end : from + 1;
}

/* The first byte of GPU memory among blocks `from` to `end`; NULL if there is none. */
static const char *find_device(const gpuhier_operand_t *o, size_t from, size_t end)
{
    for (size_t i = from; i < end; i = step(o, i, end)) {
        const gpuhier_region_t r = block(o, i, end);
        if (0 == r.count || 0 == r.dtype->super.size) {
            continue;
        }
        const char *first = (const char *) o->user + r.at + r.dtype->super.true_lb;
        if (gpuhier_address_on_device(first)) {
            return first;
        }
        if (MPI_BOTTOM != o->user) {
            return NULL;
        }
    }
    return NULL;
}

static const char *device_byte(const gpuhier_operand_t *o)
{
    const char *first = find_device(o, o->write_from, o->write_end);
    return NULL != first ? first : find_device(o, o->read_from, o->read_end);
}

bool gpuhier_operand_on_device(const gpuhier_operand_t *operand)
{
    return NULL != device_byte(operand);
}

static gpuhier_region_t *regions_of(const gpuhier_hosted_t *h)
{
    return NULL != h->regions ? h->regions : (gpuhier_region_t *) (uintptr_t) h->few;
}

/* Bytes of the first blocks without gaps. */
static size_t packed_bytes(const gpuhier_operand_t *o, size_t blocks)
{
    size_t bytes = 0;
    for (size_t i = 0; i < blocks; i = step(o, i, blocks)) {
        const gpuhier_region_t r = block(o, i, blocks);
        bytes += r.count * r.dtype->super.size;
    }
    return bytes;
}

/* Adds the blocks, and joins those that lie end to end. first: the index of the first region that they may join. */
static void regions_add(gpuhier_hosted_t *h, const gpuhier_operand_t *o, size_t from, size_t end, size_t first)
{
    gpuhier_region_t *regions = regions_of(h);
    size_t packed = packed_bytes(o, from);
    for (size_t i = from; i < end; i = step(o, i, end)) {
        gpuhier_region_t r = block(o, i, end);
        r.packed = packed;
        packed += r.count * r.dtype->super.size;
        gpuhier_region_t *last = h->nregions > first ? &regions[h->nregions - 1] : NULL;
        if (0 == r.count || 0 == r.dtype->super.size) {
            continue;
        }
        if (NULL != last && last->dtype == r.dtype && last->at + (ptrdiff_t) last->count * extent_of(r.dtype) == r.at) {
            last->count += r.count;
            continue;
        }
        regions[h->nregions++] = r;
        if (!ompi_datatype_is_predefined(r.dtype)) {
            OBJ_RETAIN(r.dtype);
        }
    }
}

/* Finds the regions to read, and those to write. */
static int regions_find(gpuhier_hosted_t *h, const gpuhier_operand_t *o)
{
    const size_t most = o->read_end - o->read_from + o->write_end - o->write_from;
    if (GPUHIER_LAYOUT_EQUAL != o->layout && NULL == (h->regions = malloc(most * sizeof(*h->regions)))) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    h->user = o->user;
    regions_add(h, o, o->read_from, o->read_end, 0);
    h->nreads = h->nregions;
    regions_add(h, o, o->write_from, o->write_end, h->nreads);
    return OMPI_SUCCESS;
}

static int hosted_open(gpuhier_hosted_t *h, const gpuhier_operand_t *o)
{
    const char *device = device_byte(o);
    const int rc = NULL == device ? OMPI_SUCCESS : regions_find(h, o);
    if (NULL == device || OMPI_SUCCESS != rc) {
        return rc;
    }
    ptrdiff_t high = PTRDIFF_MIN;
    h->low = PTRDIFF_MAX;
    for (size_t i = 0; i < h->nregions; ++i) {
        const gpuhier_region_t *r = &regions_of(h)[i];
        ptrdiff_t gap;
        const ptrdiff_t bytes = (ptrdiff_t) opal_datatype_span(&r->dtype->super, r->count, &gap);
        h->low = r->at + gap < h->low ? r->at + gap : h->low;
        high = r->at + gap + bytes > high ? r->at + gap + bytes : high;
    }
    h->whole.bytes = (size_t) (high - h->low);
    gpuhier_buffer_inspect(device, &h->whole.place);
    return gpuhier_staging_open(&h->whole);
}

static int hosted_pack(gpuhier_hosted_t *h, const gpuhier_operand_t *o)
{
    const int rc = regions_find(h, o);
    const char *device = device_byte(o);
    h->whole.is_packed = true;
    h->whole.bytes = packed_bytes(o, o->read_end > o->write_end ? o->read_end : o->write_end);
    if (NULL != device) {
        gpuhier_buffer_inspect(device, &h->whole.place);
    }
    return OMPI_SUCCESS != rc ? rc : gpuhier_staging_open(&h->whole);
}

int gpuhier_staged_open(gpuhier_staged_t *staged, const gpuhier_operand_t *send, const gpuhier_operand_t *recv)
{
    memset(staged, 0, sizeof(*staged));
    int rc = hosted_open(&staged->recv, recv);
    return OMPI_SUCCESS != rc ? rc : hosted_open(&staged->send, send);
}

int gpuhier_staged_pack(gpuhier_staged_t *staged, const gpuhier_operand_t *send, const gpuhier_operand_t *recv)
{
    memset(staged, 0, sizeof(*staged));
    const int rc = NULL == recv ? OMPI_SUCCESS : hosted_pack(&staged->recv, recv);
    return OMPI_SUCCESS != rc || NULL == send ? rc : hosted_pack(&staged->send, send);
}

static void hosted_close(gpuhier_hosted_t *h)
{
    for (size_t i = 0; i < h->nregions; ++i) {
        struct ompi_datatype_t *dtype = regions_of(h)[i].dtype;
        if (!ompi_datatype_is_predefined(dtype)) {
            OBJ_RELEASE(dtype);
        }
    }
    gpuhier_staging_close(&h->whole);
    free(h->regions);
    h->regions = NULL;
    h->nregions = h->nreads = 0;
}

void gpuhier_staged_close(gpuhier_staged_t *staged)
{
    hosted_close(&staged->send);
    hosted_close(&staged->recv);
}

static int hosted_copy(const gpuhier_hosted_t *h, bool to_host)
{
    const size_t end = to_host ? h->nreads : h->nregions;
    int rc = OMPI_SUCCESS;
    for (size_t i = to_host ? 0 : h->nreads; i < end && OMPI_SUCCESS == rc; ++i) {
        const gpuhier_region_t *r = &regions_of(h)[i];
        gpuhier_staging_t part;
        gpuhier_staging_shape(&part, h->user + r->at, r->count, r->dtype);
        gpuhier_buffer_inspect(MPI_BOTTOM == h->user ? h->user + r->at + part.gap : NULL, &part.place);
        part.place = gpuhier_buffer_on_device(&part.place) ? part.place : h->whole.place; /* all on one GPU */
        part.locked = h->whole.locked;
        part.is_packed = h->whole.is_packed;
        part.host = h->whole.host + (part.is_packed ? (ptrdiff_t) r->packed : r->at + part.gap - h->low);
        rc = gpuhier_staging_copy(&part, to_host);
    }
    return rc;
}

int gpuhier_staged_read(const gpuhier_staged_t *staged)
{
    int rc = hosted_copy(&staged->send, true);
    return OMPI_SUCCESS != rc ? rc : hosted_copy(&staged->recv, true);
}

int gpuhier_staged_write(const gpuhier_staged_t *staged)
{
    return hosted_copy(&staged->recv, false);
}

int gpuhier_staged_end(const gpuhier_staged_t *staged, int code)
{
    const int rc = OMPI_SUCCESS == code || MPI_ERR_TRUNCATE == code ? gpuhier_staged_write(staged) : code;
    return OMPI_SUCCESS == rc ? code : rc;
}

static void hosted_spoil(const gpuhier_hosted_t *h)
{
    if (NULL != h->whole.host) {
        memset(h->whole.host, 0xff, h->whole.bytes);
    }
}

void gpuhier_staged_spoil(const gpuhier_staged_t *staged)
{
    hosted_spoil(&staged->send);
    hosted_spoil(&staged->recv);
}
