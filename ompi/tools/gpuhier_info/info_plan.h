/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What plan and predict share.
 */
#ifndef INFO_PLAN_H
#define INFO_PLAN_H

#include "gpuhier_info.h"
#include "plan/coll_gpuhier_choice.h"

/* The plan of a call of the options' collective, whose root is rank 0. Returns 0 or -EINVAL, which the other function
 * explains; that returns an exit status. */
int info_plan_make(gpuhier_plan_t *plan, const gpuhier_shape_t *shape, int rank, uint64_t count,
                   const info_options_t *options, const gpuhier_limits_t *limits);
int info_plan_fail(const info_options_t *options);

gpuhier_limits_t info_limits(const info_options_t *options, gpuhier_wire_t wire, int ngroups);

/* Bytes of a rank's longer buffer, which nccl-tests call the size. count: of a block. */
static inline double info_size(const info_options_t *options, int nranks, uint64_t count)
{
    return (double) count * (double) options->elem_bytes * (options->collective->has_blocks ? nranks : 1);
}

/*
 * What the choice of a form depends on. With one group each rank has a GPU of its own and kernels may wait. is_pcie:
 * some GPUs of a node reach each other over PCIe only. Neither GDRCopy nor NVSwitches are taken to be there.
 */
gpuhier_facts_t info_facts(const info_options_t *options, const gpuhier_limits_t *limits, const gpuhier_hierarchy_t *h,
                           bool is_pcie);

/*
 * Groups of nodes whose ranks can all map each other; ranks: one number for each node, or one for all. Returns an exit
 * status, after a message if it is not INFO_OK.
 */
int info_nodes_make(int nodes, const int *ranks, int nranks, gpuhier_hierarchy_t *h);

#endif /* INFO_PLAN_H */
