/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call, as the engine and the stages see it.
 */
#ifndef GPUHIER_CALL_H
#define GPUHIER_CALL_H

#include <stdlib.h>

#include "base/coll_gpuhier_trace.h"
#include "engine/coll_gpuhier_slot.h"
#include "engine/coll_gpuhier_hostcall.h"
#include "plan/coll_gpuhier_schedule.h"
#include "team/coll_gpuhier_team.h"

typedef struct gpuhier_call gpuhier_call_t;
typedef struct gpuhier_form gpuhier_form_t; /* coll_gpuhier_form.h */
typedef struct gpuhier_known_call gpuhier_known_call_t;

typedef enum gpuhier_call_state {
    GPUHIER_CALL_QUEUED, /* waits for earlier calls of the team, or for what `hear` brings */
    GPUHIER_CALL_GATHER, /* waits for the group's arrival records */
    GPUHIER_CALL_OPENED, /* waits until every member has mapped what it must */
    GPUHIER_CALL_RUN,    /* its form takes steps */
    GPUHIER_CALL_HOST,   /* the ranks voted the call down: see coll_gpuhier_hostcall.h */
    GPUHIER_CALL_FAILED, /* waits until no GPU works on this rank's buffers; then DONE with an error */
    GPUHIER_CALL_DONE
} gpuhier_call_state_t;

/* How many slices a stage has begun, and how many are done. All stages take slices in order. */
typedef struct gpuhier_cursor {
    uint64_t begun;
    uint64_t done;
} gpuhier_cursor_t;

/* A member of this rank's group, as the call sees it. Addresses are valid in this rank's context. */
typedef struct gpuhier_member {
    bool via_scratch;    /* it works on its scratch, slice by slice; else on its own buffers */
    CUdeviceptr in, out; /* not via scratch: element 0 of its buffers */
    CUdeviceptr scratch;
    gpuhier_mapping_t *pins[3];
} gpuhier_member_t;

/* How long nothing has moved; see coll_gpuhier_queue.h. */
typedef struct gpuhier_idle {
    uint64_t polls; /* without an event */
    double last;    /* seconds: when the clock was read last */
    double waited;  /* seconds that count as waiting, since nothing moves */
    double next_look, next_report;
    bool found_dead; /* a member was dead at the last look; what it did before may not have been seen yet */
} gpuhier_idle_t;

/* What a call is to do. */
typedef struct gpuhier_call_args {
    const gpuhier_collective_t *row;
    int root;   /* rank of the communicator, in a row with one */
    int kernel; /* index, see coll_gpuhier_reduce.h. Of rows that do not reduce: that of any type of elem_bytes */
    size_t elem_bytes;
    uint64_t count; /* elements of a block, of the longest one, > 0; of pairs with lists: that of this rank */
    gpuhier_block_t *given, *taken; /* lists of blocks, see coll_gpuhier_schedule.h: one piece of memory, which lives
                                       as long as the call */
    gpuhier_block_t *heard; /* of pairs with lists between groups: the lengths that the others give to this rank */
    bool is_cut_short;      /* the same: a rank gives more to this rank than it takes */
    uint64_t listed;        /* elements of all blocks in a list that all ranks know; else 0 */
    const void *in;         /* any memory; in == out: in place, or one of both means nothing on this rank */
    void *out;
    bool is_idle;   /* of pairs with lists: this rank gives nothing and takes nothing */
    bool declines;  /* this rank cannot take part, and votes the call down */
    bool is_packed; /* in or out is a packed copy in host memory of data in GPU memory, and both count as GPU memory */
    gpuhier_trace_event_t *trace; /* NULL: none */
    /* The rest is zero for a call that a thread waits for (gpuhier_queue_run()). */
    void (*ended)(
        struct gpuhier_call *call); /* called without the lock once the call is DONE; the caller then owns it again */
    int (*hear)(struct gpuhier_call *call); /* NULL, or asked until it has set count, heard, and is_cut_short, and made
                                               taken the lesser length: 1 if so, 0 if not yet, < 0 for an error */
    uint8_t *outcome_p;                     /* the call's mask is OR-ed into it when it ends with a known outcome */
    struct ompi_datatype_t *dtype;          /* of the elements, in case the call ends on the host */
    int tag;                                /* gpuhier_hostcall_tag() */
} gpuhier_call_args_t;

static inline void gpuhier_call_lists_free(const gpuhier_call_args_t *args)
{
    free(NULL != args->given ? args->given : args->taken);
}

