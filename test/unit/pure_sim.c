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
 * find their peers.
 */
#include "info_traffic.h"
#include "pure_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char problem[512];

bool pure_run_fail(run_t *run, const char *format, ...)
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
    uint64_t hash = pure_mix(seed * 0x9e3779b97f4a7c15u + ((uint64_t) rank << 32) + elem);
    /* Magnitudes from 2^-30 to 2^33 of either sign: almost every order rounds differently. */
    double size = (double) (1 + (hash & 0xffff)) * (double) (1ULL << (hash >> 16 & 31)) / (double) (1ULL << 30)
                  * (double) (1ULL << (hash >> 21 & 15));

    return (value_t){.sum = hash, .order = hash ^ hash >> 17, .ill = 0 == (hash >> 32 & 1) ? size : -size, .n = 1};
}

/* Not linear, so that exchanging two operands anywhere in a tree shows; pure_mix would be better, and slower. */
static uint64_t combine_order(uint64_t left, uint64_t right)
{
    uint64_t x = left * 0xbf58476d1ce4e5b9u + (right ^ right >> 29) * 0x94d049bb133111ebu;

    return x ^ x >> 31;
}

value_t pure_combine(value_t left, value_t right)
{
    return (value_t){.sum = left.sum + right.sum,
                     .order = combine_order(left.order, right.order),
                     .ill = left.ill + right.ill,
                     .n = left.n + right.n};
}

