/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The timeline of coll_gpuhier_trace: one event for each call of this process, with its path and its phases. Events are
 * kept in a ring, which overwrites the oldest. MPI_Finalize gathers all ranks' events in one file.
 *
 * NVTX ranges are made from events, too. A call has an event only if the parameter is set or
 * a profiler takes ranges. Otherwise the pointer to its event is NULL, and testing that pointer is the only cost.
 */
#ifndef GPUHIER_TRACE_H
#define GPUHIER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_counters.h"

/* X(name, text): where a call ran. The last two have a reason. */
#define GPUHIER_TRACE_PATHS(X)                                                        \
    X(SMALL, "small")      /* reduced by the host, in shared memory */                \
    X(ONESHOT, "one-shot") /* by kernels that wait for each other */                  \
    X(SWITCH, "switch")    /* by NVSwitches */                                        \
    X(DIRECT, "direct")    /* by the GPUs, on the program's own buffers */            \
    X(SCRATCH, "scratch")  /* by the GPUs, through scratch on one rank or more */     \
    X(HOST, "host")        /* voted down after it was posted, and reduced by hosts */ \
    X(STAGED, "staged")    /* left to Open MPI, with host copies of GPU buffers */    \
    X(SAVED, "saved")      /* left to Open MPI */

/* X(name, text): what a call does. A call is in one phase at a time. */
#define GPUHIER_TRACE_PHASES(X)                                              \
    X(CHOOSE, "choose path")  /* and set up, at the first call of a kind */  \
    X(QUEUED, "begin")        /* behind earlier calls, and its first step */ \
    X(ARRIVAL, "arrival")     /* until the other ranks have come */          \
    X(MAPPING, "map buffers") /* until all have mapped what they must */     \
    X(SLICES, "slices")       /* the stages have the times within */         \
    X(INPUT, "input")         /* small: the copy from the GPU */             \
    X(GROUPS, "groups")       /* small: between groups */                    \
    X(OUTPUT, "output")       /* small: the copy to the GPU */               \
    X(ON_HOST, "host reduce") /* the path "host" */                          \
    X(READ, "copy to host")   /* staged */                                   \
    X(OPEN_MPI, "Open MPI")   /* its own collective */                       \
    X(WRITE, "copy to GPU")   /* staged */

#define GPUHIER_TRACE_PATH_NUMBER(name, text) GPUHIER_TRACE_PATH_##name,
typedef enum gpuhier_trace_path { GPUHIER_TRACE_PATHS(GPUHIER_TRACE_PATH_NUMBER) } gpuhier_trace_path_t;
#undef GPUHIER_TRACE_PATH_NUMBER

#define GPUHIER_TRACE_PHASE_NUMBER(name, text) GPUHIER_TRACE_##name,
typedef enum gpuhier_trace_phase { GPUHIER_TRACE_PHASES(GPUHIER_TRACE_PHASE_NUMBER) } gpuhier_trace_phase_t;
#undef GPUHIER_TRACE_PHASE_NUMBER

typedef enum gpuhier_trace_way {
    GPUHIER_TRACE_BLOCKING,
    GPUHIER_TRACE_NONBLOCKING,
    GPUHIER_TRACE_PERSISTENT
} gpuhier_trace_way_t;

#define GPUHIER_TRACE_EVENTS 16384 /* of a process; later ones overwrite the oldest */
#define GPUHIER_TRACE_MARKS 10     /* changes of the phase; later ones are not noted */
#define GPUHIER_TRACE_STAGES 9     /* of slices */

/* One call. The caller owns it until gpuhier_trace_end(), which copies it into the ring. Ranks send it as bytes. */
typedef struct gpuhier_trace_event {
    double begin, end;                         /* seconds of gpuhier_clock() */
    uint64_t count, bytes;                     /* elements, and bytes of the message */
    float since[GPUHIER_TRACE_MARKS];          /* seconds after begin: when the phase of this number began */
    float stage[GPUHIER_TRACE_STAGES][2];      /* seconds after begin: first work and end of a stage; 0: none */
    uint8_t phase[GPUHIER_TRACE_MARKS];        /* gpuhier_trace_phase_t */
    uint8_t marks;                             /* phases noted */
    uint8_t way, path, reason;                 /* gpuhier_trace_way_t, .._path_t, gpuhier_reason_t */
    uint8_t is_staged;                         /* GPU buffers had host copies */
    uint8_t is_posted_only;                    /* the end was not seen: the request is Open MPI's own */
    char name[32], type[24], op[24], comm[32]; /* cut to fit; name: of the function, "MPI_Allreduce_init" */
    uint64_t range;                            /* of NVTX, for calls that another thread may end */
} gpuhier_trace_event_t;

/* Calls have events. Set when the component opens. */
extern bool gpuhier_trace_on;

static inline bool gpuhier_trace_is_on(void)
{
    return __builtin_expect(gpuhier_trace_on, 0);
}

/* Makes the ring, and tries on rank 0 whether the file can be written; looks for a profiler. Called when the component
 * opens. */
void gpuhier_trace_open(void);
void gpuhier_trace_close(void);

/* A call of a collective begins. name: of its blocking form. op: NULL of those that do not reduce. */
void gpuhier_trace_begin(gpuhier_trace_event_t *event, gpuhier_trace_way_t way, const char *name,
                         const struct ompi_communicator_t *comm, const struct ompi_datatype_t *dtype,
                         const struct ompi_op_t *op, size_t count);

/* The same for another start of a persistent request. */
void gpuhier_trace_again(gpuhier_trace_event_t *event);

/* Notes that the call enters a phase. Does nothing if the call is in that phase already. */
void gpuhier_trace_phase(gpuhier_trace_event_t *event, gpuhier_trace_phase_t phase);

/* Notes that a stage has begun `begun` slices out of `of`, and has completed `done` of them. */
void gpuhier_trace_stage(gpuhier_trace_event_t *event, int stage, uint64_t begun, uint64_t done, uint64_t of);

/* The call has ended: puts its event into the ring. Any thread may do so. left: the call was left to Open MPI, for this
 * reason. */
void gpuhier_trace_end(gpuhier_trace_event_t *event);
void gpuhier_trace_end_left(gpuhier_trace_event_t *event, gpuhier_reason_t reason);

/*
 * Writes the file: rank 0 of MPI_COMM_WORLD does, and the others send their events. all: all ranks call this, and have
 * a trace; if not, the file has the events of rank 0 only. Called once, when MPI_Finalize begins.
 */
void gpuhier_trace_write(bool all);

/* The events of the ring, for the file, which sorts them. dropped: overwritten, or no memory. */
typedef struct gpuhier_trace_kept {
    gpuhier_trace_event_t *event; /* [events] */
    uint64_t events, dropped;
    double origin; /* gpuhier_clock() when the component opened */
} gpuhier_trace_kept_t;
gpuhier_trace_kept_t gpuhier_trace_kept(void);

#endif /* GPUHIER_TRACE_H */