/*
 * The part of the forms with arrival records: the plan, the progress of the stages, the vote, and the members whose
 * memory the call maps.
 */
typedef struct gpuhier_slices {
    gpuhier_plan_t plan;
    gpuhier_cursor_t stage[GPUHIER_STAGES];
    int levels;         /* 1: flat; more: reduced below each PCI switch and on each socket, then between them */
    bool is_long;       /* in a long lane: gpuhier_choice_is_long() */
    bool offers;        /* this rank offers the one-shot form */
    bool mask_known;    /* the vote is complete */
    bool claimed;       /* this rank may start work on its peers' buffers */
    int vote_step;      /* leader: of the vote between groups */
    uint32_t vote_mask; /* leader: the masks gathered so far */
    gpuhier_known_call_t *known; /* an earlier call on the same memory, or NULL: coll_gpuhier_arrival.h */
    gpuhier_member_t member[GPUHIER_GROUP_MAX];
} gpuhier_slices_t;

typedef enum gpuhier_small_phase {
    GPUHIER_SMALL_INPUT,    /* waits for the program's earlier work, and for the copy of the input behind it */
    GPUHIER_SMALL_ARRIVE,   /* waits for the contributions of the group */
    GPUHIER_SMALL_EXCHANGE, /* leader: with the leaders of the other groups */
    GPUHIER_SMALL_RESULT,   /* waits for the leader's result */
    GPUHIER_SMALL_OUTPUT    /* copies the result to the receive buffer */
} gpuhier_small_phase_t;

/* The part of the small form. */
typedef struct gpuhier_small {
    gpuhier_small_phase_t phase;
    bool is_mapped;  /* the host reads the input and writes the result itself (coll_gpuhier_gdr.h) */
    bool copies_out; /* the result is on its way to the receive buffer */
    int arrived;     /* members of the group, from the first on, whose contribution is known to be there */
    int step;        /* leader: of the exchange */
} gpuhier_small_t;

/* How a call stays behind what the program had queued on its GPUs. Its form decides. */
typedef enum gpuhier_order {
    GPUHIER_ORDER_FAILED = 0, /* it could not be arranged: this rank votes against the call */
    GPUHIER_ORDER_NEEDLESS,   /* the call touches no GPU, or the earlier work had ended */
    GPUHIER_ORDER_COPY,       /* its input is copied on the default stream, and `input` marks that copy */
    GPUHIER_ORDER_KERNEL,     /* its kernel runs on the default stream */
    GPUHIER_ORDER_MARKED      /* `input` and `elsewhere` mark the earlier work; readers of the input wait for them */
} gpuhier_order_t;

/*
 * One call. gpuhier_engine_prepare() makes it for the queue, which owns it until it is DONE. One thread at a time uses
 * it, under the engine's lock.
 *
 * Its form owns one part of the union. When the ranks decline a call that no thread waits for, it continues as a host
 * call (the state HOST), which owns `host`. It keeps the part of its form, which shows the outcome if the host call
 * fails.
 */
struct gpuhier_call {
    struct gpuhier_call *next; /* in the team's queue, or among those that have ended */
    gpuhier_call_state_t state;
    _Atomic bool over; /* of a call that a thread waits for: it has left the queue, and belongs to the waiter again */
    int status;        /* DONE: OMPI_SUCCESS, an Open MPI code, or GPUHIER_DECLINED */
    uint32_t mask;     /* GPUHIER_MASK_*; equal on all ranks once DONE without an error, or with outcome_known */

    /* What the call is to do. */
    gpuhier_team_t *team;
    int kernel; /* index, see coll_gpuhier_reduce.h */
    size_t elem_bytes;
    const gpuhier_collective_t *row;
    int root;                        /* its index in the group, in a row with one; -1: it is in another group */
    int root_group, root_rank;       /* in a row with one */
    uint64_t in_bytes, out_bytes;    /* of the user's buffers */
    uint64_t axis_bytes;             /* of all blocks of all ranks, or pairs, together; UINT64_MAX: no rank knows */
    uint64_t give_begin;             /* from the beginning of the axis to what this rank gives: bytes */
    uint64_t give_bytes, take_bytes; /* that it gives, and takes */
    bool has_gaps;                   /* elements have gaps, which belong to the program: gpuhier_reduce_has_gaps() */
    uint64_t count;                  /* elements of a block: of the longest one */
    gpuhier_block_t *given, *taken;  /* as in the arguments. An element of a pair that is not given is not taken */
    const gpuhier_block_t *heard;    /* as in the arguments */
    bool is_cut_short;               /* a rank gives more to this rank than it takes */
    bool is_packed;                  /* as in the arguments */
    CUdeviceptr in, out;          /* the user's buffers; in == out in place. In host memory the call goes via scratch */
    gpuhier_buffer_t from, to;    /* what kind of memory they are */
    gpuhier_trace_event_t *trace; /* this and the next five: as in the arguments */
    void (*ended)(struct gpuhier_call *call);
    int (*hear)(struct gpuhier_call *call);
    uint8_t *outcome_p;
    struct ompi_datatype_t *dtype;
    int tag;

