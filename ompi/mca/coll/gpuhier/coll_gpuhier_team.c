/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the set-up and end of a team. All members walk through the same steps,
 * each a collective of the saved components, also those whose own part failed:
 * they say so and the whole communicator gives up together.
 *
 *   hello      what every rank is: process, node, GPU, scratch       allgather
 *   segment    lowest rank of each node makes the control block      vote
 *   trials     attach it; map every neighbour's scratch, read its    allgather
 *              proof word: who can really map whom
 *   groups     cliques of those answers (hierarchy, shape)
 *   addresses  UCX addresses, if there are several groups            allgatherv, vote
 *
 * Called by allreduce, when a first probe says that all ranks are ready. The
 * engine's lock is held during local steps only, never during a collective: two
 * threads may set up teams at once, in another order on another rank.
 */
#include "ompi_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "coll_gpuhier_exchange.h"
#include "coll_gpuhier_process.h"
#include "coll_gpuhier_team.h"
#include "opal/util/output.h"

static void team_construct(gpuhier_team_t *team);
OBJ_CLASS_INSTANCE(gpuhier_team_t, opal_list_item_t, team_construct, NULL);

static opal_list_t teams; /* all that live in this process */
static bool listed;       /* teams is constructed */

static void team_construct(gpuhier_team_t *team)
{
    memset((char *) team + sizeof(team->super), 0, sizeof(*team) - sizeof(team->super));
    if (!listed) {
        OBJ_CONSTRUCT(&teams, opal_list_t);
        listed = true;
    }
    opal_list_append(&teams, &team->super);
}

/* What each rank tells all others at set-up. Plain bytes of one build: gpuhier_agree() has seen to that. */
typedef struct hello {
    int32_t status;          /* Open MPI code of the local set-up */
    int32_t device;          /* ordinal, for print_info */
    uint64_t segment_word;   /* names the control block, should I be the one who makes it */
    uint32_t team_id;        /* the id, should I be rank 0 */
    uint32_t reserved;
    gpuhier_record_t record; /* process, node, and network devices by their distance to the GPU */
    gpuhier_memref_t scratch;
    uint64_t proof;          /* the word that lies at the start of scratch */
} hello_t;

/* The set-up's own state; freed when it ends. */
typedef struct setup {
    gpuhier_team_t *team;
    gpuhier_module_t *module;
    struct ompi_communicator_t *comm;
    gpuhier_lane_t *lane; /* lent by the device, for its scratch */
    hello_t *hello;       /* [nranks] */
    int *local;           /* [nlocal] ranks of my node, rising */
    int nlocal, my_local, widest; /* widest: ranks on the fullest node */
    uint8_t *maps;        /* [nranks][widest] maps[i][k]: rank i can map the k-th rank of its node */
} setup_t;

/* True on all ranks when it was true on all. */
static bool vote(const setup_t *setup, bool mine)
{
    int ok = mine, all = 0;
    gpuhier_module_t *module = setup->module;
    int rc = module->saved_allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, setup->comm, module->saved_allreduce_module);
    return OMPI_SUCCESS == rc && 0 != all;
}

static int gather(const setup_t *setup, const void *mine, void *all, size_t bytes)
{
    struct ompi_communicator_t *comm = setup->comm;
    return comm->c_coll->coll_allgather(mine, (gpuhier_count_t) bytes, MPI_BYTE, all, (gpuhier_count_t) bytes, MPI_BYTE, comm,
                                        comm->c_coll->coll_allgather_module);
}

