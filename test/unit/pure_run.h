/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Inside of the simulation only: a run under way (pure_sim.c) and the check of
 * what it left (pure_check.c).
 */
#ifndef PURE_RUN_H
#define PURE_RUN_H

#include "pure_sim.h"

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
    gpuhier_plan_t *plans; /* [nranks] */
    value_t **shards;      /* [nranks] slice_buffers * shard_elems_max values */
    int *piece_owner;      /* [npieces * ngroups] by the plans' own claims */
    owner_t *owners;       /* [ngroups] of the piece at hand */
    int *inbox;            /* [nranks] first mail of a rank, -1: none */
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

/* Notes the first problem of a run; always false, to be returned. */
__attribute__((format(printf, 2, 3))) bool pure_run_fail(run_t *run, const char *format, ...);

/* What a rank contributes to an element. */
static inline value_t pure_contribution(const run_t *run, int rank, uint64_t elem)
{
    return run->inputs[(size_t) rank * run->sim->count + elem];
}

/* left op right */
value_t pure_combine(value_t left, value_t right);

/* Does every element hold what it must, in the documented order of operands, everywhere? */
bool pure_check_results(run_t *run);

/* Did as many bytes move as the formulas say? Adds up counts. */
bool pure_check_traffic(run_t *run, pure_sim_counts_t *counts);

#endif /* PURE_RUN_H */
