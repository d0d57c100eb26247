/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The length of a call's slices, from the length of its message and the shape of its ranks; and a table of what
 * messages of each length get, for printing. No MPI, no CUDA.
 */
#ifndef GPUHIER_CHOICE_H
#define GPUHIER_CHOICE_H

#include "plan/coll_gpuhier_schedule.h"

/* The forms of a call: ways to do it inside a group (engine/coll_gpuhier_form.h). */
typedef enum gpuhier_form_kind {
    GPUHIER_FORM_SMALL,    /* the host reduces */
    GPUHIER_FORM_ONESHOT,  /* kernels that wait for those of the peers */
    GPUHIER_FORM_SWITCHED, /* slices, reduced by NVSwitches */
    GPUHIER_FORM_SLICES    /* slices, reduced by kernels */
} gpuhier_form_kind_t;

/* What the choice of a form depends on; the same on all ranks. */
typedef struct gpuhier_facts {
    uint64_t bytes;         /* gpuhier_choice_axis(); UINT64_MAX: no rank knows, before all have arrived */
    bool is_all_to_all;     /* an all-reduce; the other collectives have fewer forms */
    bool is_blocking;       /* a thread waits for the call */
    bool has_gaps;          /* between the fields of its elements */
    uint64_t switch_bytes;  /* the shortest message that NVSwitches reduce; 0: none, or not this operation or type */
    uint64_t small_bytes;   /* the longest message that the host reduces; 0: none */
    uint64_t mapped_bytes;  /* the same where the hosts of all ranks read and write GPU memory themselves; else 0 */
    uint64_t oneshot_bytes; /* gpuhier_choice_oneshot(); 0: several groups, shared GPUs, or kernels may not wait */
} gpuhier_facts_t;

/* Bytes of all blocks of all ranks together, of which each has block_bytes. */
static inline uint64_t gpuhier_choice_axis(const gpuhier_collective_t *row, int nranks, uint64_t block_bytes)
{
    return block_bytes * (uint64_t) (row->has_blocks ? nranks : 1)
           * (uint64_t) (GPUHIER_RANKS_PAIR == row->from ? nranks : 1);
}

/* Takes from the facts of a team what is of all-reduces alone. The one-shot kernels of other collectives push a message
 * for each rank: as much as of an all-reduce. Blocks of unequal length count as if all were as long as the longest one,
 * which has so many bytes. Of pairs no rank knows that before all have arrived, which is too late for the host. */
void gpuhier_choice_narrow(gpuhier_facts_t *facts, const gpuhier_collective_t *row, int nranks, uint64_t longest);

/* Why a call has its form. */
typedef enum gpuhier_rule {
    GPUHIER_RULE_MAPPED,   /* hosts reach GPU memory */
    GPUHIER_RULE_WAITING,  /* short enough for kernels that wait, and a thread waits, too */
    GPUHIER_RULE_SHORT,    /* short enough for the host */
    GPUHIER_RULE_ROW,      /* not an all-reduce */
    GPUHIER_RULE_SWITCHES, /* long enough for NVSwitches */
    GPUHIER_RULE_REST      /* nothing else suits */
} gpuhier_rule_t;

/* The only place that chooses: the first rule that holds, in order of preference. */
static inline gpuhier_rule_t gpuhier_choice_rule(const gpuhier_facts_t *f)
{
    /* Neither a copy nor a kernel is as fast as hosts that reach GPU memory. They know nothing of gaps. */
    if (f->bytes <= f->mapped_bytes && !f->has_gaps) {
        return GPUHIER_RULE_MAPPED;
    }
    /* Only calls that a thread waits for: a rank that computes between two calls of MPI_Test would let the others'
     * kernels wait. Of unknown length: each rank then offers this form or not. */
    if ((f->bytes <= f->oneshot_bytes || (UINT64_MAX == f->bytes && f->oneshot_bytes > 0)) && f->is_blocking) {
        return GPUHIER_RULE_WAITING;
    }
    if (f->bytes <= f->small_bytes) {
        return GPUHIER_RULE_SHORT;
    }
    if (!f->is_all_to_all) {
        return GPUHIER_RULE_ROW;
    }
    return 0 != f->switch_bytes && f->bytes >= f->switch_bytes ? GPUHIER_RULE_SWITCHES : GPUHIER_RULE_REST;
}

