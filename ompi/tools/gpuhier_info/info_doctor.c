/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb doctor: what is wrong with this machine for gpuhier, each finding with what to do about it. Owns the order
 * of the checks, and the printing. The checks are in info_doctor_gpus.c, info_doctor_network.c and
 * info_doctor_system.c.
 */
#include "ompi_config.h"

#include "info_doctor.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "info_json.h"

static const char *const level_names[] = {"ok", "note", "warning", "problem"};

void info_find(info_visit_t *visit, info_level_t level, const char *subject, const char *remedy, const char *format,
               ...)
{
    va_list args;

    if (INFO_FINDINGS_MAX == visit->count) {
        return;
    }
    info_finding_t *own = &visit->finding[visit->count++];
    own->level = level;
    own->subject = subject;
    snprintf(own->remedy, sizeof(own->remedy), "%s", remedy);
    va_start(args, format);
    vsnprintf(own->text, sizeof(own->text), format, args);
    va_end(args);
}

bool info_visit_has(const info_visit_t *visit, const char *path)
{
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", visit->root, path);
    return 0 == access(full, F_OK);
}

bool info_visit_line(const info_visit_t *visit, const char *path, char *line, size_t room)
{
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", visit->root, path);
    FILE *file = fopen(full, "re");
    line[0] = '\0';
    if (NULL == file) {
        return false;
    }
    const bool read = NULL != fgets(line, (int) room, file);
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return read;
}

static void check_versions(info_visit_t *visit, const info_ucx_t *ucx)
{
    struct utsname system;

    if (0 == uname(&system)) {
        info_find(visit, OK, "versions", "", "gpuhier_info %s, %s %s on %s, UCX %s", GPUHIER_VERSION, system.sysname,
                  system.release, system.machine, ucx->version);
    }
}

static int print(const info_visit_t *visit)
{
    int bad = 0;

    if (visit->options->json) {
        info_json_open(NULL, '{');
        info_json_text("machine", visit->machine->title);
        info_json_bool("emulated", visit->machine->is_emulated);
        info_json_open("findings", '[');
    } else {
        printf("machine: %s\n", visit->machine->title);
        if ('\0' != visit->machine->blind[0]) {
            printf("%s\n", visit->machine->blind);
        }
    }
    for (int i = 0; i < visit->count; ++i) {
        const info_finding_t *own = &visit->finding[i];

        bad += own->level >= WARNING;
        if (visit->options->json) {
            info_json_open(NULL, '{');
            info_json_text("level", level_names[own->level]);
            info_json_text("subject", own->subject);
            info_json_text("text", own->text);
            info_json_text("remedy", '\0' == own->remedy[0] ? NULL : own->remedy);
            info_json_close();
        } else {
            printf("%-8s %s: %s\n", level_names[own->level], own->subject, own->text);
            if ('\0' != own->remedy[0]) {
                printf("%-8s   -> %s\n", "", own->remedy);
            }
        }
    }
    if (visit->options->json) {
        info_json_close();
        info_json_int("to_fix", bad);
        info_json_close();
    } else {
        printf("%d finding%s to fix\n", bad, 1 == bad ? "" : "s");
    }
    return 0 == bad ? INFO_OK : INFO_FINDINGS;
}

int info_doctor(const info_options_t *options)
{
    info_machine_t *machine = NULL;
    info_ucx_t ucx;
    int rc = info_machine_load(options, &machine);

    if (INFO_OK != rc) {
        return rc;
    }
    info_visit_t *visit = calloc(1, sizeof(*visit));
    if (NULL == visit) {
        info_machine_free(machine);
        return info_fail(INFO_FAILED, "out of memory");
    }
    visit->options = options;
    visit->machine = machine;
    visit->root = NULL == options->root ? "" : options->root;
    info_ask_ucx(machine, options, &ucx);
    check_versions(visit, &ucx);
    info_doctor_gpus(visit);
    info_doctor_network(visit, &ucx);
    info_doctor_system(visit);
    rc = print(visit);
    free(visit);
    info_machine_free(machine);
    return rc;
}
