/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * gpuhier_info: what gpuhier sees of a machine, why it chooses what it chooses, how long a call would take, and what is
 * wrong with a machine. It uses the component's own layers, so its answers are theirs.
 *
 * This file reads the command line. Each verb has a file of its own, info_VERB.c.
 */
#include "ompi_config.h"

#include "gpuhier_info.h"

#include "gpu/kernels/gpuhier_kernel_ops.h"
#include "info_json.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef GPUHIER_VERSION
#    define GPUHIER_VERSION "unknown"
#endif

/* Options by number; those of one letter are their letter. */
enum {
    OPTION_JSON = 256,
    OPTION_MACHINE,
    OPTION_ROOT,
    OPTION_SVG,
    OPTION_MCA,
    OPTION_DEVICES,
    OPTION_COLLECTIVE,
    OPTION_NODES,
    OPTION_RANKS,
    OPTION_WIRE,
    OPTION_RAIL_GBIT,
    OPTION_MEMORY_GBYTE,
    OPTION_LINK,
    OPTION_LINKS,
    OPTION_RAIL,
    OPTION_RAILS,
    OPTION_BYTES,
    OPTION_VERSION
};

#define COMMON_OPTIONS                                                                \
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, OPTION_VERSION}, \
        {"json", no_argument, NULL, OPTION_JSON},                                     \
    {                                                                                 \
        "mca", required_argument, NULL, OPTION_MCA                                    \
    }
#define MACHINE_OPTIONS                                    \
    {"machine", required_argument, NULL, OPTION_MACHINE},  \
    {                                                      \
        "devices", required_argument, NULL, OPTION_DEVICES \
    }
#define LIVE_OPTIONS                                 \
    {                                                \
        "root", required_argument, NULL, OPTION_ROOT \
    }
#define CALL_OPTIONS                                                                                                  \
    {"count", required_argument, NULL, 'n'}, {"type", required_argument, NULL, 't'},                                  \
        {"nodes", required_argument, NULL, OPTION_NODES}, {"collective", required_argument, NULL, OPTION_COLLECTIVE}, \
    {                                                                                                                 \
        "ranks", required_argument, NULL, OPTION_RANKS                                                                \
    }

static const struct option topo_options[] = {
    COMMON_OPTIONS, MACHINE_OPTIONS, LIVE_OPTIONS, {"svg", required_argument, NULL, OPTION_SVG}, {NULL, 0, NULL, 0}};
static const struct option plan_options[] = {COMMON_OPTIONS,
                                             CALL_OPTIONS,
                                             {"wire", required_argument, NULL, OPTION_WIRE},
                                             {"rail-gbit", required_argument, NULL, OPTION_RAIL_GBIT},
                                             {"memory-gbyte", required_argument, NULL, OPTION_MEMORY_GBYTE},
                                             {NULL, 0, NULL, 0}};
static const struct option predict_options[] = {COMMON_OPTIONS,
                                                MACHINE_OPTIONS,
                                                CALL_OPTIONS,
                                                {"link", required_argument, NULL, OPTION_LINK},
                                                {"links", required_argument, NULL, OPTION_LINKS},
                                                {"rail", required_argument, NULL, OPTION_RAIL},
                                                {"rails", required_argument, NULL, OPTION_RAILS},
                                                {NULL, 0, NULL, 0}};
static const struct option measure_options[] = {
    COMMON_OPTIONS, LIVE_OPTIONS, {"bytes", required_argument, NULL, OPTION_BYTES}, {NULL, 0, NULL, 0}};
static const struct option doctor_options[] = {
    COMMON_OPTIONS, LIVE_OPTIONS, {"devices", required_argument, NULL, OPTION_DEVICES}, {NULL, 0, NULL, 0}};

static const struct option job_options[] = {COMMON_OPTIONS, {NULL, 0, NULL, 0}};

#define COLLECTIVE_HELP                                                                                        \
    "  --collective NAME     allreduce (default), reduce, reduce_scatter, reduce_scatter_block, bcast,\n"      \
    "                        allgather, allgatherv, alltoall, alltoallv; lists have blocks of equal length,\n" \
    "                        and the root is rank 0\n"

