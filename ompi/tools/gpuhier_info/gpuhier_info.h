/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the verbs of gpuhier_info share: options, exit statuses, and one function for each verb.
 */
#ifndef GPUHIER_INFO_H
#define GPUHIER_INFO_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "info_mca.h"
#include "plan/coll_gpuhier_schedule.h"

/* Exit statuses. */
enum {
    INFO_OK = 0,
    INFO_FINDINGS = 1,  /* doctor and measure: there is something to fix */
    INFO_BAD_USAGE = 2, /* wrong options, a damaged description, a setting that gpuhier would refuse */
    INFO_FAILED = 3     /* out of memory, or nothing to look at */
};

/* All ranks of all nodes in plan and predict. */
#define INFO_RANKS_MAX (4 << 20)

/* What the command line says. Zero or NULL: not said. */
typedef struct info_options {
    bool json;
    const char *machine; /* description file */
    const char *root;    /* folder with a copy of /sys, /proc and /dev */
    const char *svg;
    int nodes;
    int *ranks; /* [nranks] of the nodes, one number for all if nranks is 1 */
    int nranks;
    const gpuhier_collective_t *collective;
    uint64_t count; /* of a block, where there are blocks */
    bool has_count;
    const char *type;
    uint64_t elem_bytes;
    const char *wire;
    double rail_gbit;
    double memory_gbyte;
    const char *link; /* predict: what joins the GPUs of a node */
    const char *rail; /* predict: what joins the nodes */
    int links;
    int rails;
    uint64_t bytes; /* measure: of a copy */
    info_mca_t mca;
} info_options_t;

/* Prints "gpuhier_info: " and the text to stderr, or with --json {"error": text} to stdout. Returns status. */
__attribute__((format(printf, 2, 3))) int info_fail(int status, const char *format, ...);

/* The folder of this program; empty if it cannot be told. */
void info_own_folder(char folder[PATH_MAX]);

int info_topo(const info_options_t *options);
int info_plan(const info_options_t *options);
int info_predict(const info_options_t *options);
int info_measure(const info_options_t *options);
int info_doctor(const info_options_t *options);
int info_job(const info_options_t *options);

/* "64.0 MiB"; text has at least 32 bytes. Returns text. */
const char *info_bytes_text(double bytes, char *text);

/* A whole number with an optional K, M, G or T; false if it is none, or less than min. */
bool info_parse_bytes(const char *text, uint64_t min, uint64_t *value_p);

#endif /* GPUHIER_INFO_H */
