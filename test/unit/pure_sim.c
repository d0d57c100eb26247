/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns: the execution of plans on arrays, and the checks listed in pure_sim.h.
 *
 * How it works: every rank has a plan and slice buffers of the size that the plan
 * states. Stages run in the order of the plan's table. A message is copied into
 * the mail when it is sent and found by (receiver, sender, slice, piece, step);
 * a rank that does not find its message waits, and the owners of a piece take
 * turns until all are done or none can go on. Which rank owns a piece is taken
 * from the ranks' own claims, not from the function that the programs use to
 * find their peers. References (sums, order of operands) are computed from
 * the contributions directly, by the formulas in coll_gpuhier_schedule.h.
 */
#include "pure_sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an element is here: one contribution or a combination of some. */
typedef struct value {
    uint64_t sum;   /* of the ranks' weights, modulo 2^64 */
    uint64_t order; /* hash of the tree of operands: neither commutative nor associative */
    double ill;     /* a sum whose rounding depends on the order */
    uint64_t n;     /* contributions */
} value_t;

/* A message under way. */
typedef struct mail {
    int next; /* of the same receiver; -1: last */
    int from;
    uint64_t slice;
    int piece;
    int step;
    gpuhier_range_t range;
    size_t at; /* of its values in run->letters */
} mail_t;

/* One owner's way through the steps of one piece. */
typedef struct owner {
    int rank;
    int step;
    bool sent;
} owner_t;

typedef struct run {
    const pure_sim_t *sim;
    const gpuhier_hierarchy_t *h;
    int nranks;
    int ngroups;
    gpuhier_plan_t *plans;     /* [nranks] */
    value_t **shards;          /* [nranks] slice_buffers * shard_elems_max values */
    int *piece_owner;          /* [npieces * ngroups] by the plans' own claims */
    owner_t *owners;           /* [ngroups] of the piece at hand */
    int *inbox;                /* [nranks] first mail of a rank, -1: none */
    mail_t *mails;
    size_t nmails, mails_room;
    value_t *letters;
    size_t nletters, letters_room;
    uint64_t *sent;            /* [nranks] elements */
    uint64_t *links;           /* [nranks * max_group_size] elements from member `index` to a rank */
    value_t *inputs;           /* [nranks * count] contributions */
    value_t *results;          /* [count] as first delivered */
    unsigned char *delivered;  /* [ngroups * count] times an element was written */
    unsigned char *stage_done; /* [nslices] */
    uint64_t messages;
    bool failed;
} run_t;

static char problem[512];

__attribute__((format(printf, 2, 3))) static bool run_fail(run_t *run, const char *format, ...)
{
    va_list args;

    if (!run->failed) {
        va_start(args, format);
        vsnprintf(problem, sizeof(problem), format, args);
        va_end(args);
        run->failed = true;
    }
    return false;
}

