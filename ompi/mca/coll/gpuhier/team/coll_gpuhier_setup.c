/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the set-up of a team. All members take the same steps, each a collective of
 * the saved components. A member whose own part fails goes on to the step's vote and
 * says so there; then the whole communicator gives up together.
 *
 *   hello      kernels and scratch are there; what every rank is:    allgather
 *              process, node, GPU, scratch; or a failure
 *   segment    lowest rank of each node makes the control block;
 *              kernels read and write in every neighbour's scratch   vote
 *   trials     attach it; look for what neighbours have written      allgather
 *              here; what can be mapped and trusted, or a failure
 *   groups     cliques of those answers (hierarchy, shape). If there are several: ids that no other team of this rank
 *              has, the length of its UCX address; or a failure      allgather
 *   host lanes scratch in host memory for nodes where a rank can     a vote after each of four steps, if there is
 *              map no other                                          such a node
 *   addresses  if there are several groups                           vote, allgatherv, vote
 *   connect    a word with each partner: UCX connects                vote
 *
 * If UCX cannot open the network devices of a rank, or connect them, and there are RDMA ports among all ranks' devices,
 * all ranks begin anew with interfaces only (gpuhier_way_t). They do so as well when the hellos show that some ranks
 * have failed with their ports before.
 *
 * The memory for the first steps is there before a rank says that it can take part, so they need no vote of their own.
 *
 * The engine's lock is held during local steps only, never during a collective:
 * two threads may set up teams at once, in another order on another rank.
 *
 * Called by the path that a collective takes to the engine.
 */
#include "ompi_config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_params.h"
#include "plan/coll_gpuhier_choice.h"
#include "team/coll_gpuhier_advice.h"
#include "team/coll_gpuhier_hooks.h"
#include "team/coll_gpuhier_hostlanes.h"
#include "team/coll_gpuhier_partners.h"
#include "team/coll_gpuhier_process.h"
#include "team/coll_gpuhier_setup.h"
#include "team/coll_gpuhier_trial.h"
#include "team/coll_gpuhier_verdicts.h"
#include "ompi/proc/proc.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

/* What each rank tells all others at set-up. Plain bytes of one build: gpuhier_agree() has seen to that. */
typedef struct hello {
    uint64_t segment_word; /* names the control block, if this rank makes it */
    uint32_t team_id;      /* what the id comes from, if this rank is rank 0 */
    uint8_t way;           /* gpuhier_way_t of the record */
    uint8_t fell;          /* UCX cannot use this rank's RDMA ports */
    uint8_t reserved[2];
    gpuhier_memref_t scratch;
    uint64_t nonce; /* of the patterns in scratch, see gpuhier_trial_prepare() */
    gpuhier_record_t record;
} hello_t;

/* What a rank tells all others when it knows the groups; all zero after a failure. */
typedef struct groups_word {
    uint32_t ids; /* free ones, see gpuhier_team_id_claim(); not 0 for one group */
    int32_t address_bytes;
    int32_t gpu;    /* gpuhier_net_gpu_t: whether its messages between groups may lie in GPU memory */
    int32_t no_net; /* the failure: UCX did not open its network devices */
    int32_t reserved;
} groups_word_t;

/* The set-up's own state; freed when it ends. */
typedef struct gpuhier_setup {
    gpuhier_team_t *team;
    const gpuhier_saved_t *saved;
    struct ompi_communicator_t *comm;
    gpuhier_lane_t *lane;            /* lent by the device, for its scratch */
    hello_t *hello;                  /* [nranks] */
    gpuhier_record_t *records;       /* [nranks] */
    groups_word_t *words;            /* [nranks] */
    void *address;                   /* of this rank's UCX; several groups */
    uint64_t *nodes;                 /* [nranks] lowest rank of the rank's node */
    int *places;                     /* [nranks] place of the rank among those of its node */
    int *local;                      /* [nlocal] ranks of this node, rising */
    int *counts;                     /* [2 * nranks] for addresses: their lengths, and places in one piece of memory */
    gpuhier_neighbour_t *neighbours; /* [nlocal] for the trial */
    int nlocal, widest;              /* widest: ranks on the fullest node */
    gpuhier_verdicts_t verdicts;     /* what came of the trials of all ranks */
    gpuhier_net_gpu_t gpu;           /* the answer that decides where messages between groups lie ... */
    int gpu_rank;                    /* ... and the rank that gave it */
    bool has_rdma;                   /* a rank has RDMA ports */
    bool is_to_fall;                 /* after a failure: all ranks begin anew with GPUHIER_WAY_TCP */
    bool has_host;                   /* there is such a node, see is_host */
    bool *is_host; /* [nranks] by the number of a node: its ranks work through scratch in host memory */
} setup_t;