/* The place of an element of a slice in its rank's shard buffer. NULL if it is outside. */
static value_t *shard_values(run_t *run, int rank, uint64_t slice, gpuhier_range_t range)
{
    const gpuhier_plan_t *plan = &run->plans[rank];
    gpuhier_range_t shard = gpuhier_plan_part(plan, slice, plan->index, plan->group_size);
    uint64_t buffer = (uint64_t) gpuhier_plan_buffer(plan, slice);

    if (range.begin < shard.begin || range.end > shard.end || range.begin > range.end
        || gpuhier_range_length(shard) > plan->shard_elems_max) {
        pure_run_fail(run, "rank %d slice %llu: elements %llu .. %llu are not in its shard", rank,
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
    *mail = (mail_t){.next = run->inbox[t->send_to],
                     .from = from,
                     .slice = slice,
                     .piece = piece,
                     .step = step,
                     .range = t->send,
                     .at = run->nletters};
    memcpy(run->letters + run->nletters, values, n * sizeof(*values));
    run->inbox[t->send_to] = (int) run->nmails++;
    run->nletters += n;
    run->sent[from] += n;
    ++run->messages;
}

/* Takes a message out of the inbox of `to`; NULL: it has not come. */
static const mail_t *mail_take(run_t *run, int to, int from, uint64_t slice, int piece, int step)
{
    for (int *link = &run->inbox[to]; - 1 != *link; link = &run->mails[*link].next) {
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
    const value_t *letter = run->letters + mail->at;
    uint64_t n = gpuhier_range_length(t->recv);
    value_t *values = shard_values(run, owner->rank, slice, t->recv);

    if (NULL == values) {
        return false;
    }
    if (mail->range.begin != t->recv.begin || mail->range.end != t->recv.end) {
        return pure_run_fail(run, "rank %d piece %d step %d expects other elements than rank %d sent", owner->rank,
                             piece, owner->step, mail->from);
    }
    switch (t->action) {
    case GPUHIER_ACTION_COPY:
        if (-1 != t->send_to && ranges_overlap(t->send, t->recv)) {
            return pure_run_fail(run, "rank %d piece %d step %d receives over what it sends", owner->rank, piece,
                                 owner->step);
        }
        memcpy(values, letter, n * sizeof(*values));
        return true;
    case GPUHIER_ACTION_REDUCE_LOCAL_FIRST:
    case GPUHIER_ACTION_REDUCE_RECEIVED_FIRST:
        for (uint64_t i = 0; i < n; ++i) {
            values[i] = GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action ? pure_combine(values[i], letter[i])
                                                                       : pure_combine(letter[i], values[i]);
        }
        return true;
    default:
        return pure_run_fail(run, "rank %d piece %d step %d receives for nothing", owner->rank, piece, owner->step);
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
                return pure_run_fail(run, "rank %d piece %d step %d sends what it has not", owner->rank, piece,
                                     owner->step);
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
            pure_run_fail(run, "rank %d piece %d waits for ever in step %d", owner->rank, piece, owner->step);
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
                return pure_run_fail(run, "rank %d piece %d: a message from rank %d is never received", rank, piece,
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
        gpuhier_range_t shard = gpuhier_plan_part(plan, slice, plan->index, plan->group_size);
        value_t *values = shard_values(run, rank, slice, shard);
        if (NULL == values) {
            return false;
        }
        for (int index = 0; index < plan->group_size; ++index) {
            int peer = gpuhier_hierarchy_member(run->h, plan->group, index);
            for (uint64_t e = shard.begin; e < shard.end; ++e) {
                value_t x = pure_contribution(run, peer, e);
                values[e - shard.begin] = 0 == index ? x : pure_combine(values[e - shard.begin], x);
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
    gpuhier_range_t shard = gpuhier_plan_part(plan, slice, plan->index, plan->group_size);
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
            return pure_run_fail(run, "element %llu: rank %d has another result than the first owner",
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
            return pure_run_fail(run, "rank %d has no plan: %d", rank, rc);
        }
        if (plan->nslices != run->plans[0].nslices || plan->algorithm != run->plans[0].algorithm
            || plan->nsteps != run->plans[0].nsteps) {
            return pure_run_fail(run, "rank %d plans differently from rank 0", rank);
        }
        for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
            int *owner = &run->piece_owner[(size_t) piece * (size_t) run->ngroups + (size_t) plan->group];
            if (piece >= npieces || -1 != *owner) {
                return pure_run_fail(run, "piece %d has several owners in group %d", piece, plan->group);
            }
            *owner = rank;
        }
        run->shards[rank] = claim((size_t) plan->slice_buffers * plan->shard_elems_max, sizeof(value_t));
        run->inbox[rank] = -1;
    }
    for (int i = 0; i < npieces * run->ngroups; ++i) {
        if (-1 == run->piece_owner[i]) {
            return pure_run_fail(run, "piece %d has no owner in group %d", i / run->ngroups, i % run->ngroups);
        }
    }
    return true;
}

/* Runs the table of slice x tick. Within a tick the oldest slice goes first: two slice buffers then suffice. */
static bool run_table(run_t *run)
{
    static bool (*const stages[INFO_PHASE_COUNT])(run_t *, uint64_t) = {
        [INFO_PHASE_REDUCE_SCATTER] = run_reduce_scatter,
        [INFO_PHASE_EXCHANGE] = run_exchange,
        [INFO_PHASE_ALL_GATHER] = run_all_gather,
    };
    const gpuhier_plan_t *plan = &run->plans[0];

    for (uint64_t tick = 0; tick < info_ticks(plan); ++tick) {
        for (int stage = INFO_PHASE_COUNT - 1; stage >= 0; --stage) {
            uint64_t slice = info_phase_slice(plan, tick, (info_phase_t) stage);
            if (INFO_NO_SLICE == slice) {
                continue;
            }
            if (slice >= plan->nslices || run->stage_done[slice] != stage) {
                return pure_run_fail(run, "tick %llu: stage %d is not what comes next for its slice",
                                     (unsigned long long) tick, stage);
            }
            ++run->stage_done[slice];
            if (!stages[stage](run, slice)) {
                return false;
            }
        }
    }
    for (uint64_t slice = 0; slice < plan->nslices; ++slice) {
        if (INFO_PHASE_COUNT != run->stage_done[slice]) {
            return pure_run_fail(run, "slice %llu is not finished", (unsigned long long) slice);
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
        if (run_table(&run) && pure_check_results(&run) && pure_check_traffic(&run, &counts)) {
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
