/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the facts by which the form of a call is chosen, and what messages and the trace say of it. Called by the
 * engine.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_form.h"
#include "team/coll_gpuhier_team.h"

_Static_assert(GPUHIER_CHOICE_ONESHOT_UNIT == GPUHIER_ONESHOT_UNIT, "one-shot kernels move whole units");

/*
 * The longest axis of a collective other than all-reduce that takes the one-shot form, whose kernels push a message for
 * each rank: as much as of an all-reduce. Blocks of unequal length do not take it. Bytes.
 */
static __attribute__((noinline)) uint64_t oneshot_axis(const gpuhier_call_t *call)
{
    const uint64_t most = call->team->oneshot_bytes, nranks = (uint64_t) call->team->nranks;
    return call->row->has_lists                    ? 0
           : GPUHIER_RANKS_PAIR == call->row->from ? most * nranks
           : call->row->has_blocks                 ? most
                                                   : most / nranks;
}

const gpuhier_form_t *gpuhier_form_choose(const gpuhier_call_t *call)
{
    static const gpuhier_form_t *const forms[] = {[GPUHIER_FORM_SMALL] = &gpuhier_form_small,
                                                  [GPUHIER_FORM_ONESHOT] = &gpuhier_form_oneshot,
                                                  [GPUHIER_FORM_SWITCHED] = &gpuhier_form_switched,
                                                  [GPUHIER_FORM_SLICES] = &gpuhier_form_slices};
    const gpuhier_team_t *team = call->team;
    const bool can = GPUHIER_SWITCH_READY == team->switch_state;
    const uint64_t switch_bytes =
        can && gpuhier_switch_suits(team, call->kernel, call->axis_bytes) ? team->switch_from : 0;
    gpuhier_facts_t facts = gpuhier_team_facts(team);
    facts.bytes = call->axis_bytes;
    facts.is_all_to_all = gpuhier_collective_is_all_to_all(call->row);
    if (!facts.is_all_to_all) {
        facts.oneshot_bytes = oneshot_axis(call);
    }
    facts.is_blocking = NULL == call->ended;
    facts.has_gaps = call->has_gaps;
    facts.switch_bytes = switch_bytes;
    return forms[gpuhier_choice_form(&facts)];
}

const char *gpuhier_form_doing(const gpuhier_call_t *call)
{
    static const char *const names[] = {[GPUHIER_CALL_QUEUED] = "waiting to begin",
                                        [GPUHIER_CALL_GATHER] = "waiting for the group's arrival",
                                        [GPUHIER_CALL_OPENED] = "waiting until all have mapped the buffers",
                                        [GPUHIER_CALL_HOST] = "reducing on the host",
                                        [GPUHIER_CALL_FAILED] = "failed, waiting for the others to come to rest",
                                        [GPUHIER_CALL_DONE] = "done"};
    return GPUHIER_CALL_RUN == call->state ? call->form->doing : names[call->state];
}

void gpuhier_form_note(const gpuhier_call_t *call)
{
    static const gpuhier_trace_phase_t phases[] = {[GPUHIER_CALL_QUEUED] = GPUHIER_TRACE_QUEUED,
                                                   [GPUHIER_CALL_GATHER] = GPUHIER_TRACE_ARRIVAL,
                                                   [GPUHIER_CALL_OPENED] = GPUHIER_TRACE_MAPPING,
                                                   [GPUHIER_CALL_HOST] = GPUHIER_TRACE_ON_HOST};
    if (GPUHIER_CALL_RUN != call->state && GPUHIER_CALL_FAILED != call->state && GPUHIER_CALL_DONE != call->state) {
        gpuhier_trace_phase(call->trace, phases[call->state]);
    }
    call->form->note(call);
    if (call->on_host) {
        call->trace->path = GPUHIER_TRACE_PATH_HOST;
    }
}