/* True on all ranks when it was true on all. */
static bool vote(const setup_t *setup, bool mine)
{
    int ok = mine, all = 0;
    int rc = setup->saved->allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, setup->comm, setup->saved->allreduce_module);
    return OMPI_SUCCESS == rc && 0 != all;
}

static int gather(const setup_t *setup, const void *mine, void *all, size_t bytes)
{
    struct ompi_communicator_t *comm = setup->comm;
    return comm->c_coll->coll_allgather(mine, (gpuhier_count_t) bytes, MPI_BYTE, all, (gpuhier_count_t) bytes, MPI_BYTE,
                                        comm, comm->c_coll->coll_allgather_module);
}

/* This rank's own part. Returns an Open MPI code; hello is empty then, which is no valid one. */
static int hello_fill(setup_t *setup, const gpuhier_buffer_t *buffer, hello_t *mine)
{
    gpuhier_team_t *team = setup->team;
    memset(mine, 0, sizeof(*mine));
    gpuhier_engine_lock();
    int rc = gpuhier_device_get(buffer->context, &team->device);
    if (OMPI_SUCCESS == rc) {
        gpuhier_device_trim(team->device); /* of unused scratch as well, since calls of the small form do not trim */
        rc = gpuhier_lane_take(team->device, GPUHIER_LANE_SLICES, 0, &setup->lane);
    }
    if (OMPI_SUCCESS == rc) {
        mine->scratch = setup->lane->ref;
        mine->way = (uint8_t) team->way;
        mine->fell = GPUHIER_WAY_TCP == gpuhier_process_way();
        rc = gpuhier_process_record(team->device->ordinal, team->way, &mine->record);
    }
    gpuhier_engine_unlock();
    if (sizeof(mine->segment_word) != getrandom(&mine->segment_word, sizeof(mine->segment_word), 0)
        || sizeof(mine->team_id) != getrandom(&mine->team_id, sizeof(mine->team_id), 0)
        || sizeof(mine->nonce) != getrandom(&mine->nonce, sizeof(mine->nonce), 0)) {
        rc = OMPI_SUCCESS != rc ? rc : OMPI_ERROR;
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_trial_prepare(setup->lane, mine->nonce);
    if (OMPI_SUCCESS != rc) {
        memset(mine, 0, sizeof(*mine));
    }
    return rc;
}

/* Numbers the nodes, and the ranks on each. All records are valid. */
static int nodes_number(setup_t *setup)
{
    const int nranks = setup->team->nranks;
    int *size = calloc((size_t) nranks, sizeof(int));
    setup->nodes = malloc(sizeof(*setup->nodes) * (size_t) nranks);
    setup->places = malloc(sizeof(*setup->places) * (size_t) nranks);
    setup->local = malloc(sizeof(*setup->local) * (size_t) nranks);
    if (NULL == size || NULL == setup->nodes || NULL == setup->places || NULL == setup->local) {
        free(size);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_topology_number_nodes(setup->records, nranks, setup->nodes);
    for (int rank = 0; rank < nranks; ++rank) {
        int *ranks = &size[setup->nodes[rank]];
        setup->places[rank] = (*ranks)++;
        setup->widest = *ranks > setup->widest ? *ranks : setup->widest;
        if (setup->nodes[rank] == setup->nodes[setup->team->rank]) {
            setup->local[setup->nlocal++] = rank;
        }
    }
    free(size);
    return OMPI_SUCCESS;
}

/* Keeps what this rank maps of its node's processes mapped until the team ends. */
static int neighbours_hold(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    team->held = malloc(sizeof(*team->held) * (size_t) setup->nlocal);
    if (NULL == team->held) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_engine_lock();
    for (int k = 0; k < setup->nlocal; ++k) {
        team->held[k] = setup->hello[setup->local[k]].scratch.process;
        gpuhier_ipc_hold(team->held[k]);
    }
    team->nheld = setup->nlocal;
    gpuhier_engine_unlock();
    return OMPI_SUCCESS;
}

/* Is any process of this node in another pid namespace than this one? */
static bool node_is_split(const setup_t *setup)
{
    bool split = false;
    for (int k = 0; k < setup->nlocal; ++k) {
        split =
            split || !gpuhier_record_same_pids(&setup->records[setup->team->rank], &setup->records[setup->local[k]]);
    }
    return split;
}

static int neighbours_make(setup_t *setup)
{
    setup->neighbours = calloc((size_t) setup->nlocal, sizeof(*setup->neighbours));
    if (NULL == setup->neighbours) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int k = 0; k < setup->nlocal; ++k) {
        setup->neighbours[k].scratch = setup->hello[setup->local[k]].scratch;
        setup->neighbours[k].nonce = setup->hello[setup->local[k]].nonce;
    }
    return neighbours_hold(setup);
}

/* Makes or attaches the control block, and tries which members can be mapped. rc: the outcome of this rank's earlier
 * steps. */
static int node_join(setup_t *setup, int rc)
{
    gpuhier_team_t *team = setup->team;
    const int me = NULL == setup->places ? 0 : setup->places[team->rank];
    gpuhier_segment_args_t args = {.nranks = setup->nlocal, .small_bytes = gpuhier_params.small_bytes};
    if (OMPI_SUCCESS == rc) {
        args.word = setup->hello[setup->local[0]].segment_word;
        args.locks = node_is_split(setup);
    }
    const bool maker = OMPI_SUCCESS == rc && 0 == me;
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_verdicts_init(&setup->verdicts, team->nranks, setup->widest, setup->places);
    }
    bool made = false;
    if (OMPI_SUCCESS == rc && maker) {
        rc = gpuhier_segment_create(&args, &team->segment);
        made = OMPI_SUCCESS == rc;
    }
    rc = OMPI_SUCCESS != rc ? rc : neighbours_make(setup);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_trial_run(setup->lane, setup->neighbours, setup->nlocal, me);
    if (!vote(setup, OMPI_SUCCESS == rc)) { /* with it, all kernels of the trial have ended */
        if (made) {
            gpuhier_segment_unlink(args.word);
        }
        return OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
    }
    rc = maker ? OMPI_SUCCESS : gpuhier_segment_attach(&args, me, &team->segment);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_trial_inspect(setup->lane, setup->neighbours, setup->nlocal, me);
    if (OMPI_SUCCESS == rc) {
        gpuhier_verdicts_note(&setup->verdicts, setup->neighbours, setup->nlocal);
    }
    int gathered = gather(setup, gpuhier_verdicts_mine(&setup->verdicts), setup->verdicts.cells,
                          gpuhier_verdicts_row_bytes(&setup->verdicts));
    if (made) {
        gpuhier_segment_unlink(args.word);
    }
    rc = OMPI_SUCCESS != rc ? rc : gathered;
    if (OMPI_SUCCESS == rc && !gpuhier_verdicts_complete(&setup->verdicts)) {
        rc = OMPI_ERR_NOT_AVAILABLE;
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_verdicts_tell(&setup->verdicts, setup->records, setup->local, setup->nlocal, team->rank);
    }
    return rc;
}

