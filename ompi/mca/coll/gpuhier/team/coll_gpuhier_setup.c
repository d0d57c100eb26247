/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order of a set-up's steps, the first of them (hello: every rank tells all others what it is), the memory of
 * a set-up, beginning anew, and what set-up says of a new team. The other steps are in the files that
 * coll_gpuhier_setup_internal.h lists. All members take the same steps, each a collective of the saved components. A
 * member whose own part fails goes on to the step's vote and says so there; then the whole communicator gives up
 * together. Where a collective itself fails, the set-up ends on this rank, and so does the program's call, with an
 * error.
 *
 *   hello        kernels and scratch are there; what every rank is:    allgather
 *                process, node, GPU, scratch; or a failure
 *   node         ranks of a node pass each other descriptors of
 *                scratch; the lowest one makes the control block;
 *                kernels read and write every neighbour's scratch; it  vote
 *                is only mapped if they have done so before
 *                attach the control block; look for what neighbours
 *                have written here; what can be mapped and trusted,    allgather
 *                or a failure
 *   groups       cliques of those answers (hierarchy, shape). If there are several: ids that no other team of this rank
 *                has, the length of its UCX address; or a failure      allgather
 *   host_lanes   scratch in host memory for nodes where a rank can     a vote after each of four steps, if there is
 *                map no other                                          such a node
 *   net_connect  if there are several groups: addresses                vote, allgather, vote
 *                a word with each partner: UCX connects                vote
 *   links        where partners may be able to map each other's
 *                memory: each makes some, with a pattern               allgather
 *                all look for their partners' patterns                 vote, and one more if that failed
 *                without links, where groups share a node: host        a vote, one after each of up to four steps, and
 *                memory by which these groups exchange                 one for the exchange buffers
 *
 * If UCX cannot open the network devices of a rank, or connect them, all ranks begin anew with the next way between
 * groups (gpuhier_way_t): with interfaces only if there are RDMA ports among all ranks' devices, else with Open MPI's
 * own messages. They do so as well when the hellos show that some ranks have had to fall back to another way before,
 * and when a rank could not map a neighbour's scratch by a descriptor: then they make scratch for CUDA IPC.
 *
 * The memory for the first steps is there before a rank says that it can take part, so they need no vote of their own.
 *
 * The engine's lock is held during local steps only, never during a collective:
 * two threads may set up teams at once, in another order on another rank.
 *
 * Called by the path that a collective takes to the engine.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_fd_passing.h"
#include "team/coll_gpuhier_p2p_test.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "plan/coll_gpuhier_choice.h"
#include "opal/util/output.h"

/* What this rank's hello says that it can do. */
static uint16_t can_do(gpuhier_device_t *device, bool is_confidential)
{
    unsigned can = 0;
    if (GPUHIER_NET_STAGED != gpuhier_params.net) {
        const int fabric = gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device->ordinal);
        can |= GPUHIER_CAN_LINK | (0 != fabric ? GPUHIER_CAN_FABRIC : 0);
    }
    can |= device->host_maps ? GPUHIER_CAN_HOST_MAP : 0;
    can |= device->kernels_may_wait && !is_confidential ? GPUHIER_CAN_WAIT : 0;
    /* Before any kernel waits for a peer, see gpuhier_cuda_kernel(). */
    const bool multicast = gpuhier_multicast_is_possible(device->ordinal)
                           && OMPI_SUCCESS == gpuhier_multicast_kernels_open(&device->multicast);
    return (uint16_t) (can | (multicast ? GPUHIER_CAN_MULTICAST : 0));
}

