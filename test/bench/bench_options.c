/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line of the benchmark; the letters are those of nccl-tests where they mean the same.
 */
#include "bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: gpuhier_bench [options]\n"
    "  -b, --min BYTES         smallest message, with K, M, G as suffix (8)\n"
    "  -e, --max BYTES         largest message (64M)\n"
    "  -f, --factor N          from one size to the next (2)\n"
    "  -d, --types LIST        of double,float,int,..., or all (double)\n"
    "  -o, --ops LIST          of sum,prod,max,minloc,..., or all (sum); undefined pairs are left out\n"
    "  -n, --iterations N      timed calls per row (20)\n"
    "  -w, --warmups N         calls before them (2)\n"
    "      --train N           calls in a row per sample, which is their mean; out of place only (1)\n"
    "  -t, --budget SECONDS    for all rows together: fewer iterations where they are slow (no limit)\n"
    "  -z, --place WHAT        in, out or both (out)\n"
    "  -c, --check 0|1         compare every element with a reference (1)\n"
    "      --mode WHAT         gpuhier, stock or both, alternately (both)\n"
    "      --counters          bytes over links and rails of one call per row, against the formulas\n"
    "      --host              host buffers: no row may be accelerated; MPI_Comm_dup as well; no floor\n"
    "      --collective NAME   allreduce, reduce, bcast, allgather, allgatherv, reduce_scatter,\n"
    "                          reduce_scatter_block, alltoall or alltoallv; sizes and bandwidths as in nccl-tests,\n"
    "                          blocks of equal length (allreduce)\n"
    "      --call WHAT         blocking; with --host also nonblocking or persistent, and waited for at once\n"
    "                          (blocking)\n"
    "      --any-path          a row that the component did not accelerate is no failure\n"
    "      --wire-gbps RATE    Gbit/s of one rail, for the floor (VCLUSTER_RATE, else none)\n"
    "      --rails N           rails per node (VCLUSTER_RAILS, else 1)\n"
    "      --json FILE         the rows as a list of objects\n"
    "      --plot FILE         a picture, by gnuplot; .png or .svg\n";

enum {
    OPTION_MODE = 256,
    OPTION_COUNTERS,
    OPTION_ANY_PATH,
    OPTION_HOST,
    OPTION_CALL,
    OPTION_COLLECTIVE,
    OPTION_TRAIN,
    OPTION_WIRE,
    OPTION_RAILS,
    OPTION_JSON,
    OPTION_PLOT,
};

static const struct option long_options[] = {
    {"min", required_argument, NULL, 'b'},
    {"max", required_argument, NULL, 'e'},
    {"factor", required_argument, NULL, 'f'},
    {"types", required_argument, NULL, 'd'},
    {"ops", required_argument, NULL, 'o'},
    {"iterations", required_argument, NULL, 'n'},
    {"warmups", required_argument, NULL, 'w'},
    {"budget", required_argument, NULL, 't'},
    {"place", required_argument, NULL, 'z'},
    {"check", required_argument, NULL, 'c'},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"counters", no_argument, NULL, OPTION_COUNTERS},
    {"host", no_argument, NULL, OPTION_HOST},
    {"call", required_argument, NULL, OPTION_CALL},
    {"collective", required_argument, NULL, OPTION_COLLECTIVE},
    {"train", required_argument, NULL, OPTION_TRAIN},
    {"any-path", no_argument, NULL, OPTION_ANY_PATH},
    {"wire-gbps", required_argument, NULL, OPTION_WIRE},
    {"rails", required_argument, NULL, OPTION_RAILS},
    {"json", required_argument, NULL, OPTION_JSON},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* A size with a binary suffix; false when it is none. */
static bool parse_bytes(const char *text, size_t *bytes_p)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = 0;

    switch (*end) {
    case 'K':
    case 'k':
        shift = 10;
        break;
    case 'M':
    case 'm':
        shift = 20;
        break;
    case 'G':
    case 'g':
        shift = 30;
        break;
    default:
        break;
    }
    if (end == text || value >= (UINT64_C(1) << 33) || (0 != shift ? 0 != end[1] : 0 != *end)) {
        return false;
    }
    *bytes_p = (size_t) value << shift;
    return *bytes_p > 0 && *bytes_p < (UINT64_C(1) << 36);
}

