/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One checked call of MPI_Allreduce, and the book-keeping of a test program around it.
 *
 * Owns: start and end of a test program (MPI, the choice of a GPU, the verdict).
 * How: each rank checks its own output against a reference that it computes alone, and its own
 *   counters; the program's status is the verdict. Nothing is communicated to agree on it.
 * Called by: the programs of test/ranks, run also on several nodes by test/nodes.
 */
#ifndef GPUHIER_TEST_CALLS_H
#define GPUHIER_TEST_CALLS_H

#include "buffers.h"
#include "pvars.h"
#include "values.h"

/* A persistent collective: Open MPI 4 has them as an extension (mpi-ext.h). */
#if MPI_VERSION >= 4 || defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
#    define PERSISTENT_NAME(name) MPI_##name##_init
#else
#    define PERSISTENT_NAME(name) MPIX_##name##_init
#endif

/* A call by MPI 4's functions with large counts, whose names end in _c, if is_wide is set; or by the others. */
#if MPI_VERSION >= 4
#    define HAS_WIDE true
#    define WIDE_OR(is_wide, wide, narrow) ((is_wide) ? (wide) : (narrow))
#else
#    define HAS_WIDE false
#    define WIDE_OR(is_wide, wide, narrow) (narrow)
#endif

typedef enum call_path {
    PATH_ANY,         /* any path that gives the right result */
    PATH_ACCELERATED, /* the component's own, counted as such */
    PATH_SAVED        /* not the component's own; with device buffers staged, unless Open MPI takes them itself */
} call_path_t;

/* One test program's state; lives in main. */
typedef struct suite {
    const char *name;
    int rank;
    int nranks;
    uint64_t salt; /* grows with each call, so that no result repeats */
    unsigned long calls;
    unsigned long failures;
    bool full;                /* the whole matrix was asked for */
    bool cuda_aware;          /* this Open MPI takes device buffers itself */
    call_path_t default_path; /* PATH_ANY under --stock, where no path can be asserted */
} suite_t;

/* One call. Ranks may differ in the kinds and offsets of their buffers, and in what they check. */
typedef struct call {
    MPI_Comm comm; /* MPI_COMM_NULL stands for MPI_COMM_WORLD */
    const value_type_t *type;
    const value_op_t *op;
    size_t count;
    buffer_kind_t send_kind;
    buffer_kind_t recv_kind;
    size_t send_offset; /* bytes */
    size_t recv_offset;
    bool in_place;
    bool twice; /* compare with MPI_Reduce_local as well */
    call_path_t path;
} call_t;

/*
 * Starts MPI (unless it runs) and picks this rank's GPU by its rank on its node. A program that
 * must do this in another order calls the two by itself first. "--stock" as the first argument, or no
 * component where GPUHIER_EXPECT_COMPONENT is 0, takes the assertion of paths away.
 */
void suite_begin(suite_t *suite, const char *name, int *argc_p, char ***argv_p);

/* The same without any CUDA call, for programs that run where there is no CUDA. */
void suite_begin_host(suite_t *suite, const char *name, int *argc_p, char ***argv_p);

/* Takes "wide" from the front of the arguments: calls are to be made with large counts. Where MPI has none, ends the
 * program with status 77. */
bool suite_is_wide(const suite_t *suite, int *argc_p, char ***argv_p);

/* Picks the GPU: rank on the node modulo the number of GPUs. Needs no MPI. */
void suite_choose_gpu(void);

/* Ends MPI and returns the exit status: 0 when at least one call was made and none failed. */
int suite_end(suite_t *suite);

/* Counts a failure and prints it; the first twenty of a rank are shown. */
void suite_fail(suite_t *suite, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Since `before` was read, so many of this rank's calls were accelerated, and so many staged (a CUDA-aware Open MPI
 * gets device buffers of blocking calls as they are). Checks nothing where no path can be asserted.
 */
void suite_check_paths(suite_t *suite, const char *what, const pvars_t *before, uint64_t accelerated, uint64_t staged);

/* Makes the call and checks result, guards, input and path. Returns true when all were right. */
bool suite_call(suite_t *suite, const call_t *call);

#endif /* GPUHIER_TEST_CALLS_H */
