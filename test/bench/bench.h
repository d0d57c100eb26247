/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of the benchmark share: the options, this rank's place, and a row of the table.
 */
#ifndef GPUHIER_BENCH_H
#define GPUHIER_BENCH_H

#include "../ranks/buffers.h"
#include "../ranks/pvars.h"
#include "../ranks/values.h"

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_NAMES 64

typedef enum bench_mode { MODE_BOTH, MODE_GPUHIER, MODE_STOCK } bench_mode_t;

typedef enum bench_call {
    CALL_BLOCKING,
    CALL_NONBLOCKING, /* MPI_Iallreduce and MPI_Wait */
    CALL_PERSISTENT   /* MPI_Start and MPI_Wait */
} bench_call_t;

/* Who gives an element of the message, or takes it. */
typedef enum bench_who {
    BY_ALL,   /* all ranks, which reduce if they give; or each */
    BY_ROOT,  /* rank 0 */
    BY_OWNER, /* the rank whose block it is in */
    BY_PAIR   /* each rank has a block for each */
} bench_who_t;

typedef struct bench_collective {
    const char *name, *function; /* for --collective, and as MPI calls it */
    bench_who_t from, to;
    bool has_lists; /* counts and displacements of blocks, which are of equal length here */
} bench_collective_t;

static inline bool bench_collective_reduces(const bench_collective_t *collective)
{
    return BY_ALL == collective->from;
}

static inline bool bench_collective_is_allreduce(const bench_collective_t *collective)
{
    return BY_ALL == collective->from && BY_ALL == collective->to;
}

static inline bool bench_collective_has_blocks(const bench_collective_t *collective)
{
    return collective->from >= BY_OWNER || collective->to >= BY_OWNER;
}

/* Set once from the command line; equal on all ranks. */
typedef struct bench_options {
    size_t min_bytes;
    size_t max_bytes;
    unsigned factor;
    int iterations;   /* timed calls per row at most */
    int warmups;      /* calls before them */
    int train;        /* calls in a row per sample */
    double budget;    /* seconds for all rows; 0: no limit, always all iterations */
    bool in_place[2]; /* [0]: rows out of place; [1]: rows in place */
    bool check;
    bool counters;
    bool any_path;
    bool host; /* host buffers: what they cost with the component loaded, and without */
    bench_mode_t mode;
    bench_call_t call;
    const bench_collective_t *collective;
    const value_type_t *types[BENCH_MAX_NAMES];
    int ntypes;
    const value_op_t *ops[BENCH_MAX_NAMES];
    int nops;
    double wire_gbps; /* Gbit/s of one rail; 0: unknown or unlimited */
    int rails;        /* per node */
    const char *json; /* files, or NULL */
    const char *plot;
} bench_options_t;

/* This rank's place. Constant after bench_place_init. */
typedef struct bench_place {
    int rank;
    int nranks;
    int node; /* index of its node, in order of the nodes' lowest ranks */
    int nnodes;
    int local_rank;
    int local_size;
    int group_ranks[64]; /* ranks on each node; the first 64 nodes */
    int gpu;
    int ngpus;
    bool shared_gpu; /* somewhere two ranks use one GPU */
    bool is_emulated;
    bool has_component;
    MPI_Comm gpuhier; /* what is measured */
    MPI_Comm stock;   /* the component takes no part in it */
    MPI_Comm control; /* the benchmark's own messages; without the component too */
    MPI_Comm on_node; /* ranks of this node; without the component */
} bench_place_t;

typedef enum bench_path {
    BENCH_PATH_NONE,    /* not measured, or no component */
    BENCH_PATH_GPUHIER, /* every timed call of every rank was accelerated */
    BENCH_PATH_STAGED,  /* none was, and the component staged */
    BENCH_PATH_SAVED,   /* none was */
    BENCH_PATH_MIXED
} bench_path_t;

/* One row of the table; complete on rank 0 only. Times are medians, in microseconds; 0: not measured. */
typedef struct bench_row {
    const bench_collective_t *collective;
    const value_type_t *type;
    const value_op_t *op;
    size_t count; /* of the call: a block's where there are blocks */
    size_t bytes; /* of the longer buffer: all blocks */
    bool in_place;
    int *counts, *starts; /* of blocks, [ranks], where the collective has lists; bench_measure() owns them */
    int iterations;
    double time_us;
    double stock_us;
    double floor_us;
    double cpu_us; /* of all ranks together per call, waiting included */
    double stock_cpu_us;
    double *samples; /* us, [iterations], in order of time; NULL: not measured. The row owns them */
    double *stock_samples;
    uint64_t wrong; /* elements, and guard bytes overwritten, over all ranks and checked calls */
    uint64_t stock_wrong;
    bench_path_t path;
    bool traffic_is_right; /* true when not asked for */
    double rail_balance;   /* payload on the least loaded rail of a node, by that on the most loaded; 0: not counted */
    char traffic[160];     /* what --counters found */
} bench_row_t;