static const struct verb {
    const char *name;
    const struct option *options;
    int (*run)(const info_options_t *options);
    const char *summary;
    const char *help;
} verbs[] = {
    {"topo", topo_options, info_topo, "GPUs, network devices, the ways between them, groups and rails",
     "  --machine FILE        a described machine instead of this one, or the name of a known one: dgx-a100\n"
     "  --svg FILE            also draw it\n"
     "  --devices LIST        network devices, as coll_gpuhier_devices\n"
     "  --root DIR            read /sys and /dev below DIR\n"},
    {"plan", plan_options, info_plan, "groups, slices, exchange and traffic of one call",
     COLLECTIVE_HELP
     "  -n, --count N         elements, of a block where there is one for each rank (K, M, G, T: powers of 1024)\n"
     "  -t, --type TYPE       double, float, int32, MPI_LONG, .., or the bytes of an element (default double)\n"
     "  --nodes N             nodes (default: as --ranks says, else 1)\n"
     "  --ranks R[,R..]       ranks on each node: one number, or one for each node\n"
     "  --wire NAME           rdma, tcp or nvlink: what carries pieces between nodes (default rdma)\n"
     "  --rail-gbit G         rate of one rail in Gbit/s: says how long the wire needs at least\n"
     "  --memory-gbyte M      rate of a GPU's memory in Gbyte/s: the same for the GPUs\n"},
    {"predict", predict_options, info_predict, "expected time and bus bandwidth by size, beside a flat ring",
     COLLECTIVE_HELP
     "  --machine FILE        a described machine, or the name of a known one: dgx-a100\n"
     "  -n, --count N         one size only; -t, --type TYPE: its elements (default double)\n"
     "  --nodes N             nodes (default 1, or as the description says)\n"
     "  --ranks R             ranks on each node (default: one on each GPU of the machine)\n"
     "  --link NAME           what joins GPUs: pcie3 .. pcie6, nvlink1 .. nvlink5 (default: the machine's)\n"
     "  --links N             NVLink links of a GPU (default: as many as GPUs of that generation have)\n"
     "  --rail NAME           what joins nodes: hdr100, hdr, ndr, xdr, 100gbe, 200gbe, 400gbe (default: the "
     "machine's)\n"
     "  --rails N             rails of a node (default: one for each rank)\n"
     "  --devices LIST        network devices, as coll_gpuhier_devices\n"},
    {"measure", measure_options, info_measure, "copies and kernel reads between the GPUs of this machine",
     "  --bytes B             bytes of a copy (default 64M, on emulated GPUs 1M)\n"
     "  --root DIR            read /sys and /dev below DIR\n"},
    {"doctor", doctor_options, info_doctor, "what is wrong with this machine, and what to do about it",
     "  --devices LIST        network devices, as coll_gpuhier_devices\n"
     "  --root DIR            read /sys, /proc and /dev below DIR\n"},
    {"job", job_options, info_job, "groups, rails and paths of a job, and a self-test: mpirun gpuhier_info job", ""},
};

static bool fails_in_json; /* errors are for programs, too */
static bool is_silent;     /* another rank of the job says the same */

int info_fail(int status, const char *format, ...)
{
    va_list args;
    char text[1024];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (fails_in_json && !is_silent) {
        info_json_open(NULL, '{');
        info_json_text("error", text);
        info_json_close();
    } else if (!is_silent) {
        fprintf(stderr, "gpuhier_info: %s\n", text);
    }
    return status;
}

void info_own_folder(char folder[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);

    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (NULL != slash) {
        *slash = '\0';
    }
}

const char *info_bytes_text(double bytes, char *text)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    while (bytes >= 1024.0 && unit < 4) {
        bytes /= 1024.0;
        unit++;
    }
    snprintf(text, 32, "%.*f %s", (0 == unit) ? 0 : 1, bytes, units[unit]);
    return text;
}