static bool can_map(void *arg, int rank, int other)
{
    const setup_t *setup = arg;
    return setup->is_host[setup->nodes[rank]] || gpuhier_verdicts_reach(&setup->verdicts, rank, other);
}

/* Copies what the engine needs to know of this group's members. */
static int members_note(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const size_t size = (size_t) team->group_size;
    team->node_index = malloc(sizeof(*team->node_index) * size);
    team->members = malloc(sizeof(*team->members) * size);
    team->scratch = malloc(sizeof(*team->scratch) * size);
    team->scratch_at = calloc(size, sizeof(*team->scratch_at));
    team->long_scratch = calloc(size, sizeof(*team->long_scratch));
    if (NULL == team->node_index || NULL == team->members || NULL == team->scratch || NULL == team->scratch_at
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
 * Groups by what ranks can map. Then all ranks of a node where one is left alone can work together, through host
 * memory. Their slices are short, and so are those of all other groups. Returns an errno.
 */
static int hierarchy_make(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const gpuhier_hier_rank_t *nodes = (const gpuhier_hier_rank_t *) setup->nodes;
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

/* The lowest rank of the first node that works through host memory says so, once a process. Where all memory could be
 * mapped, gpuhier_verdicts_tell() has said why it is not used. */
static void host_tell(const setup_t *setup)
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
        error = gpuhier_verdicts_error(&setup->verdicts, setup->local[k]);
    }
    if (0 != error && !atomic_flag_test_and_set(&told)) {
        opal_show_help("help-coll-gpuhier.txt", "no mapping", true, ompi_process_info.nodename,
                       gpuhier_cuda_name((CUresult) error));
    }
}

/* Scratch in host memory, on all nodes that need it. The same outcome on all ranks. */
static int host_lanes_make(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    const int leader = gpuhier_hierarchy_leader(&team->hierarchy, team->group);
    const bool mine = setup->is_host[setup->nodes[team->rank]] && team->group_size > 1;
    int rc = gpuhier_hostlanes_make(team, setup->saved, mine, setup->hello[leader].segment_word);
    if (OMPI_SUCCESS == rc) {
        host_tell(setup);
    }
    return rc;
}

/* Has each of several ranks a GPU of its own? */
static bool gpus_differ(const setup_t *setup)
{
    const int nranks = setup->team->nranks;
    for (int rank = 0; rank < nranks; ++rank) {
        for (int other = 0; other < rank; ++other) {
            if (0
                == memcmp(setup->records[rank].gpu_uuid, setup->records[other].gpu_uuid,
                          sizeof(setup->records[rank].gpu_uuid))) {
                return false;
            }
        }
    }
    return true;
}

static int groups_make(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    _Static_assert(sizeof(gpuhier_hier_rank_t) == sizeof(*setup->nodes),
                   "the number of its node is all that the hierarchy asks of a rank");
    int problem = hierarchy_make(setup);
    problem = 0 != problem ? problem : gpuhier_shape_init(&team->shape, &team->hierarchy);
    if (0 != problem) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    team->ngroups = team->hierarchy.ngroups;
    team->limits.wire = gpuhier_rails_wire(setup->records, team->nranks);
    team->group = team->hierarchy.group_of[team->rank];
    team->index = team->hierarchy.index_of[team->rank];
    team->group_size = gpuhier_hierarchy_group_size(&team->hierarchy, team->group);
    if (1 == team->ngroups && !setup->has_host && gpus_differ(setup)) {
        team->oneshot_bytes =
            gpuhier_choice_oneshot(team->group_size, (uint64_t) gpuhier_params.oneshot_bytes, team->limits.slice_bytes);
    }
    return members_note(setup);
}

/* Does this rank exchange messages with that rank of another group? Owners of the same piece do, and, for the vote,
 * leaders. */
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

/* The rails that this rank sends and receives by, as bits: those of its pieces, and rail 0 for votes and notices. */
static unsigned rails_driven(const gpuhier_team_t *team)
{
    unsigned rails = 1;
    const int first = gpuhier_shape_first_piece(&team->shape, team->index, team->group_size);
    const int end = gpuhier_shape_first_piece(&team->shape, team->index + 1, team->group_size);
    for (int piece = first; piece < end; ++piece) {
        for (int i = 0; i < team->rails[piece].count; ++i) {
            rails |= 1u << team->rails[piece].rail[i];
        }
    }
    return rails;
}

/* Opens the rails. Where RDMA ports may be the reason of a failure, it is told later, see fall_tell(). */
static int net_open(setup_t *setup, groups_word_t *mine)
{
    gpuhier_team_t *team = setup->team;
    const char *error = NULL;
    const int rc = gpuhier_process_net_open(&setup->records[team->rank], team->way, rails_driven(team), &error);
    if (OMPI_SUCCESS != rc && setup->has_rdma) {
        mine->no_net = 1;
        gpuhier_process_fall(error);
    } else if (OMPI_SUCCESS != rc) {
        gpuhier_process_tell_no_network(error);
    }
    return rc;
}

/* This rank's part between groups: ids that it has free, and its UCX address. */
static int between_groups(setup_t *setup, groups_word_t *mine)
{
    gpuhier_team_t *team = setup->team;
    size_t bytes = 0;
    team->peers = calloc((size_t) team->nranks, sizeof(*team->peers));
    team->rails = malloc(sizeof(*team->rails) * (size_t) team->shape.npieces);
    if (NULL == team->peers || NULL == team->rails) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_rails_plan(&team->shape, setup->records, team->rails);
    gpuhier_engine_lock();
    int rc = net_open(setup, mine);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_net_address(gpuhier_process_net(team->way), &setup->address, &bytes);
    if (OMPI_SUCCESS == rc) {
        *mine = (groups_word_t){.ids = gpuhier_team_id_claim(team, setup->hello[0].team_id),
                                .address_bytes = (int32_t) bytes,
                                .gpu = gpuhier_process_net_gpu(team->way, team->device)};
    }
    gpuhier_engine_unlock();
    return rc;
}

/* Messages between groups lie in GPU memory if all ranks can, so that no rank waits for one that copies them. */
static void gpu_decide(setup_t *setup)
{
    setup->gpu_rank = setup->team->rank;
    setup->gpu = (gpuhier_net_gpu_t) setup->words[setup->gpu_rank].gpu;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        if (gpuhier_net_gpu_hear(&setup->gpu, (gpuhier_net_gpu_t) setup->words[rank].gpu)) {
            setup->gpu_rank = rank;
        }
    }
    setup->team->net_on_device = gpuhier_net_gpu_is_yes(setup->gpu);
}

