/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modelled time: the model file and the clock.
 *
 * A modelled nanosecond takes CUDASIM_DILATION real ones, so that what the emulator itself needs
 * (memcpy, scheduling, a sleep that ends late) is small beside it. Nothing here computes
 * time in advance for the whole program: each thread sleeps for the costs that it pays, the host in the call, a
 * stream's worker at its work. So programs, Open MPI and the component see modelled time by the ordinary clock.
 *
 * Owns the model's figures and the host's costs. What work on a GPU costs is in sim_model_work.c. The model is asked
 * by api.c (calls), sim_engine.c (work), sim_launch.c and sim_copy.c.
 */
#include "sim_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "api.h"
#include "cudasim.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_trace.h"

#define DEFAULT_DILATION 1000.0
#define LINE_BYTES 512
#define SLACK_NS 200.0 /* modelled: a caller that comes less than this after its last call's end comes at that end */

struct sim_model sim_model;

static const char *const call_names[] = {
#define API(needs, name, symbol, since, params, args) #name,
#define API_PTSZ API
#define API_PTDS API
#define API_THUNK API
#include "cuda_api.def"
#undef API
#undef API_PTSZ
#undef API_PTDS
#undef API_THUNK
};

#define NCALLS (sizeof(call_names) / sizeof(call_names[0]))

static uint64_t host_costs[NCALLS];

/* ---- the file ---- */

struct key {
    const char *name;
    double *value;
};

static struct key keys[] = {
#define SIM_MODEL_KEY(field, key) {key, &sim_model.field},
    SIM_MODEL_KEYS(SIM_MODEL_KEY)};

#define NKEYS (sizeof(keys) / sizeof(keys[0]))

static int complain(const char *path, int line, const char *what, const char *which)
{
    fprintf(stderr, "cudasim: CUDASIM_MODEL: %s:%d: %s '%s'\n", path, line, what, which);
    return -1;
}

/* Cuts the comment and the blanks around a text off. */
static char *trim(char *text)
{
    char *end = strchr(text, '#');

    end = NULL == end ? text + strlen(text) : end;
    while (end > text && NULL != strchr(" \t\r\n", end[-1])) {
        end--;
    }
    *end = '\0';
    return text + strspn(text, " \t");
}

/* A key of the host's costs: those of one function, or of all that have none of their own. */
static int host_key(const char *name, double value, double *costs, double *rest)
{
    bool known = false;

    if (0 == strcmp(name, "default")) {
        if (*rest >= 0) {
            return 1;
        }
        *rest = value;
        return 0;
    }
    for (size_t i = 0; i < NCALLS; i++) {
        if (0 == strcmp(name, call_names[i])) {
            if (costs[i] >= 0) {
                return 1;
            }
            known = true;
        }
    }
    for (size_t i = 0; i < NCALLS; i++) {
        if (0 == strcmp(name, call_names[i])) {
            costs[i] = value;
        }
    }
    return known ? 0 : -1;
}

/* One line. given[] notes the keys that have their value; costs are -1 until given. */
static int read_line(const char *path, int number, char *text, bool *given, double *costs, double *rest)
{
    char *name = trim(text), *equals = strchr(name, '='), *end;
    double value;
    int rc = -1;

    if ('\0' == name[0]) {
        return 0;
    }
    if (NULL == equals) {
        return complain(path, number, "'key = value' is expected instead of", name);
    }
    *equals = '\0';
    name = trim(name);
    char *figure = trim(equals + 1);
    value = strtod(figure, &end);
    if (end == figure || '\0' != *end || !isfinite(value) || value < 0) {
        return complain(path, number, "a number that is not negative is expected instead of", figure);
    }
    if (0 == strncmp(name, "host.", 5)) {
        rc = host_key(name + 5, value, costs, rest);
    } else {
        for (size_t i = 0; i < NKEYS; i++) {
            if (0 == strcmp(name, keys[i].name)) {
                rc = given[i] ? 1 : 0;
                given[i] = true;
                *keys[i].value = value;
            }
        }
    }
    if (0 != rc) {
        return complain(path, number, 1 == rc ? "a second value for" : "there is no key", name);
    }
    return 0;
}

static int read_file(const char *path)
{
    char line[LINE_BYTES];
    double costs[NCALLS], rest = -1;
    bool given[NKEYS] = {false};
    int number = 0, rc = 0;
    FILE *file = fopen(path, "re");

    if (NULL == file) {
        fprintf(stderr, "cudasim: CUDASIM_MODEL: %s: %s\n", path, strerror(errno));
        return -1;
    }
    for (size_t i = 0; i < NCALLS; i++) {
        costs[i] = -1;
    }
    while (0 == rc && NULL != fgets(line, sizeof(line), file)) {
        number++;
        if (NULL == strchr(line, '\n') && !feof(file)) {
            rc = complain(path, number, "a line is too long:", "more than 510 bytes");
        } else {
            rc = read_line(path, number, line, given, costs, &rest);
        }
    }
    fclose(file);
    for (size_t i = 0; 0 == rc && i < NKEYS; i++) {
        if (!given[i]) {
            rc = complain(path, number, "the file ends without the key", keys[i].name);
        }
    }
    if (0 == rc && rest < 0) {
        rc = complain(path, number, "the file ends without the key", "host.default");
    }
    for (size_t i = 0; 0 == rc && i < NCALLS; i++) {
        host_costs[i] = (uint64_t) ((costs[i] < 0 ? rest : costs[i]) * 1e3 * sim_model.dilation);
    }
    return rc;
}

