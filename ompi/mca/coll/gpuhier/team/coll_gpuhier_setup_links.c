/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the decision whether partners of different groups take pieces from each other's memory instead of sending them
 * over the network, the trial before it, and the exchange buffers that set-up makes. Does not own that memory
 * (gpu/lane_exchange), nor how pieces are taken (engine/link).
 *
 * Partners of one node may map each other's memory by CUDA IPC, though their groups cannot: a GPU of a DGX-1V has links
 * to one GPU of the other quad. Partners of different operating systems may do so by fabric handles, if one NVLink
 * domain joins their GPUs. Whether they can is tried: each rank makes exchange buffers with a pattern, and each partner
 * maps them and copies the pattern, by the copy that calls use. If that fails anywhere, no rank of the team uses links.
 *
 * Then the groups of a node may exchange through host memory that they share, a relay, because partners there do not
 * map each other's GPU memory: the driver may not allow that, as between the sockets of a Summit node, or messages lie
 * in host memory anyway. The steps in which ranks of a node make such memory, with a vote of the whole communicator
 * after each, serve setup_groups as well, for scratch in host memory.
 */
#include "ompi_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_lock.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "team/coll_gpuhier_p2p_test.h"
#include "base/coll_gpuhier_compat.h"
#include "plan/coll_gpuhier_hierarchy.h"
#include "opal/util/output.h"

#define PATTERN_BYTES_MAX ((size_t) 32 << 10)

/* Bytes of a pattern: whole words, and no more than a buffer has. */
static size_t pattern_bytes(void)
{
    const size_t most = gpuhier_slice_buffer_bytes(false) / sizeof(uint64_t) * sizeof(uint64_t);
    return most < PATTERN_BYTES_MAX ? most : PATTERN_BYTES_MAX;
}

/* The size of the smallest group that shares its node with another group; 0: none does. This group has the longest
 * shards. Equal on all ranks. */
static int smallest_group(const gpuhier_setup_t *setup)
{
    const gpuhier_hierarchy_t *h = &setup->team->hierarchy;
    int least = 0;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        const int groups[] = {h->group_of[rank], h->group_of[setup->nodes[rank]]}; /* its own, the first of its node */
        for (int i = 0; i < 2 && groups[0] != groups[1]; ++i) {
            const int size = gpuhier_hierarchy_group_size(h, groups[i]);
            least = 0 == least || size < least ? size : least;
        }
    }
    return least;
}

/*
 * What the exchange buffers should lie in, so that partners can map them; HOST: partners cannot map them. Equal on all
 * ranks. Memory with fabric handles is not given to UCX, so it is for teams whose partners can all map it. Where UCX
 * takes memory of cuMemAlloc, that serves for both UCX and links.
 */
static gpuhier_exchange_kind_t kind_wanted(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    const unsigned all = gpuhier_setup_all_can(setup);
    if (0 == (all & GPUHIER_CAN_LINK)) {
        return GPUHIER_EXCHANGE_HOST;
    }
    if (gpuhier_setup_is_one_node(setup)
        || (0 == (all & GPUHIER_CAN_FABRIC) && team->net_all_on_device && 0 != smallest_group(setup))) {
        return GPUHIER_EXCHANGE_DEVICE;
    }
    return 0 != (all & GPUHIER_CAN_FABRIC) ? GPUHIER_EXCHANGE_FABRIC : GPUHIER_EXCHANGE_HOST;
}

bool gpuhier_setup_links_wanted(const gpuhier_setup_t *setup)
{
    return GPUHIER_EXCHANGE_HOST != kind_wanted(setup);
}

/* Does this rank exchange pieces with that rank over a link, if links are of this kind? */
static bool is_linked(const gpuhier_setup_t *setup, gpuhier_exchange_kind_t kind, int rank)
{
    const gpuhier_team_t *team = setup->team;
    return NULL != team->peers[rank]
           && (GPUHIER_EXCHANGE_FABRIC == kind || setup->nodes[rank] == setup->nodes[team->rank]);
}

