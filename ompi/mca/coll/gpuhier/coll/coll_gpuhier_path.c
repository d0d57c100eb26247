/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the choice of a call's path; see the header for the rule. Asks the other ranks where they must be asked: about
 * what the members have in common (agree), and about their buffers (a probe). Sets the communicator's team up. Does
 * not own the table of modes, nor what a collective does on either path.
 *
 * Called by family and rows.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_agree.h"
#include "coll/coll_gpuhier_rows.h"
#include "engine/coll_gpuhier_form.h"
#include "coll/coll_gpuhier_describe.h"
#include "engine/coll_gpuhier_queue.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "team/coll_gpuhier_team.h"
#include "ompi/datatype/ompi_datatype.h"
#include "opal/util/output.h"

gpuhier_reason_t gpuhier_path_reason(const gpuhier_module_t *module, const gpuhier_path_key_t *key)
{
    if (gpuhier_end_has_begun()) {
        return GPUHIER_REASON_end;
    }
    if (module->team_failed) {
        return GPUHIER_REASON_set_up;
    }
    if (GPUHIER_AGREE_NO == module->agree) {
        return module->why;
    }
    if (!gpuhier_params.probe) {
        return GPUHIER_REASON_off; /* no blocking call has asked yet */
    }
    return NULL == key ? GPUHIER_REASON_not_tried : gpuhier_modes_why(&module->modes, key->kind, key->bytes);
}

void gpuhier_path_tell(gpuhier_module_t *module, struct ompi_communicator_t *comm, const char *name,
                       const struct ompi_datatype_t *dtype, size_t count, gpuhier_reason_t reason)
{
    if (0 == ompi_comm_rank(comm)
        && 0 == (atomic_fetch_or_explicit(&module->told, 1u << reason, memory_order_relaxed) & 1u << reason)) {
        opal_output(0, "coll:gpuhier: communicator %s: %s of %llu elements of %s is left to Open MPI: %s", comm->c_name,
                    name, (unsigned long long) count, dtype->name, gpuhier_reason_text(reason));
    }
}

/* A rank's answer to a probe. The lowest answer of all ranks counts. */
typedef enum probe_answer {
    PROBE_NEVER,  /* the rank has no memory for the key's entry */
    PROBE_NO,     /* the rank passes host memory, or cannot run on the engine */
    PROBE_SET_UP, /* the rank passes device memory, and needs a new team */
    PROBE_READY   /* the rank passes device memory, and its team works */
} probe_answer_t;

/* This rank's answer. A team whose CUDA context is gone is as good as none, or one that lacks partners. */
static probe_answer_t answer(gpuhier_team_t *team, bool has_pairs, const gpuhier_buffer_t *from,
                             const gpuhier_buffer_t *to)
{
    if (!gpuhier_buffer_on_device(from) || !gpuhier_buffer_on_device(to)
        || (NULL != team && OMPI_SUCCESS != team->failed)) {
        return PROBE_NO;
    }
    gpuhier_engine_lock();
    bool ready = NULL != team && gpuhier_team_check(team) && (team->joins_all || !has_pairs);
    gpuhier_engine_unlock();
    return ready ? PROBE_READY : NULL != from->context || NULL != to->context ? PROBE_SET_UP : PROBE_NO;
}

/*
 * Asks all ranks what they pass, through the saved allreduce, and returns the lowest answer: the same on all ranks.
 * kind: of the key. team: to run on, or NULL. at_most: an upper bound for this rank's answer. *owner_p: the buffer
 * whose context a new team is set up in. *setup_p: if the answer is PROBE_SET_UP, the set-up that now takes place, else
 * NULL. *why_p: the reason if the answer is PROBE_NO, which it is if the probe itself fails.
 */
static probe_answer_t probe(gpuhier_module_t *module, struct ompi_communicator_t *comm, const void *in, const void *out,
                            int kind, gpuhier_team_t *team, probe_answer_t at_most, gpuhier_buffer_t *owner_p,
                            gpuhier_setup_t **setup_p, gpuhier_reason_t *why_p)
{
    gpuhier_buffer_t from, to;
    const bool has_pairs = module->has_pairs || GPUHIER_KIND_ALLTOALL == kind || GPUHIER_KIND_ALLTOALLV == kind;
    gpuhier_buffer_inspect(in, &from);
    gpuhier_buffer_inspect(out, &to);
    *owner_p = NULL != from.context ? from : to;
    *why_p = gpuhier_buffer_on_device(&from) && gpuhier_buffer_on_device(&to) ? GPUHIER_REASON_host_elsewhere
                                                                              : GPUHIER_REASON_host_here;
    at_most = gpuhier_end_has_begun() && at_most > PROBE_NO ? PROBE_NO : at_most;
    int mine = (int) (at_most <= PROBE_NO ? at_most : answer(team, has_pairs, &from, &to)), all = PROBE_NO;
    *setup_p = NULL;
    if (mine > PROBE_NO && NULL == (*setup_p = gpuhier_setup_prepare(comm, has_pairs))) {
        mine = PROBE_NO; /* another rank may need a set-up */
    }
    gpuhier_count(&gpuhier_counters.probes, 1);
    all = OMPI_SUCCESS == gpuhier_saved_least(&module->saved, comm, &mine, &all, MPI_INT) ? all : PROBE_NO;
    module->has_pairs = all >= PROBE_SET_UP ? has_pairs : module->has_pairs;
    if (PROBE_SET_UP != all) {
        gpuhier_setup_drop(*setup_p);
        *setup_p = NULL;
    }
    return (probe_answer_t) all;
}