static void hello_fill(setup_t *setup, const gpuhier_buffer_t *buffer, hello_t *mine)
{
    gpuhier_team_t *team = setup->team;
    memset(mine, 0, sizeof(*mine));
    gpuhier_engine_lock();
    mine->status = gpuhier_device_get(buffer->context, &team->device);
    if (OMPI_SUCCESS == mine->status) {
        mine->status = gpuhier_lane_take(team->device, &setup->lane);
    }
    gpuhier_engine_unlock();
    if (OMPI_SUCCESS == mine->status) {
        mine->scratch = setup->lane->ref;
        mine->proof = setup->lane->proof;
        mine->device = team->device->ordinal;
        mine->record = team->device->record;
    }
    if (sizeof(mine->segment_word) != getrandom(&mine->segment_word, sizeof(mine->segment_word), 0)
        || sizeof(mine->team_id) != getrandom(&mine->team_id, sizeof(mine->team_id), 0)) {
        mine->status = OMPI_ERROR;
    }
}

/* Finds my neighbours, and the fullest node. */
static int neighbours_find(setup_t *setup)
{
    const int nranks = setup->team->nranks;
    const hello_t *me = &setup->hello[setup->team->rank];
    setup->local = malloc(sizeof(int) * (size_t) nranks);
    if (NULL == setup->local) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int rank = 0; rank < nranks; ++rank) {
        if (gpuhier_record_same_node(&setup->hello[rank].record, &me->record)) {
            if (rank == setup->team->rank) {
                setup->my_local = setup->nlocal;
            }
            setup->local[setup->nlocal++] = rank;
        }
    }
    /* O(nranks · nodes): a record is compared with the first of each node only. */
    int *first = malloc(sizeof(int) * (size_t) nranks * 2), *size = first + nranks, nodes = 0;
    if (NULL == first) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int rank = 0; rank < nranks; ++rank) {
        int node = 0;
        while (node < nodes && !gpuhier_record_same_node(&setup->hello[rank].record, &setup->hello[first[node]].record)) {
            ++node;
        }
        if (node == nodes) {
            first[nodes] = rank;
            size[nodes++] = 0;
        }
        ++size[node];
        setup->widest = size[node] > setup->widest ? size[node] : setup->widest;
    }
    free(first);
    return OMPI_SUCCESS;
}

/* Maps one neighbour's scratch and reads the word there: the only proof that counts. */
static bool trial(const hello_t *other)
{
    gpuhier_mapping_t *mapping;
    CUdeviceptr address;
    uint64_t word = 0;
    gpuhier_engine_lock();
    int rc = gpuhier_map(&other->scratch, true, &mapping, &address);
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_cuda_error(gpuhier_cu.cuMemcpyDtoH(&word, address, sizeof(word)), "cuMemcpyDtoH of a neighbour's scratch");
        gpuhier_unmap(mapping);
    }
    gpuhier_engine_unlock();
    return OMPI_SUCCESS == rc && word == other->proof;
}

/* Makes or attaches the control block, and tries who can be mapped. */
static int node_join(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const uint64_t word = setup->hello[setup->local[0]].segment_word;
    const bool maker = 0 == setup->my_local;
    int rc = maker ? gpuhier_segment_create(word, setup->nlocal, &team->segment) : OMPI_SUCCESS;
    if (!vote(setup, OMPI_SUCCESS == rc)) {
        if (maker && OMPI_SUCCESS == rc) {
            gpuhier_segment_unlink(word);
        }
        return OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
    }
    uint8_t *mine = calloc(1, (size_t) setup->widest);
    setup->maps = calloc((size_t) team->nranks, (size_t) setup->widest);
    rc = maker ? OMPI_SUCCESS : gpuhier_segment_attach(word, setup->nlocal, &team->segment);
    if (NULL == mine || NULL == setup->maps) {
        rc = OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int k = 0; k < setup->nlocal && OMPI_SUCCESS == rc; ++k) {
        mine[k] = k == setup->my_local || trial(&setup->hello[setup->local[k]]);
    }
    bool all = vote(setup, OMPI_SUCCESS == rc);
    if (maker) {
        gpuhier_segment_unlink(word);
    }
    if (all) {
        rc = gather(setup, mine, setup->maps, (size_t) setup->widest);
    }
    free(mine);
    return all ? rc : OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
}