static int copy(const gpuhier_lane_t *lane, void *to, const void *from)
{
    return gpuhier_stream_copy(lane->stream[GPUHIER_STAGE_EXCHANGE], (CUdeviceptr) (uintptr_t) to,
                               (CUdeviceptr) (uintptr_t) from, pattern_bytes());
}

/* Makes this rank's buffers, with a pattern in them that comes from the nonce of its hello. words: pattern_bytes(). */
static int buffers_offer(gpuhier_setup_t *setup, gpuhier_exchange_kind_t kind, uint64_t *words,
                         gpuhier_setup_link_t *mine)
{
    gpuhier_engine_lock();
    int rc = gpuhier_lane_exchange_use(&setup->lane->exchange, kind, gpuhier_slice_buffer_bytes(false));
    gpuhier_engine_unlock();
    if (OMPI_SUCCESS == rc && !gpuhier_lane_exchange_is_mappable(&setup->lane->exchange)) {
        gpuhier_engine_lock();
        gpuhier_lane_exchange_free(&setup->lane->exchange, kind); /* the next trial makes others */
        gpuhier_engine_unlock();
        rc = OMPI_ERR_NOT_SUPPORTED;
    }
    if (OMPI_SUCCESS == rc && GPUHIER_EXCHANGE_DEVICE == kind && !gpuhier_setup_is_one_node(setup)
        && GPUHIER_FLUSH_IMPOSSIBLE == setup->team->device->flush_for_peers) {
        rc = OMPI_ERR_NOT_SUPPORTED; /* no partner could take what a NIC has written into this rank's buffers */
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_p2p_pattern_write(words, pattern_bytes(), setup->hello[setup->team->rank].nonce);
        mine->ref = setup->lane->exchange.now->ref[0];
        rc = copy(setup->lane, setup->lane->exchange.now->shard[0], words);
    }
    mine->error = (int32_t) gpuhier_cuda_error_of(rc);
    return rc;
}

/* Maps the partner's memory and copies its pattern. Returns CUDA's error, 0 for none. */
static unsigned partner_try(gpuhier_setup_t *setup, int rank, uint64_t *words)
{
    const gpuhier_lane_t *lane = setup->lane;
    gpuhier_mapping_t *mapping = NULL;
    CUdeviceptr address = 0;
    gpuhier_engine_lock();
    int rc = gpuhier_map(&setup->links[rank].ref, true, &mapping, &address);
    gpuhier_engine_unlock();
    rc = OMPI_SUCCESS != rc ? rc : copy(lane, lane->exchange.now->recv[0], (const void *) (uintptr_t) address);
    rc = OMPI_SUCCESS != rc ? rc : copy(lane, words, lane->exchange.now->recv[0]);
    gpuhier_engine_lock();
    gpuhier_unmap(mapping);
    gpuhier_engine_unlock();
    if (OMPI_SUCCESS == rc && !gpuhier_p2p_pattern_matches(words, pattern_bytes(), setup->hello[rank].nonce, 0)) {
        return CUDA_ERROR_UNKNOWN; /* the copy brought something else */
    }
    return gpuhier_cuda_error_of(rc);
}