/*
 * Makes the groups, if rc says that this rank has got so far, and hears whether all could. Between groups the ranks
 * choose the team's id, and learn the lengths of all addresses. The same outcome on all ranks.
 */
static int groups_agree(setup_t *setup, int rc)
{
    gpuhier_team_t *team = setup->team;
    const size_t n = (size_t) team->nranks;
    groups_word_t mine = {0};
    rc = OMPI_SUCCESS != rc ? rc : groups_make(setup);
    if (OMPI_SUCCESS == rc && team->ngroups > 1) {
        rc = between_groups(setup, &mine);
    } else if (OMPI_SUCCESS == rc) {
        mine.ids = UINT32_MAX;
    }
    const int gathered = gather(setup, &mine, setup->words, sizeof(mine));
    rc = OMPI_SUCCESS != rc ? rc : gathered;
    uint32_t ids = OMPI_SUCCESS == rc ? UINT32_MAX : 0;
    for (size_t i = 0; i < n; ++i) {
        ids &= setup->words[i].ids;
        setup->is_to_fall = setup->is_to_fall || (OMPI_SUCCESS == gathered && 0 != setup->words[i].no_net);
        setup->counts[i] = setup->words[i].address_bytes;
    }
    bool chosen = 0 != ids;
    if (GPUHIER_ID_CHOOSING == team->id_state) {
        gpuhier_engine_lock();
        chosen = gpuhier_team_id_choose(team, ids);
        gpuhier_engine_unlock();
    }
    return OMPI_SUCCESS != rc ? rc : chosen ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

/* Makes the peers; connections follow with the first message. all: the addresses, by the places of setup->counts. */
static int peers_make(const setup_t *setup, const char *all)
{
    gpuhier_team_t *team = setup->team;
    const int *counts = setup->counts, *places = counts + team->nranks;
    int rc = OMPI_SUCCESS;
    for (int rank = 0; rank < team->nranks && OMPI_SUCCESS == rc; ++rank) {
        if (is_partner(team, rank)) {
            char name[64];
            snprintf(name, sizeof(name), "rank %d", rank);
            rc = gpuhier_net_peer_create(gpuhier_process_net(team->way), all + places[rank], (size_t) counts[rank],
                                         name, &team->peers[rank]);
            if (OMPI_SUCCESS == rc
                && ompi_group_get_proc_name(setup->comm->c_local_group, rank).jobid
                       == ompi_proc_local()->super.proc_name.jobid) {
                gpuhier_net_peer_bind(team->peers[rank]);
            }
        }
    }
    return rc;
}

/* Exchanges UCX addresses, whose lengths are known, and makes the peers and the engine's part. */
static int addresses_exchange(setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    int *counts = setup->counts, *places = counts + team->nranks;
    size_t total = 0;
    for (int rank = 0; rank < team->nranks; ++rank) {
        places[rank] = (int) total;
        total += (size_t) counts[rank];
    }
    char *all = malloc(total + 1);
    if (!vote(setup, NULL != all)) {
        free(all);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int rc = gpuhier_comm_allgatherv(setup->address, counts[team->rank], all, counts, places, setup->comm);
    gpuhier_engine_lock();
    rc = OMPI_SUCCESS != rc ? rc : peers_make(setup, all);
    gpu_decide(setup);
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_lane_exchange_buffers(setup->lane, team->net_on_device, gpuhier_slice_buffer_bytes(false));
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_partners_init(team);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_team_engine->make(team);
    gpuhier_engine_unlock();
    free(all);
    return rc;
}

static void team_print(const setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    if (!gpuhier_params.print_info || 0 != team->rank) {
        return;
    }
    opal_output(0,
                "coll:gpuhier: communicator %s: %d ranks in %d group%s, %d piece%s, slices of at most %llu bytes, %s "
                "between groups",
                team->comm->c_name, team->nranks, team->ngroups, 1 == team->ngroups ? "" : "s", team->shape.npieces,
                1 == team->shape.npieces ? "" : "s",
                (unsigned long long) gpuhier_choice_longest(&team->shape, &team->limits),
                1 == team->ngroups    ? "nothing"
                : team->net_on_device ? "GPU memory over UCX"
                                      : "pinned host memory over UCX");
    if (team->ngroups > 1 && GPUHIER_NET_GPU_YES != setup->gpu) {
        const char *remedy = gpuhier_net_gpu_remedy(setup->gpu);
        opal_output(0, "coll:gpuhier:   %sGPU memory for UCX, since on rank %d %s%s%s",
                    team->net_on_device ? "" : "no ", setup->gpu_rank, gpuhier_net_gpu_reason(setup->gpu),
                    '\0' == remedy[0] ? "" : "; ", remedy);
    }
    for (int group = 0; group < team->ngroups; ++group) {
        for (int i = 0; i < gpuhier_hierarchy_group_size(&team->hierarchy, group); ++i) {
            int rank = gpuhier_hierarchy_member(&team->hierarchy, group, i);
            opal_output(0, "coll:gpuhier:   group %d index %d: rank %d, pid %d, gpu %d", group, i, rank,
                        (int) setup->records[rank].pid, (int) setup->records[rank].gpu_ordinal);
        }
    }
    if (team->oneshot_bytes > 0) {
        opal_output(0,
                    "coll:gpuhier:   blocking calls of up to %llu bytes: one kernel that waits for those of the peers",
                    (unsigned long long) team->oneshot_bytes);
    }
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    const int nrows = gpuhier_choice_table(&team->shape, &team->limits, gpuhier_params.small_bytes, rows);
    for (int i = 0; i < nrows; ++i) {
        char text[128];
        opal_output(0, "coll:gpuhier:   %s", gpuhier_choice_text(&rows[i], team->ngroups, text, sizeof(text)));
    }
    gpuhier_verdicts_print(&setup->verdicts, setup->local, setup->nlocal);
}

/* The lowest rank whose RDMA ports have failed says so, unless the members have heard it for another communicator. */
static void fall_tell(const setup_t *setup)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    int rank = 0;
    while (rank < setup->team->nranks && 0 == setup->hello[rank].fell) {
        ++rank;
    }
    if (rank < setup->team->nranks && !atomic_flag_test_and_set(&told) && rank == setup->team->rank) {
        opal_show_help("help-coll-gpuhier.txt", "no RDMA", true, ompi_process_info.nodename,
                       gpuhier_process_fall_reason());
    }
}

/* Looks at the records and ways of all ranks. Fails where ways differ: then all begin anew with TCP. */
static int ways_check(setup_t *setup)
{
    bool differ = false;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        if (!gpuhier_record_is_valid(&setup->records[rank], sizeof(gpuhier_record_t))) {
            return OMPI_ERR_BAD_PARAM; /* a rank has failed otherwise */
        }
    }
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        differ = differ || setup->hello[rank].way != setup->team->way;
        for (int i = 0; i < setup->records[rank].nics; ++i) {
            setup->has_rdma = setup->has_rdma || 0 != setup->records[rank].nic[i].is_rdma;
        }
    }
    setup->is_to_fall = differ;
    if (!differ && GPUHIER_WAY_TCP == setup->team->way) {
        fall_tell(setup);
    }
    return differ ? OMPI_ERR_NOT_AVAILABLE : OMPI_SUCCESS;
}

