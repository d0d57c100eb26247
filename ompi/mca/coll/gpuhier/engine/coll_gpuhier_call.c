/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the names of a call's states, and their translation into the phases and paths of the trace.
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

_Static_assert(GPUHIER_STAGES == GPUHIER_TRACE_STAGES, "the trace has a line for each stage");

static gpuhier_trace_path_t path_of(const gpuhier_call_t *call)
{
    bool direct = !call->is_small;
    for (int i = 0; i < call->team->group_size && direct; ++i) {
        direct = !call->slices.member[i].via_scratch;
    }
    return call->on_host          ? GPUHIER_TRACE_PATH_HOST
           : call->is_small       ? GPUHIER_TRACE_PATH_SMALL
           : call->slices.oneshot ? GPUHIER_TRACE_PATH_ONESHOT
           : call->in_switch      ? GPUHIER_TRACE_PATH_SWITCH
           : direct               ? GPUHIER_TRACE_PATH_DIRECT
                                  : GPUHIER_TRACE_PATH_SCRATCH;
}

void gpuhier_call_note(const gpuhier_call_t *call)
{
    static const gpuhier_trace_phase_t of_state[] = {[GPUHIER_CALL_QUEUED] = GPUHIER_TRACE_QUEUED,
                                                     [GPUHIER_CALL_GATHER] = GPUHIER_TRACE_ARRIVAL,
                                                     [GPUHIER_CALL_OPENED] = GPUHIER_TRACE_MAPPING,
                                                     [GPUHIER_CALL_RUN] = GPUHIER_TRACE_SLICES,
                                                     [GPUHIER_CALL_HOST] = GPUHIER_TRACE_ON_HOST};
    static const gpuhier_trace_phase_t of_small[] = {[GPUHIER_SMALL_INPUT] = GPUHIER_TRACE_INPUT,
                                                     [GPUHIER_SMALL_ARRIVE] = GPUHIER_TRACE_ARRIVAL,
                                                     [GPUHIER_SMALL_EXCHANGE] = GPUHIER_TRACE_GROUPS,
                                                     [GPUHIER_SMALL_RESULT] = GPUHIER_TRACE_GROUPS,
                                                     [GPUHIER_SMALL_OUTPUT] = GPUHIER_TRACE_OUTPUT};
    if (GPUHIER_CALL_FAILED != call->state && GPUHIER_CALL_DONE != call->state) {
        gpuhier_trace_phase(call->trace,
                            GPUHIER_CALL_SMALL == call->state ? of_small[call->small.phase] : of_state[call->state]);
    }
    call->trace->path = (uint8_t) path_of(call);
    for (int s = 0; !call->is_small && s < GPUHIER_STAGES; ++s) {
        const gpuhier_cursor_t *stage = &call->slices.stage[s];
        gpuhier_trace_stage(call->trace, s, stage->begun, stage->done, call->slices.plan.nslices);
    }
}
