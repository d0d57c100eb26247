/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modelled time: what a few things take, what the model's formula says and what is published for the hardware.
 *
 *   model_test costs          a table; status 1 if something takes less than its formula, or if the formula is more
 *                             than 25 % off what is published
 *   model_test contention     peers that are read by all at once serve slower than peers that are read in turn
 *   model_test off            without a model there is no modelled time, and a call costs next to nothing
 *
 * Nothing here judges how late something may be: a busy machine makes everything later, never earlier.
 */
#include <cuda.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cudasim.h"

#define TURNS 6
#define BACK_TO_BACK 16
#define MIB ((size_t) 1 << 20)

static int failures;
static const char *model_path;
static CUcontext contexts[4];
static CUstream streams[4];
static CUdeviceptr memory[4];
static CUfunction empty, reader[4], gate[4], oneshot[4];
static char *pinned;

static void must(CUresult rc, const char *what, int line)
{
    if (CUDA_SUCCESS != rc) {
        fprintf(stderr, "line %d: %s gives %d\n", line, what, (int) rc);
        exit(1);
    }
}

#define MUST(call) must(call, #call, __LINE__)

/* A figure of the model file, read here and not by the emulator. */
static double key(const char *name)
{
    FILE *file = fopen(model_path, "r");
    char line[512];
    double value = NAN;
    size_t length = strlen(name);

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (0 == strncmp(line, name, length) && ' ' == line[length]) {
            value = strtod(strchr(line, '=') + 1, NULL);
        }
    }
    if (NULL == file || isnan(value)) {
        fprintf(stderr, "%s: no %s\n", model_path, name);
        exit(1);
    }
    fclose(file);
    return value;
}

/* Large enough for the rate to count, and less where links are slow: 64 MiB over PCIe would take seconds. */
static size_t big_bytes(void)
{
    return '\0' != model_path[0] && key("link.rate") > 100 ? 64 * MIB : 4 * MIB;
}

static void start(int ngpus)
{
    CUmodule module;

    MUST(cuInit(0));
    for (int i = 0; i < ngpus; i++) {
        MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
    }
    for (int i = 0; i < ngpus; i++) {
        MUST(cuCtxSetCurrent(contexts[i]));
        for (int k = 0; k < ngpus; k++) {
            if (k != i) {
                MUST(cuCtxEnablePeerAccess(contexts[k], 0));
            }
        }
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&memory[i], 64 * MIB));
        MUST(cuMemsetD8(memory[i], 0, 64 * MIB)); /* so that no copy finds missing pages */
        MUST(cuModuleLoad(&module, "contract_kernels.fatbin"));
        MUST(cuModuleGetFunction(&reader[i], module, "model_read"));
        MUST(cuModuleGetFunction(&gate[i], module, "model_gate"));
        MUST(cuModuleGetFunction(&oneshot[i], module, "model_oneshot"));
    }
    MUST(cuCtxSetCurrent(contexts[0]));
    MUST(cuMemAllocHost((void **) &pinned, 4096));
    memset(pinned, 0, 4096);
    MUST(cuModuleLoad(&module, "contract_kernels.fatbin"));
    MUST(cuModuleGetFunction(&empty, module, "model_empty"));
}

static void launch_empty(void)
{
    MUST(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, streams[0], NULL, NULL));
}

/* ---- what is timed; one turn each, called between two looks at the clock ---- */

static void turn_launch(void)
{
    for (int i = 0; i < BACK_TO_BACK; i++) {
        launch_empty();
    }
}

static void turn_sync(void)
{
    launch_empty();
    MUST(cuStreamSynchronize(streams[0]));
}

static void turn_to_host(void)
{
    MUST(cuMemcpyDtoHAsync(pinned, memory[0], 8, streams[0]));
    MUST(cuStreamSynchronize(streams[0]));
}

static void turn_small_peer(void)
{
    for (int i = 0; i < BACK_TO_BACK; i++) {
        MUST(cuMemcpyAsync(memory[1], memory[0], 16, streams[0]));
    }
    MUST(cuStreamSynchronize(streams[0]));
}

static void turn_peer(void)
{
    MUST(cuMemcpyAsync(memory[1], memory[0], big_bytes(), streams[0]));
    MUST(cuStreamSynchronize(streams[0]));
}

static void turn_local(void)
{
    MUST(cuMemcpyAsync(memory[0], memory[0] + 32 * MIB, 32 * MIB, streams[0]));
    MUST(cuStreamSynchronize(streams[0]));
}

