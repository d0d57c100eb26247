/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb measure: copies between each two GPUs, and reads of one GPU's memory by the component's copy kernel on the
 * other, both ways. Marks pairs that are far below what their link should give, or below their like, and pairs whose
 * kernels read or write wrong data.
 *
 * On emulated GPUs all pairs are copies by the processor, so they are compared with each other only.
 */
#include "ompi_config.h"

#include "info_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "info_driver.h"
#include "info_json.h"
#include "info_rates.h"
#include "info_side.h"

#define ROUNDS 5 /* the best counts, since a disturbance only makes a copy slower */
#define ROUNDS_EMULATED 25
#define FAR_BELOW 0.5        /* of what the link should give */
#define UNLIKE 0.25          /* of the median of pairs that are joined alike */
#define UNLIKE_EMULATED 0.03 /* the processor's caches and other programs make pairs differ */

typedef struct pair {
    double copy; /* GB/s; 0: not measured */
    double read;
    const char *error; /* of the copy or the read that failed; NULL: none */
    char lies[96];     /* what kernels of the second GPU do wrong with memory of the first; empty: nothing is known */
    const char *verdict;
    double expected; /* 0: not known */
} pair_t;

typedef struct bench {
    const info_driver_t *driver;
    info_machine_t *machine;
    uint64_t bytes;
    int rounds;
    info_side_t side[INFO_GPUS_MAX];
    pair_t pair[INFO_GPUS_MAX][INFO_GPUS_MAX]; /* [from][to] */
    char no_kernel[128];                       /* why reads are not measured; empty: they are */
} bench_t;

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

static void side_open(bench_t *bench, int gpu)
{
    info_side_t *side = &bench->side[gpu];
    const CUresult result = info_side_open(side, gpu, bench->bytes);

    if (CUDA_SUCCESS != result) {
        snprintf(bench->machine->gpu[gpu].failure, sizeof(bench->machine->gpu[gpu].failure), "it cannot be set up: %s",
                 info_driver_error(result));
    } else if (NULL == side->kernel) {
        snprintf(bench->no_kernel, sizeof(bench->no_kernel), "the kernels cannot be loaded: %s",
                 info_driver_error(side->no_kernel));
    }
}

/* One copy from a GPU to another, or one read by a kernel on `to`. The context of `to` is current. */
static CUresult move(const bench_t *bench, int from, int to, bool by_kernel)
{
    const info_driver_t *driver = bench->driver;
    CUresult result;

    if (by_kernel) {
        return info_side_move(&bench->side[to], bench->side[to].memory + bench->bytes, bench->side[from].memory,
                              bench->bytes);
    }
    result = driver->cuMemcpyPeer(bench->side[to].memory + bench->bytes, bench->side[to].context,
                                  bench->side[from].memory, bench->side[from].context, bench->bytes);
    return CUDA_SUCCESS != result ? result : driver->cuCtxSynchronize();
}

/* GB/s of the best of some rounds; 0 and *error_p where it fails. */
static double rate_of(const bench_t *bench, int from, int to, bool by_kernel, const char **error_p)
{
    double best = 0.0;

    for (int round = 0; round < bench->rounds; ++round) {
        const double begin = now_us();
        const CUresult result = move(bench, from, to, by_kernel);
        const double us = now_us() - begin;

        if (CUDA_SUCCESS != result) {
            *error_p = info_driver_error(result);
            return 0.0;
        }
        const double rate = (double) bench->bytes / (us > 0.01 ? us : 0.01) / 1000.0;
        best = rate > best ? rate : best;
    }
    return best;
}

/* Do kernels of `to` read and write memory of `from` as it is? */
static void try_pair(bench_t *bench, int from, int to)
{
    pair_t *pair = &bench->pair[from][to];
    info_trial_t trial = {false, false};
    const CUresult result = info_side_try(&bench->side[to], &bench->side[from], &trial);
    const char *text = info_trial_text(&trial, to);

    if (CUDA_SUCCESS != result) {
        pair->error = info_driver_error(result);
    } else if (NULL != text) {
        snprintf(pair->lies, sizeof(pair->lies), "%s", text);
    }
}

