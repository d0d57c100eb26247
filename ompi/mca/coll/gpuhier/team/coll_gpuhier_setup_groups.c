/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the groups that follow from the P2P tests: hierarchy and shape, what the engine needs to know of this group's
 * members, the vote on the team's id, and the nodes that work through host memory. Does not own that memory
 * (setup_links), nor what lies between groups (setup_net).
 */
#include "ompi_config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "plan/coll_gpuhier_choice.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "ompi/proc/proc.h"

static bool can_map(void *arg, int rank, int other)
{
    const gpuhier_setup_t *setup = arg;
    return setup->is_host[setup->nodes[rank]] || gpuhier_p2p_reach(&setup->p2p, rank, other);
}

/* Copies what the engine needs to know of this group's members. */
static int members_note(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const size_t size = (size_t) team->group_size;
    team->node_index = malloc(sizeof(*team->node_index) * size);
    team->members = malloc(sizeof(*team->members) * size);
    team->scratch = malloc(sizeof(*team->scratch) * size);
    team->scratch_found = calloc(size, sizeof(*team->scratch_found));
    team->long_scratch = calloc(size, sizeof(*team->long_scratch));
    if (NULL == team->node_index || NULL == team->members || NULL == team->scratch || NULL == team->scratch_found
        || NULL == team->long_scratch) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int i = 0; i < team->group_size; ++i) {
        int rank = gpuhier_hierarchy_member(&team->hierarchy, team->group, i);
        team->node_index[i] = setup->places[rank];
        team->members[i] = setup->records[rank];
        team->scratch[i] = setup->hello[rank].scratch;
    }
    return OMPI_SUCCESS;
}

/*
 * Makes the groups from what ranks can map. If that leaves a rank alone because it cannot map its neighbours, all ranks
 * of its node work together through host memory. Slices are then at most GPUHIER_HOSTMEM_SLICE_BYTES long, in all
 * groups. Returns an errno.
 */
static int hierarchy_make(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const uint64_t *nodes = setup->nodes;
    setup->is_host = calloc((size_t) team->nranks, sizeof(*setup->is_host));
    if (NULL == setup->is_host) {
        return ENOMEM;
    }
    int problem = gpuhier_hierarchy_init(&team->hierarchy, team->nranks, nodes, can_map, setup, GPUHIER_GROUP_MAX);
    if (0 != problem || !gpuhier_hierarchy_host_nodes(&team->hierarchy, nodes, can_map, setup, setup->is_host)) {
        return problem;
    }
    setup->has_host = true;
    if (team->limits.slice_bytes > GPUHIER_HOSTMEM_SLICE_BYTES) {
        team->limits.slice_bytes = GPUHIER_HOSTMEM_SLICE_BYTES;
    }
    team->limits.slice_bytes_max = 0;
    gpuhier_hierarchy_fini(&team->hierarchy);
    return gpuhier_hierarchy_init(&team->hierarchy, team->nranks, nodes, can_map, setup, GPUHIER_GROUP_MAX);
}

/* Does each member of a group have a GPU of its own? */
static bool gpus_differ(const gpuhier_setup_t *setup)
{
    const gpuhier_hierarchy_t *h = &setup->team->hierarchy;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        for (int i = 0; i < h->index_of[rank]; ++i) {
            const int other = gpuhier_hierarchy_member(h, h->group_of[rank], i);
            const gpuhier_record_t *a = &setup->records[rank], *b = &setup->records[other];
            if (0 == memcmp(a->gpu_uuid, b->gpu_uuid, sizeof(a->gpu_uuid))) {
                return false;
            }
        }
    }
    return true;
}

/* Do some of the GPUs, which are one group, reach each other over PCIe? */
static bool over_pcie(const gpuhier_setup_t *setup)
{
    bool all = true;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        for (int other = 0; other < rank; ++other) {
            all = all && gpuhier_record_linked(&setup->records[rank], &setup->records[other]);
        }
    }
    return !all;
}