/* A rate as tc writes it (1gbit, 500mbit), in Gbit/s; 0 when it is none. */
static double parse_rate(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (0 == strncmp(end, "gbit", 4)) {
        return value;
    }
    if (0 == strncmp(end, "mbit", 4)) {
        return value / 1e3;
    }
    if (0 == strncmp(end, "kbit", 4)) {
        return value / 1e6;
    }
    return 0 == *end ? value : 0.0;
}

/* Splits "a,b,c" or "all"; false at the first unknown name. */
static bool parse_types(const char *list, bench_options_t *o)
{
    char text[512];
    char *save = NULL;

    o->ntypes = 0;
    if (0 == strcmp(list, "all")) {
        while (o->ntypes < value_ntypes && o->ntypes < BENCH_MAX_NAMES) {
            o->types[o->ntypes] = &value_types[o->ntypes];
            ++o->ntypes;
        }
        return true;
    }
    snprintf(text, sizeof(text), "%s", list);
    for (char *name = strtok_r(text, ",", &save); NULL != name; name = strtok_r(NULL, ",", &save)) {
        const value_type_t *type = value_type_find(name);
        if (NULL == type || o->ntypes == BENCH_MAX_NAMES) {
            return false;
        }
        o->types[o->ntypes++] = type;
    }
    return o->ntypes > 0;
}

static bool parse_ops(const char *list, bench_options_t *o)
{
    char text[512];
    char *save = NULL;

    o->nops = 0;
    if (0 == strcmp(list, "all")) {
        while (o->nops < value_nops && o->nops < BENCH_MAX_NAMES) {
            o->ops[o->nops] = &value_ops[o->nops];
            ++o->nops;
        }
        return true;
    }
    snprintf(text, sizeof(text), "%s", list);
    for (char *name = strtok_r(text, ",", &save); NULL != name; name = strtok_r(NULL, ",", &save)) {
        const value_op_t *op = value_op_find(name);
        if (NULL == op || o->nops == BENCH_MAX_NAMES) {
            return false;
        }
        o->ops[o->nops++] = op;
    }
    return o->nops > 0;
}

static bool parse_place(const char *text, bench_options_t *o)
{
    bool both = 0 == strcmp(text, "both");
    o->in_place[0] = both || 0 == strcmp(text, "out");
    o->in_place[1] = both || 0 == strcmp(text, "in");
    return o->in_place[0] || o->in_place[1];
}

/* Which of the names it is, which end with NULL; false when it is none of them. */
static bool parse_name(const char *text, const char *const *names, int *index_p)
{
    for (*index_p = 0; NULL != names[*index_p]; ++*index_p) {
        if (0 == strcmp(text, names[*index_p])) {
            return true;
        }
    }
    return false;
}

static bool parse_mode(const char *text, bench_options_t *o)
{
    static const char *const names[] = {[MODE_BOTH] = "both", [MODE_GPUHIER] = "gpuhier", [MODE_STOCK] = "stock", NULL};
    int index;
    bool known = parse_name(text, names, &index);

    o->mode = known ? (bench_mode_t) index : o->mode;
    return known;
}

static bool parse_call(const char *text, bench_options_t *o)
{
    static const char *const names[] = {
        [CALL_BLOCKING] = "blocking", [CALL_NONBLOCKING] = "nonblocking", [CALL_PERSISTENT] = "persistent", NULL};
    int index;
    bool known = parse_name(text, names, &index);

    o->call = known ? (bench_call_t) index : o->call;
    return known;
}

static bool parse_int(const char *text, int least, int *value_p)
{
    char *end;
    long value = strtol(text, &end, 10);
    *value_p = (int) value;
    return end != text && 0 == *end && value >= least && value <= 1000000;
}

/* Options without a letter. */
static bool parse_long(int option, const char *text, bench_options_t *o)
{
    switch (option) {
    case OPTION_MODE:
        return parse_mode(text, o);
    case OPTION_COUNTERS:
        return o->counters = true;
    case OPTION_HOST:
        return o->host = true;
    case OPTION_TRAIN:
        return parse_int(text, 1, &o->train);
    case OPTION_CALL:
        return parse_call(text, o);
    case OPTION_COLLECTIVE:
        o->collective = bench_collective_find(text);
        return NULL != o->collective;
    case OPTION_ANY_PATH:
        return o->any_path = true;
    case OPTION_WIRE:
        o->wire_gbps = parse_rate(text);
        return o->wire_gbps > 0.0;
    case OPTION_RAILS:
        return parse_int(text, 1, &o->rails);
    case OPTION_JSON:
        o->json = text;
        return true;
    case OPTION_PLOT:
        o->plot = text;
        return true;
    default:
        return false;
    }
}