/* Tries all partners, and notes their processes. Returns the first error. */
static unsigned partners_try(gpuhier_setup_t *setup, gpuhier_exchange_kind_t kind, uint64_t *words)
{
    gpuhier_team_t *team = setup->team;
    unsigned error = 0;
    team->linked = calloc((size_t) team->nranks, sizeof(*team->linked));
    if (NULL == team->linked) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (int rank = 0; rank < team->nranks && 0 == error; ++rank) {
        if (is_linked(setup, kind, rank)) {
            error = partner_try(setup, rank, words);
            team->linked[rank] = setup->links[rank].ref.process;
            if (0 == error && !gpuhier_team_hold(team, team->linked[rank])) {
                error = CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
    }
    return error;
}

/* Lets go of what partners_try() has mapped and held beyond the first nheld processes. */
static void partners_forget(gpuhier_setup_t *setup, int nheld)
{
    gpuhier_team_t *team = setup->team;
    for (int rank = 0; NULL != team->linked && rank < team->nranks; ++rank) {
        if (0 != team->linked[rank]) {
            gpuhier_ipc_unkeep(&setup->links[rank].ref);
        }
    }
    while (team->nheld > nheld) {
        gpuhier_ipc_release(team->held[--team->nheld]);
    }
    free(team->linked);
    team->linked = NULL;
}

#define GOOD INT64_MAX

/* The lowest rank with an error, and the error; GOOD: there is none. */
static int64_t offers_verdict(const gpuhier_setup_t *setup)
{
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        if (0 != setup->links[rank].error || 0 == setup->links[rank].ref.process) {
            return (int64_t) rank << 32 | (uint32_t) setup->links[rank].error;
        }
    }
    return GOOD;
}

/* Tries links. Returns the same verdict on all ranks. If the offers show an error, all ranks leave out the second
 * collective. */
static int64_t links_try(gpuhier_setup_t *setup, gpuhier_exchange_kind_t kind)
{
    gpuhier_setup_link_t mine = {.error = CUDA_ERROR_OUT_OF_MEMORY};
    uint64_t *words = malloc(pattern_bytes());
    int rc = NULL == words ? OMPI_ERR_OUT_OF_RESOURCE : buffers_offer(setup, kind, words, &mine);
    const int64_t broken = (int64_t) setup->team->rank << 32; /* a collective failed, and so does the next vote */
    int64_t verdict = broken, all = 0;
    if (OMPI_SUCCESS == gpuhier_setup_gather(setup, &mine, setup->links, sizeof(mine))) {
        verdict = offers_verdict(setup);
    }
    if (GOOD == verdict) {
        const unsigned error = OMPI_SUCCESS == rc ? partners_try(setup, kind, words) : (unsigned) mine.error;
        verdict = 0 == error ? GOOD : broken | error;
        rc = gpuhier_saved_least(setup->saved, setup->comm, &verdict, &all, MPI_INT64_T);
        verdict = OMPI_SUCCESS == rc ? all : broken;
    }
    free(words);
    return verdict;
}

/* Makes the team use links. From then on UCX carries words only, unless partners on other nodes have no links. */
static void links_take(gpuhier_setup_t *setup, gpuhier_exchange_kind_t kind)
{
    gpuhier_team_t *team = setup->team;
    team->exchange_kind = kind;
    team->limits.host_shard_bytes = 0; /* partners take pieces from GPU memory */
    if (GPUHIER_EXCHANGE_FABRIC == kind || gpuhier_setup_is_one_node(setup)) {
        team->net_on_device = team->net_all_on_device = false;
        team->limits.wire = GPUHIER_WIRE_NVLINK;
    }
}

static void failure_note(gpuhier_setup_t *setup, int64_t verdict)
{
    const unsigned error = (unsigned) (verdict & UINT32_MAX);
    snprintf(setup->no_links, sizeof(setup->no_links), "no memory of other groups is mapped, since rank %d got %s",
             (int) (verdict >> 32), 0 == error ? "no reference" : gpuhier_cuda_name((CUresult) error));
    if (0 == setup->team->rank) {
        opal_output_verbose(1, gpuhier_output(), "coll:gpuhier: communicator %s: %s", setup->comm->c_name,
                            setup->no_links);
    }
}

/* -- host memory that ranks of a node share ------------------------------------------------ */

enum { STEP_CREATE, STEP_ATTACH, STEP_REGISTER, STEP_PROVE, STEPS };

static int step_take(const gpuhier_hostlanes_t *lanes, int step, char *reason)
{
    gpuhier_hostmem_t *hostmem = lanes->hostmem;
    int rc = OMPI_SUCCESS;
    switch (step) {
    case STEP_CREATE:
        return 0 == lanes->index ? gpuhier_hostmem_open(hostmem, lanes->word, true, &lanes->size, reason) : rc;
    case STEP_ATTACH:
        rc = 0 == lanes->index ? rc : gpuhier_hostmem_open(hostmem, lanes->word, false, &lanes->size, reason);
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
            gpuhier_help(lanes->topic, ompi_process_info.nodename, lanes->hostmem->bytes, reason);
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

/* Bytes of a shard in the relay at most, for the reasons of GPUHIER_HOSTMEM_SLICE_BYTES. */
#define RELAY_SHARD_BYTES ((size_t) 512 << 10)

/* Bytes of the longest slice with a relay. */
static size_t slice_most(const gpuhier_setup_t *setup, int least)
{
    const size_t most = RELAY_SHARD_BYTES * (size_t) least;
    return setup->team->limits.slice_bytes < most ? setup->team->limits.slice_bytes : most;
}

/* Makes the team use the relay, which every node with several groups has. */
static void relay_take(gpuhier_setup_t *setup, int least)
{
    gpuhier_team_t *team = setup->team;
    team->has_relay = true;
    for (int rank = 0; rank < team->nranks; ++rank) {
        if (NULL != team->peers[rank] && setup->nodes[rank] == setup->nodes[team->rank]) {
            team->linked[rank] = 1 + (uint64_t) setup->places[rank];
        }
    }
    team->limits.slice_bytes = slice_most(setup, least);
    team->limits.slice_bytes_max = 0;
    team->limits.host_shard_bytes = 0; /* GPUs copy chunks into and out of the relay */
    if (gpuhier_setup_is_one_node(setup)) {
        team->exchange_kind = GPUHIER_EXCHANGE_DEVICE;
        team->net_on_device = team->net_all_on_device = false;
        team->limits.wire = GPUHIER_WIRE_RELAY;
    }
}

/* If links are not used, makes the host memory by which the groups of a node exchange. Succeeds also if no groups share
 * a node, or if there is no such memory. Succeeds on all ranks or on none. */
static int relay_make(gpuhier_setup_t *setup)
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
        .index = setup->places[team->rank],
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

/* -- the step ------------------------------------------------------------------------------ */

int gpuhier_setup_exchange_buffers(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    gpuhier_lane_exchange_t *exchange = &setup->lane->exchange;
    if (team->net_all_on_device && gpuhier_plan_by_host(&team->shape, &team->limits, 1)
        && OMPI_SUCCESS
               != gpuhier_lane_exchange_use(exchange, GPUHIER_EXCHANGE_SHORT, gpuhier_lane_exchange_short_bytes())) {
        team->device->short_refused = true;
    }
    return gpuhier_lane_exchange_use(exchange, team->exchange_kind, gpuhier_slice_buffer_bytes(false));
}

/* Tries links. Returns whether all ranks use them; if not, what was made for them is gone. */
static bool links_make(gpuhier_setup_t *setup, gpuhier_exchange_kind_t kind)
{
    gpuhier_team_t *team = setup->team;
    const bool had = 0 != setup->lane->exchange.of[kind].bytes;
    const int nheld = team->nheld;
    const int64_t verdict = links_try(setup, kind);
    if (GOOD == verdict) {
        links_take(setup, kind);
        return true;
    }
    failure_note(setup, verdict);
    gpuhier_engine_lock();
    partners_forget(setup, nheld);
    if (!had && team->exchange_kind != kind && OMPI_SUCCESS == setup->saved->failure) { /* no partner copies */
        gpuhier_lane_exchange_free(&setup->lane->exchange, kind);
    }
    gpuhier_engine_unlock();
    return false;
}

int gpuhier_setup_links(gpuhier_setup_t *setup)
{
    const gpuhier_exchange_kind_t kind = kind_wanted(setup);
    if (GPUHIER_EXCHANGE_HOST != kind && links_make(setup, kind)) {
        return OMPI_SUCCESS;
    }
    const int rc = relay_make(setup);
    if (OMPI_SUCCESS != rc || (GPUHIER_EXCHANGE_HOST == kind && !setup->team->has_relay)) {
        return rc; /* HOST: setup_net has made the buffers */
    }
    gpuhier_engine_lock();
    const int made = gpuhier_setup_exchange_buffers(setup);
    gpuhier_engine_unlock();
    return gpuhier_setup_vote(setup, OMPI_SUCCESS == made) ? OMPI_SUCCESS
           : OMPI_SUCCESS != made                          ? made
                                                           : OMPI_ERR_NOT_AVAILABLE;
}