/* Deals the shards of groups with levels, and finds the circles of this rank. There are no levels where a node
 * works through host memory. */
static void levels_make(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const uint64_t min_bytes = setup->has_host ? 0 : (uint64_t) gpuhier_params.levels_bytes;
    if (min_bytes > 0) {
        gpuhier_levels_deal(&team->hierarchy, setup->records);
    }
    gpuhier_levels_init(&team->levels, &team->hierarchy, setup->records, team->rank, min_bytes);
}

static int groups_make(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    int problem = hierarchy_make(setup);
    problem = 0 != problem ? problem : gpuhier_shape_init(&team->shape, &team->hierarchy);
    if (0 != problem) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    levels_make(setup);
    team->ngroups = team->hierarchy.ngroups;
    team->joins_all = team->joins_all || 1 == team->ngroups;
    team->limits.wire = gpuhier_rails_wire(setup->records, team->nranks);
    team->group = team->hierarchy.group_of[team->rank];
    team->index = team->hierarchy.index_of[team->rank];
    team->group_size = gpuhier_hierarchy_group_size(&team->hierarchy, team->group);
    if (1 == team->ngroups && !setup->has_host && (0 != gpuhier_params.oneshot_shared || gpus_differ(setup))) {
        const unsigned all = gpuhier_setup_all_can(setup);
        team->oneshot_bytes = 0 == (all & GPUHIER_CAN_WAIT)
                                  ? 0
                                  : gpuhier_choice_oneshot(team->group_size, (uint64_t) gpuhier_params.oneshot_bytes,
                                                           team->limits.slice_bytes);
        if (team->oneshot_bytes > GPUHIER_ONESHOT_PCIE_BYTES && over_pcie(setup)) {
            team->oneshot_bytes = GPUHIER_ONESHOT_PCIE_BYTES;
        }
        team->mapped_bytes = 0 != (all & GPUHIER_CAN_HOST_MAP) ? (uint64_t) gpuhier_params.gdr_bytes : 0;
        if (team->mapped_bytes > gpuhier_params.small_bytes) {
            team->mapped_bytes = gpuhier_params.small_bytes;
        }
    }
    const int rc = gpuhier_lane_levels(setup->lane, team->levels.count); /* a call that made them might have to wait */
    return OMPI_SUCCESS != rc ? rc : members_note(setup);
}

void gpuhier_setup_switches(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    team->switch_from =
        gpuhier_choice_switch_from(team->ngroups, team->shape.min_group_size, gpuhier_params.switch_bytes);
    const bool has_long = gpuhier_choice_has_long(&team->shape, &team->limits);
    if (gpuhier_params.switch_bytes < 0 && team->ngroups > 1 && (GPUHIER_WIRE_RDMA != team->limits.wire || !has_long)) {
        team->switch_from = 0; /* over a slower wire, or with few slices in flight, they would gain nothing */
    }
    const bool may = team->switch_from > 0 && !setup->has_host && gpus_differ(setup)
                     && 0 != (gpuhier_setup_all_can(setup) & GPUHIER_CAN_MULTICAST);
    team->switch_state = may ? GPUHIER_SWITCH_UNTRIED : GPUHIER_SWITCH_NONE;
    team->switch_buffers = gpuhier_choice_buffers(&team->limits, has_long);
    team->switch_buffer_bytes = gpuhier_choice_switch_slice(&team->shape, &team->limits) + 4 * GPUHIER_UNIT_BYTES;
}

