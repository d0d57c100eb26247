/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the table of the report, and prints it when the component closes.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_report.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

/* One row of sizes: from 2^i bytes to below 2^(i+1). */
typedef struct row {
    gpuhier_spread_t times;
    double bus_bytes;
} row_t;

#define ROWS 64
typedef struct table {
    struct table *next;
    const char *name;
    gpuhier_report_path_t path;
    row_t rows[ROWS];
} table_t;

static table_t *tables; /* in the order of the first calls */
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

/* The table of a collective on a path; NULL: there is no memory for it. */
static table_t *table_find(const char *name, gpuhier_report_path_t path)
{
    table_t **at = &tables;
    while (NULL != *at && (path != (*at)->path || 0 != strcmp(name, (*at)->name))) {
        at = &(*at)->next;
    }
    if (NULL == *at && NULL != (*at = calloc(1, sizeof(**at)))) {
        (*at)->name = name;
        (*at)->path = path;
    }
    return *at;
}

void gpuhier_report_add(const char *name, gpuhier_report_path_t path, size_t bytes, double bus, double begin)
{
    const double seconds = gpuhier_clock() - begin;
    opal_mutex_lock(&lock);
    table_t *table = table_find(name, path);
    if (NULL != table) {
        row_t *row = &table->rows[0 == bytes ? 0 : 63 - __builtin_clzll((unsigned long long) bytes)];
        gpuhier_spread_add(&row->times, seconds);
        row->bus_bytes += bus * (double) bytes;
    }
    opal_mutex_unlock(&lock);
}

static char served[512], members[128];

void gpuhier_report_served(const char *text)
{
    snprintf(served, sizeof(served), "%s", text);
}

void gpuhier_report_members(const char *text)
{
    opal_mutex_lock(&lock);
    snprintf(members, sizeof(members), "%s", text);
    opal_mutex_unlock(&lock);
}

/* Writes 2^log2 bytes with a unit, such as 64 KiB. */
static const char *size_text(int log2, char text[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    snprintf(text, 16, "%d %s", 1 << log2 % 10, units[log2 / 10]);
    return text;
}

static void table_print(const table_t *table)
{
    opal_output(0, "coll:gpuhier: %s %s:", table->name,
                GPUHIER_REPORT_GPUS == table->path ? "on the GPUs" : "left to Open MPI");
    opal_output(0, "coll:gpuhier: %-26s %12s %14s %14s %14s %12s", "from", "calls", "first us", "median us", "least us",
                "busbw GB/s");
    for (int i = 0; i < ROWS; ++i) {
        const row_t *row = &table->rows[i];
        char from[16];
        if (0 == row->times.calls) {
            continue;
        }
        const double median = gpuhier_spread_median(&row->times);
        char later[64] = "             -              -            -";
        if (median > 0) {
            snprintf(later, sizeof(later), "%14.1f %14.1f %12.3f", 1e6 * median, 1e6 * row->times.least,
                     1e-9 * row->bus_bytes / (double) row->times.calls / median);
        }
        opal_output(0, "coll:gpuhier:   %-24s %12llu %14.1f %s", size_text(i, from),
                    (unsigned long long) row->times.calls, 1e6 * row->times.first, later);
    }
}

void gpuhier_report_print(void)
{
    gpuhier_counters_t *c = &gpuhier_counters;
    if (!gpuhier_params.report || 0 != OPAL_PROC_MY_NAME.vpid
        || ('\0' == served[0] && 0 == gpuhier_counted(&c->calls_accelerated) + gpuhier_calls_saved())) {
        return;
    }
    opal_output(0, "coll:gpuhier: report of rank 0");
    if ('\0' != served[0]) {
        opal_output(0, "coll:gpuhier: MPI_COMM_WORLD: %s", served);
    }
    opal_output(
        0,
        "coll:gpuhier: on the GPUs %llu calls: %llu nonblocking or persistent, %llu reduced by the host, %llu by "
        "one-shot kernels, %llu in NVSwitches, %llu long",
        gpuhier_counted(&c->calls_accelerated), gpuhier_counted(&c->calls_nonblocking),
        gpuhier_counted(&c->calls_small), gpuhier_counted(&c->calls_oneshot), gpuhier_counted(&c->calls_switch),
        gpuhier_counted(&c->calls_long));
    opal_output(0,
                "coll:gpuhier: left to Open MPI %llu calls; gpuhier copied GPU buffers to host memory for %llu calls",
                gpuhier_calls_saved(), gpuhier_counted(&c->calls_staged));
    for (int i = 0; i < GPUHIER_REASON_COUNT; ++i) {
        if (0 != gpuhier_counted(&c->saved_because[i])) {
            const bool differ = GPUHIER_REASON_members == i && '\0' != members[0];
            opal_output(0, "coll:gpuhier:   %12llu  %s%s%s", gpuhier_counted(&c->saved_because[i]),
                        gpuhier_reason_text(i), differ ? ": " : "", differ ? members : "");
        }
    }
    while (NULL != tables) { /* a component that is opened again begins anew */
        table_t *table = tables;
        table_print(table);
        tables = table->next;
        free(table);
    }
    served[0] = members[0] = '\0';
}