static void *claim(size_t n, size_t bytes)
{
    void *p = calloc(0 == n ? 1 : n, bytes);

    if (NULL == p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

static value_t contribution_made(uint64_t seed, int rank, uint64_t elem)
{
    uint64_t hash = pure_mix(seed ^ pure_mix(((uint64_t) rank << 32) ^ elem));
    /* Magnitudes from 2^-30 to 2^33 of either sign: almost every order rounds differently. */
    double size = (double) (1 + (hash & 0xffff)) * (double) (1ULL << (hash >> 16 & 31)) / (double) (1ULL << 30)
                  * (double) (1ULL << (hash >> 21 & 15));

    return (value_t){.sum = hash, .order = pure_mix(hash), .ill = 0 == (hash >> 32 & 1) ? size : -size, .n = 1};
}

static value_t contribution(const run_t *run, int rank, uint64_t elem)
{
    return run->inputs[(size_t) rank * run->sim->count + elem];
}

static value_t combine(value_t left, value_t right)
{
    return (value_t){.sum = left.sum + right.sum,
                     .order = pure_mix(3 * left.order + pure_mix(right.order)),
                     .ill = left.ill + right.ill,
                     .n = left.n + right.n};
}

/* The place of an element of a slice in its rank's shard buffer. NULL if it is outside. */
static value_t *shard_values(run_t *run, int rank, uint64_t slice, gpuhier_range_t range)
{
    const gpuhier_plan_t *plan = &run->plans[rank];
    gpuhier_range_t shard = gpuhier_plan_shard(plan, slice, plan->index);
    uint64_t buffer = (uint64_t) gpuhier_plan_buffer(plan, slice);

    if (range.begin < shard.begin || range.end > shard.end || range.begin > range.end
        || gpuhier_range_length(shard) > plan->shard_elems_max) {
        run_fail(run, "rank %d slice %llu: elements %llu .. %llu are not in its shard", rank,
                 (unsigned long long) slice, (unsigned long long) range.begin, (unsigned long long) range.end);
        return NULL;
    }
    return run->shards[rank] + buffer * plan->shard_elems_max + (range.begin - shard.begin);
}

/* -- mail ------------------------------------------------------------------------------ */

static void mail_send(run_t *run, int from, uint64_t slice, int piece, int step, const gpuhier_transfer_t *t,
                      const value_t *values)
{
    size_t n = (size_t) gpuhier_range_length(t->send);
    mail_t *mail;

    if (run->nmails == run->mails_room) {
        run->mails_room = 2 * run->mails_room + 64;
        run->mails = realloc(run->mails, run->mails_room * sizeof(*run->mails));
    }
    while (run->nletters + n > run->letters_room) {
        run->letters_room = 2 * run->letters_room + 1024;
        run->letters = realloc(run->letters, run->letters_room * sizeof(*run->letters));
    }
    if (NULL == run->mails || NULL == run->letters) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    mail = &run->mails[run->nmails];
    *mail = (mail_t){.next = run->inbox[t->send_to], .from = from, .slice = slice, .piece = piece, .step = step,
                     .range = t->send, .at = run->nletters};
    memcpy(run->letters + run->nletters, values, n * sizeof(*values));
    run->inbox[t->send_to] = (int) run->nmails++;
    run->nletters += n;
    run->sent[from] += n;
    ++run->messages;
}

/* Takes a message out of the inbox of `to`; NULL: it has not come. */
static const mail_t *mail_take(run_t *run, int to, int from, uint64_t slice, int piece, int step)
{
    for (int *link = &run->inbox[to]; -1 != *link; link = &run->mails[*link].next) {
        const mail_t *mail = &run->mails[*link];
        if (mail->from == from && mail->slice == slice && mail->piece == piece && mail->step == step) {
            *link = mail->next;
            return mail;
        }
    }
    return NULL;
}

/* -- exchange -------------------------------------------------------------------------- */

static bool ranges_overlap(gpuhier_range_t a, gpuhier_range_t b)
{
    return a.begin < b.end && b.begin < a.end;
}

static bool owner_receive(run_t *run, const owner_t *owner, uint64_t slice, int piece, const gpuhier_transfer_t *t,
                          const mail_t *mail)
{
    const gpuhier_plan_t *plan = &run->plans[owner->rank];
    const value_t *letter = run->letters + mail->at;
    uint64_t n = gpuhier_range_length(t->recv);
    value_t *values = shard_values(run, owner->rank, slice, t->recv);

    if (NULL == values) {
        return false;
    }
    if (mail->range.begin != t->recv.begin || mail->range.end != t->recv.end) {
        return run_fail(run, "rank %d piece %d step %d expects other elements than rank %d sent", owner->rank, piece,
                        owner->step, mail->from);
    }
    switch (t->action) {
    case GPUHIER_ACTION_COPY:
        if (-1 != t->send_to && ranges_overlap(t->send, t->recv)) {
            return run_fail(run, "rank %d piece %d step %d receives over what it sends", owner->rank, piece, owner->step);
        }
        memcpy(values, letter, n * sizeof(*values));
        return true;
    case GPUHIER_ACTION_REDUCE_LOCAL_FIRST:
    case GPUHIER_ACTION_REDUCE_RECEIVED_FIRST:
        if (n > plan->recv_elems_max) {
            return run_fail(run, "rank %d piece %d step %d: the receive buffer is too small", owner->rank, piece,
                            owner->step);
        }
        for (uint64_t i = 0; i < n; ++i) {
            values[i] = GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action ? combine(values[i], letter[i])
                                                                      : combine(letter[i], values[i]);
        }
        return true;
    default:
        return run_fail(run, "rank %d piece %d step %d receives for nothing", owner->rank, piece, owner->step);
    }
}

/* Runs an owner's steps until it is done or must wait; says whether it got anywhere. */
static bool owner_advance(run_t *run, owner_t *owner, uint64_t slice, int piece)
{
    const gpuhier_plan_t *plan = &run->plans[owner->rank];
    bool moved = false;

    while (owner->step < plan->nsteps && !run->failed) {
        gpuhier_transfer_t t;
        gpuhier_plan_transfer(plan, slice, piece, owner->step, &t);
        if (NULL != run->sim->tamper) {
            run->sim->tamper(run->sim->tamper_arg, plan, slice, piece, owner->step, &t);
        }
        if (!owner->sent && -1 != t.send_to) {
            const value_t *values = shard_values(run, owner->rank, slice, t.send);
            if (NULL == values || t.send.begin == t.send.end) {
                return run_fail(run, "rank %d piece %d step %d sends what it has not", owner->rank, piece, owner->step);
            }
            mail_send(run, owner->rank, slice, piece, owner->step, &t, values);
        }
        owner->sent = true;
        if (-1 != t.recv_from) {
            const mail_t *mail = mail_take(run, owner->rank, t.recv_from, slice, piece, owner->step);
            if (NULL == mail) {
                return moved;
            }
            if (!owner_receive(run, owner, slice, piece, &t, mail)) {
                return false;
            }
        }
        owner->sent = false;
        ++owner->step;
        moved = true;
    }
    return moved;
}

static bool run_exchange_piece(run_t *run, uint64_t slice, int piece)
{
    bool moved = true;

    for (int g = 0; g < run->ngroups; ++g) {
        run->owners[g] = (owner_t){.rank = run->piece_owner[(size_t) piece * (size_t) run->ngroups + (size_t) g]};
    }
    while (moved && !run->failed) {
        moved = false;
        for (int g = 0; g < run->ngroups; ++g) {
            moved = owner_advance(run, &run->owners[g], slice, piece) || moved;
        }
    }
    for (int g = 0; g < run->ngroups && !run->failed; ++g) {
        const owner_t *owner = &run->owners[g];
        if (owner->step < run->plans[owner->rank].nsteps) {
            run_fail(run, "rank %d piece %d waits for ever in step %d", owner->rank, piece, owner->step);
        }
    }
    return !run->failed;
}

static bool run_exchange(run_t *run, uint64_t slice)
{
    for (int piece = 0; piece < run->sim->world->shape.npieces; ++piece) {
        run->nmails = 0;
        run->nletters = 0;
        if (!run_exchange_piece(run, slice, piece)) {
            return false;
        }
        for (int rank = 0; rank < run->nranks && run->nmails > 0; ++rank) {
            if (-1 != run->inbox[rank]) {
                return run_fail(run, "rank %d piece %d: a message from rank %d is never received", rank, piece,
                                run->mails[run->inbox[rank]].from);
            }
        }
    }
    return true;
}

/* -- reduce-scatter and all-gather ----------------------------------------------------- */

static bool run_reduce_scatter(run_t *run, uint64_t slice)
{
    for (int rank = 0; rank < run->nranks; ++rank) {
        const gpuhier_plan_t *plan = &run->plans[rank];
        gpuhier_range_t shard = gpuhier_plan_shard(plan, slice, plan->index);
        value_t *values = shard_values(run, rank, slice, shard);
        if (NULL == values) {
            return false;
        }
        for (int index = 0; index < plan->group_size; ++index) {
            int peer = gpuhier_hierarchy_member(run->h, plan->group, index);
            for (uint64_t e = shard.begin; e < shard.end; ++e) {
                value_t x = contribution(run, peer, e);
                values[e - shard.begin] = 0 == index ? x : combine(values[e - shard.begin], x);
            }
            run->links[(size_t) rank * (size_t) run->sim->world->shape.max_group_size + (size_t) index] +=
                gpuhier_range_length(shard);
        }
    }
    return true;
}

/* One owner's finished shard goes to every member of its group; what all must hold is checked on the way. */
static bool deliver(run_t *run, int rank, uint64_t slice)
{
    const gpuhier_plan_t *plan = &run->plans[rank];
    gpuhier_range_t shard = gpuhier_plan_shard(plan, slice, plan->index);
    const value_t *values = shard_values(run, rank, slice, shard);

    if (NULL == values) {
        return false;
    }
    for (int index = 0; index < plan->group_size; ++index) {
        int peer = gpuhier_hierarchy_member(run->h, plan->group, index);
        run->links[(size_t) peer * (size_t) run->sim->world->shape.max_group_size + (size_t) plan->index] +=
            gpuhier_range_length(shard);
    }
    for (uint64_t e = shard.begin; e < shard.end; ++e) {
        const value_t *value = &values[e - shard.begin];
        if (0 == run->results[e].n) {
            run->results[e] = *value;
        }
        if (0 != memcmp(value, &run->results[e], sizeof(*value))) {
            return run_fail(run, "element %llu: rank %d has another result than the first owner",
                            (unsigned long long) e, rank);
        }
        ++run->delivered[(size_t) plan->group * run->sim->count + e];
    }
    return true;
}

static bool run_all_gather(run_t *run, uint64_t slice)
{
    for (int rank = 0; rank < run->nranks; ++rank) {
        if (!deliver(run, rank, slice)) {
            return false;
        }
    }
    return true;
}

/* -- references ------------------------------------------------------------------------ */

static value_t group_value(const run_t *run, int group, uint64_t elem)
{
    value_t sum = contribution(run, gpuhier_hierarchy_member(run->h, group, 0), elem);

    for (int i = 1; i < gpuhier_hierarchy_group_size(run->h, group); ++i) {
        sum = combine(sum, contribution(run, gpuhier_hierarchy_member(run->h, group, i), elem));
    }
    return sum;
}

/* T(c, w) of the header: w leaves from c on. */
static value_t tree_value(const run_t *run, int leaf, int width, int folded, uint64_t elem)
{
    if (width > 1) {
        value_t low = tree_value(run, leaf, width / 2, folded, elem);
        return combine(low, tree_value(run, leaf + width / 2, width / 2, folded, elem));
    }
    if (leaf < folded) {
        value_t even = group_value(run, 2 * leaf, elem);
        return combine(even, group_value(run, 2 * leaf + 1, elem));
    }
    return group_value(run, leaf + folded, elem);
}

/* The chunk, of one per group, that an element of a piece lies in. */
static int ring_chunk(const run_t *run, gpuhier_range_t piece, uint64_t elem)
{
    uint64_t unit = run->plans[0].unit;
    unsigned __int128 units = (gpuhier_range_length(piece) + unit - 1) / unit;
    unsigned __int128 at = (elem - piece.begin) / unit;
    int chunk = 0;

    while (at >= units * (unsigned) (chunk + 1) / (unsigned) run->ngroups) {
        ++chunk;
    }
    return chunk;
}

static value_t ring_value(const run_t *run, int chunk, uint64_t elem)
{
    value_t sum = group_value(run, (chunk + 1) % run->ngroups, elem);

    for (int i = 2; i <= run->ngroups; ++i) {
        sum = combine(sum, group_value(run, (chunk + i) % run->ngroups, elem));
    }
    return sum;
}

static bool check_result(run_t *run, uint64_t elem, const value_t *expected)
{
    const value_t *result = &run->results[elem];
    uint64_t sum = 0;

    for (int rank = 0; rank < run->nranks; ++rank) {
        sum += contribution(run, rank, elem).sum;
    }
    if (result->n != (uint64_t) run->nranks || result->sum != sum) {
        return run_fail(run, "element %llu does not hold every contribution exactly once", (unsigned long long) elem);
    }
    if (0 != memcmp(result, expected, sizeof(*result))) {
        return run_fail(run, "element %llu: the operands are not in the documented order", (unsigned long long) elem);
    }
    for (int group = 0; group < run->ngroups; ++group) {
        if (1 != run->delivered[(size_t) group * run->sim->count + elem]) {
            return run_fail(run, "element %llu was written %d times in group %d", (unsigned long long) elem,
                            run->delivered[(size_t) group * run->sim->count + elem], group);
        }
    }
    return true;
}

static bool check_results(run_t *run)
{
    const gpuhier_plan_t *plan = &run->plans[0];
    uint64_t checked = 0;
    int leaves = 1;

    while (2 * leaves <= run->ngroups) {
        leaves *= 2;
    }
    for (uint64_t slice = 0; slice < plan->nslices; ++slice) {
        for (int i = 0; i < run->sim->world->shape.npieces; ++i) {
            gpuhier_range_t piece = gpuhier_plan_piece(plan, slice, i);
            if (piece.begin != checked || piece.end < piece.begin) {
                return run_fail(run, "slice %llu piece %d does not begin where the one before ends",
                                (unsigned long long) slice, i);
            }
            for (; checked < piece.end; ++checked) {
                value_t expected = GPUHIER_ALGORITHM_RING == plan->algorithm
                                       ? ring_value(run, ring_chunk(run, piece, checked), checked)
                                       : tree_value(run, 0, leaves, run->ngroups - leaves, checked);
                if (!check_result(run, checked, &expected)) {
                    return false;
                }
            }
        }
    }
    return checked == run->sim->count || run_fail(run, "the slices end before the message does");
}

static bool check_traffic(run_t *run, pure_sim_counts_t *counts)
{
    size_t row = (size_t) run->sim->world->shape.max_group_size;

    for (int rank = 0; rank < run->nranks; ++rank) {
        const gpuhier_plan_t *plan = &run->plans[rank];
        if (gpuhier_plan_sent_bytes(plan) != run->sent[rank] * run->sim->elem_bytes) {
            return run_fail(run, "rank %d sent %llu elements, by the formula %llu bytes", rank,
                            (unsigned long long) run->sent[rank], (unsigned long long) gpuhier_plan_sent_bytes(plan));
        }
        counts->net_elems += run->sent[rank];
        for (int from = 0; from < plan->group_size; ++from) {
            uint64_t moved = run->links[(size_t) rank * row + (size_t) from];
            counts->gpu_elems += moved;
            if (from != plan->index
                && gpuhier_plan_link_bytes(plan, plan->index, from) != moved * run->sim->elem_bytes) {
                return run_fail(run, "rank %d: %llu elements came from member %d, by the formula %llu bytes", rank,
                                (unsigned long long) moved, from,
                                (unsigned long long) gpuhier_plan_link_bytes(plan, plan->index, from));
            }
        }
    }
    return true;
}

/* -- the run --------------------------------------------------------------------------- */

/* Lets every rank make its plan, and checks that each piece has one claimant per group. */
static bool run_plans(run_t *run)
{
    const pure_sim_t *sim = run->sim;
    int npieces = sim->world->shape.npieces;

    memset(run->piece_owner, -1, (size_t) npieces * (size_t) run->ngroups * sizeof(int));
    for (int rank = 0; rank < run->nranks; ++rank) {
        gpuhier_plan_t *plan = &run->plans[rank];
        int rc = gpuhier_plan_init(plan, &sim->world->shape, rank, sim->count, sim->elem_bytes, &sim->limits);
        if (0 != rc) {
            return run_fail(run, "rank %d has no plan: %d", rank, rc);
        }
        if (plan->nslices != run->plans[0].nslices || plan->algorithm != run->plans[0].algorithm
            || plan->nsteps != run->plans[0].nsteps) {
            return run_fail(run, "rank %d plans differently from rank 0", rank);
        }
        for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
            int *owner = &run->piece_owner[(size_t) piece * (size_t) run->ngroups + (size_t) plan->group];
            if (piece >= npieces || -1 != *owner) {
                return run_fail(run, "piece %d has several owners in group %d", piece, plan->group);
            }
            *owner = rank;
        }
        run->shards[rank] = claim((size_t) plan->slice_buffers * plan->shard_elems_max, sizeof(value_t));
        run->inbox[rank] = -1;
    }
    for (int i = 0; i < npieces * run->ngroups; ++i) {
        if (-1 == run->piece_owner[i]) {
            return run_fail(run, "piece %d has no owner in group %d", i / run->ngroups, i % run->ngroups);
        }
    }
    return true;
}

/* Runs the table of slice x tick. Within a tick the oldest slice goes first: two slice buffers then suffice. */
static bool run_table(run_t *run)
{
    static bool (*const stages[GPUHIER_STAGE_COUNT])(run_t *, uint64_t) = {
        [GPUHIER_STAGE_REDUCE_SCATTER] = run_reduce_scatter,
        [GPUHIER_STAGE_EXCHANGE] = run_exchange,
        [GPUHIER_STAGE_ALL_GATHER] = run_all_gather,
    };
    const gpuhier_plan_t *plan = &run->plans[0];

    for (uint64_t tick = 0; tick < gpuhier_plan_ticks(plan); ++tick) {
        for (int stage = GPUHIER_STAGE_COUNT - 1; stage >= 0; --stage) {
            uint64_t slice = gpuhier_plan_stage_slice(plan, tick, (gpuhier_stage_t) stage);
            if (GPUHIER_NO_SLICE == slice) {
                continue;
            }
            if (slice >= plan->nslices || run->stage_done[slice] != stage) {
                return run_fail(run, "tick %llu: stage %d is not what comes next for its slice",
                                (unsigned long long) tick, stage);
            }
            ++run->stage_done[slice];
            if (!stages[stage](run, slice)) {
                return false;
            }
        }
    }
    for (uint64_t slice = 0; slice < plan->nslices; ++slice) {
        if (GPUHIER_STAGE_COUNT != run->stage_done[slice]) {
            return run_fail(run, "slice %llu is not finished", (unsigned long long) slice);
        }
    }
    return true;
}

static void run_free(run_t *run)
{
    for (int rank = 0; rank < run->nranks; ++rank) {
        free(run->shards[rank]);
    }
    free(run->plans);
    free(run->shards);
    free(run->piece_owner);
    free(run->owners);
    free(run->inbox);
    free(run->mails);
    free(run->letters);
    free(run->sent);
    free(run->links);
    free(run->inputs);
    free(run->results);
    free(run->delivered);
    free(run->stage_done);
}

const char *pure_sim_run(const pure_sim_t *sim, pure_sim_counts_t *counts_p)
{
    const gpuhier_hierarchy_t *h = &sim->world->hierarchy;
    run_t run = {.sim = sim, .h = h, .nranks = h->nranks, .ngroups = h->ngroups};
    size_t nranks = (size_t) h->nranks;
    size_t ngroups = (size_t) h->ngroups;
    pure_sim_counts_t counts = {0};

    run.plans = claim(nranks, sizeof(*run.plans));
    run.shards = claim(nranks, sizeof(*run.shards));
    run.piece_owner = claim((size_t) sim->world->shape.npieces * ngroups, sizeof(int));
    run.owners = claim(ngroups, sizeof(*run.owners));
    run.inbox = claim(nranks, sizeof(int));
    run.sent = claim(nranks, sizeof(uint64_t));
    run.links = claim(nranks * (size_t) sim->world->shape.max_group_size, sizeof(uint64_t));
    run.inputs = claim(nranks * sim->count, sizeof(value_t));
    for (size_t i = 0; i < nranks * sim->count; ++i) {
        run.inputs[i] = contribution_made(sim->seed, (int) (i / sim->count), i % sim->count);
    }
    run.results = claim(sim->count, sizeof(value_t));
    run.delivered = claim(ngroups * sim->count, 1);
    if (run_plans(&run)) {
        run.stage_done = claim(run.plans[0].nslices, 1);
        if (run_table(&run) && check_results(&run) && check_traffic(&run, &counts)) {
            counts.messages = run.messages;
            counts.algorithm = run.plans[0].algorithm;
        }
    }
    run_free(&run);
    if (!run.failed && NULL != counts_p) {
        *counts_p = counts;
    }
    return run.failed ? problem : NULL;
}