bool info_parse_bytes(const char *text, uint64_t min, uint64_t *value_p)
{
    static const char suffixes[] = "KMGT";
    char *end;
    int shift = 0;

    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    const char *suffix = '\0' == *end ? NULL : strchr(suffixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
    if (NULL != suffix) {
        shift = 10 * (int) (suffix - suffixes + 1);
        end++;
    }
    if (0 != errno || text[0] < '0' || text[0] > '9' || '\0' != *end || value > (UINT64_MAX >> 1 >> shift)
        || (uint64_t) value << shift < min) {
        return false;
    }
    *value_p = (uint64_t) value << shift;
    return true;
}

static bool parse_rate(const char *text, double *value_p)
{
    char *end;

    *value_p = strtod(text, &end);
    return end != text && '\0' == *end && *value_p > 0.0 && *value_p < 1e9;
}

static bool parse_int(const char *text, int max, int *value_p)
{
    uint64_t value;

    if (!info_parse_bytes(text, 1, &value) || value > (uint64_t) max) {
        return false;
    }
    *value_p = (int) value;
    return true;
}

/* R or R,R,.. */
static bool parse_ranks(const char *text, info_options_t *options)
{
    size_t commas = 0;

    for (const char *at = text; '\0' != *at; ++at) {
        commas += ',' == *at;
    }
    free(options->ranks);
    options->nranks = 0;
    options->ranks = calloc(commas + 1, sizeof(options->ranks[0]));
    if (NULL == options->ranks) {
        return false;
    }
    for (;;) {
        char *end;
        const long value = strtol(text, &end, 10);

        if (end == text || value < 1 || value > INFO_RANKS_MAX || (',' != *end && '\0' != *end)) {
            return false;
        }
        options->ranks[options->nranks++] = (int) value;
        if ('\0' == *end) {
            return true;
        }
        text = end + 1;
    }
}

/* Bytes of an element by the names of the types that have kernels, with or without MPI_ before; or a number. */
static bool parse_type(const char *text, uint64_t *bytes_p)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } types[] = {
#define TYPE(unused, kind, type, ...) {#type, sizeof(elem_##type)},
        GPUHIER_TYPES(TYPE, )
#undef TYPE
            {"char", 1},
        {"byte", 1},
        {"short", 2},
        {"int", 4},
        {"unsigned", 4},
        {"long", 8},
        {"c_float_complex", 8},
        {"c_double_complex", 16},
    };
    const char *name = 0 == strncasecmp(text, "MPI_", 4) ? text + 4 : text;
    const size_t length = strlen(name) - (strlen(name) > 2 && 0 == strcasecmp(name + strlen(name) - 2, "_t") ? 2 : 0);

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        if (strlen(types[i].name) == length && 0 == strncasecmp(types[i].name, name, length)) {
            *bytes_p = types[i].bytes;
            return true;
        }
    }
    return info_parse_bytes(text, 1, bytes_p) && *bytes_p <= 4096;
}

/* By MPI's name, with or without MPI_ before. NULL: there is none of that name. */
static const gpuhier_collective_t *find_collective(const char *text)
{
    const char *name = 0 == strncasecmp(text, "MPI_", 4) ? text + 4 : text;

    for (int i = 0; i < GPUHIER_COLLECTIVES; ++i) {
        if (0 == strcasecmp(gpuhier_collectives[i].name + strlen("MPI_"), name)) {
            return &gpuhier_collectives[i];
        }
    }
    return NULL;
}

static void print_usage(FILE *out)
{
    fprintf(out, "usage: gpuhier_info VERB [option...]\n");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); ++i) {
        fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
    }
    fprintf(out, "Every verb has --help, --json, and --mca NAME VALUE as mpirun has it; other settings come from the\n"
                 "environment (OMPI_MCA_..) and from Open MPI's files, as in a job. Exit status: 0; 1: measure, "
                 "doctor\n"
                 "or job found something to fix; 2: bad usage; 3: failed. gpuhier_info --version says the version.\n");
}

static void print_help(const struct verb *verb)
{
    printf("usage: gpuhier_info %s [option...]\n%s\n%s"
           "  --mca NAME VALUE      a parameter of Open MPI, as for mpirun\n"
           "  --json                for programs\n",
           verb->name, verb->summary, verb->help);
}

/* One option. Returns false if its value is not understood. */
static bool take(int option, info_options_t *options, int argc, char **argv)
{
    info_mca_t *mca = &options->mca;

    switch (option) {
    case OPTION_JSON:
        options->json = true;
        return true;
    case OPTION_MACHINE:
        options->machine = optarg;
        return true;
    case OPTION_ROOT:
        options->root = optarg;
        return true;
    case OPTION_SVG:
        options->svg = optarg;
        return true;
    case OPTION_DEVICES:
    case OPTION_MCA:
        if (INFO_MCA_OPTIONS_MAX == mca->options
            || (OPTION_MCA == option && (optind >= argc || '-' == *argv[optind]))) {
            return false;
        }
        mca->option[mca->options][0] = OPTION_MCA == option ? optarg : "coll_gpuhier_devices";
        mca->option[mca->options++][1] = OPTION_MCA == option ? argv[optind++] : optarg;
        return true;
    case 'n':
        options->has_count = info_parse_bytes(optarg, 0, &options->count);
        return options->has_count;
    case 't':
        options->type = optarg;
        return parse_type(optarg, &options->elem_bytes);
    case OPTION_COLLECTIVE:
        options->collective = find_collective(optarg);
        return NULL != options->collective;
    case OPTION_NODES:
        return parse_int(optarg, INFO_RANKS_MAX, &options->nodes);
    case OPTION_RANKS:
        return parse_ranks(optarg, options);
    case OPTION_WIRE:
        options->wire = optarg;
        return true;
    case OPTION_RAIL_GBIT:
        return parse_rate(optarg, &options->rail_gbit);
    case OPTION_MEMORY_GBYTE:
        return parse_rate(optarg, &options->memory_gbyte);
    case OPTION_LINK:
        options->link = optarg;
        return true;
    case OPTION_LINKS:
        return parse_int(optarg, 64, &options->links);
    case OPTION_RAIL:
        options->rail = optarg;
        return true;
    case OPTION_RAILS:
        return parse_int(optarg, 64, &options->rails);
    case OPTION_BYTES:
        return info_parse_bytes(optarg, 4096, &options->bytes) && options->bytes <= (uint64_t) 1 << 34;
    default:
        return false;
    }
}

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); ++i) {
        if (0 == strcmp(name, verbs[i].name)) {
            return &verbs[i];
        }
    }
    return NULL;
}