/* Gathers the hellos. One of a rank that failed is not valid, and ends the set-up. */
static int hellos_gather(setup_t *setup, const hello_t *mine)
{
    int rc = gather(setup, mine, setup->hello, sizeof(*mine));
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        setup->records[rank] = setup->hello[rank].record;
    }
    rc = OMPI_SUCCESS != rc ? rc : ways_check(setup);
    return OMPI_SUCCESS != rc ? rc : nodes_number(setup);
}

/*
 * Votes on a step in which UCX connects; rc is its outcome here. All ranks begin anew where a rank could not connect
 * and there are RDMA ports. Returns OMPI_SUCCESS on all ranks or on none.
 */
static int vote_connected(setup_t *setup, int rc)
{
    enum { LOST, FAILED, CONNECTED };
    const bool lost = setup->has_rdma && (OMPI_ERR_UNREACH == rc || OMPI_ERR_TIMEOUT == rc);
    int mine = OMPI_SUCCESS == rc ? CONNECTED : lost ? LOST : FAILED, all = FAILED;
    if (lost) {
        gpuhier_engine_lock();
        gpuhier_process_fall(NULL);
        gpuhier_engine_unlock();
    }
    if (OMPI_SUCCESS
        != setup->saved->allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, setup->comm, setup->saved->allreduce_module)) {
        all = FAILED;
    }
    setup->is_to_fall = LOST == all;
    return OMPI_SUCCESS != rc ? rc : CONNECTED == all ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

