/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what lies between groups: which network devices carry it, this rank's UCX address and those of its partners,
 * whether messages lie in GPU memory, the connections, and the fall to another way where those of some rank fail.
 */
#include "ompi_config.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_partners.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "ompi/proc/proc.h"

static bool has_rdma(const gpuhier_record_t *record)
{
    for (int i = 0; i < record->nics; ++i) {
        if (0 != record->nic[i].is_rdma) {
            return true;
        }
    }
    return false;
}

static bool is_of_my_job(const struct ompi_communicator_t *comm, int rank)
{
    return ompi_group_get_proc_name(comm->c_local_group, rank).jobid == ompi_proc_local()->super.proc_name.jobid;
}

/* Should Open MPI's own messages go between groups, since UCX would have TCP only? They cannot go between jobs. A user
 * who names devices wants them to be used. */
static bool pml_is_better(const gpuhier_team_t *team, const gpuhier_record_t *record)
{
    bool better =
        GPUHIER_WAY_MPI != team->way && !has_rdma(record) && NULL == gpuhier_params.devices && gpuhier_pml_has_fabric();
    for (int rank = 0; better && rank < team->nranks; ++rank) {
        better = is_of_my_job(team->comm, rank);
    }
    return better;
}

int gpuhier_setup_net_record(gpuhier_team_t *team, gpuhier_record_t *record_p)
{
    int rc = gpuhier_process_record(team->device->ordinal, team->way, record_p);
    if (OMPI_ERR_NOT_FOUND == rc) {
        gpuhier_process_fall(GPUHIER_WAY_MPI, "coll_gpuhier_devices names no device that UCX can use");
    }
    if (OMPI_ERR_NOT_FOUND == rc || (OMPI_SUCCESS == rc && pml_is_better(team, record_p))) {
        team->way = GPUHIER_WAY_MPI;
        rc = gpuhier_process_record(team->device->ordinal, team->way, record_p);
    }
    return rc;
}

/* Is this the lowest rank that has had to fall back to this way? */
static bool is_first_fallen(const gpuhier_setup_t *setup, gpuhier_way_t way)
{
    int rank = GPUHIER_WAY_BEST == way ? setup->team->nranks : 0;
    while (rank < setup->team->nranks && way != setup->hello[rank].asked) {
        ++rank;
    }
    return rank == setup->team->rank;
}

/* The lowest rank that has had to fall back to this way tells the user so, unless it has been here for another
 * communicator. */
static void fall_tell(const gpuhier_setup_t *setup, gpuhier_way_t way)
{
    static atomic_flag told[GPUHIER_WAY_COUNT] = {ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT};
    if (!atomic_flag_test_and_set(&told[way]) && is_first_fallen(setup, way)) {
        gpuhier_process_fall_tell(way);
    }
}

int gpuhier_setup_net_ways(gpuhier_setup_t *setup)
{
    bool differ = false;
    gpuhier_way_t last = setup->team->way;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        if (!gpuhier_record_is_valid(&setup->records[rank], sizeof(gpuhier_record_t))) {
            return OMPI_ERR_BAD_PARAM; /* a rank has failed otherwise */
        }
    }
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        differ = differ || setup->hello[rank].way != setup->hello[0].way;
        last = setup->hello[rank].way > last ? (gpuhier_way_t) setup->hello[rank].way : last;
        setup->has_rdma = setup->has_rdma || has_rdma(&setup->records[rank]);
    }
    setup->is_to_fall = differ;
    setup->next_way = differ                                                    ? last
                      : GPUHIER_WAY_BEST == setup->team->way && setup->has_rdma ? GPUHIER_WAY_TCP
                                                                                : GPUHIER_WAY_MPI;
    return differ ? OMPI_ERR_NOT_AVAILABLE : OMPI_SUCCESS;
}

/* Which ranks of other groups this rank exchanges messages with: the owners of its pieces there and, if it is a leader,
 * leaders. [nranks]; NULL: there is no memory. Sets team->joins_all if it is so. */
static bool *partners_find(gpuhier_team_t *team)
{
    bool *partners = calloc((size_t) team->nranks + 2 * (size_t) team->ngroups, sizeof(*partners));
    if (NULL == partners) {
        return NULL;
    }
    bool *owners = partners + team->nranks, *leaders = owners + team->ngroups; /* by group */
    int first, end, joined = 0;
    gpuhier_schedule_partners(team->limits.algorithm, team->ngroups, team->group, owners);
    gpuhier_schedule_leader_partners(team->ngroups, team->group, leaders);
    gpuhier_shape_pieces(&team->shape, team->rank, &first, &end);
    for (int group = 0; group < team->ngroups; ++group) {
        if (group == team->group) {
            continue;
        }
        const bool joins = owners[group] || team->joins_all;
        joined += joins;
        if (0 == team->index && leaders[group]) {
            partners[gpuhier_hierarchy_leader(&team->hierarchy, group)] = true;
        }
        for (int piece = first; piece < end && joins; ++piece) {
            partners[gpuhier_shape_owner(&team->shape, piece, group)] = true;
        }
    }
    team->joins_all = team->ngroups - 1 == joined;
    return partners;
}

