/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The report of coll_gpuhier_report: how long this process's blocking calls took, by path and size. Without the
 * parameter nothing is measured. Any thread may count.
 */
#ifndef GPUHIER_REPORT_H
#define GPUHIER_REPORT_H

#include <stddef.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_params.h"

typedef enum gpuhier_report_path { GPUHIER_REPORT_GPUS, GPUHIER_REPORT_SAVED } gpuhier_report_path_t;

/* When a call begins: seconds of gpuhier_clock(), or 0 without the parameter. */
static inline double gpuhier_report_begin(void)
{
    return gpuhier_params.report ? gpuhier_clock() : 0;
}

void gpuhier_report_add(const char *name, gpuhier_report_path_t path, size_t bytes, double bus, double begin);

/* When it ends. name: of the collective, which is not copied. bytes: of the message, and bus times that what nccl-tests
 * counts as moved by a GPU's links. begin: what gpuhier_report_begin() returned. */
static inline void gpuhier_report_end(const char *name, gpuhier_report_path_t path, size_t bytes, double bus,
                                      double begin)
{
    if (__builtin_expect(0 != begin, 0)) {
        gpuhier_report_add(name, path, bytes, bus, begin);
    }
}

/* What the report says of who serves the collectives of MPI_COMM_WORLD. */
void gpuhier_report_served(const char *text);

/* What it says of a member that keeps a communicator from the GPUs. */
void gpuhier_report_members(const char *text);

/* Prints the report, on rank 0 of the job and if it was asked for. */
void gpuhier_report_print(void);

#endif /* GPUHIER_REPORT_H */
