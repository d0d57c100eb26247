/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The forms of a call: ways to do it inside a group. Each form is one struct, and its file's only symbol. The table of
 * choice is in plan/coll_gpuhier_choice.h. Whoever wants to know in which form a call is prints its name.
 *
 *   small      the host reduces, in the control block: no arrival records, no mappings
 *   oneshot    kernels that wait for those of the peers; one group
 *   switched   slices, which NVSwitches reduce
 *   slices     slices, which kernels reduce; takes every call
 */
#ifndef GPUHIER_FORM_H
#define GPUHIER_FORM_H

#include "base/coll_gpuhier_counters.h"
#include "engine/coll_gpuhier_call.h"
#include "plan/coll_gpuhier_choice.h"

/*
 * What slices of a form lie in, and who reduces and gathers them. The stages (pipeline) are the same for all.
 */
typedef struct gpuhier_slices_ops {
    bool has_one_buffer; /* a slice has one slice buffer for input and output, which only its shards' owners touch */
    size_t (*place)(const gpuhier_call_t *call, int buffer); /* of a slice buffer in a member's scratch, in bytes */
    /* Queue this rank's part of a slice on the stream: the reduction in a level, and the gathering there. Return an
     * Open MPI code. */
    int (*reduce)(const gpuhier_call_t *call, int level, uint64_t slice, CUstream stream);
    int (*gather)(const gpuhier_call_t *call, int level, uint64_t slice, CUstream stream);
    /* The stage that lends its stream to every second slice of RS or AG; `stage` itself: none does. */
    gpuhier_stage_t (*second)(const gpuhier_call_t *call, gpuhier_stage_t stage);
} gpuhier_slices_ops_t;

/*
 * A form. Functions that may be NULL say what that means. All run under the engine's lock, and the team's context is
 * current except where a comment says otherwise.
 */
struct gpuhier_form {
    gpuhier_form_kind_t kind;
    const char *doing;               /* what a running call does, for messages */
    gpuhier_trace_path_t path;       /* that the trace shows */
    _Atomic uint64_t *counter;       /* of calls that have ended well; NULL: none of its own */
    const gpuhier_slices_ops_t *ops; /* of a form in slices; NULL: it is none */

    /* When the call is posted: fills in the form's part of the call, and decides call->order. Local. */
    void (*prepare)(gpuhier_call_t *call);

    /*
     * When the call begins: takes what it needs, and says in this rank's arrival record what the rank offers. Returns
     * 0, or the GPUHIER_MASK_* that it votes with instead. Not called if the context is lost or the order has failed.
     * NULL: the form has no arrival record and maps nothing, and `begin` begins the call in its place, also then.
     */
    uint32_t (*offer)(gpuhier_call_t *call, gpuhier_arrival_t *arrival);
    void (*begin)(gpuhier_call_t *call);

    /* All records are there. May the call run at once, since all name an earlier call on the same buffers? 1, 0 or an
     * error. NULL: no. */
    int (*recall)(gpuhier_call_t *call);

    /*
     * All members have mapped what they must, and call->mask is the group's. `opened`: a round of mapping was needed.
     * Makes the plan. May hand the call to a simpler form, which all members do (call->form). Returns an Open MPI code.
     */
    int (*agreed)(gpuhier_call_t *call, bool opened);

    /*
     * Takes the steps that are possible now. *done_p: the call is over; it was voted down, or begins again, if its mask
     * says so. Returns the number of events or an error.
     */
    int (*step)(gpuhier_call_t *call, bool *done_p);

    /* Before the call begins again (GPUHIER_MASK_NO_LONG). NULL: it never does. */
    void (*again)(gpuhier_call_t *call);

    /* True only if a step can do nothing before a peer's word changes. Needs no lock and no context. */
    bool (*is_idle)(const gpuhier_call_t *call);

    /* Can progress of the net help a call of several groups? NULL: yes. */
    bool (*wants_net)(const gpuhier_call_t *call);

    /* The call fails here: says what only this form's members must know, and tells kernels that wait to leave. NULL:
     * nothing. */
    void (*fail)(gpuhier_call_t *call);

    /* Has no kernel been started that still waits for other ranks? NULL: none ever is. */
    bool (*is_quiet)(const gpuhier_call_t *call);

    /* For a failed call whose members are at rest: may others have completed it, and do all know its mask? In one group
     * the answer is the same on all members. */
    bool (*outcome_known)(gpuhier_call_t *call);

    /* Lets go of the form's part. The lane is still there. */
    void (*release)(gpuhier_call_t *call);

    /* Prints how far every member has come. */
    void (*report)(const gpuhier_call_t *call);

    /* Records in the call's trace event, which must not be NULL, its phase, if it runs, and its stages. */
    void (*note)(const gpuhier_call_t *call);
};

extern const gpuhier_form_t gpuhier_form_small, gpuhier_form_oneshot, gpuhier_form_switched, gpuhier_form_slices;

/* Counts a call that has ended well. */
static inline void gpuhier_form_count(const gpuhier_call_t *call)
{
    if (NULL != call->form->counter) {
        gpuhier_count(call->form->counter, 1);
    }
    if (NULL != call->form->again && call->slices.is_long) {
        gpuhier_count(&gpuhier_counters.calls_long, 1);
    }
}

#endif /* GPUHIER_FORM_H */