/* Fills in this rank's hello. Returns an Open MPI code. After an error the hello is all zero, which is not valid. */
static int hello_fill(gpuhier_setup_t *setup, const gpuhier_buffer_t *buffer, gpuhier_setup_hello_t *mine)
{
    gpuhier_team_t *team = setup->team;
    memset(mine, 0, sizeof(*mine));
    gpuhier_engine_lock();
    int rc = gpuhier_device_get(buffer->context, &team->device);
    if (OMPI_SUCCESS == rc) {
        gpuhier_device_trim(team->device); /* unused scratch, too: few calls of the small form trim */
        /* Peers send descriptors when they know this rank's word. Without a socket for them none can come. */
        team->by_ipc =
            team->by_ipc || gpuhier_setup_files_given_up() || !gpuhier_fd_passing_open(gpuhier_process_word());
        rc = gpuhier_lane_take(team->device, GPUHIER_LANE_SLICES, team->by_ipc, GPUHIER_EXCHANGE_HOST, 0, &setup->lane);
    }
    if (OMPI_SUCCESS == rc) {
        if (setup->lane->ref.shared >= GPUHIER_SHARED_NONE) {
            gpuhier_export_scratch(setup->lane->scratch, setup->lane->ref.bytes, &setup->lane->ref);
        }
        mine->scratch = setup->lane->ref;
        rc = gpuhier_setup_net_record(team, &mine->record);
        mine->way = (uint8_t) team->way;
        mine->asked = (uint8_t) gpuhier_process_way();
        mine->can = can_do(team->device, 0 != mine->record.is_confidential);
    }
    gpuhier_engine_unlock();
    if (sizeof(mine->segment_word) != getrandom(&mine->segment_word, sizeof(mine->segment_word), 0)
        || sizeof(mine->team_id) != getrandom(&mine->team_id, sizeof(mine->team_id), 0)
        || sizeof(mine->nonce) != getrandom(&mine->nonce, sizeof(mine->nonce), 0)) {
        rc = OMPI_SUCCESS != rc ? rc : OMPI_ERROR;
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_p2p_test_prepare(setup->lane, mine->nonce);
    if (OMPI_SUCCESS != rc) {
        memset(mine, 0, sizeof(*mine));
    }
    return rc;
}

/* The hello of a rank that failed is not valid, and ends the set-up. */
static int hello(gpuhier_setup_t *setup, const gpuhier_buffer_t *buffer, int rc)
{
    gpuhier_setup_hello_t mine = {0};
    rc = OMPI_SUCCESS != rc ? rc : hello_fill(setup, buffer, &mine);
    const int gathered = gpuhier_setup_gather(setup, &mine, setup->hello, sizeof(mine));
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        setup->records[rank] = setup->hello[rank].record;
    }
    rc = OMPI_SUCCESS != rc ? rc : gathered;
    return OMPI_SUCCESS != rc ? rc : gpuhier_setup_net_ways(setup);
}

/* -- what is said of a new team: the lines of print_info, and warnings ---------------------- */

/* The levels of a group in words; "": it has none. */
static const char *levels_text(const gpuhier_setup_t *setup, int group, char *text, size_t room)
{
    gpuhier_parts_t parts;
    text[0] = '\0';
    return gpuhier_levels_find(&setup->team->hierarchy, group, setup->records, &parts)
               ? gpuhier_levels_text(&parts, text, room)
               : text;
}

/* A line for each run of groups with the same levels. */
static void levels_print(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    char text[128], next[128], where[48] = "";
    for (int first = 0, end; 0 != team->levels.min_bytes && first < team->ngroups; first = end) {
        levels_text(setup, first, text, sizeof(text));
        end = first + 1;
        while (end < team->ngroups && 0 == strcmp(text, levels_text(setup, end, next, sizeof(next)))) {
            ++end;
        }
        if (end - first > 1) {
            snprintf(where, sizeof(where), "groups %d to %d ", first, end - 1);
        } else if (team->ngroups > 1) {
            snprintf(where, sizeof(where), "group %d ", first);
        }
        if ('\0' != text[0]) {
            opal_output(0, "coll:gpuhier:   %sfrom %llu bytes: %s", where, (unsigned long long) team->levels.min_bytes,
                        text);
        }
    }
}

/* Why messages between groups pass through host memory, or do not. */
static const char *gpu_text(const gpuhier_setup_t *setup, char *text, size_t room)
{
    const char *remedy = gpuhier_net_gpu_remedy(setup->gpu);
    snprintf(text, room, "on rank %d %s%s%s", setup->gpu_rank, gpuhier_net_gpu_reason(setup->gpu),
             '\0' == remedy[0] ? "" : "; ", remedy);
    return text;
}

