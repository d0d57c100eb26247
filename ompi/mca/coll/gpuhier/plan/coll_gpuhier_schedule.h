/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * (shape, rank, count, element size, limits) -> slices, shards and the exchange steps of each piece. Needs libc only:
 * no MPI, no CUDA.
 *
 * A message is cut into slices; three stages work on consecutive slices at once:
 *
 *     slice        0    1    2    3
 *     tick 0       RS
 *     tick 1       X    RS             RS  reduce-scatter: sum of the group's contributions
 *     tick 2       AG   X    RS            to the rank's shard, into the slice's shard buffer
 *     tick 3            AG   X    RS   X   exchange: the rank's pieces with their owners in the other groups
 *     tick 4                 AG   X    AG  all-gather: the rank's finished shard into the receive buffer
 *     tick 5                      AG       of every member of its group
 *
 * A stage may start on slice k when the stage before it has finished slice k. RS also waits until AG has finished slice
 * k - slice_buffers, which used the same buffer. With one group there is no X, and RS and AG are one fused kernel.
 */
#ifndef GPUHIER_SCHEDULE_H
#define GPUHIER_SCHEDULE_H

#include "plan/coll_gpuhier_hierarchy.h"

/*
 * A collective's row: what the engine must know of it. There is one axis of elements. It is one block, or a block for
 * each rank, or for each pair of ranks; a row says who gives an element of it, and who takes it.
 */
typedef enum gpuhier_ranks {
    GPUHIER_RANKS_ALL,
    GPUHIER_RANKS_OWNER, /* the rank whose block it is */
    GPUHIER_RANKS_PAIR,  /* each rank gives a block to each, and so takes one from each */
    GPUHIER_RANKS_ROOT
} gpuhier_ranks_t;

typedef struct gpuhier_collective {
    const char *name; /* "MPI_Allreduce" */
    gpuhier_ranks_t from, to;
    bool has_blocks; /* a block for each rank, or pair; else one block */
    bool has_lists;  /* blocks are of unequal length */
} gpuhier_collective_t;

/* The collectives that run on the GPUs. */
enum {
    GPUHIER_ALLREDUCE,
    GPUHIER_REDUCE,
    GPUHIER_REDUCE_SCATTER,
    GPUHIER_REDUCE_SCATTER_BLOCK,
    GPUHIER_BCAST,
    GPUHIER_ALLGATHER,
    GPUHIER_ALLGATHERV,
    GPUHIER_ALLTOALL,
    GPUHIER_ALLTOALLV,
    GPUHIER_COLLECTIVES
};
extern const gpuhier_collective_t gpuhier_collectives[GPUHIER_COLLECTIVES];

/*
 * A block of unequal length, in elements from the begin of the buffer. A call has a list of them, one for each rank,
 * for the side where a rank has those of all ranks: the input of MPI_Reduce_scatter, the output of MPI_Allgatherv, both
 * of MPI_Alltoallv. Lengths are those of all ranks but in pairs, of which each rank knows its own only. Where blocks
 * begin, all ranks know of MPI_Reduce_scatter.
 */
typedef struct gpuhier_block {
    uint64_t begin, length;
} gpuhier_block_t;

/* Blocks in a rank's input, or in its output, of the ranks' number that they have in all. */
static inline int gpuhier_collective_blocks(const gpuhier_collective_t *row, gpuhier_ranks_t side, int nranks)
{
    return row->has_blocks && GPUHIER_RANKS_OWNER != side ? nranks : 1;
}

/* Does every rank give every element and take every result? Blocks have owners, so there is one block. */
static inline bool gpuhier_collective_is_all_to_all(const gpuhier_collective_t *row)
{
    return GPUHIER_RANKS_ALL == row->from && GPUHIER_RANKS_ALL == row->to;
}

/* Is it of pairs with lists? Then a rank knows its own blocks only. */
static inline bool gpuhier_collective_lists_pairs(const gpuhier_collective_t *row)
{
    return GPUHIER_RANKS_PAIR == row->from && row->has_lists;
}

/* Does a rank give elements, and does it take any? A root that gives to all has what it would take. */
static inline bool gpuhier_collective_gives(const gpuhier_collective_t *row, bool is_root)
{
    return GPUHIER_RANKS_ROOT != row->from || is_root;
}

static inline bool gpuhier_collective_takes(const gpuhier_collective_t *row, bool is_root)
{
    return GPUHIER_RANKS_ROOT == row->from ? !is_root : GPUHIER_RANKS_ROOT != row->to || is_root;
}

/* -- the exchange between groups ------------------------------------------------------------- */

