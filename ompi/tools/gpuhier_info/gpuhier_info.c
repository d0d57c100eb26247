/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * gpuhier_info: says what gpuhier sees of a machine and why it chose what it
 * chose, or how it would run a call on a cluster that need not exist. It uses
 * the component's own layers, so it cannot say anything else than they do.
 *
 * This file reads the command line; info_machine.c and info_schedule.c explain.
 */
#include "gpuhier_info.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: gpuhier_info [--devices LIST]\n"
    "         explain this machine: GPUs, NVLink, network devices and why each is a rail or not, UCX\n"
    "       gpuhier_info --nodes N --ranks R[,R..] --bytes B [option...]\n"
    "         explain one MPI_Allreduce of B bytes on N nodes of R ranks (one number, or one for each node)\n"
    "  --type-bytes T        bytes of an element (default 8)\n"
    "  --small-bytes S       coll_gpuhier_small_bytes (default 8K)\n"
    "  --slice-bytes S       coll_gpuhier_slice_bytes (default 4M)\n"
    "  --slice-bytes-max S   coll_gpuhier_slice_bytes_max (default 16M, or that of --slice-bytes if told)\n"
    "  --slices-in-flight I  slices_in_flight of coll_gpuhier_tune (default 3)\n"
    "  --algorithm NAME      coll_gpuhier_algorithm (default auto)\n"
    "  --wire NAME           rdma or tcp: what the rails are (default rdma)\n"
    "  --rail-gbit G         rate of one rail in Gbit/s: says how long the wire needs at least\n"
    "  --memory-gbyte M      rate of a GPU's memory in Gbyte/s: the same for the GPUs\n"
    "B and S may end in K, M or G (powers of 1024).\n";

static int bad(const char *option, const char *value)
{
    fprintf(stderr, "gpuhier_info: %s %s is not understood\n%s", option, (NULL == value) ? "" : value, usage);
    return 2;
}

/* A whole number with an optional K, M or G; false if it is not one, or 0 where that is not allowed. */
static bool parse_bytes(const char *text, uint64_t min, uint64_t *value_p)
{
    char *end;
    unsigned long long value;
    int shift = 0;

    errno = 0;
    value = strtoull(text, &end, 10);
    if ('K' == *end || 'M' == *end || 'G' == *end) {
        shift = ('K' == *end) ? 10 : ('M' == *end) ? 20 : 30;
        end++;
    }
    if (0 != errno || end == text || '-' == text[0] || '\0' != *end || value > (UINT64_MAX >> 1 >> shift)
        || (value << shift) < min) {
        return false;
    }
    *value_p = (uint64_t) value << shift;
    return true;
}

/* A number above 0. */
static bool parse_rate(const char *text, double *value_p)
{
    char *end;

    *value_p = strtod(text, &end);
    return end != text && '\0' == *end && *value_p > 0.0;
}

/* R or R,R,.. for the nodes; the number of numbers goes to count_p. */
static bool parse_ranks(const char *text, int *ranks, int *count_p)
{
    int count = 0;

    for (;;) {
        char *end;
        long value = strtol(text, &end, 10);

        if (end == text || value < 1 || value > 4096 || INFO_NODES_MAX == count || (',' != *end && '\0' != *end)) {
            return false;
        }
        ranks[count++] = (int) value;
        if ('\0' == *end) {
            *count_p = count;
            return true;
        }
        text = end + 1;
    }
}

/* One option that takes a value. Returns false if it or its value is not understood. */
static bool parse_option(info_settings_t *settings, int *listed, const char *option, const char *value)
{
    uint64_t number;
    bool ok = false;

    if (0 == strcmp(option, "--devices")) {
        settings->devices = value;
        return true;
    }
    if (0 == strcmp(option, "--algorithm")) {
        settings->algorithm = value;
        return true;
    }
    if (0 == strcmp(option, "--wire")) {
        settings->wire = value;
        return true;
    }
    if (0 == strcmp(option, "--nodes")) {
        ok = parse_bytes(value, 1, &number) && number <= INFO_NODES_MAX;
        settings->nodes = ok ? (int) number : 0;
    } else if (0 == strcmp(option, "--ranks")) {
        ok = parse_ranks(value, settings->ranks, listed);
    } else if (0 == strcmp(option, "--bytes")) {
        ok = parse_bytes(value, 0, &settings->bytes);
    } else if (0 == strcmp(option, "--type-bytes")) {
        ok = parse_bytes(value, 1, &settings->elem_bytes);
    } else if (0 == strcmp(option, "--small-bytes")) {
        ok = parse_bytes(value, 0, &settings->small_bytes);
    } else if (0 == strcmp(option, "--slice-bytes")) {
        ok = parse_bytes(value, 1, &settings->slice_bytes);
        settings->slice_bytes_max =
            (0 == settings->slice_bytes_max) ? settings->slice_bytes : settings->slice_bytes_max;
    } else if (0 == strcmp(option, "--slice-bytes-max")) {
        ok = parse_bytes(value, 1, &settings->slice_bytes_max);
    } else if (0 == strcmp(option, "--slices-in-flight")) {
        ok = parse_bytes(value, 1, &number) && number <= INT32_MAX;
        settings->slices_in_flight = ok ? (int) number : 0;
    } else if (0 == strcmp(option, "--rail-gbit")) {
        ok = parse_rate(value, &settings->rail_gbit);
    } else if (0 == strcmp(option, "--memory-gbyte")) {
        ok = parse_rate(value, &settings->memory_gbyte);
    }
    return ok;
}

int main(int argc, char **argv)
{
    info_settings_t settings = {
        .elem_bytes = 8, .slice_bytes = 4u << 20, .small_bytes = 8u << 10, .slices_in_flight = 3};
    int listed = 0;
    int i;

    for (i = 1; i < argc; i += 2) {
        if (0 == strcmp(argv[i], "--help") || 0 == strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            return 0;
        }
        if (i + 1 >= argc || !parse_option(&settings, &listed, argv[i], argv[i + 1])) {
            return bad(argv[i], (i + 1 < argc) ? argv[i + 1] : NULL);
        }
    }
    if (0 == settings.nodes && 0 == listed) {
        return info_machine(&settings);
    }
    if (0 == settings.nodes || 0 == listed || (1 != listed && listed != settings.nodes)) {
        return bad("--nodes and --ranks", "together: --ranks has one number, or one for each node; this");
    }
    for (i = listed; i < settings.nodes; ++i) {
        settings.ranks[i] = settings.ranks[0];
    }
    return info_schedule(&settings);
}
