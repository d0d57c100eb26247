/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Warnings about choices that are far below what the machine could do: what, why, and what to do about it. Set-up
 * itself warns about a node without mappings, and coll_gpuhier_fallback.c about staging.
 */
#ifndef GPUHIER_ADVICE_H
#define GPUHIER_ADVICE_H

#include "team/coll_gpuhier_team.h"

/*
 * Rank 0 of a new team warns, once a process, that messages over RDMA ports pass through host memory, or that few rails
 * serve many ranks. records: of all ranks. ranks_on_node: of the fullest node. gpu: the answer that decides where
 * messages lie; gpu_rank gave it.
 */
void gpuhier_advice_tell(const gpuhier_team_t *team, const gpuhier_record_t *records, int ranks_on_node,
                         gpuhier_net_gpu_t gpu, int gpu_rank);

#endif /* GPUHIER_ADVICE_H */
