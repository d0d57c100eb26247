/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fault injection.
 *
 * Owns the list of calls that are to fail, from CUDASIM_FAIL: for example
 * "cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY,cuIpcOpenMemHandle:*:205". The third
 * call of cuMemAlloc fails, and each of cuIpcOpenMemHandle. A name is a
 * function's with or without its version. Asked by every entry point.
 */
#include "sim_fault.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FAULTS 32

/* Constant after setup, but for the calls counted. */
struct fault {
    char name[80];
    long which; /* 0: each */
    int error;
    _Atomic long calls;
};

bool sim_fault_armed;
static struct fault faults[MAX_FAULTS];
static int nfaults;

static int parse_one(const char *text, struct fault *fault)
{
    char which[16], error[80], *end;

    if (3 != sscanf(text, "%79[A-Za-z0-9_]:%15[0-9*]:%79[A-Za-z0-9_]", fault->name, which, error)) {
        return -1;
    }
    if (0 != strcmp(which, "*")) {
        fault->which = strtol(which, &end, 10);
        if ('\0' != *end || fault->which < 1) {
            return -1;
        }
    }
    fault->error = sim_error_number(error);
    return fault->error > 0 ? 0 : -1;
}

int sim_fault_setup(void)
{
    const char *list = getenv("CUDASIM_FAIL");
    char text[1024], *save = NULL, *word;

    if (NULL == list || '\0' == list[0]) {
        return 0;
    }
    snprintf(text, sizeof(text), "%s", list);
    for (word = strtok_r(text, ",", &save); NULL != word; word = strtok_r(NULL, ",", &save)) {
        if (MAX_FAULTS == nfaults || 0 != parse_one(word, &faults[nfaults])) {
            fprintf(stderr,
                    "cudasim: CUDASIM_FAIL has '%s'; FUNCTION:COUNT:ERROR is expected, with a count from 1 "
                    "or *, and an error as in cuda.h, at most %d times\n",
                    word, MAX_FAULTS);
            return -1;
        }
        nfaults++;
    }
    sim_fault_armed = nfaults > 0;
    return 0;
}

int sim_fault_count(const char *name, const char *symbol)
{
    int i, error = 0;
    long call;

    for (i = 0; i < nfaults; i++) {
        if (0 == strcmp(faults[i].name, name) || 0 == strcmp(faults[i].name, symbol)) {
            call = atomic_fetch_add(&faults[i].calls, 1) + 1;
            if (0 == error && (0 == faults[i].which || call == faults[i].which)) {
                error = faults[i].error;
            }
        }
    }
    return error;
}
