/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiling tool as MPI means it: it defines every MPI_ function that mpi.h declares with a PMPI_ twin, counts
 * the call and hands it on. See pmpi_tool.h.
 *
 * How it works: like the saboteur's wrappers, these pass on a fixed number of machine words without knowing the
 * parameters. That holds for functions that take integers and pointers, and return an int or an address.
 */
#define _GNU_SOURCE
#include "pmpi_tool.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* pmpi_tool.def, made from mpi.h, has a line X(name) for each function. */
#define X(name) INDEX_##name,
enum {
#include "pmpi_tool.def"
    NFUNCTIONS
};
#undef X

#define X(name) "MPI_" #name,
static const char *const names[] = {
#include "pmpi_tool.def"
    NULL};
#undef X

static _Atomic long calls[NFUNCTIONS];
static _Atomic int counting;

/* Six words that travel in registers, and ten on the stack. */
#define WORDS                                                                                                      \
    long a, long b, long c, long d, long e, long f, long s0, long s1, long s2, long s3, long s4, long s5, long s6, \
        long s7, long s8, long s9
#define PASS a, b, c, d, e, f, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9
typedef long (*words_fn_t)(WORDS);

/* The PMPI_ twin, looked for when it is first called, as Open MPI declares some functions that it does not have. */
static words_fn_t twin(int function)
{
    static words_fn_t found[NFUNCTIONS];
    if (NULL == found[function]) {
        char name[128];
        snprintf(name, sizeof(name), "P%s", names[function]);
        void *place = dlsym(RTLD_NEXT, name);
        if (NULL == place) {
            fprintf(stderr, "pmpi_tool: there is no %s\n", name);
            abort();
        }
        memcpy(&found[function], &place, sizeof(place));
    }
    return found[function];
}

static words_fn_t enter(int function)
{
    if (atomic_load(&counting)) {
        atomic_fetch_add(&calls[function], 1);
    }
    return twin(function);
}

#define X(name)                           \
    EXPORT long MPI_##name(WORDS);        \
    EXPORT long MPI_##name(WORDS)         \
    {                                     \
        return enter(INDEX_##name)(PASS); \
    }
#include "pmpi_tool.def"
#undef X

EXPORT void pmpi_tool_count(bool on)
{
    atomic_store(&counting, on);
}

EXPORT void pmpi_tool_expect(const char *call)
{
    const size_t length = strcspn(call, "(");
    for (int i = 0; i < NFUNCTIONS; ++i) {
        if (length == strlen(names[i]) && 0 == strncmp(call, names[i], length)) {
            atomic_fetch_sub(&calls[i], 1);
            return;
        }
    }
}

EXPORT const char *pmpi_tool_surprise(int *from_p, long *times_p)
{
    for (int i = *from_p; i < NFUNCTIONS; ++i) {
        const long times = atomic_load(&calls[i]);
        if (0 != times) {
            *times_p = times;
            *from_p = i + 1;
            return names[i];
        }
    }
    return NULL;
}