static bool parse_one(int letter, const char *text, bench_options_t *o)
{
    int number = 0;
    char *end;

    switch (letter) {
    case 'b':
        return parse_bytes(text, &o->min_bytes);
    case 'e':
        return parse_bytes(text, &o->max_bytes);
    case 'f':
        number = 0;
        if (!parse_int(text, 2, &number)) {
            return false;
        }
        o->factor = (unsigned) number;
        return true;
    case 'd':
        return parse_types(text, o);
    case 'o':
        return parse_ops(text, o);
    case 'n':
        return parse_int(text, 1, &o->iterations);
    case 'w':
        return parse_int(text, 0, &o->warmups);
    case 't':
        o->budget = strtod(text, &end);
        return end != text && 0 == *end && o->budget >= 0.0;
    case 'z':
        return parse_place(text, o);
    case 'c':
        o->check = 0 == strcmp(text, "1");
        return o->check || 0 == strcmp(text, "0");
    default:
        return parse_long(letter, text, o);
    }
}

int bench_options_parse(bench_options_t *o, int argc, char **argv, bool is_speaker)
{
    const char *rate = getenv("VCLUSTER_RATE");
    const char *rails = getenv("VCLUSTER_RAILS");
    int letter;

    memset(o, 0, sizeof(*o));
    o->min_bytes = 8;
    o->max_bytes = (size_t) 64 << 20;
    o->factor = 2;
    o->iterations = 20;
    o->warmups = 2;
    o->train = 1;
    o->in_place[0] = true;
    o->collective = bench_collective_find("allreduce");
    o->check = true;
    o->rails = NULL != rails && atoi(rails) > 0 ? atoi(rails) : 1;
    o->wire_gbps = NULL != rate ? parse_rate(rate) : 0.0;
    parse_types("double", o);
    parse_ops("sum", o);
    opterr = is_speaker;
    while (-1 != (letter = getopt_long(argc, argv, "b:e:f:d:o:n:w:t:z:c:h", long_options, NULL))) {
        if ('h' == letter) {
            if (is_speaker) {
                fputs(usage, stdout);
            }
            return 1;
        }
        if ('?' == letter || !parse_one(letter, optarg, o)) {
            if (is_speaker) {
                if ('?' != letter) {
                    fprintf(stderr, "gpuhier_bench: bad value '%s' (see --help)\n", optarg);
                }
            }
            return 2;
        }
    }
    if (o->train > 1 && o->in_place[1]) {
        if (is_speaker) {
            fprintf(
                stderr,
                "gpuhier_bench: calls of a train follow each other on the same buffers: not in place (see --help)\n");
        }
        return 2;
    }
    if (CALL_BLOCKING != o->call && (!o->host || MODE_BOTH != o->mode)) {
        if (is_speaker) {
            fprintf(stderr,
                    "gpuhier_bench: --call is for host buffers beside stock: add --host, omit --mode (see --help)\n");
        }
        return 2;
    }
    if (!bench_collective_is_allreduce(o->collective) && (o->counters || CALL_BLOCKING != o->call)) {
        if (is_speaker) {
            fprintf(stderr, "gpuhier_bench: --counters and --call are for --collective allreduce alone (see --help)\n");
        }
        return 2;
    }
    if (BY_ROOT == o->collective->from) { /* has one buffer */
        o->in_place[0] = false;
        o->in_place[1] = true;
    }
    if (!bench_collective_reduces(o->collective)) {
        o->nops = 1;
    }
    if (optind < argc || o->min_bytes > o->max_bytes) {
        if (is_speaker) {
            fprintf(stderr,
                    optind < argc ? "gpuhier_bench: unknown argument '%s' (see --help)\n"
                                  : "gpuhier_bench: %s: the smallest message is larger than the largest\n",
                    optind < argc ? argv[optind] : "-b");
        }
        return 2;
    }
    return 0;
}