int gpuhier_setup_groups(gpuhier_setup_t *setup, int rc)
{
    gpuhier_team_t *team = setup->team;
    const size_t n = (size_t) team->nranks;
    gpuhier_setup_word_t mine = {0};
    rc = OMPI_SUCCESS != rc ? rc : groups_make(setup);
    if (OMPI_SUCCESS == rc && team->ngroups > 1) {
        if (gpuhier_params.print_info) {
            gpuhier_process_record_tell(team->way);
        }
        rc = gpuhier_setup_net_open(setup, &mine);
    } else if (OMPI_SUCCESS == rc) {
        mine.ids = UINT32_MAX;
    }
    const int gathered = gpuhier_setup_gather(setup, &mine, setup->words, sizeof(mine));
    rc = OMPI_SUCCESS != rc ? rc : gathered;
    uint32_t ids = OMPI_SUCCESS == rc ? UINT32_MAX : 0;
    for (size_t i = 0; i < n; ++i) {
        ids &= setup->words[i].ids;
        setup->is_to_fall = setup->is_to_fall || (OMPI_SUCCESS == gathered && 0 != setup->words[i].no_net);
    }
    bool chosen = 0 != ids;
    if (GPUHIER_ID_CHOOSING == team->id_state) {
        gpuhier_engine_lock();
        chosen = gpuhier_team_id_choose(team, ids);
        gpuhier_engine_unlock();
    }
    return OMPI_SUCCESS != rc ? rc : chosen ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

/* The message with the remedy for an error of a mapping. */
static const char *no_mapping_topic(unsigned error)
{
    static const struct {
        CUresult error;
        const char *topic;
    } topics[] = {{CUDA_ERROR_ALREADY_MAPPED, "no mapping, several GPUs"},
                  {CUDA_ERROR_INVALID_VALUE, "no mapping, hidden GPU"},
                  {CUDA_ERROR_INVALID_DEVICE, "no mapping, hidden GPU"},
                  {CUDA_ERROR_INVALID_CONTEXT, "no mapping, hidden GPU"},
                  {CUDA_ERROR_MAP_FAILED, "no mapping, namespaces"},
                  {CUDA_ERROR_OPERATING_SYSTEM, "no mapping, namespaces"},
                  {CUDA_ERROR_NOT_PERMITTED, "no mapping, namespaces"},
                  {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "no mapping, no peer access"},
                  {CUDA_ERROR_TOO_MANY_PEERS, "no mapping, no peer access"},
                  {CUDA_ERROR_NOT_SUPPORTED, "no mapping, not supported"},
                  {CUDA_ERROR_OUT_OF_MEMORY, "no mapping, no memory"}};
    for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); ++i) {
        if ((unsigned) topics[i].error == error) {
            return topics[i].topic;
        }
    }
    return "no mapping";
}

/* The lowest rank of the first node that works through host memory says so, once a process. Where all memory could be
 * mapped, gpuhier_p2p_corrupt_tell() has said why it is not used. */
static void host_tell(const gpuhier_setup_t *setup)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    int node = 0;
    unsigned error = 0;
    while (!setup->is_host[node]) {
        ++node;
    }
    if (node != setup->team->rank) {
        return;
    }
    for (int k = 0; k < setup->nlocal && 0 == error; ++k) {
        error = gpuhier_p2p_error(&setup->p2p, setup->local[k]);
    }
    if (0 != error && !atomic_flag_test_and_set(&told)) {
        gpuhier_help(no_mapping_topic(error), ompi_process_info.nodename, gpuhier_cuda_name((CUresult) error));
    }
}

int gpuhier_setup_host_lanes(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const int leader = gpuhier_hierarchy_leader(&team->hierarchy, team->group);
    const gpuhier_hostlanes_t lanes = {
        .mine = setup->is_host[setup->nodes[team->rank]] && team->group_size > 1,
        .hostmem = &team->hostmem,
        .size = {.nlanes = team->group_size,
                 .nbuffers = 2 * team->limits.slice_buffers,
                 .buffer_bytes = team->limits.slice_bytes + 4 * GPUHIER_UNIT_BYTES}, /* as in lanes of GPU memory */
        .index = team->index,
        .word = setup->hello[leader].segment_word,
        .lane = setup->lane,
        .topic = "no host scratch"};
    int rc = gpuhier_setup_hostlanes_make(setup, &lanes);
    if (OMPI_SUCCESS == rc) {
        host_tell(setup);
    }
    return rc;
}