/* The voted steps. entered: OMPI_SUCCESS when the context is current; then it stays so. */
static int steps_run(setup_t *setup, const gpuhier_buffer_t *buffer, int entered)
{
    gpuhier_team_t *team = setup->team;
    hello_t mine = {0};
    int rc = OMPI_SUCCESS != entered ? entered : hello_fill(setup, buffer, &mine);
    const int gathered = hellos_gather(setup, &mine);
    rc = groups_agree(setup, node_join(setup, OMPI_SUCCESS != rc ? rc : gathered));
    rc = OMPI_SUCCESS == rc && setup->has_host ? host_lanes_make(setup) : rc;
    if (OMPI_SUCCESS == rc && team->ngroups > 1) {
        rc = vote_connected(setup, addresses_exchange(setup));
        rc = OMPI_SUCCESS != rc ? rc : vote_connected(setup, gpuhier_partners_connect(team));
    }
    if (OMPI_SUCCESS == rc) {
        team_print(setup);
        gpuhier_advice_tell(team, setup->records, setup->widest);
    }
    return rc;
}

static int run(setup_t *setup, const gpuhier_buffer_t *buffer)
{
    gpuhier_cuda_scope_t scope;
    int rc = gpuhier_end_arm();
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_enter(buffer->context, &scope);
    bool entered = OMPI_SUCCESS == rc;
    rc = steps_run(setup, buffer, rc);
    gpuhier_engine_lock();
    if (NULL != setup->lane) {
        gpuhier_lane_give(setup->lane);
    }
    gpuhier_engine_unlock();
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    return rc;
}