static void measure_pair(bench_t *bench, int from, int to)
{
    const info_driver_t *driver = bench->driver;
    pair_t *pair = &bench->pair[from][to];
    CUcontext none;

    const CUresult entered = driver->cuCtxPushCurrent(bench->side[to].context);
    if (CUDA_SUCCESS != entered) {
        pair->error = info_driver_error(entered);
        return;
    }
    if (bench->machine->peer[to][from]) {
        const CUresult result = info_side_reach(&bench->side[to], &bench->side[from]);
        if (CUDA_SUCCESS != result) {
            pair->error = info_driver_error(result);
        }
    }
    pair->copy = rate_of(bench, from, to, false, &pair->error);
    if (NULL == pair->error && bench->machine->peer[to][from] && NULL != bench->side[to].kernel) {
        pair->read = rate_of(bench, from, to, true, &pair->error);
        if (NULL == pair->error) {
            try_pair(bench, from, to);
        }
    }
    (void) driver->cuCtxPopCurrent(&none);
}

static int compare_rates(const void *a, const void *b)
{
    const double left = *(const double *) a, right = *(const double *) b;

    return left < right ? -1 : left > right;
}

/* The median copy, or read, of the pairs that are joined as these two are; on emulated GPUs, of all. */
static double median_like(const bench_t *bench, int from, int to, bool reads)
{
    static double rates[INFO_GPUS_MAX * INFO_GPUS_MAX];
    const info_machine_t *machine = bench->machine;
    size_t count = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            const bool alike = machine->links[i][j] == machine->links[from][to]
                               && (0 != machine->links[i][j] || machine->way[i][j] == machine->way[from][to]);
            const double rate = reads ? bench->pair[i][j].read : bench->pair[i][j].copy;
            if (rate > 0.0 && (machine->is_emulated || alike)) {
                rates[count++] = rate;
            }
        }
    }
    qsort(rates, count, sizeof(rates[0]), compare_rates);
    return 0 == count ? 0.0 : rates[count / 2];
}

static double expected_of(const info_machine_t *machine, int from, int to)
{
    const info_rate_t *rate = 0 != machine->links[from][to] ? info_nvlink_rate(machine->nvlink_generation)
                                                            : info_pcie_rate(machine->pcie_generation);

    if (NULL == rate || machine->is_emulated) {
        return 0.0;
    }
    return info_rate_of(rate, 0 != machine->links[from][to] ? machine->links[from][to] : 1);
}

/* Returns the number of pairs that something is wrong with. */
static int judge(bench_t *bench)
{
    const double unlike = bench->machine->is_emulated ? UNLIKE_EMULATED : UNLIKE;
    int wrong = 0;

    for (int i = 0; i < bench->machine->ngpus; ++i) {
        for (int j = 0; j < bench->machine->ngpus; ++j) {
            pair_t *pair = &bench->pair[i][j];

            if (0.0 == pair->copy && NULL == pair->error) {
                continue;
            }
            pair->expected = expected_of(bench->machine, i, j);
            if (NULL != pair->error) {
                pair->verdict = pair->error;
            } else if ('\0' != pair->lies[0]) {
                pair->verdict = pair->lies;
            } else if (pair->copy < unlike * median_like(bench, i, j, false)
                       || (pair->read > 0.0 && pair->read < unlike * median_like(bench, i, j, true))) {
                pair->verdict = "far below its like";
            } else if (pair->copy < FAR_BELOW * pair->expected) {
                pair->verdict = "far below what the link should give";
            }
            wrong += NULL != pair->verdict;
        }
    }
    return wrong;
}

static void print_matrix(const bench_t *bench, const char *title, bool reads)
{
    const int ngpus = bench->machine->ngpus;
    char name[16];

    printf("%s, GB/s, from (row) to (column):\n%-7s", title, "");
    for (int j = 0; j < ngpus; ++j) {
        snprintf(name, sizeof(name), "GPU%d", j);
        printf("%9s", name);
    }
    printf("\n");
    for (int i = 0; i < ngpus; ++i) {
        snprintf(name, sizeof(name), "GPU%d", i);
        printf("%-7s", name);
        for (int j = 0; j < ngpus; ++j) {
            const double rate = reads ? bench->pair[i][j].read : bench->pair[i][j].copy;
            if (rate > 0.0) {
                printf("%9.2f", rate);
            } else {
                printf("%9s", i == j ? "X" : "-");
            }
        }
        printf("\n");
    }
}

