/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the decision that the groups of a node exchange through host memory that they share, a relay, because partners
 * there do not map each other's GPU memory: the driver may not allow that, as between the sockets of a Summit node, or
 * messages lie in host memory anyway. Does not own how the memory is made (setup_hostlanes), nor how pieces pass
 * through it (engine/link). Called by setup_links, when links have been tried.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "plan/coll_gpuhier_hierarchy.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "opal/util/output.h"

/* Bytes of a shard in the relay at most: page-locked memory is scarce, /dev/shm is small in containers, and every
 * communicator has its own. With four slices in flight a lane takes 2 MiB. */
#define RELAY_SHARD_BYTES ((size_t) 512 << 10)

/* Is a rank's group the first one of its node? */
static bool is_in_first_group(const gpuhier_setup_t *setup, int rank)
{
    const gpuhier_hierarchy_t *h = &setup->team->hierarchy;
    return h->group_of[rank] == h->group_of[setup->nodes[rank]];
}

/* The size of the smallest group that shares its node with another group; 0: none does. This group has the longest
 * shards. Equal on all ranks. */
static int smallest_group(const gpuhier_setup_t *setup)
{
    const gpuhier_hierarchy_t *h = &setup->team->hierarchy;
    int least = 0;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        if (is_in_first_group(setup, rank)) {
            continue;
        }
        const int groups[] = {h->group_of[rank], h->group_of[setup->nodes[rank]]};
        for (int i = 0; i < 2; ++i) {
            const int size = gpuhier_hierarchy_group_size(h, groups[i]);
            least = 0 == least || size < least ? size : least;
        }
    }
    return least;
}

/* Bytes of the longest slice with a relay. */
static size_t slice_most(const gpuhier_setup_t *setup, int least)
{
    const size_t most = RELAY_SHARD_BYTES * (size_t) least;
    return setup->team->limits.slice_bytes < most ? setup->team->limits.slice_bytes : most;
}

static int lane_of(const gpuhier_setup_t *setup, int rank)
{
    return setup->places[rank];
}

/* Makes the team use the relay, which every node with several groups has. */
static void relay_take(gpuhier_setup_t *setup, int least)
{
    gpuhier_team_t *team = setup->team;
    team->has_relay = true;
    team->relay_lane = lane_of(setup, team->rank);
    for (int rank = 0; rank < team->nranks; ++rank) {
        if (NULL != team->peers[rank] && setup->nodes[rank] == setup->nodes[team->rank]) {
            team->linked[rank] = 1 + (uint64_t) lane_of(setup, rank);
        }
    }
    team->limits.slice_bytes = slice_most(setup, least);
    team->limits.slice_bytes_max = 0;
    team->limits.host_shard_bytes = 0; /* GPUs copy chunks into and out of the relay */
    if (gpuhier_setup_is_one_node(setup)) {
        team->exchange_kind = GPUHIER_EXCHANGE_DEVICE;
        team->net_on_device = team->net_all_on_device = false;
        team->limits.wire = GPUHIER_WIRE_NVLINK;
    }
}

int gpuhier_setup_relay(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const int least = smallest_group(setup);
    if (0 == least) {
        return OMPI_SUCCESS;
    }
    bool shares = false;
    for (int i = 0; i < setup->nlocal; ++i) {
        shares = shares || team->hierarchy.group_of[setup->local[i]] != team->group;
    }
    const size_t shard = (slice_most(setup, least) + (size_t) least - 1) / (size_t) least;
    const gpuhier_hostlanes_t lanes = {
        .mine = shares,
        .hostmem = &team->relay,
        .size = {.nlanes = setup->nlocal,
                 .nbuffers = team->limits.slice_buffers,
                 .buffer_bytes = (shard / GPUHIER_UNIT_BYTES + 4) * GPUHIER_UNIT_BYTES},
        .index = lane_of(setup, team->rank),
        .word = ~setup->hello[setup->local[0]]
                     .segment_word, /* not the word itself, which scratch in host memory may have */
        .lane = setup->lane,
        .topic = "no relay"};
    team->linked = calloc((size_t) team->nranks, sizeof(*team->linked));
    if (!gpuhier_setup_vote(setup, NULL != team->linked)) {
        return NULL == team->linked ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_ERR_NOT_AVAILABLE;
    }
    if (OMPI_SUCCESS == gpuhier_setup_hostlanes_make(setup, &lanes)) {
        relay_take(setup, least);
    } else {
        free(team->linked);
        team->linked = NULL;
    }
    return OMPI_SUCCESS;
}