static void read_from(int gpu, const uint64_t *from, uint32_t n, uint64_t bytes, uint32_t at_once)
{
    uint64_t list[8];
    void *params[] = {list, &bytes, &n, &at_once};

    memset(list, 0, sizeof(list));
    memcpy(list, from, n * sizeof(*from));
    MUST(cuCtxSetCurrent(contexts[gpu]));
    MUST(cuLaunchKernel(reader[gpu], 64, 1, 1, 256, 1, 1, 0, streams[gpu], params, NULL));
}

static void turn_read(void)
{
    const uint64_t from = memory[1];

    read_from(0, &from, 1, big_bytes(), 0);
    MUST(cuStreamSynchronize(streams[0]));
}

static double best_us(void (*turn)(void), int calls)
{
    double best = HUGE_VAL;

    turn();
    for (int i = 0; i < TURNS; i++) {
        MUST(cuStreamSynchronize(streams[0]));
        const unsigned long long begin = cudasim_model_ns();
        turn();
        const double us = (double) (cudasim_model_ns() - begin) / 1e3;
        best = us < best ? us : best;
    }
    return best / calls;
}

/* One-shot kernels on two GPUs, all queued before the first may start: what a round takes when the host is ahead. */
static double oneshot_us(void)
{
    static uint64_t round, turn;
    uint64_t *word = (uint64_t *) (void *) pinned;
    double best = HUGE_VAL;

    for (int i = 0; i < TURNS; i++) {
        turn++;
        for (int gpu = 0; gpu < 2; gpu++) {
            void *params[] = {&word, &turn};
            MUST(cuCtxSetCurrent(contexts[gpu]));
            MUST(cuLaunchKernel(gate[gpu], 1, 1, 1, 32, 1, 1, 0, streams[gpu], params, NULL));
        }
        for (int k = 0; k < BACK_TO_BACK; k++) {
            round++;
            for (int gpu = 0; gpu < 2; gpu++) {
                uint64_t mine = memory[gpu], theirs = memory[1 - gpu], data = theirs + 4096;
                void *params[] = {&mine, &theirs, &data, &round};
                MUST(cuCtxSetCurrent(contexts[gpu]));
                MUST(cuLaunchKernel(oneshot[gpu], 1, 1, 1, 512, 1, 1, 0, streams[gpu], params, NULL));
            }
        }
        const unsigned long long begin = cudasim_model_ns();
        __atomic_store_n(word, turn, __ATOMIC_RELEASE);
        MUST(cuStreamSynchronize(streams[0]));
        MUST(cuStreamSynchronize(streams[1]));
        const double us = (double) (cudasim_model_ns() - begin) / 1e3;
        best = us < best ? us : best;
    }
    MUST(cuCtxSetCurrent(contexts[0]));
    return best / BACK_TO_BACK;
}

/* published: 0 where nothing is. */
static void row(const char *what, double us, double formula, double published, const char *source)
{
    const bool early = us < 0.97 * formula;
    const bool off = published > 0 && fabs(formula / published - 1) > 0.25;

    printf("%-46s %9.2f %9.2f ", what, us, formula);
    if (published > 0) {
        printf("%9.2f %+5.0f %%  %s%s\n", published, 100 * (us / published - 1), source, off ? "  OFF" : "");
    } else {
        printf("%9s %7s  %s\n", "-", "-", source);
    }
    if (early || off) {
        fprintf(stderr, "%s: %s\n", what, early ? "takes less time than its formula says" : "is more than 25 % off");
        failures++;
    }
}

