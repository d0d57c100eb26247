/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which path a call takes: the engine, or the saved collective.
 *
 * The answer follows from what all ranks know (count, operation, type, the modes) and never from a rank's own
 * buffer, so no rank waits for another one that took the other path. There is one function for each way to
 * call a collective: blocking, nonblocking, persistent. A collective brings its key, and runs what it gets:
 *
 *   members do not agree, set-up failed, or the end has come:  saved
 *   blocking:     mode of the key HOST: probe when one is due; ACC: engine; else saved
 *   nonblocking:  mode of the key ACC: engine; else saved, and noted for the next meeting
 *   persistent:   probe; all ranks pass device memory: engine; else saved
 *
 * A nonblocking call must not wait for other ranks, so it cannot ask them anything. The next call that may wait (a
 * barrier, a blocking allreduce, the making of a persistent request) is a meeting: there all ranks probe the kinds of
 * nonblocking calls that they have noted.
 */
#ifndef GPUHIER_PATH_H
#define GPUHIER_PATH_H

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_params.h"
#include "coll/coll_gpuhier_module.h"
#include "engine/coll_gpuhier_call.h"
#include "gpu/coll_gpuhier_reduce.h"

/* Calls with the same key have the same mode. Matching calls have the same key on all ranks. */
typedef struct gpuhier_path_key {
    int kind;     /* of collective, operation and type; see coll_gpuhier_rows.c */
    size_t bytes; /* of the message */
} gpuhier_path_key_t;

/*
 * Nonblocking calls of at most so many bytes are for the saved collective: Open MPI itself posts such calls on the
 * parent while it makes communicators, at times that differ between ranks.
 */
#define GPUHIER_PATH_NONBLOCKING_BYTES 64

/* gpuhier_reduce_find() for blocking calls. Caches the last lookup. Predefined handles never dangle. */
static inline int gpuhier_path_find(gpuhier_module_t *module, const struct ompi_op_t *op,
                                    const struct ompi_datatype_t *dtype, size_t *elem_bytes_p)
{
    gpuhier_found_t *last = &module->last;
    if (op != last->op || dtype != last->dtype) {
        size_t elem_bytes = 0;
        int kernel = gpuhier_reduce_find(op, dtype, &elem_bytes);
        if (kernel < 0) {
            return kernel;
        }
        *last = (gpuhier_found_t){op, dtype, kernel, elem_bytes};
    }
    *elem_bytes_p = last->elem_bytes;
    return last->kernel;
}

/*
 * Finds out whether the members agree, once for each communicator: all of them ask in the same call, and get the same
 * answer, which stays in module->agree. Returns whether calls may run on the GPUs.
 */
bool gpuhier_path_agree(gpuhier_module_t *module, struct ompi_communicator_t *comm);

/* May any call of this communicator run on the GPUs? The same answer on all ranks, except once the end has come. */
static inline bool gpuhier_path_is_open(gpuhier_module_t *module, struct ompi_communicator_t *comm)
{
    if (module->team_failed || (gpuhier_end_has_begun() && gpuhier_end_has_come())) {
        return false;
    }
    return GPUHIER_AGREE_UNKNOWN == module->agree ? gpuhier_path_agree(module, comm)
                                                  : GPUHIER_AGREE_YES == module->agree;
}

/* The part of gpuhier_path_meet() that asks the other ranks. */
bool gpuhier_path_probe_noted(gpuhier_module_t *module, struct ompi_communicator_t *comm);

/* A meeting. Collective, and waits for all ranks if they have noted kinds of nonblocking calls, which are the same on
 * all of them. false: it failed, and the program's call ends with module->saved.failure. */
static inline bool gpuhier_path_meet(gpuhier_module_t *module, struct ompi_communicator_t *comm)
{
    return 0 == module->nnotes || gpuhier_path_probe_noted(module, comm);
}

/* Notes a nonblocking call of a kind whose mode is HOST. Local: allocates nothing, so it does the same on all ranks. */
void gpuhier_path_note(gpuhier_module_t *module, gpuhier_path_key_t key, const void *in, const void *out);

