/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The counters and how a test reads them (cudasim.h).
 *
 * Owns the numbers; everything that moves bytes or serves a call adds to them.
 */
#include "sim_counters.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cudasim.h"
#include "sim_context.h"

#define SIM_EXPORT __attribute__((visibility("default")))

struct sim_counters sim_counters;

void sim_count_link(int from, int to, size_t bytes)
{
    const int rate = (from < SIM_MAX_GPUS && to < SIM_MAX_GPUS) ? sim_driver.topology.slow[from][to] : 0;

    atomic_fetch_add_explicit(&sim_counters.links[from][to], bytes, memory_order_relaxed);
    if (0 != rate) {
        const uint64_t ns = (uint64_t) bytes * 1000 / (uint64_t) rate; /* MB/s are bytes in a microsecond */
        const struct timespec time = {.tv_sec = (time_t) (ns / 1000000000), .tv_nsec = (long) (ns % 1000000000)};
        nanosleep(&time, NULL);
    }
}

/* Reads "3", "host", "fabric" or "switch" up to the end mark; returns the place or -1. */
static int parse_place(const char *text, char end_mark, const char **end_p)
{
    char *end = NULL;
    long gpu;

    if (0 == strncmp(text, "host", 4)) {
        *end_p = text + 4;
        return (end_mark == text[4]) ? SIM_HOST : -1;
    }
    if (0 == strncmp(text, "fabric", 6)) {
        *end_p = text + 6;
        return (end_mark == text[6]) ? SIM_FABRIC : -1;
    }
    if (0 == strncmp(text, "switch", 6)) {
        *end_p = text + 6;
        return (end_mark == text[6]) ? SIM_SWITCH : -1;
    }
    gpu = strtol(text, &end, 10);
    *end_p = end;
    return (end != text && end_mark == *end && gpu >= 0 && gpu < SIM_MAX_GPUS) ? (int) gpu : -1;
}

SIM_EXPORT int cudasim_counter(const char *name, unsigned long long *value_p)
{
    const char *rest;
    int from, to;

    if (0 == strncmp(name, "link.", 5)) {
        from = parse_place(name + 5, '.', &rest);
        to = (from >= 0) ? parse_place(rest + 1, '\0', &rest) : -1;
        if (to < 0) {
            return -1;
        }
        *value_p = atomic_load(&sim_counters.links[from][to]);
        return 0;
    }
#define SIM_COUNTER_READ(field)                      \
    if (0 == strcmp(name, #field)) {                 \
        *value_p = atomic_load(&sim_counters.field); \
        return 0;                                    \
    }
    SIM_COUNTER_LIST(SIM_COUNTER_READ)
    SIM_GAUGE_LIST(SIM_COUNTER_READ)
    return -1;
}

SIM_EXPORT void cudasim_counters_reset(void)
{
    int from, to;

#define SIM_COUNTER_CLEAR(field) atomic_store(&sim_counters.field, 0);
    SIM_COUNTER_LIST(SIM_COUNTER_CLEAR)
    for (from = 0; from < SIM_PLACES; from++) {
        for (to = 0; to < SIM_PLACES; to++) {
            atomic_store(&sim_counters.links[from][to], 0);
        }
    }
}