/* Replaces the communicator's team by a new one. Sets module->team, to NULL if that fails, which it does on all ranks
 * or on none. */
static void team_renew(gpuhier_module_t *module, gpuhier_setup_t *setup, const gpuhier_buffer_t *owner)
{
    const bool had_switch = NULL != module->team && GPUHIER_SWITCH_READY == module->team->switch_state;
    if (NULL != module->team) {
        gpuhier_queue_drain(module->team);
        gpuhier_engine_lock();
        gpuhier_team_outlived(module->team);
        gpuhier_team_destroy(module->team);
        gpuhier_engine_unlock();
        module->team = NULL;
    }
    module->team_failed = OMPI_SUCCESS != gpuhier_team_create(setup, &module->saved, owner, &module->team);
    module->rest = 0; /* calls have something to ask */
    if (NULL != module->team && MPI_COMM_WORLD != module->team->comm) {
        gpuhier_serving_tell(module->team->comm);
    }
    if (had_switch && NULL != module->team) {
        gpuhier_switch_make(module->team, &module->saved); /* for kinds whose mode is ACC */
    }
}

/* The longest message that has the same mode as one of so many bytes. */
static uint64_t longest_of(size_t bytes)
{
    return ((uint64_t) 2 << (63 - __builtin_clzll((unsigned long long) bytes))) - 1;
}

gpuhier_mode_entry_t *gpuhier_path_probe(gpuhier_module_t *module, struct ompi_communicator_t *comm,
                                         gpuhier_path_key_t key, gpuhier_mode_entry_t *entry, const void *in,
                                         const void *out)
{
    gpuhier_buffer_t owner;
    gpuhier_setup_t *setup;
    gpuhier_reason_t why;
    /* A rank without an entry knows that the others probe, too: this is the first call of its kind. */
    probe_answer_t all = probe(module, comm, in, out, key.kind, module->team, NULL == entry ? PROBE_NEVER : PROBE_READY,
                               &owner, &setup, &why);
    if (PROBE_NEVER == all) {
        gpuhier_modes_never(&module->modes, key.kind); /* frees the entry */
        return NULL;
    }
    if (PROBE_NO == all) {
        if (NULL != entry) { /* else the probe itself failed */
            entry->why = (uint8_t) why;
        }
        return NULL;
    }
    if (PROBE_SET_UP == all) {
        team_renew(module, setup, &owner);
    }
    if (NULL == module->team) {
        return NULL;
    }
    if (key.kind < GPUHIER_REDUCE_COUNT && gpuhier_switch_suits(module->team, key.kind, longest_of(key.bytes))) {
        gpuhier_switch_make(module->team, &module->saved);
        if (OMPI_SUCCESS != module->saved.failure) {
            return NULL;
        }
    }
    gpuhier_modes_to_acc(entry);
    return entry;
}

/* Says on rank 0, for print_info and the report, which member keeps the communicator from the GPUs. */
static void members_tell(struct ompi_communicator_t *comm)
{
    char who[128];
    if ((gpuhier_params.print_info || gpuhier_params.report) && 0 == ompi_comm_rank(comm)
        && gpuhier_agree_who(comm, who, sizeof(who))) {
        gpuhier_report_members(who);
        if (gpuhier_params.print_info) {
            opal_output(0, "coll:gpuhier: communicator %s: %s", comm->c_name, who);
        }
    }
}

bool gpuhier_path_agree(gpuhier_module_t *module, struct ompi_communicator_t *comm)
{
    bool yes = false;
    if (gpuhier_params.probe && gpuhier_cuda_present()) {
        module->saved.failure = gpuhier_agree(comm, &yes);
    }
    module->agree = yes ? GPUHIER_AGREE_YES : GPUHIER_AGREE_NO;
    module->why = gpuhier_params.probe ? GPUHIER_REASON_members : GPUHIER_REASON_off;
    if (GPUHIER_AGREE_NO == module->agree && gpuhier_params.probe) {
        members_tell(comm);
    }
    return yes;
}

