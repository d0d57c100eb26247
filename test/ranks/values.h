/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Predefined types and operations with known inputs and an independent reference.
 *
 * Owns: the tables of types and operations, the generator of every rank's input, the
 *   expected result (computed on the host, in plain C, from the inputs of all ranks), and the
 *   comparison.
 * Does not own: buffers (buffers.h), and any MPI communication: every rank computes
 *   everything for itself, so a broken collective cannot hide itself.
 * Called by: the functional tests in test/ranks and test/nodes, and the benchmark.
 */
#ifndef GPUHIER_TEST_VALUES_H
#define GPUHIER_TEST_VALUES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum value_kind {
    VALUE_NOTHING = 0, /* no operation is defined */
    VALUE_INT = 1,
    VALUE_UINT = 2,
    VALUE_INTEGER = 4, /* Fortran's default one: signed, but not for logical operations */
    VALUE_BOOL = 8,
    VALUE_FLOAT = 16,
    VALUE_COMPLEX = 32,
    VALUE_PAIR_INT = 64,    /* {integer, int} */
    VALUE_PAIR_FLOAT = 128, /* {floating point, int} */
    VALUE_PAIR_REAL = 256   /* {floating point, the same} */
} value_kind_t;

/* What one type needs of the component: nothing here is known to it. Constant. */
typedef struct value_type {
    const char *name;     /* as in MPI, without "MPI_", lower case */
    const char *mpi_name; /* with it */
    MPI_Datatype type;
    value_kind_t kind;
    size_t bytes;        /* of the scalar; of one part for complex; of the value for pairs */
    size_t extent;       /* bytes from one element to the next */
    size_t index_offset; /* pairs: bytes from the element to its index */
    bool accelerated;    /* the component promises to accelerate it */
} value_type_t;

typedef struct value_op {
    const char *name;
    MPI_Op op;
    unsigned kinds; /* of value_kind_t that Open MPI defines the operation for */
} value_op_t;

extern const value_type_t value_types[];
extern const int value_ntypes;
extern const value_type_t value_refused[]; /* types without any operation; no name to be found by */
extern const int value_nrefused;
extern const value_op_t value_ops[];
extern const int value_nops;

/* NULL when there is no such name. */
const value_type_t *value_type_find(const char *name);
const value_op_t *value_op_find(const char *name);

static inline bool value_is_defined(const value_type_t *type, const value_op_t *op)
{
    return 0 != (op->kinds & (unsigned) type->kind);
}

/* Does this Open MPI take the pair? Asked of MPI_Reduce_local; needs MPI_ERRORS_RETURN on MPI_COMM_SELF and
 * MPI_COMM_WORLD. */
bool value_is_accepted(const value_type_t *type, MPI_Op op);

/* One generated input: every rank can make every other rank's. */
typedef struct value_case {
    const value_type_t *type;
    const value_op_t *op;
    int nranks;
    uint64_t salt;    /* another salt, other values */
    bool by_open_mpi; /* Open MPI may have reduced it: take its own result too where it is known to differ */
    bool twice;       /* compare with MPI_Reduce_local as well, but for what is known to differ */
} value_case_t;

/*
 * Writes elements first .. first + count - 1 of rank's input to out (count * extent bytes,
 * host memory; padding is left alone). Values depend on rank and index. No sum of nranks
 * integers overflows, and ties are frequent in pairs.
 */
void value_fill(const value_case_t *c, int rank, size_t first, size_t count, void *out);

/*
 * The gaps of a pair: the bytes of its extent that belong to neither value nor index, between them or behind. They are
 * the program's, and no call may write them. value_has_gaps: does the type have any? value_gaps_fill writes a pattern
 * into those of count elements, another one for each call, rank and side; value_gaps_check returns the number of
 * elements where it has changed, the first of which *first_wrong_p gets (only when there is one).
 */
typedef enum value_side { VALUE_SEND, VALUE_RECEIVE } value_side_t;
bool value_has_gaps(const value_type_t *type);
void value_gaps_fill(const value_case_t *c, int rank, value_side_t side, size_t count, void *out);
size_t value_gaps_check(const value_case_t *c, int rank, value_side_t side, size_t count, const void *got,
                        size_t *first_wrong_p);

/*
 * Compares count elements of got (host memory), which stand for elements first .. of the
 * result, with the reference. Integers, MIN, MAX and pairs must be equal; a floating-point
 * sum may differ by nranks * eps * sum|x|, a product by 2 * nranks * eps * prod|x| (the
 * complex ones by twice that). Returns the number of wrong elements; *first_wrong_p gets the
 * index of the first (only when there is one).
 */
size_t value_check(const value_case_t *c, size_t first, size_t count, const void *got, size_t *first_wrong_p);

/* Prints element index of got and of the reference into line, for a message. */
void value_describe(const value_case_t *c, size_t index, const void *got, char *line, size_t line_bytes);

#endif /* GPUHIER_TEST_VALUES_H */
