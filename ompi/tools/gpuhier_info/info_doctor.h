/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the verb doctor share. Only they include it.
 *
 * A finding is "ok", a "note" (worth knowing), a "warning" (it costs speed), or a "problem" (it costs the
 * acceleration). Warnings and problems make the exit status 1. Each check adds findings and depends on no other check.
 */
#ifndef INFO_DOCTOR_H
#define INFO_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "info_ucx.h"

#define INFO_FINDINGS_MAX 128

typedef enum info_level { OK, NOTE, WARNING, PROBLEM } info_level_t;

typedef struct info_finding {
    info_level_t level;
    const char *subject;
    char text[320];
    char remedy[320]; /* empty: there is nothing to do */
} info_finding_t;

typedef struct info_visit {
    const info_options_t *options;
    const info_machine_t *machine;
    const char *root;
    info_finding_t finding[INFO_FINDINGS_MAX];
    int count;
} info_visit_t;

/* Adds a finding; those beyond INFO_FINDINGS_MAX are dropped. remedy: "" where there is nothing to do. */
__attribute__((format(printf, 5, 6))) void info_find(info_visit_t *visit, info_level_t level, const char *subject,
                                                     const char *remedy, const char *format, ...);

/* Is there a file of that name below the visit's root? */
bool info_visit_has(const info_visit_t *visit, const char *path);

/* The first line of such a file; false if it cannot be read. */
bool info_visit_line(const info_visit_t *visit, const char *path, char *line, size_t room);

/* The checks, in the order of their calls. */
void info_doctor_gpus(info_visit_t *visit);
void info_doctor_network(info_visit_t *visit, const info_ucx_t *ucx);
void info_doctor_system(info_visit_t *visit);

#endif /* INFO_DOCTOR_H */