static void costs(void)
{
    const bool h100 = NULL != strstr(model_path, "h100-dgx");
    const double big = (double) big_bytes() / 1e3; /* us at 1 GB/s */
    const double after = key("gpu.start") + key("gpu.visible");
    const double copy = key("copy.start"), memcpy_host = key("host.cuMemcpyAsync");
    const double kernel = key("gpu.kernel"), store = key("link.store");
    const double half = 32 * (double) MIB / 1e3;
    const double launch = key("host.cuLaunchKernel"), gap = key("gpu.gap") + kernel;
    const double small = copy + store, engine = small > memcpy_host ? small : memcpy_host;

    start(2);
    printf("%-46s %9s %9s %9s %7s\n", "modelled times, us", "modelled", "formula", "published", "");
    row("launch of an empty kernel, one of many", best_us(turn_launch, BACK_TO_BACK), launch, h100 ? 3.0 : 0,
        "meta-pytorch/tritonbench pull request 1017, on GB200");
    row("empty launch and synchronise", best_us(turn_sync, 1), launch + after + kernel, 0, "no public figure found");
    row("8 B to pinned host memory, synchronised", best_us(turn_to_host, 1),
        key("host.cuMemcpyDtoHAsync") + after + copy + key("pcie.store"), h100 ? 6.0 : 0, "arXiv 2602.21548: 5 to 7");
    row("16 B to a peer, one of many", best_us(turn_small_peer, BACK_TO_BACK), engine, h100 ? 2.0 : 0,
        "NVIDIA/cuda-samples issue 230: 1.8 to 2.3");
    row("64 MiB (PCIe: 4) to a peer by the copy engine", best_us(turn_peer, 1), big / key("copy.link_rate"),
        h100 ? big / 376 : 0, "NVIDIA/nccl issue 1264: 376 GB/s");
    row("32 MiB within a GPU", best_us(turn_local, 1), half / key("copy.local_rate"), h100 ? half / 1250 : 0,
        "NVIDIA/nccl issue 1264: 2500 GB/s, both counted");
    row("64 MiB (PCIe: 4) read from a peer by a kernel", best_us(turn_read, 1), big / key("link.rate"),
        h100 ? big / 370 : 0, "astra-sim, HGX-H100 validation: 741 GB/s both ways");
    row("one-shot kernel, 2 GPUs, 512 B, one of many", oneshot_us(), gap + 2 * store + key("link.load"), h100 ? 3.7 : 0,
        "sgl-project/sglang pull request 2904");
}

/* Three GPUs read 3 x 16 MiB from the three others: all in the same order one after the other, or each in its own. */
static double read_all(bool rotated)
{
    uint64_t from[4][3];
    double best = HUGE_VAL;

    for (int gpu = 0; gpu < 4; gpu++) {
        for (int k = 0, n = 0; n < 3; k++) {
            const int peer = rotated ? (gpu + 1 + k) % 4 : k;
            if (peer != gpu) {
                from[gpu][n++] = memory[peer];
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        const unsigned long long begin = cudasim_model_ns();
        for (int gpu = 0; gpu < 4; gpu++) {
            read_from(gpu, from[gpu], 3, 16 * MIB, 1);
        }
        for (int gpu = 0; gpu < 4; gpu++) {
            MUST(cuStreamSynchronize(streams[gpu]));
        }
        const double us = (double) (cudasim_model_ns() - begin) / 1e3;
        best = us < best ? us : best;
    }
    return best;
}

static void contention(void)
{
    const double alone = 3 * 16 * (double) MIB / 1e3 / key("link.rate");

    start(4);
    const double rotated = read_all(true), same = read_all(false);
    printf("4 GPUs read 3 x 16 MiB: %.1f us in turn, %.1f us all from the same; a port needs %.1f\n", rotated, same,
           alone);
    /* Whatever the order, no port can serve faster than it does. */
    if (rotated < 0.97 * alone || same < 0.97 * alone) {
        fprintf(stderr, "ports served more than their rate\n");
        failures++;
    }
    /* Four readers of one port: three times what one reader of it takes. */
    uint64_t from = memory[0];
    const unsigned long long begin = cudasim_model_ns();
    for (int gpu = 1; gpu < 4; gpu++) {
        read_from(gpu, &from, 1, 16 * MIB, 0);
    }
    for (int gpu = 1; gpu < 4; gpu++) {
        MUST(cuStreamSynchronize(streams[gpu]));
    }
    const double shared = (double) (cudasim_model_ns() - begin) / 1e3;
    printf("3 GPUs read 16 MiB from one: %.1f us\n", shared);
    if (shared < 0.97 * alone) {
        fprintf(stderr, "three readers of one port did not share it\n");
        failures++;
    }
}

static void off(void)
{
    unsigned long long late = 1;

    start(2);
    turn_launch();
    turn_sync();
    turn_to_host();
    turn_peer();
    if (0 != cudasim_model_ns() || 0 != cudasim_counter("model_late_ns", &late) || 0 != late) {
        fprintf(stderr, "there is modelled time without a model\n");
        failures++;
    }
}

int main(int argc, char **argv)
{
    const char *model = getenv("CUDASIM_MODEL");

    model_path = NULL == model ? "" : model;
    if (2 == argc && 0 == strcmp(argv[1], "costs")) {
        costs();
    } else if (2 == argc && 0 == strcmp(argv[1], "contention")) {
        contention();
    } else if (2 == argc && 0 == strcmp(argv[1], "off")) {
        off();
    } else {
        fprintf(stderr, "usage: model_test costs|contention|off\n");
        return 2;
    }
    return failures > 0;
}
