/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The saboteur; see the header for what it does.
 *
 * How it works: the component finds the driver's functions with dlsym(). This library, preloaded,
 * defines dlsym() itself; asked by the component for a function of the component's own list
 * (coll_gpuhier_cuda.h, so that a new one is covered at once), it answers with a wrapper.
 * A wrapper does not know the parameters that it passes on: it takes and hands over a
 * fixed number of machine words, so registers and the top of the stack look to the driver as
 * the caller left them. That holds where arguments are integers, pointers, and structs in
 * memory, which all of these are.
 *
 * Called by: the dynamic linker, and the tests of this folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ompi/mca/coll/gpuhier/gpu/coll_gpuhier_cuda.h"
#include "saboteur.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_STEPS 16
#define COMPONENT "mca_coll_gpuhier"

typedef enum action { ACTION_ERROR, ACTION_LIE, ACTION_KILL, ACTION_STOP, ACTION_ALIAS } action_t;

/* One step of the plan. Constant once made. */
typedef struct step {
    int function;
    long first, last; /* calls, from 1 */
    action_t action;
    int value; /* CUresult, or seconds */
} step_t;

#define INDEX(symbol) INDEX_##symbol,
enum { GPUHIER_CU_ALL(INDEX) NFUNCTIONS };
#undef INDEX

/* With and without the version that cuda.h appends: a parameter is expanded unless # or ## stands at it. */
#define NAME(symbol) #symbol,
static const char *const names[] = {GPUHIER_CU_ALL(NAME) NULL};
#undef NAME
#define NAME_OF(symbol) #symbol
#define VERSIONED(symbol) NAME_OF(symbol),
static const char *const versioned[] = {GPUHIER_CU_ALL(VERSIONED) NULL};
#undef VERSIONED

static void *real[NFUNCTIONS];
static _Atomic long calls[NFUNCTIONS];
static _Atomic long strikes;
static step_t steps[MAX_STEPS];
static _Atomic int nsteps; /* set last when a plan is made */
static CUdeviceptr opened_last;

static int find(const char *name)
{
    for (int i = 0; i < NFUNCTIONS; ++i) {
        if (0 == strcmp(name, names[i]) || 0 == strcmp(name, versioned[i])) {
            return i;
        }
    }
    return -1;
}

static bool parse_action(const char *text, step_t *step)
{
    char *end;

    step->value = 0;
    if (0 == strcmp(text, "lie")) {
        step->action = ACTION_LIE;
    } else if (0 == strcmp(text, "kill")) {
        step->action = ACTION_KILL;
    } else if (0 == strcmp(text, "alias")) {
        step->action = ACTION_ALIAS;
    } else if (0 == strcmp(text, "stop")) {
        step->action = ACTION_STOP;
    } else if (0 == strncmp(text, "stop=", 5)) {
        step->action = ACTION_STOP;
        step->value = atoi(text + 5);
        return step->value > 0;
    } else {
        step->action = ACTION_ERROR;
        step->value = (int) strtol(text, &end, 10);
        return step->value > 0 && '\0' == *end;
    }
    return ACTION_ALIAS != step->action || INDEX_cuIpcOpenMemHandle == step->function;
}

static bool parse_step(const char *text, step_t *step)
{
    char function[80], count[24], action[24], *end;

    if (3 != sscanf(text, "%79[A-Za-z0-9_]:%23[0-9*+]:%23[a-z0-9=]", function, count, action)) {
        return false;
    }
    step->function = find(function);
    step->first = 1;
    step->last = 1L << 62;
    if (0 != strcmp(count, "*")) {
        step->first = strtol(count, &end, 10);
        if (0 != strcmp(end, "+")) {
            step->last = step->first;
            if ('\0' != *end) {
                return false;
            }
        }
    }
    return step->function >= 0 && step->first > 0 && parse_action(action, step);
}

EXPORT int saboteur_arm(const char *plan)
{
    char text[1024], *save = NULL;
    int n = 0;

    atomic_store(&nsteps, 0);
    snprintf(text, sizeof(text), "%s", plan);
    for (char *word = strtok_r(text, ",", &save); NULL != word; word = strtok_r(NULL, ",", &save)) {
        if (MAX_STEPS == n || !parse_step(word, &steps[n])) {
            fprintf(stderr, "saboteur: '%s' is not FUNCTION:COUNT:ACTION (see saboteur.h)\n", word);
            return -1;
        }
        ++n;
    }
    for (int i = 0; i < NFUNCTIONS; ++i) {
        atomic_store(&calls[i], 0);
    }
    atomic_store(&strikes, 0);
    atomic_store(&nsteps, n);
    return 0;
}