/* Why the saved collective serves calls of this key; where key is NULL, calls of any key. Local. */
gpuhier_reason_t gpuhier_path_reason(const gpuhier_module_t *module, const gpuhier_path_key_t *key);

/* The part of gpuhier_path_blocking() that asks the other ranks. entry: of the key, NULL when memory ran out for it. */
gpuhier_mode_entry_t *gpuhier_path_probe(gpuhier_module_t *module, struct ompi_communicator_t *comm,
                                         gpuhier_path_key_t key, gpuhier_mode_entry_t *entry, const void *in,
                                         const void *out);

/*
 * The path of a blocking call: the key's entry when the call runs on the engine, by gpuhier_path_run(); NULL when it
 * ends with module->saved.failure, or else is for the saved collective, for the reason *why_p. in, out: this rank's
 * buffers, which matter in a probe only.
 */
static inline gpuhier_mode_entry_t *gpuhier_path_blocking(gpuhier_module_t *module, struct ompi_communicator_t *comm,
                                                          gpuhier_path_key_t key, const void *in, const void *out,
                                                          gpuhier_reason_t *why_p)
{
    gpuhier_mode_entry_t *entry = NULL;
    if (!gpuhier_path_meet(module, comm)) {
        return NULL;
    }
    if (gpuhier_path_is_open(module, comm)) {
        entry = gpuhier_modes_entry(&module->modes, key.kind, key.bytes);
        if (NULL == entry || (GPUHIER_MODE_HOST == entry->mode && gpuhier_modes_probe_due(entry))) {
            entry = gpuhier_path_probe(module, comm, key, entry, in, out);
        } else if (GPUHIER_MODE_ACC != entry->mode) {
            *why_p = (gpuhier_reason_t) entry->why;
            return NULL;
        } else if (gpuhier_end_has_begun()) {
            entry = NULL;
        }
    }
    if (NULL == entry) {
        *why_p = gpuhier_path_reason(module, &key);
    }
    return entry;
}

/*
 * Runs a blocking call on the engine to its end, and lets the entry know its outcome. Returns an Open MPI code, or
 * GPUHIER_DECLINED: no user's buffer was written, and the call is for the saved collective.
 */
int gpuhier_path_run(gpuhier_module_t *module, gpuhier_mode_entry_t *entry, const gpuhier_call_args_t *args);

/*
 * The path of a nonblocking call: the key's entry when the call runs on the engine, whatever the buffers are; NULL when
 * it is for the saved collective. Local.
 */
gpuhier_mode_entry_t *gpuhier_path_nonblocking(gpuhier_module_t *module, gpuhier_path_key_t key);

/*
 * The path of a persistent request, for good: a team for this request alone when it runs on the engine, which the
 * caller destroys; NULL when the call ends with module->saved.failure, or else is for the saved collective. Collective;
 * all ranks get a team, or none does. in, out: this rank's buffers. can: this rank has what it needs for a request on
 * the engine. *why_p: the reason where there is no team.
 */
struct gpuhier_team *gpuhier_path_persistent(gpuhier_module_t *module, struct ompi_communicator_t *comm, const void *in,
                                             const void *out, gpuhier_path_key_t key, bool can,
                                             gpuhier_reason_t *why_p);

/* The part of gpuhier_path_saved() that prints. */
void gpuhier_path_tell(gpuhier_module_t *module, struct ompi_communicator_t *comm, const char *name,
                       const struct ompi_datatype_t *dtype, size_t count, gpuhier_reason_t reason);

/* Counts a call of the collective of this name that is left to the saved one. With print_info, rank 0 prints the first
 * one for each reason. */
static inline void gpuhier_path_saved(gpuhier_module_t *module, struct ompi_communicator_t *comm, const char *name,
                                      const struct ompi_datatype_t *dtype, size_t count, gpuhier_reason_t reason)
{
    gpuhier_count(&gpuhier_counters.saved_because[reason], 1);
    if (gpuhier_params.print_info) {
        gpuhier_path_tell(module, comm, name, dtype, count, reason);
    }
}

#endif /* GPUHIER_PATH_H */
