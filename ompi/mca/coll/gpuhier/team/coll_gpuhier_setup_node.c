/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the steps of set-up among the ranks of one node: which ranks these are, the control block that they share, and
 * the test of what each can map (p2p_test). When the steps have ended, the table has the outcome on all nodes.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "team/coll_gpuhier_p2p_test.h"

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

/* Keeps what this rank maps of its node's processes mapped until the team ends. */
static int neighbours_hold(gpuhier_setup_t *setup)
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
    for (int k = 0; k < setup->nlocal; ++k) {
        setup->neighbours[k].scratch = setup->hello[setup->local[k]].scratch;
        setup->neighbours[k].nonce = setup->hello[setup->local[k]].nonce;
    }
    return neighbours_hold(setup);
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
        gpuhier_setup_files_exchange(setup);
    } else if (may_wait) {
        gpuhier_setup_files_refuse(setup);
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
    if (OMPI_SUCCESS == rc && gpuhier_setup_files_failed(setup)) {
        rc = OMPI_ERR_NOT_SUPPORTED;
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_p2p_corrupt_tell(&setup->p2p, setup->records, setup->local, setup->nlocal, team->rank);
    }
    return rc;
}
