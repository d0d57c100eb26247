/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the first step of set-up: every rank tells all others about itself. Does not own what follows from the ranks'
 * network devices (setup_net) and nodes (setup_node).
 */
#include "ompi_config.h"

#include <string.h>
#include <sys/random.h>

#include "base/coll_gpuhier_lock.h"
#include "gpu/coll_gpuhier_fd_passing.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "team/coll_gpuhier_p2p_test.h"

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
        mine->host_maps = team->device->host_maps;
        mine->may_wait = team->device->kernels_may_wait && !mine->record.is_confidential;
        mine->links = gpuhier_setup_links_offer(team);
        /* Before any kernel waits for a peer, see gpuhier_cuda_kernel(). */
        mine->multicast = gpuhier_multicast_is_possible(team->device->ordinal)
                          && OMPI_SUCCESS == gpuhier_multicast_kernels_open(&team->device->multicast);
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
int gpuhier_setup_hello(gpuhier_setup_t *setup, const gpuhier_buffer_t *buffer, int rc)
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
