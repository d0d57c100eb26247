/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables of types and operations; see values.h. The types themselves are in values_types.def.
 */
#include "values.h"

#include <mpi-ext.h>
#include <string.h>

#define PAIR_OF(c_value, c_index) \
    struct {                      \
        c_value value;            \
        c_index index;            \
    }
typedef PAIR_OF(float, int) float_int_t;
typedef PAIR_OF(double, int) double_int_t;
typedef PAIR_OF(long, int) long_int_t;
typedef PAIR_OF(int, int) two_int_t;
typedef PAIR_OF(short, int) short_int_t;
typedef PAIR_OF(long double, int) long_double_int_t;
typedef PAIR_OF(float, float) two_float_t;
typedef PAIR_OF(double, double) two_double_t;

#define REFUSED(handle)
#define SCALAR(name, handle, kind, c_type, accelerated) \
    {name, #handle, handle, kind, sizeof(c_type), sizeof(c_type), 0, accelerated},
#define COMPLEX(name, handle, c_type, accelerated) \
    {name, #handle, handle, VALUE_COMPLEX, sizeof(c_type), 2 * sizeof(c_type), 0, accelerated},
#define PAIR(name, handle, kind, c_type, c_value, accelerated) \
    {name, #handle, handle, kind, sizeof(c_value), sizeof(c_type), offsetof(c_type, index), accelerated},
const value_type_t value_types[] = {
#include "values_types.def"
};
#undef REFUSED
#undef SCALAR
#undef COMPLEX
#undef PAIR
const int value_ntypes = (int) (sizeof(value_types) / sizeof(value_types[0]));

#define REFUSED(handle) {#handle, #handle, handle, VALUE_NOTHING, 1, 32, 0, false},
#define SCALAR(name, handle, kind, c_type, accelerated)
#define COMPLEX(name, handle, c_type, accelerated)
#define PAIR(name, handle, kind, c_type, c_value, accelerated)
const value_type_t value_refused[] = {
#include "values_types.def"
};
const int value_nrefused = (int) (sizeof(value_refused) / sizeof(value_refused[0]));

#define KINDS_INTEGER (VALUE_INT | VALUE_UINT | VALUE_INTEGER)
#define KINDS_PAIR (VALUE_PAIR_INT | VALUE_PAIR_FLOAT | VALUE_PAIR_REAL)

const value_op_t value_ops[] = {
    {"sum", MPI_SUM, KINDS_INTEGER | VALUE_FLOAT | VALUE_COMPLEX},
    {"prod", MPI_PROD, KINDS_INTEGER | VALUE_FLOAT | VALUE_COMPLEX},
    {"max", MPI_MAX, KINDS_INTEGER | VALUE_FLOAT},
    {"min", MPI_MIN, KINDS_INTEGER | VALUE_FLOAT},
    {"land", MPI_LAND, VALUE_INT | VALUE_UINT | VALUE_BOOL},
    {"lor", MPI_LOR, VALUE_INT | VALUE_UINT | VALUE_BOOL},
    {"lxor", MPI_LXOR, VALUE_INT | VALUE_UINT | VALUE_BOOL},
    {"band", MPI_BAND, KINDS_INTEGER},
    {"bor", MPI_BOR, KINDS_INTEGER},
    {"bxor", MPI_BXOR, KINDS_INTEGER},
    {"minloc", MPI_MINLOC, KINDS_PAIR},
    {"maxloc", MPI_MAXLOC, KINDS_PAIR},
};
const int value_nops = (int) (sizeof(value_ops) / sizeof(value_ops[0]));

const value_type_t *value_type_find(const char *name)
{
    for (int i = 0; i < value_ntypes; ++i) {
        if (0 == strcmp(name, value_types[i].name)) {
            return &value_types[i];
        }
    }
    return NULL;
}

const value_op_t *value_op_find(const char *name)
{
    for (int i = 0; i < value_nops; ++i) {
        if (0 == strcmp(name, value_ops[i].name)) {
            return &value_ops[i];
        }
    }
    return NULL;
}

bool value_is_accepted(const value_type_t *type, MPI_Op op)
{
    _Alignas(16) unsigned char in[64] = {0}, out[64] = {0};

    return MPI_SUCCESS == MPI_Reduce_local(in, out, 1, type->type, op);
}
