/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the steps in which ranks of a node make host memory that they share, a vote of the whole communicator after
 * each, and the decision that the groups of a node exchange through host memory that they share, a relay, because
 * partners there do not map each other's GPU memory: the driver may not allow that, as between the sockets of a Summit
 * node, or messages lie in host memory anyway. Does not own how pieces pass through it (engine/link). Called by
 * setup_groups for scratch in host memory, and by setup_links, when links have been tried.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_lock.h"
#include "plan/coll_gpuhier_hierarchy.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

enum { STEP_CREATE, STEP_ATTACH, STEP_REGISTER, STEP_PROVE, STEPS };

static int step_take(const gpuhier_hostlanes_t *lanes, int step, char *reason)
{
    gpuhier_hostmem_t *hostmem = lanes->hostmem;
    int rc = OMPI_SUCCESS;
    switch (step) {
    case STEP_CREATE:
        return 0 == lanes->index ? gpuhier_hostmem_create(hostmem, lanes->word, &lanes->size, reason) : rc;
    case STEP_ATTACH:
        rc = 0 == lanes->index ? rc : gpuhier_hostmem_attach(hostmem, lanes->word, &lanes->size, reason);
        return OMPI_SUCCESS != rc ? rc : gpuhier_hostmem_reserve(hostmem, lanes->index, reason);
    case STEP_REGISTER:
        return gpuhier_hostmem_register(hostmem, lanes->word, lanes->index, lanes->lane, reason);
    default:
        return gpuhier_hostmem_prove(hostmem, lanes->word, lanes->size.nlanes, lanes->lane, reason);
    }
}

int gpuhier_setup_hostlanes_make(const gpuhier_setup_t *setup, const gpuhier_hostlanes_t *lanes)
{
    char reason[GPUHIER_HOSTMEM_REASON_BYTES] = "";
    bool ok = true;
    for (int step = STEP_CREATE; step < STEPS && ok; ++step) {
        gpuhier_engine_lock();
        int rc = lanes->mine ? step_take(lanes, step, reason) : OMPI_SUCCESS;
        gpuhier_engine_unlock();
        if (OMPI_SUCCESS != rc) {
            opal_show_help("help-coll-gpuhier.txt", lanes->topic, true, ompi_process_info.nodename,
                           lanes->hostmem->bytes, reason);
        }
        ok = gpuhier_setup_vote(setup, OMPI_SUCCESS == rc);
        if (lanes->mine && 0 == lanes->index && (STEP_ATTACH == step || !ok)) {
            gpuhier_hostmem_unlink(lanes->word);
        }
    }
    if (!ok) {
        gpuhier_engine_lock();
        gpuhier_hostmem_close(lanes->hostmem, setup->team->device->context);
        gpuhier_engine_unlock();
    }
    return ok ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

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