EXPORT long saboteur_calls(const char *function)
{
    int i = find(function);
    return i < 0 ? -1 : atomic_load(&calls[i]);
}

EXPORT long saboteur_strikes(void)
{
    return atomic_load(&strikes);
}

EXPORT const char *saboteur_function(int i)
{
    return i < 0 || i >= NFUNCTIONS ? NULL : names[i];
}

/* Stops this process. A child of it, which outlives the stop, wakes it after so many seconds; 0: there is none. */
static void stop_self(int seconds)
{
    pid_t self = getpid();

    if (seconds > 0 && 0 == fork()) {
        sleep((unsigned) seconds);
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
}

/* Counts a call and carries out what the plan says. True: the driver is not to be called, return *result_p. */
static bool strike(int function, CUresult *result_p, bool *alias_p)
{
    long call = atomic_fetch_add(&calls[function], 1) + 1;
    int n = atomic_load(&nsteps);

    for (int i = 0; i < n; ++i) {
        const step_t *step = &steps[i];
        if (function != step->function || call < step->first || call > step->last) {
            continue;
        }
        atomic_fetch_add(&strikes, 1);
        switch (step->action) {
        case ACTION_ERROR:
            *result_p = (CUresult) step->value;
            return true;
        case ACTION_LIE:
            *result_p = CUDA_SUCCESS;
            return true;
        case ACTION_KILL:
            raise(SIGKILL);
            break;
        case ACTION_STOP:
            stop_self(step->value);
            break;
        case ACTION_ALIAS:
            *result_p = CUDA_SUCCESS;
            *alias_p = 0 != opened_last;
            return *alias_p;
        }
    }
    return false;
}

/* Six words that travel in registers and ten on the stack: an IPC handle by value takes eight. */
#define WORDS                                                                                                      \
    long a, long b, long c, long d, long e, long f, long s0, long s1, long s2, long s3, long s4, long s5, long s6, \
        long s7, long s8, long s9
#define PASS a, b, c, d, e, f, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9
typedef CUresult (*words_fn_t)(WORDS);

#define WRAPPER(symbol)                                                             \
    static CUresult wrap_##symbol(WORDS)                                            \
    {                                                                               \
        CUresult result;                                                            \
        bool alias = false;                                                         \
        if (strike(INDEX_##symbol, &result, &alias)) {                              \
            if (alias) {                                                            \
                *(CUdeviceptr *) a = opened_last;                                   \
            }                                                                       \
            return result;                                                          \
        }                                                                           \
        result = ((words_fn_t) real[INDEX_##symbol])(PASS);                         \
        if (INDEX_cuIpcOpenMemHandle == INDEX_##symbol && CUDA_SUCCESS == result) { \
            opened_last = *(CUdeviceptr *) a;                                       \
        }                                                                           \
        return result;                                                              \
    }
GPUHIER_CU_ALL(WRAPPER)
#undef WRAPPER

#define WRAPPER_OF(symbol) wrap_##symbol,
static const words_fn_t wrappers[] = {GPUHIER_CU_ALL(WRAPPER_OF)};
#undef WRAPPER_OF

typedef void *(*dlsym_fn_t)(void *handle, const char *name);

static dlsym_fn_t real_dlsym(void)
{
    static dlsym_fn_t found;

    if (NULL == found) {
        void *place = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        place = NULL != place ? place : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
        place = NULL != place ? place : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        memcpy(&found, &place, sizeof(found));
    }
    return found;
}

static bool asked_by_component(const void *from)
{
    Dl_info info;
    return 0 != dladdr(from, &info) && NULL != info.dli_fname && NULL != strstr(info.dli_fname, COMPONENT);
}

/*
 * The last call must be a jump, hence the optimisation level in the Makefile: dlsym(RTLD_NEXT)
 * looks at where it is called from.
 */
EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    int i = find(name);

    if (i >= 0 && asked_by_component(__builtin_return_address(0))) {
        void *wrapper;
        real[i] = real_dlsym()(handle, name);
        memcpy(&wrapper, &wrappers[i], sizeof(wrapper));
        return NULL == real[i] ? NULL : wrapper;
    }
    return real_dlsym()(handle, name);
}

__attribute__((constructor)) static void plan_from_environment(void)
{
    const char *plan = getenv("GPUHIER_SABOTAGE");
    const char *only = getenv("GPUHIER_SABOTAGE_RANK");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (NULL != plan && (NULL == only || (NULL != rank && 0 == strcmp(only, rank))) && 0 != saboteur_arm(plan)) {
        exit(2);
    }
}
