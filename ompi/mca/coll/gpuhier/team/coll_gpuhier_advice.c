/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the warnings about how a team's groups exchange data; see the header. Called by set-up.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_advice.h"
#include "opal/util/show_help.h"

/* Tells why messages between groups pass through host memory. */
static void bounced_tell(gpuhier_net_gpu_t gpu, int gpu_rank)
{
    const char *remedy = gpuhier_net_gpu_remedy(gpu);
    char reason[320];
    snprintf(reason, sizeof(reason), "on rank %d %s%s%s", gpu_rank, gpuhier_net_gpu_reason(gpu),
             '\0' == remedy[0] ? "" : "; ", remedy);
    opal_show_help("help-coll-gpuhier.txt", "no GPUDirect", true, ompi_process_info.nodename, reason);
}

void gpuhier_advice_tell(const gpuhier_team_t *team, const gpuhier_record_t *records, int ranks_on_node,
                         gpuhier_net_gpu_t gpu, int gpu_rank)
{
    static atomic_flag told_bounced = ATOMIC_FLAG_INIT, told_few = ATOMIC_FLAG_INIT;
    gpuhier_rails_use_t use;
    if (0 != team->rank || team->ngroups < 2 || GPUHIER_WIRE_NVLINK == team->limits.wire) {
        return;
    }
    if (GPUHIER_WIRE_RDMA == team->limits.wire && GPUHIER_NET_AUTO == gpuhier_params.net && !team->net_on_device
        && !atomic_flag_test_and_set(&told_bounced)) {
        bounced_tell(gpu, gpu_rank);
    }
    if (gpuhier_rails_are_few(&team->shape, records, team->rails, ranks_on_node, &use)
        && !atomic_flag_test_and_set(&told_few)) {
        char reason[128] = "the GPUs of a node are in several groups, which share the rails of the largest one";
        if (use.fewest < use.there) {
            snprintf(reason, sizeof(reason), "rank %d has %d of them, and all ranks use the same number",
                     use.fewest_rank, use.fewest);
        }
        opal_show_help("help-coll-gpuhier.txt", "few rails", true, ompi_process_info.nodename, use.driven, use.there,
                       ranks_on_node, reason);
    }
}