static void print_text(const bench_t *bench, int wrong)
{
    const info_machine_t *machine = bench->machine;
    bool lies = false;
    char size[32], way[8];

    printf("machine: %s: %d%s GPU%s, copies of %s, best of %d\n", machine->title, machine->ngpus,
           machine->is_emulated ? " emulated" : "", 1 == machine->ngpus ? "" : "s",
           info_bytes_text((double) bench->bytes, size), bench->rounds);
    if (machine->is_emulated) {
        printf("emulated: these rates are the processor's, not a GPU's; pairs are compared with each other only\n");
    }
    print_matrix(bench, "copies", false);
    print_matrix(bench, "reads by a kernel", true);
    if ('\0' != bench->no_kernel[0]) {
        printf("reads are not measured: %s\n", bench->no_kernel);
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' != machine->gpu[i].failure[0]) {
            printf("wrong: GPU%d does not answer and is left out: %s\n", i, machine->gpu[i].failure);
        }
        for (int j = 0; j < machine->ngpus; ++j) {
            const pair_t *pair = &bench->pair[i][j];

            if (NULL == pair->verdict) {
                continue;
            }
            lies = lies || '\0' != pair->lies[0];
            printf("wrong: GPU%d to GPU%d (%s): %s", i, j, info_way_text(machine, i, j, way), pair->verdict);
            if (NULL == pair->error) {
                printf(": copies %.2f GB/s, reads %.2f", pair->copy, pair->read);
                if (pair->expected > 0.0) {
                    printf(", %.0f expected", pair->expected);
                }
            }
            printf("\n");
        }
    }
    printf(0 == wrong ? "nothing is far below what it should be\n"
                      : "look at `nvidia-smi nvlink -s -e`, `lspci -vv` (LnkSta, ACSCtl) and the kernel's log "
                        "(Xid)\n");
    if (lies) {
        printf("where kernels read or write wrong data: " INFO_TRIAL_REMEDY "\n");
    }
}

static void print_json(const bench_t *bench, int wrong)
{
    const info_machine_t *machine = bench->machine;
    char way[8];

    info_json_open(NULL, '{');
    info_json_text("machine", machine->title);
    info_json_bool("emulated", machine->is_emulated);
    info_json_int("bytes", (long long) bench->bytes);
    info_json_text("reads_not_measured", '\0' == bench->no_kernel[0] ? NULL : bench->no_kernel);
    info_json_int("wrong", wrong);
    info_json_open("pairs", '[');
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            const pair_t *pair = &bench->pair[i][j];

            if (0.0 == pair->copy && NULL == pair->error) {
                continue;
            }
            info_json_open(NULL, '{');
            info_json_int("from", i);
            info_json_int("to", j);
            info_json_text("way", info_way_text(machine, i, j, way));
            info_json_number("copy_gbyte", pair->copy);
            info_json_number("read_gbyte", pair->read);
            info_json_number("expected_gbyte", pair->expected);
            info_json_text("wrong", pair->verdict);
            info_json_close();
        }
    }
    info_json_close();
    info_json_open("lost", '[');
    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' != machine->gpu[i].failure[0]) {
            info_json_int(NULL, i);
        }
    }
    info_json_close();
    info_json_close();
}

static int run(bench_t *bench, const info_options_t *options)
{
    info_machine_t *machine = bench->machine;
    int wrong = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' == machine->gpu[i].failure[0]) {
            side_open(bench, i);
        }
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            if (i != j && '\0' == machine->gpu[i].failure[0] && '\0' == machine->gpu[j].failure[0]) {
                measure_pair(bench, i, j);
            }
        }
        wrong += '\0' != machine->gpu[i].failure[0];
    }
    wrong += judge(bench);
    if (options->json) {
        print_json(bench, wrong);
    } else {
        print_text(bench, wrong);
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        info_side_close(&bench->side[i], i);
    }
    return 0 == wrong ? INFO_OK : INFO_FINDINGS;
}

int info_measure(const info_options_t *options)
{
    bench_t *bench = calloc(1, sizeof(*bench));
    const char *why = "";
    int rc;

    if (NULL == bench) {
        return info_fail(INFO_FAILED, "out of memory");
    }
    bench->driver = info_driver(&why);
    rc = info_machine_load(options, &bench->machine);
    if (INFO_OK == rc && (NULL == bench->driver || 0 == bench->machine->ngpus)) {
        rc = info_fail(INFO_FAILED, "there is nothing to measure: %s",
                       NULL == bench->driver ? why : "the driver shows no device");
    } else if (INFO_OK == rc) {
        bench->bytes = 0 != options->bytes ? options->bytes : (uint64_t) (bench->driver->is_emulated ? 1 : 64) << 20;
        bench->rounds = bench->driver->is_emulated ? ROUNDS_EMULATED : ROUNDS;
        rc = run(bench, options);
    }
    info_machine_free(bench->machine);
    free(bench);
    return rc;
}
