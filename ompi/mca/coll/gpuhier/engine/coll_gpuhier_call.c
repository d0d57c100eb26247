/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the names of a call's states.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_call.h"

const char *gpuhier_call_state_name(gpuhier_call_state_t state)
{
    static const char *const names[] = {"waiting for an earlier call",
                                        "waiting for the group's arrival",
                                        "waiting until all have mapped the buffers",
                                        "moving slices",
                                        "in the small form",
                                        "reducing on the host",
                                        "failed, waiting for the others to come to rest",
                                        "done"};
    return names[state];
}