/*
 * What UCX needs at most, rounded up: a rail on TCP has 7 descriptors, and opens 3 more while it starts. A verbs device
 * has several for each transport. Two partners that connect to each other at the same time have two sockets for a
 * while.
 */
#define DESCRIPTORS_OF_RAIL 16
#define DESCRIPTORS_OF_CONNECTION 2
#define DESCRIPTORS_SPARE 8 /* for Open MPI, and for other threads */

/* How many more descriptors may the process open? Counts to `most`. */
static int descriptors_left(int most)
{
    struct rlimit limit;
    int left = 0;
    if (0 != getrlimit(RLIMIT_NOFILE, &limit)) {
        return most;
    }
    for (int file = 0; left < most && (rlim_t) file < limit.rlim_cur; ++file) {
        left += -1 == fcntl(file, F_GETFD);
    }
    return left;
}

/*
 * Opens the rails, if the process may open all descriptors that the team will need: a UCX that lacks one for a
 * connection ends the process. The reason of a failure is told later, see fall_tell().
 */
static int rails_open(gpuhier_setup_t *setup, gpuhier_setup_word_t *mine)
{
    gpuhier_team_t *team = setup->team;
    int first, end;
    gpuhier_shape_pieces(&team->shape, team->rank, &first, &end);
    const unsigned rails = 1u | gpuhier_rails_bits(team->rails, first, end); /* rail 0 for votes and notices */
    const char *error = NULL;
    char few[96];
    int partners = 0, rc = OMPI_SUCCESS;
    for (int rank = 0; rank < team->nranks; ++rank) {
        partners += setup->partners[rank];
    }
    const int wanted =
        __builtin_popcount(rails) * (DESCRIPTORS_OF_RAIL + partners * DESCRIPTORS_OF_CONNECTION) + DESCRIPTORS_SPARE;
    if (GPUHIER_WAY_MPI != team->way && descriptors_left(wanted) < wanted) {
        snprintf(few, sizeof(few), "UCX may need %d file descriptors, and fewer are left (ulimit -n)", wanted);
        error = few;
        rc = OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_process_net_open(&setup->records[team->rank], team->way, rails, &error);
    if (OMPI_SUCCESS != rc && GPUHIER_WAY_MPI != team->way) {
        mine->no_net = 1;
        gpuhier_process_fall(setup->next_way, error);
    } else if (OMPI_SUCCESS != rc) {
        gpuhier_process_no_way_tell(error);
    }
    return rc;
}

int gpuhier_setup_net_open(gpuhier_setup_t *setup, gpuhier_setup_word_t *mine)
{
    gpuhier_team_t *team = setup->team;
    size_t bytes = 0;
    team->peers = calloc((size_t) team->nranks, sizeof(*team->peers));
    team->rails = malloc(sizeof(*team->rails) * (size_t) team->shape.npieces);
    setup->partners = partners_find(team);
    if (NULL == team->peers || NULL == team->rails || NULL == setup->partners
        || 0 != gpuhier_rails_plan(&team->shape, setup->records, team->rails)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_engine_lock();
    int rc = rails_open(setup, mine);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_net_address(gpuhier_process_net(team->way), &setup->address, &bytes);
    if (OMPI_SUCCESS == rc) {
        *mine = (gpuhier_setup_word_t){.ids = gpuhier_team_id_claim(team, setup->hello[0].team_id),
                                       .address_bytes = (int32_t) bytes,
                                       .gpu = gpuhier_process_net_gpu(team->way, team->device)};
    }
    gpuhier_engine_unlock();
    return rc;
}

/*
 * Messages between groups lie in GPU memory if all ranks can, so that no rank waits for one that copies them. The
 * answer of a rank may differ from the others', since a user may force one and a context may be lost. So what all ranks
 * must decide alike follows from all answers.
 */
static void gpu_decide(gpuhier_setup_t *setup)
{
    setup->team->net_all_on_device = true;
    setup->gpu_rank = setup->team->rank;
    setup->gpu = (gpuhier_net_gpu_t) setup->words[setup->gpu_rank].gpu;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        if (gpuhier_net_gpu_hear(&setup->gpu, (gpuhier_net_gpu_t) setup->words[rank].gpu)) {
            setup->gpu_rank = rank;
        }
        setup->team->net_all_on_device =
            setup->team->net_all_on_device && gpuhier_net_gpu_is_yes((gpuhier_net_gpu_t) setup->words[rank].gpu);
    }
    setup->team->net_on_device = gpuhier_net_gpu_is_yes(setup->gpu);
    setup->team->exchange_kind = setup->team->net_on_device ? GPUHIER_EXCHANGE_DEVICE : GPUHIER_EXCHANGE_HOST;
}

/* Binds the processes of all peers of this job, once all ranks have made their peers: a process that leaves waits for
 * the word of each bound process. */
static void peers_bind(const gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    gpuhier_engine_lock();
    for (int rank = 0; rank < team->nranks; ++rank) {
        if (NULL != team->peers[rank] && is_of_my_job(setup->comm, rank)) {
            gpuhier_net_peer_bind(team->peers[rank]);
        }
    }
    gpuhier_engine_unlock();
}

/* Makes the peers; connections follow with the first message. all: an address of each rank, in `most` bytes. */
static int peers_make(const gpuhier_setup_t *setup, const char *all, size_t most)
{
    gpuhier_team_t *team = setup->team;
    int rc = OMPI_SUCCESS;
    for (int rank = 0; rank < team->nranks && OMPI_SUCCESS == rc; ++rank) {
        if (setup->partners[rank]) {
            char name[64];
            snprintf(name, sizeof(name), "rank %d", rank);
            rc = gpuhier_net_peer_create(gpuhier_process_net(team->way), all + (size_t) rank * most,
                                         (size_t) setup->words[rank].address_bytes, name, &team->peers[rank]);
        }
    }
    return rc;
}

/* Exchanges UCX addresses, whose lengths are known, and makes the peers and the engine's part. */
static int addresses_exchange(gpuhier_setup_t *setup)
{
    gpuhier_team_t *team = setup->team;
    size_t most = 0;
    for (int rank = 0; rank < team->nranks; ++rank) {
        const size_t bytes = (size_t) setup->words[rank].address_bytes;
        most = bytes > most ? bytes : most;
    }
    char *all = calloc((size_t) team->nranks, most + 1);
    if (!gpuhier_setup_vote(setup, NULL != all)) {
        free(all);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memcpy(all + (size_t) team->rank * most, setup->address, (size_t) setup->words[team->rank].address_bytes);
    int rc = gpuhier_setup_gather(setup, MPI_IN_PLACE, all, most);
    gpuhier_engine_lock();
    rc = OMPI_SUCCESS != rc ? rc : peers_make(setup, all, most);
    gpu_decide(setup);
    team->limits.host_shard_bytes =
        gpuhier_choice_host_shard((uint64_t) gpuhier_params.host_shard_bytes, team->ngroups, team->net_all_on_device);
    if (!gpuhier_setup_links_wanted(setup)) { /* else the trial of links decides what the buffers lie in */
        rc = OMPI_SUCCESS != rc ? rc : gpuhier_setup_exchange_buffers(setup);
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_partners_init(team);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_team_engine->make(team);
    gpuhier_engine_unlock();
    free(all);
    return rc;
}

/*
 * Votes on a step that connects; rc is its outcome here. All ranks begin anew where a rank could not connect, unless
 * there is no other way.
 * Returns OMPI_SUCCESS on all ranks or on none.
 */
static int vote_connected(gpuhier_setup_t *setup, int rc)
{
    enum { LOST, FAILED, CONNECTED };
    const bool lost = OMPI_ERR_UNREACH == rc || OMPI_ERR_TIMEOUT == rc;
    const bool last = GPUHIER_WAY_MPI == setup->team->way;
    int mine = OMPI_SUCCESS == rc ? CONNECTED : lost ? LOST : FAILED, all = FAILED;
    if (lost && !last) {
        gpuhier_engine_lock();
        gpuhier_process_fall(setup->next_way, NULL);
        gpuhier_engine_unlock();
    }
    if (OMPI_SUCCESS != gpuhier_saved_least(setup->saved, setup->comm, &mine, &all, MPI_INT)) {
        all = FAILED;
    }
    setup->is_to_fall = LOST == all && !last;
    if (LOST == all && last && is_first_fallen(setup, GPUHIER_WAY_MPI)) {
        gpuhier_process_no_way_tell(lost ? NULL : "another rank lost a connection");
    }
    return OMPI_SUCCESS != rc ? rc : CONNECTED == all ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

int gpuhier_setup_net_connect(gpuhier_setup_t *setup)
{
    if (GPUHIER_WAY_BEST != setup->team->way) {
        fall_tell(setup, GPUHIER_WAY_TCP); /* Open MPI's messages may have taken the place of TCP */
    }
    int rc = vote_connected(setup, addresses_exchange(setup));
    if (OMPI_SUCCESS == rc) {
        peers_bind(setup);
    }
    rc = OMPI_SUCCESS != rc ? rc : vote_connected(setup, gpuhier_partners_connect(setup->team));
    if (OMPI_SUCCESS == rc && GPUHIER_WAY_MPI == setup->team->way) {
        fall_tell(setup, GPUHIER_WAY_MPI);
    }
    return rc;
}