/* Rank 0 prints a finished team, if print_info is set. */
static void team_print(const gpuhier_setup_t *setup)
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
                (unsigned long long) gpuhier_choice_longest(&team->shape, &team->limits), gpuhier_team_between(team));
    if ('\0' != setup->no_links[0]) {
        opal_output(0, "coll:gpuhier:   %s", setup->no_links);
    }
    if (NULL != gpuhier_team_between_on_node(team)) {
        opal_output(0, "coll:gpuhier:   between groups of one node %s", gpuhier_team_between_on_node(team));
    }
    if (team->ngroups > 1 && NULL == gpuhier_wires[team->limits.wire].copied && GPUHIER_NET_GPU_YES != setup->gpu) {
        char reason[320];
        opal_output(0, "coll:gpuhier:   %sGPU memory for UCX, since %s", team->net_on_device ? "" : "no ",
                    gpu_text(setup, reason, sizeof(reason)));
    }
    for (int group = 0; group < team->ngroups; ++group) {
        for (int i = 0; i < gpuhier_hierarchy_group_size(&team->hierarchy, group); ++i) {
            int rank = gpuhier_hierarchy_member(&team->hierarchy, group, i);
            opal_output(0, "coll:gpuhier:   group %d index %d: rank %d, pid %d, gpu %d", group, i, rank,
                        (int) setup->records[rank].pid, (int) setup->records[rank].gpu_ordinal);
        }
    }
    if (GPUHIER_SWITCH_NONE != team->switch_state) {
        opal_output(0, "coll:gpuhier:   from %llu bytes: %s may be reduced in NVSwitches",
                    (unsigned long long) team->switch_from,
                    gpuhier_params.reproducible ? "sums, extremes and bits of integers"
                                                : "sums, and extremes and bits of integers,");
    }
    levels_print(setup);
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    const gpuhier_facts_t facts = gpuhier_team_facts(team);
    const int nrows =
        gpuhier_choice_table(&team->shape, &team->limits, &facts, &gpuhier_collectives[GPUHIER_ALLREDUCE], rows);
    for (int i = 0; i < nrows; ++i) {
        char text[GPUHIER_CHOICE_TEXT_MAX];
        opal_output(0, "coll:gpuhier:   %s", gpuhier_choice_text(&rows[i], text, sizeof(text)));
    }
}

/*
 * Rank 0 of a new team warns, once a process, about choices that are far below what the machine could do: messages over
 * RDMA ports pass through host memory, or few rails serve many ranks. Set-up itself warns about a node without
 * mappings, and coll_gpuhier_fallback.c about staging.
 */
static void team_warn(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    static atomic_flag told_bounced = ATOMIC_FLAG_INIT, told_few = ATOMIC_FLAG_INIT;
    gpuhier_rails_use_t use;
    if (0 != team->rank || team->ngroups < 2 || NULL != gpuhier_wires[team->limits.wire].copied) {
        return;
    }
    if (GPUHIER_WIRE_RDMA == team->limits.wire && GPUHIER_NET_AUTO == gpuhier_params.net && !team->net_on_device
        && !atomic_flag_test_and_set(&told_bounced)) {
        char reason[320];
        gpuhier_help("no GPUDirect", ompi_process_info.nodename, gpu_text(setup, reason, sizeof(reason)));
    }
    if (gpuhier_rails_are_few(&team->shape, setup->records, team->rails, setup->widest, &use)
        && !atomic_flag_test_and_set(&told_few)) {
        char reason[128] = "the GPUs of a node are in several groups, which share the rails of the largest one";
        if (use.fewest < use.there) {
            snprintf(reason, sizeof(reason), "rank %d has %d of them, and all ranks use the same number",
                     use.fewest_rank, use.fewest);
        }
        gpuhier_help("few rails", ompi_process_info.nodename, use.driven, use.there, setup->widest, reason);
    }
}

/* -- the steps ----------------------------------------------------------------------------- */

/* Takes the voted steps. entered: OMPI_SUCCESS if the context is current, else a code; this rank then only votes. */
static int steps_run(gpuhier_setup_t *setup, const gpuhier_buffer_t *buffer, int entered)
{
    gpuhier_team_t *team = setup->team;
    int rc = hello(setup, buffer, entered);
    rc = gpuhier_setup_node(setup, rc);
    rc = gpuhier_setup_groups(setup, rc);
    rc = OMPI_SUCCESS == rc && setup->has_host ? gpuhier_setup_host_lanes(setup) : rc;
    rc = OMPI_SUCCESS == rc && team->ngroups > 1 ? gpuhier_setup_net_connect(setup) : rc;
    rc = OMPI_SUCCESS == rc && team->ngroups > 1 ? gpuhier_setup_links(setup) : rc;
    if (OMPI_SUCCESS == rc) {
        gpuhier_setup_switches(setup);
        team_print(setup);
        team_warn(setup);
    }
    return rc;
}

