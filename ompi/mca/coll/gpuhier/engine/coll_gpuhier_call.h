/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call, as the engine and the stages see it.
 */
#ifndef GPUHIER_CALL_H
#define GPUHIER_CALL_H

#include "engine/coll_gpuhier_hostcall.h"
#include "engine/coll_gpuhier_small.h"
#include "team/coll_gpuhier_team.h"

struct gpuhier_call;

typedef enum gpuhier_call_state {
    GPUHIER_CALL_QUEUED, /* calls of the team that were posted before have not ended */
    GPUHIER_CALL_GATHER, /* waits for the group's arrival records */
    GPUHIER_CALL_OPENED, /* waits until every member has mapped what it must */
    GPUHIER_CALL_RUN,    /* slices move */
    GPUHIER_CALL_SMALL,  /* the small form, whose phase is in `small` */
    GPUHIER_CALL_HOST,   /* voted down: see coll_gpuhier_hostcall.h */
    GPUHIER_CALL_FAILED, /* waits until nobody's GPU works on my buffers any more; then DONE with an error */
    GPUHIER_CALL_DONE
} gpuhier_call_state_t;

/* Slices of each stage: launched (or started) and done. All stages take slices in order. */
typedef struct gpuhier_cursor {
    uint64_t begun;
    uint64_t done;
} gpuhier_cursor_t;

/* A member of my group, as this call sees it. Addresses are in my context. */
typedef struct gpuhier_member {
    bool via_scratch;    /* it works on its scratch, slice by slice; else on its own buffers */
    CUdeviceptr in, out; /* not via scratch: element 0 of its buffers */
    CUdeviceptr scratch;
    gpuhier_mapping_t *pins[3];
} gpuhier_member_t;

/* How long nothing has moved; see coll_gpuhier_watch.h. */
typedef struct gpuhier_idle {
    uint64_t polls; /* without an event */
    double last;    /* seconds: when the clock was read last */
    double waited;  /* of which since nothing moves */
    double next_look, next_report;
} gpuhier_idle_t;

/* What a call is to do. */
typedef struct gpuhier_call_args {
    int kernel; /* index, see coll_gpuhier_reduce.h */
    size_t elem_bytes;
    uint64_t count; /* elements, > 0 */
    const void *in; /* any memory; in == out: in place */
    void *out;
    /* The rest is zero for a call that somebody waits for (gpuhier_queue_wait()). */
    void (*ended)(
        struct gpuhier_call *call); /* told without the lock, once the state is DONE; the call is the caller's again */
    uint8_t *outcome_p;             /* the call's mask is OR-ed into it when it ends without an error */
    struct ompi_op_t *op;           /* what `kernel` stands for, in case the call ends on the host */
    struct ompi_datatype_t *dtype;
    int tag; /* gpuhier_hostcall_tag() */
} gpuhier_call_args_t;

/*
 * One call. Made by gpuhier_engine_prepare(), owned by its caller until it is DONE, used by one
 * thread at a time under the engine's lock. What stands before `member` is zeroed, members are
 * only as far as there are any.
 */
typedef struct gpuhier_call {
    struct gpuhier_call *next; /* in the team's queue, or among those that have ended */
    gpuhier_call_state_t state;
    _Atomic bool over; /* somebody waits for the call: it has left the queue, and is the waiter's again */
    int status;        /* DONE: OMPI_SUCCESS, an Open MPI code, or GPUHIER_DECLINED */
    uint32_t mask;     /* DONE and not an error, or outcome_known: GPUHIER_MASK_*, equal on all ranks */

    gpuhier_team_t *team;
    gpuhier_lane_t *lane;
    uint64_t sequence;
    int kernel; /* index, see coll_gpuhier_reduce.h */
    size_t elem_bytes;
    bool has_gaps;             /* elements have bytes that belong to the program, see gpuhier_reduce_store() */
    uint64_t count;            /* elements */
    CUdeviceptr in, out;       /* the user's buffers; in == out in place. In host memory the call goes via scratch */
    gpuhier_buffer_t from, to; /* what they are */
    CUevent input;             /* what the program had queued before the call; NULL when it could not be recorded */
    CUevent elsewhere[2];      /* the same in the contexts of from and to, where those are not the team's; else NULL */
    gpuhier_idle_t idle;
    void (*ended)(struct gpuhier_call *call); /* and the next four: as in the arguments */
    uint8_t *outcome_p;
    struct ompi_op_t *op;
    struct ompi_datatype_t *dtype;
    int tag;
    gpuhier_hostcall_t host;

    bool declining;     /* I voted against the call: it ends with GPUHIER_DECLINED, which needs no CUDA */
    bool mask_known;    /* the vote is complete */
    bool on_host;       /* DONE: it ended in host memory */
    bool outcome_known; /* DONE with an error: other ranks may have come to the end of the call, and then know its mask,
                           as I do */
    bool claimed;       /* I may start work on my peers' buffers */
    bool quiet;         /* FAILED: no GPU work of mine is left, and I have said so */
    unsigned polls;     /* FAILED: of the others */
    bool input_done;    /* what the program had queued before the call is complete */
    bool is_small;      /* takes the small form; then nothing below but `small` is used */
    bool net_on_device; /* UCX moves messages of this team's calls from and to GPU memory */
    bool is_long;       /* slices are longer than slice_bytes: in a long lane */
    gpuhier_small_t small;
    gpuhier_plan_t plan;
    gpuhier_cursor_t stage[GPUHIER_STAGES];
    uint64_t slices_ready; /* of my input, as published */
    int vote_step;         /* leader: of the vote between groups */
    uint32_t vote_mask;    /* leader: what I have gathered */
    gpuhier_member_t member[GPUHIER_GROUP_MAX];
} gpuhier_call_t;

/* The ranks agreed, before any user's buffer was written, not to run this call: use the saved collective. */
#define GPUHIER_DECLINED 1

/* "moving slices" and the like, for messages. */
const char *gpuhier_call_state_name(gpuhier_call_state_t state);

#endif /* GPUHIER_CALL_H */