/* How the owners of a piece, one in each of N groups, sum it up. Every algorithm works for any N. */
typedef enum gpuhier_algorithm {
    GPUHIER_ALGORITHM_AUTO = 0,           /* gpuhier_algorithm_pick() chooses; occurs in limits, never in a plan */
    GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, /* whole piece, ceil(log2 N) rounds */
    GPUHIER_ALGORITHM_RING,               /* reduce-scatter + all-gather over N chunks, 2 (N - 1) steps */
    GPUHIER_ALGORITHM_HALVING,            /* reduce-scatter + all-gather by halves, 2 log2 N steps */
    GPUHIER_ALGORITHM_COUNT
} gpuhier_algorithm_t;

/* The names of the algorithms: the values of coll_gpuhier_algorithm. */
extern const char *const gpuhier_algorithm_names[GPUHIER_ALGORITHM_COUNT];

/* What carries pieces: what the rails of all ranks are, see gpuhier_rails_wire(), or links between GPUs. */
typedef enum gpuhier_wire {
    GPUHIER_WIRE_RDMA = 0,
    GPUHIER_WIRE_TCP,
    GPUHIER_WIRE_NVLINK,
    GPUHIER_WIRE_RELAY, /* host memory that the groups of a node share */
    GPUHIER_WIRE_COUNT
} gpuhier_wire_t;

/* Constants of a wire. */
typedef struct gpuhier_wire_row {
    const char *name;
    const char *copied;  /* what GPUs copy pieces out of, in words; NULL: messages carry them */
    uint64_t step_bytes; /* bytes that a rail or a link carries in the fixed time of a step */
    uint64_t last_bytes; /* how much of that a step saves whose reduction AG makes, see gpuhier_plan_last_action() */
    uint64_t free_bytes; /* pieces shorter than this are exchanged in the fewest steps */
    uint64_t
        shard_bytes; /* a rank's shard of a slice is at least this, else a slice costs more than its overlap gains */
} gpuhier_wire_row_t;

extern const gpuhier_wire_row_t gpuhier_wires[GPUHIER_WIRE_COUNT];

/*
 * The algorithm for pieces of at most piece_bytes among ngroups owners. A choice other than AUTO is kept. AUTO takes
 * recursive doubling where the host reduces (by_host). Otherwise it takes the algorithm of the least cost, and the
 * first of those with equal costs. step_bytes and last_bytes are those of the wire, or half on RDMA ports with over
 * four slices under way, which hide the latency of a step (by simulation, docs/decisions.md). n: piece_bytes, N:
 * ngroups, p = 2^floor(log2 N):
 *
 *     cost = steps * step_bytes + bytes that follow each other on the longest way through the steps
 *
 *     recursive doubling   log2 p (step_bytes + n) - last_bytes if N = p,   and 2 (step_bytes + n) if N > p
 *     ring                 2 (N - 1) (step_bytes + n / N)
 *     halving              2 log2 p step_bytes + 2 (p - 1)/p n,              and 2 (step_bytes + n) if N > p
 *
 * This is steps x latency + bytes / rate, times the rate: Thakur, Rabenseifner, Gropp, as below, section 3.
 */
gpuhier_algorithm_t gpuhier_algorithm_pick(gpuhier_algorithm_t choice, gpuhier_wire_t wire, int ngroups,
                                           uint64_t piece_bytes, int slice_buffers, bool by_host);

/* What an owner does with the chunk that it received. A reduction that would change what the same step sends waits for
 * that send. */
typedef enum gpuhier_action {
    GPUHIER_ACTION_NONE = 0,              /* nothing was received */
    GPUHIER_ACTION_COPY,                  /* finished values: receive straight into the shard buffer */
    GPUHIER_ACTION_REDUCE_LOCAL_FIRST,    /* shard = shard op received; received lies in a receive buffer */
    GPUHIER_ACTION_REDUCE_RECEIVED_FIRST, /* shard = received op shard */
    GPUHIER_ACTION_KEEP                   /* the chunk stays in the receive buffer */
} gpuhier_action_t;

/*
 * One step of an owner: it sends chunks of the piece to the owner in one group, and at the same time receives chunks
 * from the owner in that group or in a third one. Chunk i of m is gpuhier_cut(.., i, m) .. gpuhier_cut(.., i + 1, m) of
 * the piece.
 *
 * The steps of a piece run one after the other. A step begins after the action of the step before, since it may send
 * the result, receive into the same receive buffer, or copy over what was being sent. Pieces and slices do not wait for
 * each other. A peer may be one step ahead; its message waits then.
 */
