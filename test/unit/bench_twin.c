/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The speed of the kernels' twin, folded form, against a plain vectorised C loop with restrict,
 * built with the same flags: the emulated GPU is the ruler of the benchmark, so it must not be slower
 * than the memory. N-way sums of 4 MiB, into one destination and into N. Prints the median of the ratios
 * of paired runs for each, in the thread's processor time; test/bench/suite.sh judges them.
 */
#include "../cudasim/cudasim_twin.h"
#include "gpuhier_kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4 << 20, PAIRS = 31, MAX_N = 8 };

/* One destination. */
#define PLAIN_ONE_2(type)                                          \
    static void plain_one_##type##_2(type **d, type **s, size_t n) \
    {                                                              \
        type *restrict o = d[0];                                   \
        const type *restrict a = s[0], *restrict b = s[1];         \
        for (size_t i = 0; i < n; ++i) {                           \
            o[i] = a[i] + b[i];                                    \
        }                                                          \
    }
#define PLAIN_ONE_4(type)                                                                          \
    static void plain_one_##type##_4(type **d, type **s, size_t n)                                 \
    {                                                                                              \
        type *restrict o = d[0];                                                                   \
        const type *restrict a = s[0], *restrict b = s[1], *restrict c = s[2], *restrict e = s[3]; \
        for (size_t i = 0; i < n; ++i) {                                                           \
            o[i] = a[i] + b[i] + c[i] + e[i];                                                      \
        }                                                                                          \
    }
#define PLAIN_ONE_8(type)                                                                          \
    static void plain_one_##type##_8(type **d, type **s, size_t n)                                 \
    {                                                                                              \
        type *restrict o = d[0];                                                                   \
        const type *restrict a = s[0], *restrict b = s[1], *restrict c = s[2], *restrict e = s[3]; \
        const type *restrict f = s[4], *restrict g = s[5], *restrict h = s[6], *restrict k = s[7]; \
        for (size_t i = 0; i < n; ++i) {                                                           \
            o[i] = a[i] + b[i] + c[i] + e[i] + f[i] + g[i] + h[i] + k[i];                          \
        }                                                                                          \
    }

/* As many destinations as sources. */
#define PLAIN_ALL_2(type)                                          \
    static void plain_all_##type##_2(type **d, type **s, size_t n) \
    {                                                              \
        type *restrict o = d[0], *restrict p = d[1];               \
        const type *restrict a = s[0], *restrict b = s[1];         \
        for (size_t i = 0; i < n; ++i) {                           \
            o[i] = p[i] = a[i] + b[i];                             \
        }                                                          \
    }
#define PLAIN_ALL_4(type)                                                                          \
    static void plain_all_##type##_4(type **d, type **s, size_t n)                                 \
    {                                                                                              \
        type *restrict o = d[0], *restrict p = d[1], *restrict q = d[2], *restrict r = d[3];       \
        const type *restrict a = s[0], *restrict b = s[1], *restrict c = s[2], *restrict e = s[3]; \
        for (size_t i = 0; i < n; ++i) {                                                           \
            o[i] = p[i] = q[i] = r[i] = a[i] + b[i] + c[i] + e[i];                                 \
        }                                                                                          \
    }
#define PLAIN_ALL_8(type)                                                                          \
    static void plain_all_##type##_8(type **d, type **s, size_t n)                                 \
    {                                                                                              \
        type *restrict o = d[0], *restrict p = d[1], *restrict q = d[2], *restrict r = d[3];       \
        type *restrict t = d[4], *restrict u = d[5], *restrict v = d[6], *restrict w = d[7];       \
        const type *restrict a = s[0], *restrict b = s[1], *restrict c = s[2], *restrict e = s[3]; \
        const type *restrict f = s[4], *restrict g = s[5], *restrict h = s[6], *restrict k = s[7]; \
        for (size_t i = 0; i < n; ++i) {                                                           \
            o[i] = p[i] = q[i] = r[i] = t[i] = u[i] = v[i] = w[i] =                                \
                a[i] + b[i] + c[i] + e[i] + f[i] + g[i] + h[i] + k[i];                             \
        }                                                                                          \
    }
#define PLAIN(type)   \
    PLAIN_ONE_2(type) \
    PLAIN_ONE_4(type) \
    PLAIN_ONE_8(type) \
    PLAIN_ALL_2(type) \
    PLAIN_ALL_4(type) \
    PLAIN_ALL_8(type)
