/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the steps of set-up among the ranks of one node: which ranks these are, the control block that they share, and
 * the test of what each can map (p2p_test). When the steps have ended, the table has the outcome on all nodes.
 *
 * Also owns the exchange of descriptors of scratch among these ranks, and the decision to do without. Does not own the
 * socket by which they come (gpu/fd_passing), nor the memory (gpu/device).
 *
 * Each rank knows from the hellos whose memory comes by a descriptor, and sends its own to all neighbours at every
 * set-up: a neighbour may have closed what it had mapped. A rank that cannot reach a neighbour's socket is in another
 * network namespace, so that nothing comes from there either. All others have just left the gather of the hellos, and
 * so the wait is short. It ends when a neighbour has died, and after WAIT_SECONDS in any case.
 *
 * If descriptors fail, CUDA IPC may still do: it asks for other rights, and other parts of the driver. A process whose
 * set-ups have failed so FAILURES_MAX times in a row does not try descriptors again.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "team/coll_gpuhier_p2p_test.h"
#include "base/coll_gpuhier_clock.h"
#include "gpu/coll_gpuhier_fd_passing.h"

/* -- descriptors of scratch ---------------------------------------------------------------- */

#define WAIT_SECONDS 10.0
#define ROUND_MS 1     /* at most, between two attempts: a neighbour's socket may have been full */
#define LOOK_ROUNDS 20 /* from one look whether the neighbours live to the next */
#define FAILURES_MAX 3

static _Atomic int failures; /* of set-ups in a row */

bool gpuhier_setup_files_given_up(void)
{
    return failures >= FAILURES_MAX;
}

/* One attempt. Returns whether nothing is left. file: of this rank's scratch; -1: it has none. The engine's
 * lock is held. */
static bool attempt(const gpuhier_setup_t *setup, int file)
{
    const gpuhier_memref_t *mine = &setup->hello[setup->team->rank].scratch;
    const gpuhier_fd_key_t fd_key = {mine->process, mine->base, mine->id};
    bool all = true;
    for (int k = 0; k < setup->nlocal; ++k) {
        gpuhier_neighbour_t *todo = &setup->neighbours[k];
        const gpuhier_memref_t *theirs = &todo->scratch;
        if (todo->send) {
            const int rc = gpuhier_fd_send(&fd_key, file, theirs->process);
            todo->send = OMPI_ERR_RESOURCE_BUSY == rc;
            todo->receive = todo->receive && OMPI_ERR_UNREACH != rc;
        }
        if (todo->receive) {
            const int rc = gpuhier_map_received(theirs);
            todo->receive = OMPI_ERR_NOT_FOUND == rc;
            todo->send = todo->send && OMPI_ERR_NOT_AVAILABLE != rc; /* it gives none, and may take none */
            /* What the P2P test finds: CUDA's error, or that the neighbour could give no descriptor. */
            todo->error = OMPI_ERR_NOT_FOUND == rc       ? 0
                          : OMPI_ERR_NOT_AVAILABLE == rc ? GPUHIER_NO_DESCRIPTOR
                                                         : gpuhier_cuda_error_of(rc);
        }
        all = all && !todo->send && !todo->receive;
    }
    return all;
}

static bool all_live(const gpuhier_setup_t *setup)
{
    bool all = true;
    for (int k = 0; k < setup->nlocal && all; ++k) {
        all = gpuhier_record_process_lives(&setup->records[setup->team->rank], &setup->records[setup->local[k]]);
    }
    return all;
}