static inline gpuhier_form_kind_t gpuhier_choice_form(const gpuhier_facts_t *f)
{
    static const gpuhier_form_kind_t forms[] = {
        [GPUHIER_RULE_MAPPED] = GPUHIER_FORM_SMALL,      [GPUHIER_RULE_WAITING] = GPUHIER_FORM_ONESHOT,
        [GPUHIER_RULE_SHORT] = GPUHIER_FORM_SMALL,       [GPUHIER_RULE_ROW] = GPUHIER_FORM_SLICES,
        [GPUHIER_RULE_SWITCHES] = GPUHIER_FORM_SWITCHED, [GPUHIER_RULE_REST] = GPUHIER_FORM_SLICES};
    return forms[gpuhier_choice_rule(f)];
}

/* A message between groups has about this many slices. The first and the last slice overlap with nothing, so few slices
 * are slow. */
#define GPUHIER_SLICES_WANTED 8

/* Between groups the longest slice is long enough that the fixed time of the steps hardly counts: for each doubling of
 * the groups, its pieces take this many times as long on the wire as a step does. The value comes from simulation
 * with four slices in flight, none longer than 16 MiB (docs/decisions.md). */
#define GPUHIER_SLICE_STEPS 21

/* The mailbox that one-shot kernels use: its length in bytes, for all ranks together, how many bytes of it one byte of
 * a message takes, and how many bytes of a message lie together there: parts are multiples of that. */
#define GPUHIER_MAILBOX_BYTES ((uint64_t) 2 << 20)
#define GPUHIER_MAILBOX_WIRE 2
#define GPUHIER_MAILBOX_UNIT 512

/*
 * Bytes of the longest message that one-shot kernels reduce, on `ranks` ranks in one group with a GPU each: the least
 * of oneshot_bytes, slice_bytes, and what the mailbox has room for in two shots, about GPUHIER_MAILBOX_BYTES / (2 *
 * GPUHIER_MAILBOX_WIRE), in whole units. 0 for one rank.
 */
#define GPUHIER_CHOICE_ONESHOT_UNIT 16
uint64_t gpuhier_choice_oneshot(int ranks, uint64_t oneshot_bytes, uint64_t slice_bytes);

/* The upper bound of that length where GPUs reach each other over PCIe and not NVLink: one-shot kernels push twice the
 * bytes that the direct kernel moves (docs/decisions.md). */
#define GPUHIER_ONESHOT_PCIE_BYTES ((uint64_t) 64 << 10)

/*
 * Bytes of the shortest message that one-shot kernels reduce in two shots (gpu/kernels/gpuhier_kernels.h). On up to 4
 * ranks one shot is faster as long as the mailbox has room for it; on more ranks it is faster up to half of that length
 * (docs/decisions.md).
 */
uint64_t gpuhier_choice_two_shots_from(int ranks);

/*
 * Bytes of the shortest message that NVSwitches reduce, in so many groups of at least so many ranks with a GPU each; 0:
 * none. given: switch_bytes of coll_gpuhier_tune, or -1. With -1, the model of an H100 decides: NVSwitches reduce
 * messages from these lengths on, in one or two groups of six ranks or more (docs/decisions.md).
 */
#define GPUHIER_SWITCH_RANKS 6
#define GPUHIER_SWITCH_BYTES ((uint64_t) 32 << 20)
#define GPUHIER_SWITCH_BYTES_BETWEEN ((uint64_t) 256 << 20)
uint64_t gpuhier_choice_switch_from(int groups, int ranks, int given);

/*
 * Bytes of the longest slice of a call that NVSwitches reduce. With several groups it is the longest slice of any
 * message. With one group it is half as long again as slice_bytes: slices in flight must bridge two copies and two
 * turns of the hosts as well as a reduction.
 */
uint64_t gpuhier_choice_switch_slice(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits);

/*
 * Bytes of the longest slice of any message. With one group: limits->slice_bytes, since all stages are one kernel. With
 * several, and P ranks in the largest group:
 *     max(slice_bytes, min(slice_bytes_max, GPUHIER_SLICE_STEPS * step_bytes of the wire * ceil(log2 groups) * P))
 */
