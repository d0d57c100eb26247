/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the steps in which the members of all groups make their multicast memory and try it; a vote of the whole
 * communicator follows each, and after a failure anywhere all ranks let go of it. Does not own the memory itself
 * (gpu/multicast). Called by coll, behind a probe to which all ranks have said that they are ready.
 *
 * The trial does what calls do. Each member fills the beginning of its copy with words that come from its place and the
 * random word of the control block. Each member then lets the switch add one part of these words, and store the sums
 * into all copies. At the end each member must find the right sums for all parts in its own copy.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_fd_passing.h"
#include "team/coll_gpuhier_p2p_test.h"
#include "team/coll_gpuhier_team.h"
#include "opal/util/output.h"

#define TRIAL_PART_BYTES ((size_t) 4096) /* of each member */

bool gpuhier_switch_suits(const gpuhier_team_t *team, int kernel, uint64_t bytes)
{
    return GPUHIER_SWITCH_NONE != team->switch_state && bytes >= team->switch_from
           && gpuhier_multicast_can(kernel, !gpuhier_params.reproducible);
}

/* Random, and known to the ranks of this node. */
static uint64_t word_of_team(const gpuhier_team_t *team)
{
    return team->segment.header->word;
}

static uint64_t trial_word(const gpuhier_team_t *team, int index, size_t place)
{
    return gpuhier_p2p_word(word_of_team(team) + (uint64_t) index, place);
}

static size_t copy_bytes(const gpuhier_team_t *team)
{
    return gpuhier_switch_place(team, team->switch_buffers);
}

/* The leader makes the object. */
static int create_step(gpuhier_team_t *team)
{
    uint64_t to[GPUHIER_GROUP_MAX];
    if (0 != team->index) {
        return OMPI_SUCCESS;
    }
    for (int i = 1; i < team->group_size; ++i) {
        to[i - 1] = team->scratch[i].process;
    }
    return gpuhier_multicast_create(&team->multicast, team->device->ordinal, team->group_size, copy_bytes(team),
                                    word_of_team(team), to);
}

static int map_step(gpuhier_team_t *team, CUstream stream, uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        words[i] = trial_word(team, team->index, i);
    }
    int rc = gpuhier_multicast_map(&team->multicast);
    return OMPI_SUCCESS != rc
               ? rc
               : gpuhier_stream_copy(stream, team->multicast.own, (CUdeviceptr) (uintptr_t) words, n * sizeof(*words));
}

static int try_step(const gpuhier_team_t *team, CUstream stream)
{
    const uint64_t at = team->multicast.all + (uint64_t) team->index * TRIAL_PART_BYTES;
    const gpuhier_multicast_args_t args = {.from = at, .to = at, .bytes = TRIAL_PART_BYTES, .to_all = 1};
    int rc = gpuhier_multicast_launch(&team->device->multicast, GPUHIER_REDUCE_sum_uint64, &args, stream);
    return OMPI_SUCCESS != rc ? rc : gpuhier_stream_await(stream);
}

static int check_step(const gpuhier_team_t *team, CUstream stream, uint64_t *words, size_t n)
{
    int rc = gpuhier_stream_copy(stream, (CUdeviceptr) (uintptr_t) words, team->multicast.own, n * sizeof(*words));
    for (size_t i = 0; i < n && OMPI_SUCCESS == rc; ++i) {
        uint64_t sum = 0;
        for (int member = 0; member < team->group_size; ++member) {
            sum += trial_word(team, member, i);
        }
        rc = sum == words[i] ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
    }
    return rc;
}

enum { STEP_PREPARE, STEP_CREATE, STEP_JOIN, STEP_MAP, STEP_TRY, STEP_CHECK, STEPS };
static const char *const step_names[STEPS] = {
    "opening a socket",     "making a multicast object", "joining it",
    "making memory for it", "a reduction in the switch", "the result of a reduction in the switch"};