/* On a rank that has failed since the hellos: tells the neighbours, or they would wait for a descriptor. */
static void files_refuse(const gpuhier_setup_t *setup)
{
    const gpuhier_memref_t *mine = &setup->hello[setup->team->rank].scratch;
    const gpuhier_fd_key_t fd_key = {mine->process, mine->base, mine->id};
    gpuhier_engine_lock();
    const bool has_socket = gpuhier_fd_passing_open(gpuhier_process_word());
    for (int rank = 0; rank < setup->team->nranks && has_socket; ++rank) {
        const gpuhier_memref_t *theirs = &setup->hello[rank].scratch;
        const gpuhier_fd_key_t their_key = {theirs->process, theirs->base, theirs->id};
        const int file = gpuhier_fd_take(&their_key, gpuhier_process_word()); /* or the socket would fill */
        if (file >= 0) {
            close(file);
        }
        if (GPUHIER_SHARED_FILE == mine->shared && rank != setup->team->rank) {
            (void) gpuhier_fd_send(&fd_key, -1, theirs->process);
        }
    }
    gpuhier_engine_unlock();
}

/* Sends the neighbours descriptors of this rank's scratch, and maps theirs. What could not be mapped shows in the P2P
 * test. */
static void files_exchange(const gpuhier_setup_t *setup)
{
    const int me = setup->places[setup->team->rank];
    const gpuhier_memref_t *mine = &setup->neighbours[me].scratch;
    gpuhier_engine_lock();
    const bool has_socket = gpuhier_fd_passing_open(gpuhier_process_word());
    const bool gives = GPUHIER_SHARED_FILE == mine->shared;
    const int file = gives && setup->nlocal > 1 ? gpuhier_vmm_file_make(mine->base) : -1;
    gpuhier_engine_unlock();
    for (int k = 0; k < setup->nlocal; ++k) {
        gpuhier_neighbour_t *todo = &setup->neighbours[k];
        todo->receive = k != me && has_socket && GPUHIER_SHARED_FILE == todo->scratch.shared;
        todo->send = k != me && has_socket && (gives || todo->receive); /* which shows whether there is a way */
    }
    const double until = gpuhier_clock() + WAIT_SECONDS;
    bool done = false;
    for (int round = 1; !done; ++round) {
        gpuhier_engine_lock();
        done = attempt(setup, file);
        gpuhier_engine_unlock();
        if (!done) {
            gpuhier_fd_passing_wait(ROUND_MS);
            done = 0 == round % LOOK_ROUNDS && (gpuhier_clock() > until || !all_live(setup));
        }
    }
    if (file >= 0) {
        close(file);
    }
}

/* Has this rank of the node failed to map a descriptor's memory? GPUs that do not reach each other fail by CUDA IPC,
 * too. */
static bool has_failed(const gpuhier_setup_t *setup, int rank)
{
    bool failed = false;
    for (int other = 0; other < setup->team->nranks && !failed; ++other) {
        if (setup->nodes[rank] == setup->nodes[other] && GPUHIER_SHARED_FILE == setup->hello[other].scratch.shared) {
            const unsigned error = gpuhier_p2p_pair_error(&setup->p2p, rank, other);
            failed = 0 != error && CUDA_ERROR_PEER_ACCESS_UNSUPPORTED != error;
        }
    }
    return failed;
}

/* When `p2p` is complete: has a rank failed to map memory by a descriptor, where CUDA IPC may do? Then all ranks begin
 * anew, with other scratch. The same on all ranks. */
static bool files_failed(gpuhier_setup_t *setup)
{
    for (int rank = 0; rank < setup->team->nranks && !setup->is_to_use_ipc; ++rank) {
        setup->is_to_use_ipc = 0 != gpuhier_p2p_error(&setup->p2p, rank) && has_failed(setup, rank);
    }
    if (setup->is_to_use_ipc) {
        setup->is_to_fall = true;
        setup->next_way = setup->team->way;
        ++failures;
    } else if (!setup->team->by_ipc) {
        failures = 0;
    }
    return setup->is_to_use_ipc;
}

/* -- the step ------------------------------------------------------------------------------ */

/* Numbers the nodes, and the ranks on each. All records are valid. */
static int nodes_number(gpuhier_setup_t *setup)
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

/* Is any process of this node in another pid namespace than this one? */
static bool node_is_split(const gpuhier_setup_t *setup)
{
    bool split = false;
    for (int k = 0; k < setup->nlocal; ++k) {
        split =
            split || !gpuhier_record_same_pids(&setup->records[setup->team->rank], &setup->records[setup->local[k]]);
    }
    return split;
}