/* Place of a rank among those of its node. */
static int local_place(const setup_t *setup, int rank)
{
    int place = 0;
    for (int other = 0; other < rank; ++other) {
        place += gpuhier_record_same_node(&setup->hello[other].record, &setup->hello[rank].record);
    }
    return place;
}

static bool can_map(void *arg, int rank, int other)
{
    const setup_t *setup = arg;
    return 0 != setup->maps[(size_t) rank * (size_t) setup->widest + (size_t) local_place(setup, other)];
}

static int groups_make(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    gpuhier_hier_rank_t *ranks = malloc(sizeof(*ranks) * (size_t) team->nranks);
    if (NULL == ranks) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int rank = 0; rank < team->nranks; ++rank) {
        ranks[rank].node = 0;
        while (!gpuhier_record_same_node(&setup->hello[rank].record, &setup->hello[ranks[rank].node].record)) {
            ++ranks[rank].node;
        }
    }
    int problem = gpuhier_hierarchy_init(&team->hierarchy, team->nranks, ranks, can_map, setup, GPUHIER_GROUP_MAX);
    free(ranks);
    problem = 0 != problem ? problem : gpuhier_shape_init(&team->shape, &team->hierarchy);
    if (0 != problem) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    const gpuhier_hierarchy_t *h = &team->hierarchy;
    team->ngroups = h->ngroups;
    team->group = h->group_of[team->rank];
    team->index = h->index_of[team->rank];
    team->group_size = gpuhier_hierarchy_group_size(h, team->group);
    team->node_index = malloc(sizeof(int) * (size_t) team->group_size);
    team->watched = malloc(sizeof(*team->watched) * (size_t) team->group_size);
    team->scratch = malloc(sizeof(*team->scratch) * (size_t) team->group_size);
    if (NULL == team->node_index || NULL == team->watched || NULL == team->scratch) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int i = 0; i < team->group_size; ++i) {
        int rank = gpuhier_hierarchy_member(h, team->group, i);
        const hello_t *member = &setup->hello[rank];
        team->node_index[i] = local_place(setup, rank);
        team->watched[i] = (gpuhier_watched_t){member->record.pid, member->record.start_time};
        team->scratch[i] = member->scratch;
    }
    return OMPI_SUCCESS;
}

/* Do I send to or receive from this rank of another group? The owners of my pieces, and, for the vote, leaders among leaders. */
static bool is_partner(const gpuhier_team_t *team, int rank)
{
    const gpuhier_hierarchy_t *h = &team->hierarchy;
    int group = h->group_of[rank];
    if (group == team->group) {
        return false;
    }
    if (0 == team->index && 0 == h->index_of[rank]) {
        return true;
    }
    int first = gpuhier_shape_first_piece(&team->shape, team->index, team->group_size);
    int end = gpuhier_shape_first_piece(&team->shape, team->index + 1, team->group_size);
    for (int piece = first; piece < end; ++piece) {
        if (rank == gpuhier_shape_owner(&team->shape, piece, group)) {
            return true;
        }
    }
    return false;
}

/* Opens UCX on the devices that this rank has among those of its node. */
static int rails_open(const setup_t *setup)
{
    const gpuhier_record_t **records = malloc(sizeof(*records) * (size_t) setup->nlocal);
    const char *rails[GPUHIER_RAILS_MAX];
    if (NULL == records) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int i = 0; i < setup->nlocal; ++i) {
        records[i] = &setup->hello[setup->local[i]].record;
    }
    int nrails = gpuhier_topology_pick_rails(records, setup->nlocal, setup->my_local, rails);
    free(records);
    return gpuhier_process_net_open(rails, nrails);
}