/* The engine's lock is held. */
static int step_take(gpuhier_team_t *team, int step, CUstream stream, uint64_t *words)
{
    const size_t n = (size_t) team->group_size * TRIAL_PART_BYTES / sizeof(*words);
    gpuhier_cuda_scope_t scope;
    int rc = gpuhier_cuda_enter(team->device->context, &scope);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    switch (step) {
    case STEP_PREPARE:
        /* Each member opens a socket for what the leader will send. */
        rc = gpuhier_fd_passing_open(gpuhier_process_word()) ? OMPI_SUCCESS : OMPI_ERR_UNREACH;
        break;
    case STEP_CREATE:
        rc = create_step(team);
        break;
    case STEP_JOIN:
        if (0 != team->index) {
            rc = gpuhier_multicast_receive(&team->multicast, team->device->ordinal, team->group_size, copy_bytes(team),
                                           word_of_team(team), team->scratch[0].process);
        }
        rc = OMPI_SUCCESS != rc ? rc : gpuhier_multicast_join(&team->multicast);
        break;
    case STEP_MAP:
        rc = map_step(team, stream, words, n);
        break;
    case STEP_TRY:
        rc = try_step(team, stream);
        break;
    default:
        rc = check_step(team, stream, words, n);
        break;
    }
    gpuhier_cuda_leave(&scope);
    return rc;
}

/* Closes a descriptor that has come for a member and is not used, since it would keep the object alive. */
static void descriptor_drop(const gpuhier_team_t *team)
{
    const gpuhier_fd_key_t fd_key = {.process = team->scratch[0].process, .id = word_of_team(team)};
    const int file = 0 == team->index ? -1 : gpuhier_fd_take(&fd_key, gpuhier_process_word());
    if (file >= 0) {
        close(file);
    }
}

/* All steps and their votes. A rank that lacks what it needs still votes. */
static bool steps_take(gpuhier_team_t *team, gpuhier_saved_t *saved, CUstream stream, uint64_t *words)
{
    bool ok = true;
    for (int step = STEP_PREPARE; step < STEPS && ok; ++step) {
        gpuhier_engine_lock();
        int rc = NULL == words || NULL == stream ? OMPI_ERR_OUT_OF_RESOURCE : step_take(team, step, stream, words);
        gpuhier_engine_unlock();
        ok = gpuhier_saved_vote(saved, team->comm, OMPI_SUCCESS == rc);
        if (OMPI_SUCCESS != rc) {
            opal_output_verbose(1, gpuhier_output(),
                                "coll:gpuhier: communicator %s goes on without the NVSwitch: %s "
                                "failed on rank %d (%d)",
                                team->comm->c_name, step_names[step], team->rank, rc);
        }
    }
    return ok;
}

void gpuhier_switch_make(gpuhier_team_t *team, gpuhier_saved_t *saved)
{
    gpuhier_lane_t *lane = NULL;
    if (GPUHIER_SWITCH_UNTRIED != team->switch_state) {
        return;
    }
    uint64_t *words = malloc((size_t) team->group_size * TRIAL_PART_BYTES);
    gpuhier_engine_lock();
    gpuhier_cuda_scope_t scope;
    if (OMPI_SUCCESS == gpuhier_cuda_enter(team->device->context, &scope)) {
        (void) gpuhier_lane_take(team->device, GPUHIER_LANE_SLICES, false, GPUHIER_EXCHANGE_HOST, 0, &lane);
        gpuhier_cuda_leave(&scope);
    }
    gpuhier_engine_unlock();
    const bool ok = steps_take(team, saved, NULL == lane ? NULL : lane->stream[GPUHIER_STAGE_RS], words);
    free(words);
    gpuhier_engine_lock();
    team->switch_state = ok ? GPUHIER_SWITCH_READY : GPUHIER_SWITCH_NONE;
    if (!ok) {
        descriptor_drop(team);
        (OMPI_SUCCESS == saved->failure ? gpuhier_multicast_close : gpuhier_multicast_leave)(&team->multicast);
    }
    if (NULL != lane) {
        gpuhier_lane_give(lane);
    }
    gpuhier_engine_unlock();
    if (gpuhier_params.print_info && 0 == team->rank) {
        opal_output(0, "coll:gpuhier: communicator %s: %s", team->comm->c_name,
                    ok ? "NVSwitches reduce what they can" : "no memory for reductions in NVSwitches");
    }
}
