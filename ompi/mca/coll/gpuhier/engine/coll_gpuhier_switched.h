/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call in slices that NVSwitches reduce. Its stages are those of coll_gpuhier_pipeline.c, with other kernels on other
 * scratch: all members work on their copies of the team's multicast memory (team/coll_gpuhier_switch.h).
 */
#ifndef GPUHIER_SWITCHED_H
#define GPUHIER_SWITCHED_H

#include "engine/coll_gpuhier_call.h"

/* Do NVSwitches reduce this call, which has not the small form? All ranks get the same answer when they ask as the call
 * is posted. */
bool gpuhier_switched_suits(const gpuhier_call_t *call);

/* Queue this rank's part of a slice, in stage RS or AG: the reduction of its shard, into all copies or, with several
 * groups, into its shard buffer; and the copy of its finished shard into all copies. Return an Open MPI code. */
int gpuhier_switched_reduce(const gpuhier_call_t *call, uint64_t slice, gpuhier_range_t shard, CUstream stream);
int gpuhier_switched_gather(const gpuhier_call_t *call, uint64_t slice, gpuhier_range_t shard, CUstream stream);

#endif /* GPUHIER_SWITCHED_H */