/* From the file's units to real nanoseconds and bytes. A rate of zero would divide by zero. */
static int convert(const char *path)
{
    double *const times[] = {&sim_model.start,          &sim_model.kernel,      &sim_model.gap,
                             &sim_model.event,          &sim_model.visible,     &sim_model.memory_load,
                             &sim_model.link_load,      &sim_model.link_store,  &sim_model.pcie_load,
                             &sim_model.pcie_store,     &sim_model.copy_start,  &sim_model.copy_pageable,
                             &sim_model.multicast_load, &sim_model.gdr_pin,     &sim_model.gdr_read,
                             &sim_model.gdr_write,      &sim_model.rail_latency};
    double *const rates[] = {&sim_model.memory_rate,    &sim_model.link_rate,       &sim_model.pcie_rate,
                             &sim_model.copy_link_rate, &sim_model.copy_local_rate, &sim_model.copy_pageable_rate,
                             &sim_model.gdr_read_rate,  &sim_model.gdr_write_rate,  &sim_model.rail_rate};
    const double *const positive[] = {&sim_model.sms, &sim_model.sm_in_flight, &sim_model.memory_load,
                                      &sim_model.link_load, &sim_model.pcie_load};

    for (size_t i = 0; i < NKEYS; i++) {
        bool must = false;
        for (size_t k = 0; k < sizeof(rates) / sizeof(rates[0]); k++) {
            must = must || rates[k] == keys[i].value;
        }
        for (size_t k = 0; k < sizeof(positive) / sizeof(positive[0]); k++) {
            must = must || positive[k] == keys[i].value;
        }
        if (must && *keys[i].value <= 0) {
            fprintf(stderr, "cudasim: CUDASIM_MODEL: %s: %s must be more than 0\n", path, keys[i].name);
            return -1;
        }
    }
    if (sim_model.copy_engines < 1 || sim_model.copy_engines > SIM_COPY_ENGINES) {
        fprintf(stderr, "cudasim: CUDASIM_MODEL: %s: copy.engines must be from 1 to %d\n", path, SIM_COPY_ENGINES);
        return -1;
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        *times[i] *= 1e3 * sim_model.dilation;
    }
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        *rates[i] /= sim_model.dilation;
    }
    sim_model.multicast_rate /= sim_model.dilation; /* 0: the switch has none */
    sim_model.sm_in_flight *= 1024;
    return 0;
}

int sim_model_setup(void)
{
    const char *path = getenv("CUDASIM_MODEL"), *text = getenv("CUDASIM_DILATION");
    char *end;

    if (NULL == path || '\0' == path[0]) {
        return 0;
    }
    sim_model.dilation = DEFAULT_DILATION;
    if (NULL != text && '\0' != text[0]) {
        sim_model.dilation = strtod(text, &end);
        if ('\0' != *end || !(sim_model.dilation >= 1.0 && sim_model.dilation <= 1e6)) {
            fprintf(stderr, "cudasim: CUDASIM_DILATION is '%s'; a number from 1 to 1000000 is expected\n", text);
            return -1;
        }
    }
    if (0 != read_file(path) || 0 != convert(path)) {
        return -1;
    }
    sim_model.host = host_costs;
    sim_model.on = true;
    return 0;
}

__attribute__((visibility("default"))) unsigned long long cudasim_model_ns(void)
{
    return sim_model.on ? (unsigned long long) ((double) sim_now_ns() / sim_model.dilation) : 0;
}

__attribute__((visibility("default"))) void *cudasim_view(void *address)
{
    return sim_host_view((uintptr_t) address);
}

/* ---- the clock ---- */

static void missed_by(uint64_t ns)
{
    const uint64_t modelled = (uint64_t) ((double) ns / sim_model.dilation);
    uint64_t worst = atomic_load_explicit(&sim_counters.model_worst_ns, memory_order_relaxed);

    atomic_fetch_add_explicit(&sim_counters.model_late_ns, modelled, memory_order_relaxed);
    while (worst < modelled && !atomic_compare_exchange_weak(&sim_counters.model_worst_ns, &worst, modelled)) {
    }
}

void sim_model_sleep(uint64_t until, bool is_work)
{
    static _Thread_local bool exact;
    struct timespec end = {.tv_sec = (time_t) (until / 1000000000u), .tv_nsec = (long) (until % 1000000000u)};
    uint64_t now = sim_now_ns();

    if (!exact) {
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* else a sleep ends up to 50 us late */
        exact = true;
    }
    if (now < until) {
        while (EINTR == clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL)) {
        }
    } else if (is_work) {
        missed_by(now - until);
    }
}

/*
 * A thread's calls follow each other on a clock of its own, which falls behind the real one by what a sleep
 * overran and by what the program's own instructions took, and catches up with the real clock when
 * the thread did something else for longer than SLACK_NS.
 */
void sim_model_pay_for(uint64_t cost, const char *name)
{
    static _Thread_local uint64_t clock;
    const uint64_t now = sim_now_ns();
    const uint64_t begin = now - clock < (uint64_t) (SLACK_NS * sim_model.dilation) ? clock : now;

    if (0 == cost) {
        return;
    }
    clock = begin + cost;
    sim_model_sleep(clock, false);
    sim_trace_call(name, begin, clock);
}

void sim_model_pay(unsigned call)
{
    sim_model_pay_for(sim_model.host[call], call_names[call]);
}

bool sim_model_is_visible(uint64_t end)
{
    return sim_now_ns() >= end + (uint64_t) sim_model.visible;
}

void sim_model_await(uint64_t end)
{
    sim_model_sleep(end + (uint64_t) sim_model.visible, false);
}