PLAIN(float)
PLAIN(double)

typedef void plain_t(void **dst, void **src, size_t n);

static const struct bench_case {
    const char *kernel;
    plain_t *plain;
    unsigned nsrc, ndst;
    size_t elem_bytes;
} bench_cases[] = {
/* clang-format off */
#define CASES(type)                                                                         \
    {"gpuhier_sum_" #type, (plain_t *) plain_one_##type##_2, 2, 1, sizeof(type)},           \
    {"gpuhier_sum_" #type, (plain_t *) plain_one_##type##_4, 4, 1, sizeof(type)},           \
    {"gpuhier_sum_" #type, (plain_t *) plain_one_##type##_8, 8, 1, sizeof(type)},           \
    {"gpuhier_sum_" #type, (plain_t *) plain_all_##type##_2, 2, 2, sizeof(type)},           \
    {"gpuhier_sum_" #type, (plain_t *) plain_all_##type##_4, 4, 4, sizeof(type)},           \
    {"gpuhier_sum_" #type, (plain_t *) plain_all_##type##_8, 8, 8, sizeof(type)},
    CASES(float) CASES(double)
    /* clang-format on */
};

static void no_traffic(const struct cudasim_launch *launch, uintptr_t address, size_t bytes, int is_write)
{
    (void) launch;
    (void) address;
    (void) bytes;
    (void) is_write;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *value, int n)
{
    qsort(value, (size_t) n, sizeof(*value), by_value);
    return value[n / 2];
}

static void bench(const cudasim_kernel_t *kernel, const struct bench_case *c, void **src, void **dst)
{
    gpuhier_kernel_args_t args = {.count = BYTES / c->elem_bytes, .nsrc = c->nsrc, .ndst = c->ndst};
    cudasim_launch_t launch = {.grid = {132, 1, 1}, .block = {256, 1, 1}, .traffic = no_traffic};
    void *params[1] = {&args};
    double plain[PAIRS], twin[PAIRS], ratio[PAIRS];

    for (unsigned k = 0; k < MAX_N; ++k) {
        args.src[k] = (uintptr_t) src[k];
        args.dst[k] = (uintptr_t) dst[k];
    }
    for (int i = -2; i < PAIRS; ++i) { /* two pairs to warm up */
        const double start = seconds();
        c->plain(dst, src, BYTES / c->elem_bytes);
        const double middle = seconds();
        kernel->run(&launch, params);
        const double end = seconds();
        if (i >= 0) {
            plain[i] = middle - start;
            twin[i] = end - middle;
            ratio[i] = twin[i] / plain[i];
        }
    }
    const double gbytes = 1e-9 * BYTES * (c->nsrc + c->ndst);
    printf("%-20s %u -> %u   plain %6.2f GB/s   twin %6.2f GB/s   time ratio %.3f\n", c->kernel, c->nsrc, c->ndst,
           gbytes / median(plain, PAIRS), gbytes / median(twin, PAIRS), median(ratio, PAIRS));
}

int main(int argc, char **argv)
{
    void *handle = dlopen(argc > 1 ? argv[1] : "../cudasim/lib/libgpuhier_twin.so", RTLD_NOW);
    const cudasim_twin_table_t *table = NULL != handle ? dlsym(handle, "cudasim_twins") : NULL;
    void *src[MAX_N], *dst[MAX_N];

    if (NULL == table) {
        printf("cannot load the twin: %s\n", dlerror());
        return 1;
    }
    for (unsigned k = 0; k < MAX_N; ++k) {
        src[k] = aligned_alloc(4096, BYTES);
        dst[k] = aligned_alloc(4096, BYTES);
        if (NULL == src[k] || NULL == dst[k]) {
            perror("aligned_alloc");
            return 1;
        }
        memset(src[k], 0, BYTES);
        memset(dst[k], 0, BYTES);
    }
    for (size_t i = 0; i < sizeof(bench_cases) / sizeof(bench_cases[0]); ++i) {
        for (uint32_t k = 0; k < table->nkernels; ++k) {
            if (0 == strcmp(bench_cases[i].kernel, table->kernels[k].name)) {
                bench(&table->kernels[k], &bench_cases[i], src, dst);
            }
        }
    }
    for (unsigned k = 0; k < MAX_N; ++k) {
        free(src[k]);
        free(dst[k]);
    }
    return 0;
}