gpuhier_setup_t *gpuhier_setup_prepare(struct ompi_communicator_t *comm)
{
    const size_t n = (size_t) ompi_comm_size(comm);
    setup_t *setup = calloc(1, sizeof(*setup));
    if (NULL == setup) {
        return NULL;
    }
    setup->comm = comm;
    gpuhier_engine_lock();
    setup->team = OBJ_NEW(gpuhier_team_t);
    gpuhier_engine_unlock();
    setup->hello = malloc(sizeof(*setup->hello) * n);
    setup->records = malloc(sizeof(*setup->records) * n);
    setup->words = malloc(sizeof(*setup->words) * n);
    setup->counts = malloc(sizeof(*setup->counts) * n * 2);
    if (NULL == setup->team || NULL == setup->hello || NULL == setup->records || NULL == setup->words
        || NULL == setup->counts) {
        gpuhier_setup_drop(setup);
        return NULL;
    }
    setup->team->comm = comm;
    setup->team->rank = ompi_comm_rank(comm);
    setup->team->nranks = (int) n;
    setup->team->limits = (gpuhier_limits_t){
        gpuhier_params.slice_bytes, gpuhier_params.slices_in_flight, (gpuhier_algorithm_t) gpuhier_params.algorithm,
        GPUHIER_WIRE_TCP /* set-up knows better */, gpuhier_params.slice_bytes_max};
    return setup;
}