/* Exchanges UCX addresses and makes the peers; connections follow with the first message. */
static int addresses_exchange(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    struct ompi_communicator_t *comm = setup->comm;
    const size_t n = (size_t) team->nranks;
    void *mine = NULL;
    size_t bytes = 0, total = 0;
    gpuhier_engine_lock();
    int rc = rails_open(setup);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_net_address(gpuhier_process_net(), &mine, &bytes);
    gpuhier_engine_unlock();
    int *counts = malloc(sizeof(int) * n * 2), *places = NULL == counts ? NULL : counts + n, length = (int) bytes;
    team->peers = calloc(n, sizeof(*team->peers));
    char *all = NULL;
    if (OMPI_SUCCESS == rc && (NULL == counts || NULL == team->peers)) {
        rc = OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (!vote(setup, OMPI_SUCCESS == rc)) {
        rc = OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
        goto free_all;
    }
    rc = gather(setup, &length, counts, sizeof(length));
    for (size_t i = 0; i < n && OMPI_SUCCESS == rc; ++i) {
        places[i] = (int) total;
        total += (size_t) counts[i];
    }
    all = malloc(total + 1);
    if (!vote(setup, OMPI_SUCCESS == rc && NULL != all)) {
        rc = OMPI_ERR_OUT_OF_RESOURCE;
        goto free_all;
    }
    rc = comm->c_coll->coll_allgatherv(mine, length, MPI_BYTE, all, counts, places, MPI_BYTE, comm, comm->c_coll->coll_allgatherv_module);
    gpuhier_engine_lock();
    for (int rank = 0; rank < team->nranks && OMPI_SUCCESS == rc; ++rank) {
        if (is_partner(team, rank)) {
            char name[64];
            snprintf(name, sizeof(name), "rank %d", rank);
            rc = gpuhier_net_peer_create(gpuhier_process_net(), all + places[rank], (size_t) counts[rank], name, &team->peers[rank]);
        }
    }
    team->net_on_device = gpuhier_net_can_cuda(gpuhier_process_net());
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_lane_exchange_buffers(setup->lane, team->net_on_device);
    gpuhier_engine_unlock();
free_all:
    free(all);
    free(counts);
    free(mine);
    return rc;
}

static void team_print(const setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    if (!gpuhier_params.print_info || 0 != team->rank) {
        return;
    }
    opal_output(0, "coll:gpuhier: communicator %s: %d ranks in %d group%s, %d piece%s, slices of %zu bytes, %s between groups",
                team->comm->c_name, team->nranks, team->ngroups, 1 == team->ngroups ? "" : "s", team->shape.npieces,
                1 == team->shape.npieces ? "" : "s", gpuhier_params.slice_bytes,
                1 == team->ngroups ? "nothing" : team->net_on_device ? "GPU memory over UCX" : "pinned host memory over UCX");
    for (int group = 0; group < team->ngroups; ++group) {
        for (int i = 0; i < gpuhier_hierarchy_group_size(&team->hierarchy, group); ++i) {
            int rank = gpuhier_hierarchy_member(&team->hierarchy, group, i);
            opal_output(0, "coll:gpuhier:   group %d index %d: rank %d, pid %d, gpu %d", group, i, rank,
                        (int) setup->hello[rank].record.pid, setup->hello[rank].device);
        }
    }
}

static int setup_run(setup_t *setup, const gpuhier_buffer_t *buffer)
{
    gpuhier_team_t *team = setup->team;
    hello_t mine;
    hello_fill(setup, buffer, &mine);
    setup->hello = malloc(sizeof(hello_t) * (size_t) team->nranks);
    if (!vote(setup, NULL != setup->hello && OMPI_SUCCESS == mine.status)) {
        return OMPI_SUCCESS != mine.status ? mine.status : OMPI_ERR_NOT_AVAILABLE;
    }
    int rc = gather(setup, &mine, setup->hello, sizeof(mine));
    rc = OMPI_SUCCESS != rc ? rc : neighbours_find(setup);
    if (!vote(setup, OMPI_SUCCESS == rc)) {
        return OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
    }
    team->id = setup->hello[0].team_id;
    rc = node_join(setup);
    rc = OMPI_SUCCESS != rc ? rc : groups_make(setup);
    if (!vote(setup, OMPI_SUCCESS == rc)) {
        return OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
    }
    if (team->ngroups > 1) {
        rc = addresses_exchange(setup);
        if (!vote(setup, OMPI_SUCCESS == rc)) {
            return OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
        }
    }
    team_print(setup);
    return OMPI_SUCCESS;
}

int gpuhier_team_create(gpuhier_module_t *module, struct ompi_communicator_t *comm, const gpuhier_buffer_t *buffer,
                        gpuhier_team_t **team_p)
{
    gpuhier_engine_lock();
    gpuhier_team_t *team = OBJ_NEW(gpuhier_team_t);
    gpuhier_engine_unlock();
    setup_t setup = {.team = team, .module = module, .comm = comm};
    if (!vote(&setup, NULL != team)) {
        gpuhier_team_destroy(team);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    team->comm = comm;
    team->rank = ompi_comm_rank(comm);
    team->nranks = ompi_comm_size(comm);
    team->limits = (gpuhier_limits_t){gpuhier_params.slice_bytes, gpuhier_params.slices_in_flight,
                                      (gpuhier_algorithm_t) gpuhier_params.algorithm};
    gpuhier_cuda_scope_t scope;
    int rc = gpuhier_process_finalize_register();
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_enter(buffer->context, &scope);
    bool entered = OMPI_SUCCESS == rc;
    if (vote(&setup, entered)) {
        rc = setup_run(&setup, buffer);
    } else {
        rc = entered ? OMPI_ERR_NOT_AVAILABLE : rc;
    }
    gpuhier_engine_lock();
    if (NULL != setup.lane) {
        gpuhier_lane_give(setup.lane);
    }
    gpuhier_engine_unlock();
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    free(setup.hello);
    free(setup.local);
    free(setup.maps);
    if (OMPI_SUCCESS != rc) {
        opal_output_verbose(1, gpuhier_output(), "coll:gpuhier: set-up of communicator %s failed here or on another rank (%d): Open MPI's own collectives serve it",
                            comm->c_name, rc);
        gpuhier_engine_lock();
        gpuhier_team_destroy(team);
        gpuhier_engine_unlock();
        return rc;
    }
    *team_p = team;
    return OMPI_SUCCESS;
}

/* Its connections and its CUDA events: what must go before UCX and CUDA do. */
static void outside_release(gpuhier_team_t *team)
{
    for (int rank = 0; NULL != team->peers && rank < team->nranks; ++rank) {
        gpuhier_net_peer_destroy(team->peers[rank]);
        team->peers[rank] = NULL;
    }
    gpuhier_exchange_fini(team);
}

void gpuhier_teams_quiesce(void)
{
    gpuhier_team_t *team;
    if (!listed) {
        return;
    }
    OPAL_LIST_FOREACH(team, &teams, gpuhier_team_t) {
        team->torn = OMPI_ERR_NOT_AVAILABLE;
        outside_release(team);
    }
}

void gpuhier_team_destroy(gpuhier_team_t *team)
{
    if (NULL == team) {
        return;
    }
    outside_release(team);
    opal_list_remove_item(&teams, &team->super);
    gpuhier_segment_detach(&team->segment);
    gpuhier_shape_fini(&team->shape);
    gpuhier_hierarchy_fini(&team->hierarchy);
    free(team->peers);
    free(team->node_index);
    free(team->watched);
    free(team->scratch);
    OBJ_RELEASE(team);
}

int gpuhier_team_find_dead(const gpuhier_team_t *team)
{
    for (int i = 0; i < team->group_size; ++i) {
        if (i != team->index && !gpuhier_process_lives(team->watched[i].pid, team->watched[i].start)) {
            return gpuhier_hierarchy_member(&team->hierarchy, team->group, i);
        }
    }
    return -1;
}