/* The options after the verb. Returns INFO_OK, an error, or -1: there is nothing more to do. */
static int parse(const struct verb *verb, info_options_t *options, int argc, char **argv)
{
    int option, which = -1;

    opterr = 0;
    optind = 2;
    while (-1 != (option = getopt_long(argc, argv, ":hn:t:", verb->options, &which))) {
        if ('h' == option) {
            print_help(verb);
            return -1;
        }
        if (OPTION_VERSION == option) {
            printf("gpuhier_info %s\n", GPUHIER_VERSION);
            return -1;
        }
        if (':' == option) {
            return info_fail(INFO_BAD_USAGE, "%s wants a value; see gpuhier_info %s --help", argv[optind - 1],
                             verb->name);
        }
        const bool known = '?' != option && (option >= 256 || NULL != strstr(verb->help, "-n, --count"));
        if (!known) {
            return info_fail(INFO_BAD_USAGE, "%s has no option %s; see gpuhier_info %s --help", verb->name,
                             argv[optind - 1], verb->name);
        }
        if (!take(option, options, argc, argv)) {
            return info_fail(INFO_BAD_USAGE, "%s%s: '%s' is not understood; see gpuhier_info %s --help",
                             option < 256 ? "-" : "--",
                             option < 256 ? (const char[]){(char) option, '\0'} : verb->options[which].name,
                             NULL == optarg ? "" : optarg, verb->name);
        }
    }
    if (optind < argc) {
        return info_fail(INFO_BAD_USAGE, "'%s' is no option; see gpuhier_info %s --help", argv[optind], verb->name);
    }
    return INFO_OK;
}

/* Is there such a folder? */
static int check_root(const char *root)
{
    struct stat status;

    if (NULL == root || (0 == stat(root, &status) && S_ISDIR(status.st_mode))) {
        return INFO_OK;
    }
    return info_fail(INFO_BAD_USAGE, "--root %s is no folder", root);
}

int main(int argc, char **argv)
{
    info_options_t options = {.elem_bytes = 8, .collective = &gpuhier_collectives[GPUHIER_ALLREDUCE]};
    const char *name = argc < 2 ? "" : argv[1];

    if (0 == strcmp(name, "--help") || 0 == strcmp(name, "-h") || 0 == strcmp(name, "help")) {
        print_usage(stdout);
        return INFO_OK;
    }
    if (0 == strcmp(name, "--version")) {
        printf("gpuhier_info %s\n", GPUHIER_VERSION);
        return INFO_OK;
    }
    for (int i = 1; i < argc; ++i) {
        fails_in_json = fails_in_json || 0 == strcmp(argv[i], "--json"); /* wherever it stands */
    }
    const struct verb *verb = find_verb(name);
    if (NULL == verb) {
        (void) (argc < 2 ? 0 : info_fail(INFO_BAD_USAGE, "there is no verb '%s'", name));
        if (!fails_in_json) {
            print_usage(stderr);
        }
        return INFO_BAD_USAGE;
    }
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    is_silent = info_job == verb->run && NULL != rank && 0 != strcmp(rank, "0");
    int rc = parse(verb, &options, argc, argv);
    rc = INFO_OK != rc ? rc : check_root(options.root);
    rc = INFO_OK != rc ? rc : info_mca_load(&options.mca);
    if (INFO_OK == rc && (info_plan == verb->run || info_predict == verb->run) && NULL != info_mca_off(&options.mca)) {
        rc = info_fail(INFO_BAD_USAGE, "gpuhier is switched off, so it runs no such call: %s",
                       info_mca_off(&options.mca));
    }
    rc = INFO_OK != rc ? rc : verb->run(&options);
    free(options.ranks);
    if (0 != fflush(stdout) || 0 != ferror(stdout)) {
        return info_fail(INFO_FAILED, "cannot write the output: %s", strerror(errno));
    }
    return rc < 0 ? INFO_OK : rc;
}