static int run(gpuhier_setup_t *setup, const gpuhier_buffer_t *buffer)
{
    gpuhier_cuda_scope_t scope;
    int rc = gpuhier_end_arm();
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_enter(buffer->context, &scope);
    bool entered = OMPI_SUCCESS == rc;
    rc = steps_run(setup, buffer, rc);
    const int failure = setup->saved->failure;
    gpuhier_engine_lock();
    if (NULL != setup->lane && OMPI_SUCCESS == failure) {
        gpuhier_lane_give(setup->lane);
    } else if (NULL != setup->lane) {
        setup->lane->peers_work = true; /* no vote says that their tests have ended */
        gpuhier_lane_keep(setup->lane);
    }
    gpuhier_engine_unlock();
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    return OMPI_SUCCESS != failure ? failure : rc;
}

gpuhier_setup_t *gpuhier_setup_prepare(struct ompi_communicator_t *comm, bool joins_all)
{
    const size_t n = (size_t) ompi_comm_size(comm);
    gpuhier_setup_t *setup = calloc(1, sizeof(*setup));
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
    setup->links = malloc(sizeof(*setup->links) * n);
    if (NULL == setup->team || NULL == setup->hello || NULL == setup->records || NULL == setup->words
        || NULL == setup->links) {
        gpuhier_setup_drop(setup);
        return NULL;
    }
    setup->team->comm = comm;
    setup->team->joins_all = joins_all;
    setup->team->rank = ompi_comm_rank(comm);
    setup->team->nranks = (int) n;
    setup->team->limits = (gpuhier_limits_t){gpuhier_params.slice_bytes,
                                             gpuhier_params.slices_in_flight,
                                             (gpuhier_algorithm_t) gpuhier_params.algorithm,
                                             GPUHIER_WIRE_TCP /* set-up replaces it */,
                                             gpuhier_params.slice_bytes_max,
                                             0 /* the same */};
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
    free(setup->p2p.cells);
    free(setup->neighbours);
    free(setup->is_host);
    free(setup->partners);
    free(setup->address);
    free(setup->links);
    free(setup);
}

/* A set-up with the next way in place of one that failed; NULL on all ranks if any rank has no memory for it. */
static gpuhier_setup_t *begin_anew(gpuhier_setup_t *failed)
{
    gpuhier_setup_t *setup = gpuhier_setup_prepare(failed->comm, failed->team->joins_all);
    const bool all = gpuhier_setup_vote(failed, NULL != setup);
    if (all) {
        setup->saved = failed->saved;
        setup->team->way = failed->next_way;
        setup->team->by_ipc = failed->team->by_ipc || failed->is_to_use_ipc;
    } else {
        gpuhier_setup_drop(setup);
        setup = NULL;
    }
    gpuhier_setup_drop(failed);
    return setup;
}

int gpuhier_team_create(gpuhier_setup_t *setup, gpuhier_saved_t *saved, const gpuhier_buffer_t *buffer,
                        gpuhier_team_t **team_p)
{
    setup->saved = saved;
    setup->team->way = gpuhier_process_way();
    int rc = run(setup, buffer);
    while (OMPI_SUCCESS != rc && NULL != setup && setup->is_to_fall) {
        opal_output_verbose(1, gpuhier_output(), "coll:gpuhier: set-up of communicator %s begins anew without %s (%d)",
                            setup->comm->c_name,
                            setup->is_to_use_ipc                 ? "descriptors of GPU memory"
                            : GPUHIER_WAY_TCP == setup->next_way ? "RDMA ports"
                                                                 : "UCX",
                            rc);
        setup = begin_anew(setup);
        rc = NULL == setup ? OMPI_ERR_OUT_OF_RESOURCE : run(setup, buffer);
    }
    if (NULL == setup) {
        return rc;
    }
    if (OMPI_SUCCESS == rc) {
        *team_p = setup->team;
        setup->team = NULL;
    } else if (OMPI_SUCCESS == saved->failure) {
        opal_output_verbose(
            1, gpuhier_output(),
            "coll:gpuhier: set-up of communicator %s failed here or on another rank (%d): Open MPI's own "
            "collectives serve it",
            setup->comm->c_name, rc);
    }
    gpuhier_setup_drop(setup);
    return rc;
}