static int neighbours_make(gpuhier_setup_t *setup)
{
    setup->neighbours = calloc((size_t) setup->nlocal, sizeof(*setup->neighbours));
    if (NULL == setup->neighbours) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    bool held = true;
    for (int k = 0; k < setup->nlocal && held; ++k) {
        setup->neighbours[k].scratch = setup->hello[setup->local[k]].scratch;
        setup->neighbours[k].nonce = setup->hello[setup->local[k]].nonce;
        held = gpuhier_team_hold(setup->team, setup->neighbours[k].scratch.process);
    }
    return held ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

int gpuhier_setup_node(gpuhier_setup_t *setup, int rc)
{
    gpuhier_team_t *team = setup->team;
    const bool may_wait = OMPI_SUCCESS == rc; /* the hellos are valid, so that neighbours take this step */
    rc = OMPI_SUCCESS != rc ? rc : nodes_number(setup);
    const int me = NULL == setup->places ? 0 : setup->places[team->rank];
    const size_t lists = (size_t) team->nranks * gpuhier_team_engine->block_bytes;
    gpuhier_segment_args_t args = {.nranks = setup->nlocal,
                                   .slot_bytes = gpuhier_team_engine->slot_bytes,
                                   .area_bytes =
                                       gpuhier_team_engine->area_bytes
                                       + (lists > gpuhier_params.small_bytes ? lists : gpuhier_params.small_bytes)};
    if (OMPI_SUCCESS == rc) {
        args.word = setup->hello[setup->local[0]].segment_word;
        args.locks = node_is_split(setup);
    }
    const bool maker = OMPI_SUCCESS == rc && 0 == me;
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_p2p_table_init(&setup->p2p, team->nranks, setup->widest, setup->places);
    }
    rc = OMPI_SUCCESS != rc ? rc : neighbours_make(setup);
    if (OMPI_SUCCESS == rc) {
        files_exchange(setup);
    } else if (may_wait) {
        files_refuse(setup);
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_p2p_test_run(setup->lane, setup->neighbours, setup->nlocal, me);
    bool made = false;
    if (OMPI_SUCCESS == rc && maker) { /* last, since a job that is killed now leaves the file */
        rc = gpuhier_segment_create(&args, &team->segment);
        made = OMPI_SUCCESS == rc;
    }
    if (!gpuhier_setup_vote(setup, OMPI_SUCCESS == rc)) { /* now all kernels of the test have ended */
        if (made) {
            gpuhier_segment_unlink(args.word);
        }
        return OMPI_SUCCESS != rc ? rc : OMPI_ERR_NOT_AVAILABLE;
    }
    rc = maker ? OMPI_SUCCESS : gpuhier_segment_attach(&args, me, &team->segment);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_p2p_test_inspect(setup->lane, setup->neighbours, setup->nlocal, me);
    if (OMPI_SUCCESS == rc) {
        gpuhier_p2p_table_note(&setup->p2p, setup->neighbours, setup->nlocal);
    }
    int gathered = gpuhier_setup_gather(setup, gpuhier_p2p_table_mine(&setup->p2p), setup->p2p.cells,
                                        gpuhier_p2p_table_row_bytes(&setup->p2p));
    if (made) {
        gpuhier_segment_unlink(args.word);
    }
    rc = OMPI_SUCCESS != rc ? rc : gathered;
    if (OMPI_SUCCESS == rc && !gpuhier_p2p_table_complete(&setup->p2p)) {
        rc = OMPI_ERR_NOT_AVAILABLE;
    }
    if (OMPI_SUCCESS == rc && files_failed(setup)) {
        rc = OMPI_ERR_NOT_SUPPORTED;
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_p2p_corrupt_tell(&setup->p2p, setup->records, setup->local, setup->nlocal, team->rank);
    }
    return rc;
}