uint64_t gpuhier_choice_longest(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits);

/*
 * Long messages take a long lane, whose slice buffers are twice as many, and longer where longer slices pay: more
 * slices under way hide the latency of the steps. A message is long if it is longer than the slice buffers of other
 * lanes together, on ranks whose longest slice exceeds slice_bytes. has_long: are there such messages? All are equal on
 * all ranks.
 */
bool gpuhier_choice_has_long(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits);
bool gpuhier_choice_is_long(const gpuhier_shape_t *shape, uint64_t bytes, const gpuhier_limits_t *limits);

/* Slice buffers of a lane. */
int gpuhier_choice_buffers(const gpuhier_limits_t *limits, bool is_long);

/*
 * host_shard_bytes of the limits, from the key of coll_gpuhier_tune. It is the key's value where messages lie in host
 * memory in any case. Where UCX moves GPU memory (on_device) it is half of that, and with up to 4 groups a quarter:
 * there the host's reductions save one kernel or two, while RS and AG reach over PCIe for data that would otherwise lie
 * on the GPU. The factors come from simulation (docs/model.md).
 */
uint64_t gpuhier_choice_host_shard(uint64_t host_shard_bytes, int ngroups, bool on_device);

/* gpuhier_plan_init() with the slices and slice buffers for this message. Returns 0 or -EINVAL. */
int gpuhier_choice_plan(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count,
                        size_t elem_bytes, const gpuhier_limits_t *limits);

/* Bytes of a block in a slice of one group that passes through scratch. */
static inline uint64_t gpuhier_choice_block_slice(const gpuhier_shape_t *shape, const gpuhier_collective_t *row,
                                                  const gpuhier_limits_t *limits)
{
    return limits->slice_bytes / (uint64_t) (row->has_blocks ? shape->hierarchy->nranks : 1);
}

/* The same for any collective: see coll_gpuhier_part.h. count: elements of a block. -EINVAL also where a slice cannot
 * hold a unit of every block. */
int gpuhier_choice_part(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count,
                        size_t elem_bytes, const gpuhier_collective_t *row, int root_group,
                        const gpuhier_limits_t *limits);

/* A row of the table: all messages from min_bytes up to the min_bytes of the next row are treated alike. */
typedef struct gpuhier_choice {
    const gpuhier_collective_t *collective;
    uint64_t min_bytes;
    bool is_blocking;
    gpuhier_rule_t rule; /* why the calls have their form */
    uint64_t limit; /* of the rule: bytes of the longest message, or of the shortest for NVSwitches; 0: of slices */
    int nsteps;     /* of the algorithm; of one-shot kernels the number of shots */
    /* Of slices; else 0. */
    const char *exchange; /* gpuhier_part_name(); NULL: one group */
    bool by_host;         /* the host reduces between groups: gpuhier_plan_by_host() */
    uint64_t nslices;     /* of the shortest message of this row */
    bool more_slices;     /* longer messages have more slices: the slices have reached their limit */
    bool is_first;        /* the first row in slices, after rows in other forms */
} gpuhier_choice_t;

#define GPUHIER_CHOICES_MAX 48

/*
 * Fills the rows for calls of a collective with doubles, by the bytes of a rank's longer buffer from 8 bytes to 1 TiB:
 * by powers of two, and from the lengths at which the form changes. Messages of equal form, algorithm and number of
 * slices share a row. The rows of blocking calls come first, then those of nonblocking ones as far as they differ.
 * facts: of the team; bytes and is_blocking are not used. Lists have equal blocks. Returns the number of rows; 0 if the
 * limits are out of range.
 */
int gpuhier_choice_table(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, const gpuhier_facts_t *facts,
                         const gpuhier_collective_t *collective, gpuhier_choice_t rows[GPUHIER_CHOICES_MAX]);

/* Writes a row in words, "from 4 MiB: ring in 4 steps, 8 slices", and why it has its form, into text, which has `room`
 * bytes. Returns text. */
#define GPUHIER_CHOICE_TEXT_MAX 128
const char *gpuhier_choice_text(const gpuhier_choice_t *row, char *text, size_t room);

#endif /* GPUHIER_CHOICE_H */