    /* What all forms share. */
    const gpuhier_form_t *form;
    uint64_t sequence;
    gpuhier_lane_t *lane;
    gpuhier_order_t order;
    CUevent input;        /* an event behind the program's earlier work; NULL where `order` needs none */
    CUevent elsewhere[2]; /* the same in the contexts of from and to, where those are not the team's; else NULL */
    bool input_done;      /* what the program had queued before the call is complete, or the lane waits for it */
    bool declining;       /* this rank voted against the call: it ends with GPUHIER_DECLINED, which needs no CUDA */
    bool on_host;         /* DONE: it ended in host memory */
    bool outcome_known;   /* DONE with an error or on the host: other ranks may have applied the same mask */
    bool quiet;           /* FAILED: no GPU work of this rank is left, and its slot says so */
    unsigned polls;       /* FAILED: looks at the other members */
    gpuhier_idle_t idle;

    gpuhier_hostcall_t host;
    union {
        gpuhier_small_t small;
        gpuhier_slices_t slices;
    };
};

/* The ranks agreed, before any user's buffer was written, not to run this call: use the saved collective. */
#define GPUHIER_DECLINED 1

/* Does this rank pass host memory? Later calls of the kind are then not for the GPUs. */
static inline bool gpuhier_call_is_of_host(const gpuhier_call_t *call)
{
    return !call->is_packed && (!gpuhier_buffer_on_device(&call->from) || !gpuhier_buffer_on_device(&call->to));
}

/* The row of a call between groups that is no all-reduce, and so has a part of its exchange; else NULL. */
static inline const gpuhier_collective_t *gpuhier_call_part(const gpuhier_call_t *call)
{
    return 1 == call->team->ngroups || gpuhier_collective_is_all_to_all(call->row) ? NULL : call->row;
}

/* The lengths of the blocks that this rank gives, and of those that it takes; NULL: all are equal. */
static inline const gpuhier_block_t *gpuhier_call_lengths(const gpuhier_call_t *call, bool given)
{
    return NULL != call->given && (given || NULL == call->taken) ? call->given : call->taken;
}

/* From the beginning of the axis to a block: bytes. Not where no rank knows the axis. */
static inline uint64_t gpuhier_call_block_begin(const gpuhier_call_t *call, int block)
{
    const gpuhier_block_t *lengths = gpuhier_call_lengths(call, true);
    uint64_t begin = NULL == lengths ? (uint64_t) block * call->count : 0;
    for (int i = 0; NULL != lengths && i < block; ++i) {
        begin += lengths[i].length;
    }
    return begin * call->elem_bytes;
}

/* The slot of a member, and of this rank, for the call. */
static inline gpuhier_slot_t *gpuhier_call_slot(const gpuhier_call_t *call, int index)
{
    return gpuhier_slot_of(call->team, index, call->sequence);
}

static inline gpuhier_slot_t *gpuhier_call_my_slot(const gpuhier_call_t *call)
{
    return gpuhier_call_slot(call, call->team->index);
}

/* Has a member of the group failed in this call? Its contribution may have come nevertheless. */
static inline bool gpuhier_call_member_failed(const gpuhier_team_t *team, int index, uint64_t sequence)
{
    return gpuhier_word_reached(&gpuhier_slot_of(team, index, sequence)->failed, sequence, GPUHIER_FAILED_SAID);
}

/* Has any? */
static inline bool gpuhier_call_has_failed_member(const gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (gpuhier_call_member_failed(call->team, i, call->sequence)) {
            return true;
        }
    }
    return false;
}

/* Has the group come so far: does each member's word at this offset of its slot show so much progress? */
static inline bool gpuhier_call_all_reached(const gpuhier_call_t *call, size_t word_offset, uint64_t progress)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        char *slot = (char *) gpuhier_call_slot(call, i);
        if (!gpuhier_word_reached((gpuhier_word_t *) (slot + word_offset), call->sequence, progress)) {
            return false;
        }
    }
    return true;
}

#endif /* GPUHIER_CALL_H */