typedef struct gpuhier_step {
    int send_to;    /* group, -1: nothing */
    int send_begin; /* chunks [begin, end) */
    int send_end;
    int recv_from; /* group, -1: nothing */
    int recv_begin;
    int recv_end;
    gpuhier_action_t action;
} gpuhier_step_t;

/* Steps of a piece, equal for all groups; a group may idle in one. algorithm: not AUTO. One group has 0 steps. */
int gpuhier_schedule_steps(gpuhier_algorithm_t algorithm, int ngroups);

/* Chunks of a piece, equal for all groups. */
int gpuhier_schedule_chunks(gpuhier_algorithm_t algorithm, int ngroups);

/* Is the last step of every owner a reduction of its whole piece? */
bool gpuhier_schedule_last_is_left(gpuhier_algorithm_t algorithm, int ngroups);

/*
 * Fills *step_p with a step of the owner in a group, 0 <= step < gpuhier_schedule_steps(). The order of operands, where
 * x[g] is the contribution of group g:
 *
 *   recursive doubling, halving: a tree over p = 2^floor(log2 N) leaves, the same
 *       for all elements and both algorithms, so their results have the same bits:
 *           leaf(c) = x[2c] op x[2c + 1]   for c < N - p
 *                     x[c + N - p]         else
 *           T(c, 1) = leaf(c);   T(c, 2w) = T(c, w) op T(c + w, w);   result = T(0, p)
 *   ring: element in chunk c of N:
 *           ((x[c + 1] op x[c + 2]) op ..) op x[c]     indices modulo N
 */
void gpuhier_schedule_step(gpuhier_algorithm_t algorithm, int ngroups, int group, int step, gpuhier_step_t *step_p);

/* The bounds of a plan, equal on all ranks. */
typedef struct gpuhier_limits {
    uint64_t slice_bytes;          /* bytes of the message in a slice, > 0; a slice has at least one unit even so */
    int slice_buffers;             /* 2 .. 8: slices under way at once */
    gpuhier_algorithm_t algorithm; /* AUTO or a choice */
    gpuhier_wire_t wire;
    uint64_t slice_bytes_max;  /* the same for long messages between groups; less than slice_bytes: it is not used */
    uint64_t host_shard_bytes; /* the host reduces messages of at most this many bytes for each rank of a group, between
                                  groups; 0: none */
} gpuhier_limits_t;

#define GPUHIER_SLICE_BUFFERS_MIN 2
#define GPUHIER_SLICE_BUFFERS_MAX 8

/*
 * One call as one rank sees it. A plain value without allocations, made for each call and copied freely. The shape must
 * outlive it. All members but rank, group, index, group_size, first_piece, npieces and shard_elems_max are equal
 * on all ranks.
 */
typedef struct gpuhier_plan {
    const gpuhier_shape_t *shape;
    int rank;
    int group;
    int index;       /* of the rank in its group */
    int group_size;  /* ranks of its group */
    int first_piece; /* the rank owns pieces first_piece .. first_piece + npieces - 1: its shard */
    int npieces;
    uint64_t count; /* elements */
    uint64_t elem_bytes;
    uint64_t unit; /* elements */
    uint64_t nslices;
    uint64_t slice_units; /* units of a slice; the first wide_slices slices have one more */
    uint64_t wide_slices;
    int slice_buffers;
    bool by_host;                  /* gpuhier_plan_by_host() */
    gpuhier_algorithm_t algorithm; /* for all pieces of all slices */
    int nsteps;                    /* exchange steps of every piece */
    int nchunks;
    uint64_t slice_elems_max; /* longest slice */
    uint64_t shard_elems_max; /* longest shard of the rank in any slice */
    uint64_t piece_elems_max; /* longest piece of any rank */
    /* Of collectives other than all-reduce, between groups: gpuhier_part_cut(). */
    const gpuhier_collective_t *row; /* NULL: an all-reduce, or one group */
    int root_group;
    uint64_t stride;             /* of blocks: elements from a chunk of a piece to the next one in a buffer; else 0 */
    const gpuhier_block_t *list; /* the lengths of blocks that all ranks know; NULL: all are equal, or pairs have them.
                                    Set by the plan's maker */
} gpuhier_plan_t;

/*
 * count: elements, 0 gives 0 slices. elem_bytes: bytes, > 0.
 * Returns 0, or -EINVAL (a limit or the rank out of range, more than INT64_MAX
 * bytes); *plan_p is set only on 0.
 */
int gpuhier_plan_init(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count, size_t elem_bytes,
                      const gpuhier_limits_t *limits);