/* bench_options.c: status 0, or 2 with a message on rank 0; 1: only help was asked for. */
int bench_options_parse(bench_options_t *options, int argc, char **argv, bool is_speaker);

/* bench_place.c; init is collective, and false, with a message, where a rank has no GPU. */
bool bench_place_init(bench_place_t *place);
void bench_place_free(bench_place_t *place);

/* bench_stock.c: what a program does without the component. */
typedef struct bench_stock bench_stock_t;

/* Host buffers, and device buffers of a CUDA-aware MPI, are passed as they are; others are staged through pinned
 * memory, made here. */
bench_stock_t *bench_stock_create(const bench_options_t *options);
void bench_stock_destroy(bench_stock_t *stock);
const char *bench_stock_name(const bench_stock_t *stock);
int bench_stock_call(bench_stock_t *stock, const void *send, void *recv, const bench_row_t *row, MPI_Comm comm);

/* bench_collective.c: the collectives. */
const bench_collective_t *bench_collective_find(const char *name); /* NULL: there is none of that name */

/* What busbw is of algbw with n ranks; between n nodes, what the busiest one must send or receive of the bytes. */
double bench_bus_factor(const bench_collective_t *collective, int n);

/* What a rank gives, which lies at in_at of the receive buffer when it is in place, and what it takes; 0: nothing. */
typedef struct bench_part {
    size_t in_at, in_bytes, out_bytes;
} bench_part_t;
bench_part_t bench_collective_part(const bench_row_t *row, int rank);

/* One blocking call; send may be MPI_IN_PLACE on all ranks. */
int bench_collective_call(const bench_row_t *row, const void *send, void *recv, MPI_Comm comm);

/* Wrong elements in what the rank has taken; line describes the first. */
size_t bench_collective_check(const bench_row_t *row, const value_case_t *values, int rank, const void *got, char *line,
                              size_t room);

/* bench_call.c: a call of the component, or with host buffers one without it. A persistent one lives from begin to end.
 */
typedef struct bench_caller {
    bench_call_t call;
    const void *send; /* or MPI_IN_PLACE */
    void *recv;
    const bench_row_t *row;
    MPI_Comm comm;
    MPI_Request request;
} bench_caller_t;
void bench_caller_begin(bench_caller_t *c);
void bench_caller_call(bench_caller_t *c);
void bench_caller_end(bench_caller_t *c);

/*
 * bench_floor.c: the time, in microseconds, in which this machine does the least that the row's
 * collective must do; 0 when it cannot be told. Collective; the result is equal on all ranks.
 */
typedef struct bench_floor bench_floor_t;
bench_floor_t *bench_floor_create(const bench_options_t *options, const bench_place_t *place);
void bench_floor_destroy(bench_floor_t *f);
double bench_floor_us(bench_floor_t *f, const bench_row_t *row);

/* bench_traffic.c: the bytes that one call moves, against the formulas. */
typedef struct bench_traffic bench_traffic_t;
bench_traffic_t *bench_traffic_create(const bench_place_t *place, const bench_options_t *options);
void bench_traffic_destroy(bench_traffic_t *t);

/* Around one call on an otherwise silent machine; collective. The result is in row, on all ranks. */
void bench_traffic_begin(bench_traffic_t *t);
void bench_traffic_end(bench_traffic_t *t, bench_row_t *row);

/* bench_measure.c: fills everything in row but its identity. Collective. budget: seconds for this row, 0: none. */
void bench_measure(const bench_options_t *options, const bench_place_t *place, bench_stock_t *stock,
                   bench_floor_t *floor, bench_traffic_t *traffic, double budget, bench_row_t *row);

/* bench_dup.c: prints the time of MPI_Comm_dup with the component and without it. Collective. */
void bench_dup_report(const bench_place_t *place);

/* bench_report.c: the table, the files. Rank 0 only. */
void bench_report_header(const bench_options_t *options, const bench_place_t *place, const char *stock_name);
void bench_report_row(const bench_row_t *row, const bench_place_t *place);
bool bench_report_json(const char *file, const bench_row_t *rows, int nrows, const bench_place_t *place);
bool bench_report_plot(const char *file, const bench_row_t *rows, int nrows, const bench_place_t *place,
                       const char *stock_name);
const char *bench_path_name(bench_path_t path);

/* bench_report.c: true unless the row is a failure: wrong results, another path than promised, other traffic. */
bool bench_row_is_right(const bench_row_t *row, const bench_options_t *options);

#endif /* GPUHIER_BENCH_H */
