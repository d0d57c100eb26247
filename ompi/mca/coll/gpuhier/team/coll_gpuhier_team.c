/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the life of teams: the list of all, their ids, and the end. Set-up makes them. Called by set-up, path,
 * requests and the module.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_process.h"
#include "team/coll_gpuhier_partners.h"
#include "team/coll_gpuhier_team.h"

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

/* Candidate number i. Multiplication mixes the bits, so that bases near each other share candidates only by chance. */
static uint32_t candidate(uint32_t base, unsigned i)
{
    const uint64_t mixed = ((uint64_t) base + i * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    const uint32_t id = (uint32_t) (mixed >> 32);
    return GPUHIER_NET_TEAM_RESERVED == id ? 0 : id;
}

static bool has_or_may_have(const gpuhier_team_t *team, uint32_t id)
{
    bool may = GPUHIER_ID_CHOSEN == team->id_state && id == team->id;
    for (unsigned i = 0; i < GPUHIER_IDS && !may && GPUHIER_ID_CHOOSING == team->id_state; ++i) {
        may = id == candidate(team->id_base, i);
    }
    return may;
}

uint32_t gpuhier_team_id_claim(gpuhier_team_t *team, uint32_t base)
{
    uint32_t is_free = 0;
    gpuhier_team_t *other;
    for (unsigned i = 0; i < GPUHIER_IDS; ++i) {
        bool taken = false;
        OPAL_LIST_FOREACH (other, &teams, gpuhier_team_t) {
            taken = taken || (other != team && has_or_may_have(other, candidate(base, i)));
        }
        is_free |= (uint32_t) !taken << i;
    }
    team->id_base = base;
    team->id_state = GPUHIER_ID_CHOOSING;
    return is_free;
}

bool gpuhier_team_id_choose(gpuhier_team_t *team, uint32_t free_on_all)
{
    if (0 == free_on_all) {
        team->id_state = GPUHIER_ID_NONE;
        return false;
    }
    team->id = candidate(team->id_base, (unsigned) __builtin_ctz(free_on_all));
    team->id_state = GPUHIER_ID_CHOSEN;
    return true;
}

void gpuhier_team_release(gpuhier_team_t *team)
{
    gpuhier_team_engine->release(team);
    gpuhier_partners_leave(team, false);
    for (int rank = 0; NULL != team->peers && rank < team->nranks; ++rank) {
        gpuhier_net_peer_destroy(team->peers[rank], false);
        team->peers[rank] = NULL;
    }
    gpuhier_multicast_close(&team->multicast);
    gpuhier_hostmem_t *const shared[] = {&team->hostmem, &team->relay};
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); ++i) {
        if (NULL != shared[i]->memory) {
            gpuhier_hostmem_close(shared[i], gpuhier_device_check(team->device) ? team->device->context : NULL);
        }
    }
}

gpuhier_team_t *gpuhier_teams_next(const gpuhier_team_t *team)
{
    if (!listed) {
        return NULL;
    }
    opal_list_item_t *next = NULL == team ? opal_list_get_first(&teams) : opal_list_get_next(&team->super);
    return opal_list_get_end(&teams) == next ? NULL : (gpuhier_team_t *) next;
}

void gpuhier_team_outlived(gpuhier_team_t *team)
{
    gpuhier_cuda_scope_t scope;
    const bool entered = OMPI_SUCCESS == gpuhier_cuda_enter(team->device->context, &scope);
    for (int i = 0; i < 2 * team->group_size; ++i) {
        const gpuhier_memref_t *ref = i % 2 == 0 ? &team->scratch[i / 2] : &team->long_scratch[i / 2];
        if (entered || GPUHIER_SHARED_IPC != ref->shared) { /* else its mapping has gone with this rank's own context */
            gpuhier_ipc_unkeep(ref);
        }
    }
    const bool maps = NULL != team->linked && !team->has_relay;
    for (int rank = 0; maps && rank < team->nranks; ++rank) {
        if (0 != team->linked[rank]) {
            gpuhier_ipc_unkeep_all(team->linked[rank]); /* its exchange buffers */
        }
    }
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
}

bool gpuhier_team_hold(gpuhier_team_t *team, uint64_t process)
{
    uint64_t *held = realloc(team->held, sizeof(*held) * (size_t) (team->nheld + 1));
    if (NULL == held) {
        return false;
    }
    team->held = held;
    held[team->nheld++] = process;
    gpuhier_engine_lock();
    gpuhier_ipc_hold(process);
    gpuhier_engine_unlock();
    return true;
}

bool gpuhier_team_check(gpuhier_team_t *team)
{
    const bool good =
        team->net_on_device ? gpuhier_process_net_on_device(team->way) : gpuhier_device_check(team->device);
    if (!good && OMPI_SUCCESS == team->context_lost) {
        team->context_lost = OMPI_ERR_NOT_AVAILABLE;
    }
    return OMPI_SUCCESS == team->context_lost;
}

void gpuhier_team_destroy(gpuhier_team_t *team)
{
    if (NULL == team) {
        return;
    }
    gpuhier_team_release(team);
    opal_list_remove_item(&teams, &team->super);
    for (int i = 0; i < team->nheld; ++i) {
        gpuhier_ipc_release(team->held[i]);
    }
    gpuhier_segment_detach(&team->segment);
    gpuhier_shape_fini(&team->shape);
    gpuhier_hierarchy_fini(&team->hierarchy);
    free(team->peers);
    free(team->node_index);
    free(team->members);
    free(team->rails);
    free(team->scratch);
    free(team->scratch_found);
    free(team->long_scratch);
    free(team->held);
    free(team->linked);
    OBJ_RELEASE(team);
}

const char *gpuhier_team_between(const gpuhier_team_t *team)
{
    const char *copied = gpuhier_wires[team->limits.wire].copied;
    return 1 == team->ngroups             ? "nothing"
           : NULL != copied               ? copied
           : GPUHIER_WAY_MPI == team->way ? "pinned host memory over Open MPI's own messages"
           : team->net_on_device          ? "GPU memory over UCX"
                                          : "pinned host memory over UCX";
}

const char *gpuhier_team_between_on_node(const gpuhier_team_t *team)
{
    return NULL == team->linked || NULL != gpuhier_wires[team->limits.wire].copied
               ? NULL
               : gpuhier_wires[team->has_relay ? GPUHIER_WIRE_RELAY : GPUHIER_WIRE_NVLINK].copied;
}

bool gpuhier_team_member_lives(const gpuhier_team_t *team, int index)
{
    return gpuhier_record_process_lives(&team->members[team->index], &team->members[index])
           && gpuhier_segment_lives(&team->segment, team->node_index[index]);
}

int gpuhier_team_find_dead(const gpuhier_team_t *team)
{
    for (int i = 0; i < team->group_size; ++i) {
        if (i != team->index && !gpuhier_team_member_lives(team, i)) {
            return gpuhier_hierarchy_member(&team->hierarchy, team->group, i);
        }
    }
    return -1;
}