/*
 * Does the host make the reductions of the exchange, in page-locked memory, in place of a kernel for each? It does for
 * messages with short shards. It does not where AG makes the only reduction of an exchange between two groups, nor
 * where partners take pieces from GPU memory. The answer is equal on all ranks. bytes: of the message.
 */
bool gpuhier_plan_by_host(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, uint64_t bytes);

/*
 * Ranges, in elements of the whole message. A place in the shard buffer is its distance from the beginning of the
 * rank's shard. Each range but the last ends on a unit, so all places have the buffer's alignment to GPUHIER_UNIT_BYTES
 * where elem_bytes divides that. Shards, pieces and chunks of a small slice may be empty. part: number `part` of so
 * many equal parts of a slice.
 */
gpuhier_range_t gpuhier_plan_slice(const gpuhier_plan_t *plan, uint64_t slice);
gpuhier_range_t gpuhier_plan_part(const gpuhier_plan_t *plan, uint64_t slice, int part, int parts);
gpuhier_range_t gpuhier_plan_piece(const gpuhier_plan_t *plan, uint64_t slice, int piece);
gpuhier_range_t gpuhier_plan_chunks(const gpuhier_plan_t *plan, uint64_t slice, int piece, int begin, int end);

/* Where there are blocks (coll_gpuhier_part.h), pieces and chunks are places in the shard buffer, and a range of one
 * chunk has its exact length. This is what a group's chunk is in the block where it lies, that of
 * gpuhier_shape_owner(). */
gpuhier_range_t gpuhier_plan_block(const gpuhier_plan_t *plan, uint64_t slice, int piece, int group);

/* The same in pairs: the place of the chunk for a group in the shard buffer, or of the chunk of a group in the receive
 * buffer. A chunk has such a range of each rank that gives it, one after the other. */
gpuhier_range_t gpuhier_plan_pairs(const gpuhier_plan_t *plan, uint64_t slice, int piece, int group, bool given);

/* One step of one of the rank's pieces, with communicator ranks and element ranges. */
typedef struct gpuhier_transfer {
    int send_to; /* communicator rank; -1: no message (idle in this step, or nothing in the chunk) */
    gpuhier_range_t send;
    int recv_from;
    gpuhier_range_t recv;
    gpuhier_action_t action; /* NONE if recv_from is -1 */
} gpuhier_transfer_t;

/*
 * Fills *transfer_p with step 0 <= step < plan->nsteps of a piece that the rank owns. The triple (slice, piece, step)
 * names a message: it occurs at most once between two ranks in one direction. Both sides skip an empty message by the
 * same rule. The received range lies inside the rank's shard, so the receive buffer of a REDUCE mirrors the shard
 * buffer.
 */
void gpuhier_plan_transfer(const gpuhier_plan_t *plan, uint64_t slice, int piece, int step,
                           gpuhier_transfer_t *transfer_p);

/*
 * What an owner does with a whole piece that the last step brings, where that step is a reduction in all groups:
 * REDUCE_LOCAL_FIRST or REDUCE_RECEIVED_FIRST. AG then makes that reduction, from the shard and the receive buffer into
 * the outputs, so that one kernel does the work of two. NONE: the last step is not such a reduction, or in some group
 * it moves finished values.
 */
gpuhier_action_t gpuhier_plan_last_action(const gpuhier_plan_t *plan);

/* The slice buffer that a slice uses. */
static inline int gpuhier_plan_buffer(const gpuhier_plan_t *plan, uint64_t slice)
{
    return (int) (slice % (uint64_t) plan->slice_buffers);
}

/*
 * The vote among N group leaders: an OR of masks by dissemination, in ceil(log2 N) steps. In step s group g sends its
 * mask to group g + 2^s, and ORs the mask of group g - 2^s (modulo N) into its own. Afterwards every mask holds all
 * bits; OR allows a bit to arrive twice. (Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988.)
 */
int gpuhier_schedule_vote_steps(int ngroups);
void gpuhier_schedule_vote_peers(int ngroups, int group, int step, int *send_to_p, int *recv_from_p);

/*
 * Sets partners[g] for each group g whose owner of a piece exchanges messages with the one of this group, by the
 * algorithm `choice` or, if that is AUTO, by any. The relation holds in both directions. At most 2 log2 N + 3 groups of
 * N.
 */
void gpuhier_schedule_partners(gpuhier_algorithm_t choice, int ngroups, int group, bool *partners);

/* The same for leaders, which vote, and exchange short messages by recursive doubling. At most 3 log2 N + 3 groups. */
void gpuhier_schedule_leader_partners(int ngroups, int group, bool *partners);

#endif /* GPUHIER_SCHEDULE_H */