void gpuhier_path_note(gpuhier_module_t *module, gpuhier_path_key_t key, const void *in, const void *out)
{
    if (GPUHIER_AGREE_NO == module->agree || module->team_failed || gpuhier_end_has_come()
        || GPUHIER_MODE_HOST != gpuhier_modes_mode(&module->modes, key.kind, key.bytes)) {
        return;
    }
    const int size = 63 - __builtin_clzll((unsigned long long) key.bytes);
    int i = 0;
    while (i < module->nnotes && (key.kind != module->notes[i].kind || size != module->notes[i].size)) {
        ++i;
    }
    if (GPUHIER_NOTES == i) {
        return;
    }
    module->notes[i] = (gpuhier_note_t){key.kind, size, in, out};
    module->nnotes = i == module->nnotes ? i + 1 : module->nnotes;
}

/*
 * A kind's entry counts meetings as it counts blocking calls. The row is made here, where all ranks make theirs, and
 * not when the call is noted: a rank without memory for it can say so at once.
 */
bool gpuhier_path_probe_noted(gpuhier_module_t *module, struct ompi_communicator_t *comm)
{
    const int nnotes = module->nnotes;
    module->nnotes = 0;
    for (int i = 0; i < nnotes; ++i) {
        const gpuhier_note_t *note = &module->notes[i];
        if (!gpuhier_path_is_open(module, comm)) {
            break;
        }
        gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&module->modes, note->kind, (size_t) 1 << note->size);
        if (NULL == entry || (GPUHIER_MODE_HOST == entry->mode && gpuhier_modes_probe_due(entry))) {
            const gpuhier_path_key_t key = {note->kind, (size_t) 1 << note->size};
            (void) gpuhier_path_probe(module, comm, key, entry, note->in, note->out);
        }
    }
    return OMPI_SUCCESS == module->saved.failure;
}

#define TRIM_EVERY 64 /* calls in forms that map nothing, between two trims */

int gpuhier_path_run(gpuhier_module_t *module, gpuhier_mode_entry_t *entry, const gpuhier_call_args_t *args)
{
    gpuhier_call_t call;
    int rc = gpuhier_queue_run(&call, module->team, args);
    if (NULL != call.form->offer || 0 == call.sequence % TRIM_EVERY) {
        gpuhier_engine_lock();
        gpuhier_device_trim(module->team->device);
        gpuhier_engine_unlock();
    }
    /* Calls of a communicator end in order, so entry->outcome is complete, and the same on all ranks. */
    const uint32_t mask = call.mask | entry->outcome;
    /* An error alone changes no mode, since modes must be equal on all ranks. But where the outcome is known, other
     * ranks may have ended the call with success and applied the same mask. */
    if (0 != mask && (rc >= 0 || call.outcome_known)) {
        entry->outcome = 0;
        gpuhier_modes_to_host(entry, GPUHIER_DECLINED == rc           ? GPUHIER_REASON_declined
                                     : gpuhier_call_is_of_host(&call) ? GPUHIER_REASON_host_here
                                                                      : GPUHIER_REASON_host_elsewhere);
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_count(&gpuhier_counters.calls_accelerated, 1);
        gpuhier_form_count(&call);
    }
    return gpuhier_watch_code(&call);
}

gpuhier_mode_entry_t *gpuhier_path_nonblocking(gpuhier_module_t *module, gpuhier_path_key_t key)
{
    if (NULL == module->team || key.bytes <= GPUHIER_PATH_NONBLOCKING_BYTES || gpuhier_end_has_begun()
        || GPUHIER_MODE_ACC != gpuhier_modes_mode(&module->modes, key.kind, key.bytes)) {
        return NULL;
    }
    return gpuhier_modes_entry(&module->modes, key.kind, key.bytes);
}

gpuhier_team_t *gpuhier_path_persistent(gpuhier_module_t *module, struct ompi_communicator_t *comm, const void *in,
                                        const void *out, gpuhier_path_key_t key, bool can, gpuhier_reason_t *why_p)
{
    gpuhier_buffer_t owner;
    gpuhier_setup_t *setup;
    gpuhier_team_t *team = NULL;
    if (!gpuhier_path_meet(module, comm)) {
        return NULL;
    }
    if (!gpuhier_path_is_open(module, comm)) {
        *why_p = gpuhier_path_reason(module, NULL);
    } else if (PROBE_SET_UP
                   == probe(module, comm, in, out, key.kind, NULL, can ? PROBE_SET_UP : PROBE_NO, &owner, &setup, why_p)
               && OMPI_SUCCESS != gpuhier_team_create(setup, &module->saved, &owner, &team)) {
        *why_p = GPUHIER_REASON_set_up;
    }
    if (NULL != team && gpuhier_switch_suits(team, key.kind, key.bytes)) {
        gpuhier_switch_make(team, &module->saved);
    }
    if (NULL != team && OMPI_SUCCESS != module->saved.failure) {
        gpuhier_engine_lock();
        gpuhier_team_destroy(team);
        gpuhier_engine_unlock();
        team = NULL;
    }
    return team;
}