void gpuhier_setup_drop(gpuhier_setup_t *setup)
{
    if (NULL == setup) {
        return;
    }
    gpuhier_engine_lock();
    gpuhier_team_destroy(setup->team);
    gpuhier_engine_unlock();
    free(setup->hello);
    free(setup->records);
    free(setup->words);
    free(setup->nodes);
    free(setup->places);
    free(setup->local);
    free(setup->counts);
    gpuhier_verdicts_fini(&setup->verdicts);
    free(setup->neighbours);
    free(setup->is_host);
    free(setup->address);
    free(setup);
}

/* A set-up with TCP in place of one that failed; NULL on all ranks where one has no memory for it. */
static setup_t *begin_anew(setup_t *failed)
{
    setup_t *setup = gpuhier_setup_prepare(failed->comm);
    const bool all = vote(failed, NULL != setup);
    if (all) {
        setup->saved = failed->saved;
        setup->team->way = GPUHIER_WAY_TCP;
    } else {
        gpuhier_setup_drop(setup);
        setup = NULL;
    }
    gpuhier_setup_drop(failed);
    return setup;
}

int gpuhier_team_create(gpuhier_setup_t *setup, const gpuhier_saved_t *saved, const gpuhier_buffer_t *buffer,
                        gpuhier_team_t **team_p)
{
    setup->saved = saved;
    setup->team->way = gpuhier_process_way();
    int rc = run(setup, buffer);
    if (OMPI_SUCCESS != rc && setup->is_to_fall) {
        opal_output_verbose(1, gpuhier_output(),
                            "coll:gpuhier: set-up of communicator %s begins anew without RDMA ports (%d)",
                            setup->comm->c_name, rc);
        setup = begin_anew(setup);
        rc = NULL == setup ? OMPI_ERR_OUT_OF_RESOURCE : run(setup, buffer);
    }
    if (NULL == setup) {
        return rc;
    }
    if (OMPI_SUCCESS == rc) {
        *team_p = setup->team;
        setup->team = NULL;
    } else {
        opal_output_verbose(
            1, gpuhier_output(),
            "coll:gpuhier: set-up of communicator %s failed here or on another rank (%d): Open MPI's own "
            "collectives serve it",
            setup->comm->c_name, rc);
    }
    gpuhier_setup_drop(setup);
    return rc;
}
