/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rails of pieces; see the header. The topology decides which devices are near a rank. Called by the team at
 * set-up, and by the exchange for the cut into stripes.
 */
#define _GNU_SOURCE /* strverscmp */
#include "plan/coll_gpuhier_rails.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strverscmp(*(const char *const *) a, *(const char *const *) b); /* mlx5_2 before mlx5_10 */
}

/* All devices of the node, in order of their names. Returns their number. */
static int devices_sorted(const gpuhier_record_t *record, const char *names[GPUHIER_RECORD_NICS_MAX])
{
    for (int i = 0; i < record->nics; ++i) {
        names[i] = record->nic[i].device;
    }
    qsort(names, record->nics, sizeof(names[0]), by_name);
    return record->nics;
}

/* The rail number of a device. Devices beyond GPUHIER_RAILS_MAX share the numbers evenly. */
static int number_of(const char *device, const char *const names[], int count)
{
    for (int i = 0; i < count; ++i) {
        if (0 == strcmp(device, names[i])) {
            return i % GPUHIER_RAILS_MAX;
        }
    }
    return 0;
}

int gpuhier_rails_devices(const gpuhier_record_t *record, const char *names_p[GPUHIER_RAILS_MAX])
{
    const char *names[GPUHIER_RECORD_NICS_MAX];
    const int count = devices_sorted(record, names);
    for (int i = count - 1; i >= 0; --i) { /* the nearest is the first of the record */
        names_p[number_of(record->nic[i].device, names, count)] = record->nic[i].device;
    }
    return count < GPUHIER_RAILS_MAX ? count : GPUHIER_RAILS_MAX;
}

/*
 * The numbers of the rails that the topology gives to a rank, reduced to those below `fewest`, which every rank has a
 * device for. Returns how many, at least one, or -ENOMEM. The stripes of a message have one tag, so two of them must
 * not arrive at one device, as they would on a rank with fewer devices than the others.
 */
static int rails_of(const gpuhier_record_t *records, int nranks, int rank, int fewest, uint8_t rails[GPUHIER_RAILS_MAX])
{
    const gpuhier_record_t **node = malloc(sizeof(*node) * (size_t) nranks);
    const char *picked[GPUHIER_RAILS_MAX], *devices[GPUHIER_RECORD_NICS_MAX];
    int count = 0, me = 0;
    rails[0] = 0;
    if (NULL == node) {
        return -ENOMEM;
    }
    for (int other = 0; other < nranks; ++other) {
        if (gpuhier_record_same_node(&records[other], &records[rank])) {
            me = other == rank ? count : me;
            node[count++] = &records[other];
        }
    }
    int npicked = gpuhier_topology_pick_rails(node, count, me, picked);
    int ndevices = devices_sorted(&records[rank], devices);
    int nrails = 0;
    for (int i = 0; i < npicked; ++i) {
        uint8_t rail = (uint8_t) (number_of(picked[i], devices, ndevices) % fewest);
        if (NULL == memchr(rails, rail, (size_t) nrails)) {
            rails[nrails++] = rail;
        }
    }
    free(node);
    return npicked < 0 ? -ENOMEM : nrails > 0 ? nrails : 1;
}

/* The fewest rails of any rank. A rank without a device opens one rail. */
static int fewest_rails(const gpuhier_record_t *records, int nranks)
{
    int fewest = GPUHIER_RAILS_MAX;
    for (int rank = 0; rank < nranks; ++rank) {
        int mine = records[rank].nics < 1 ? 1 : records[rank].nics;
        fewest = mine < fewest ? mine : fewest;
    }
    return fewest;
}

int gpuhier_rails_plan(const gpuhier_shape_t *shape, const gpuhier_record_t *records, gpuhier_piece_rails_t *rails_p)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    const int size = shape->max_group_size;
    int group = 0; /* decides for all */
    while (gpuhier_hierarchy_group_size(h, group) < size) {
        ++group;
    }
    const int fewest = fewest_rails(records, h->nranks);
    for (int shard = 0; shard < size; ++shard) {
        const int owner = gpuhier_hierarchy_owner(h, group, shard);
        uint8_t rails[GPUHIER_RAILS_MAX];
        const int nrails = rails_of(records, h->nranks, owner, fewest, rails);
        if (nrails < 0) {
            return nrails;
        }
        int first, end;
        gpuhier_shape_pieces(shape, owner, &first, &end);
        const int npieces = end - first;
        for (int piece = 0; piece < npieces; ++piece) {
            gpuhier_piece_rails_t *mine = &rails_p[first + piece];
            mine->count = 0;
            for (int r = piece; r < nrails; r += npieces) {
                mine->rail[mine->count++] = rails[r];
            }
            if (0 == mine->count) {
                mine->rail[mine->count++] = rails[piece % nrails];
            }
        }
    }
    return 0;
}

bool gpuhier_rails_are_few(const gpuhier_shape_t *shape, const gpuhier_record_t *records,
                           const gpuhier_piece_rails_t *rails, int ranks_on_node, gpuhier_rails_use_t *use_p)
{
    const int groups_on_node = (ranks_on_node + shape->max_group_size - 1) / shape->max_group_size;
    int drivers = 0; /* rails of each rank of a group, in all */
    gpuhier_rails_use_t use = {.fewest = GPUHIER_RAILS_MAX};
    for (int piece = 0; piece < shape->npieces; ++piece) {
        drivers += rails[piece].count;
    }
    use.driven = __builtin_popcount(gpuhier_rails_bits(rails, 0, shape->npieces));
    for (int rank = 0; rank < shape->hierarchy->nranks; ++rank) {
        const int devices = records[rank].nics < GPUHIER_RAILS_MAX ? records[rank].nics : GPUHIER_RAILS_MAX;
        use.there = devices > use.there ? devices : use.there;
        if (devices < use.fewest) {
            use.fewest = devices;
            use.fewest_rank = rank;
        }
    }
    *use_p = use;
    return use.fewest < use.there || (2 * use.driven <= use.there && 2 * use.driven <= groups_on_node * drivers);
}

gpuhier_wire_t gpuhier_rails_wire(const gpuhier_record_t *records, int nranks)
{
    for (int rank = 0; rank < nranks; ++rank) {
        for (int i = 0; i < records[rank].nics; ++i) {
            if (!records[rank].nic[i].is_rdma) {
                return GPUHIER_WIRE_TCP;
            }
        }
        if (0 == records[rank].nics) {
            return GPUHIER_WIRE_TCP;
        }
    }
    return GPUHIER_WIRE_RDMA;
}

int gpuhier_stripes(const gpuhier_piece_rails_t *rails, size_t bytes)
{
    size_t most = bytes / GPUHIER_STRIPE_BYTES_MIN;
    return most < 1 ? 1 : most < rails->count ? (int) most : rails->count;
}

size_t gpuhier_stripe_begin(size_t bytes, int stripes, int stripe)
{
    return stripe == stripes ? bytes
                             : bytes / GPUHIER_UNIT_BYTES * (size_t) stripe / (size_t) stripes * GPUHIER_UNIT_BYTES;
}
