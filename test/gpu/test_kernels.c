/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels through the CUDA driver, as the component launches them: the embedded fatbin is loaded
 * and every kernel is checked against the scalar reference, over sources, counts and alignments, in
 * place and not, with guard zones. On a real GPU it then prints the bandwidth of a few shapes
 * beside that of a device-to-device copy. The same program runs on the emulated driver (where it
 * checks launch geometry) and on a real one; without a GPU it is skipped (77).
 */
#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "kernel_driver.h"
#include "kernel_reference.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/constants.h"

/* What kernels/gpuhier_fatbin.S embeds. */
extern const unsigned char gpuhier_fatbin[];
extern const uint64_t gpuhier_fatbin_size;

enum { GUARD = 64, POISON = 0xa5, MAX_SRC = 16, MAX_DST = 16, BUFFERS = MAX_SRC + MAX_DST };

static gpuhier_reduce_t kernels;
static CUstream stream;
static size_t capacity; /* of each buffer */
static CUdeviceptr device_base;
static unsigned char *before, *after; /* host images of all buffers */
static unsigned long cases, failures;

typedef struct shape {
    int index; /* -1: copy */
    const kernel_reference_t *reference;
    size_t elem_bytes;
    uint32_t nsrc, ndst;
    uint64_t count;
    int alignment; /* 0: all on 16 bytes; 1: one element off; 2: differing by elements; 3: differing by bytes */
    bool in_place;
} shape_t;

static size_t offset_of(const shape_t *s, unsigned b)
{
    const size_t off[] = {0, s->elem_bytes, (b % 3) * s->elem_bytes, 1 + b % 3};
    return GUARD + off[s->alignment];
}

static void case_failed(const shape_t *s, const char *what, uint64_t at)
{
    if (++failures <= 20) {
        printf("%s nsrc %u ndst %u count %llu alignment %d in place %d: %s (at %llu)\n",
               s->index < 0 ? "gpuhier_copy" : kernel_names[s->index], s->nsrc, s->ndst, (unsigned long long) s->count,
               s->alignment, s->in_place, what, (unsigned long long) at);
    }
}

/* The buffer's number for destination d. */
static unsigned dst_of(const shape_t *s, unsigned d)
{
    return s->in_place ? d : MAX_SRC + d;
}

static void fill(const shape_t *s, uint64_t *random)
{
    memset(before, POISON, BUFFERS * capacity);
    for (unsigned b = 0; b < s->nsrc; ++b) {
        for (uint64_t i = 0; i < s->count; ++i) {
            unsigned char *elem = before + b * capacity + offset_of(s, b) + i * s->elem_bytes;
            if (NULL != s->reference) {
                s->reference->fill(elem, kernel_random(random));
            } else {
                *elem = (unsigned char) kernel_random(random);
            }
        }
    }
}

static void check_destination(const shape_t *s, unsigned b)
{
    const size_t n = s->count * s->elem_bytes, off = offset_of(s, b);
    const unsigned char *was = before + b * capacity, *is = after + b * capacity;
    unsigned char expected[16], right[16];

    if (0 != memcmp(is, was, off) || 0 != memcmp(is + off + n, was + off + n, capacity - off - n)) {
        case_failed(s, "wrote outside its range", 0);
    }
    for (uint64_t i = 0; i < s->count; ++i) {
        const size_t at = i * s->elem_bytes;
        memcpy(expected, before + offset_of(s, 0) + at, s->elem_bytes);
        for (uint32_t k = 1; k < s->nsrc; ++k) {
            memcpy(right, before + k * capacity + offset_of(s, k) + at, s->elem_bytes);
            s->reference->reduce(expected, right);
            memcpy(expected, right, s->elem_bytes);
        }
        if (NULL == s->reference ? is[off + at] != *expected : !s->reference->equal(is + off + at, expected)) {
            case_failed(s, "wrong result", i);
            return;
        }
        if (NULL != s->reference && 0 != s->reference->gap_bytes
            && 0
                   != memcmp(is + off + at + s->reference->gap_at, was + off + at + s->reference->gap_at,
                             s->reference->gap_bytes)) {
            case_failed(s, "changed the padding", i);
            return;
        }
    }
}

static void case_run(const shape_t *s, uint64_t *random)
{
    gpuhier_kernel_args_t args = {.count = s->count, .nsrc = s->nsrc, .ndst = s->ndst};

    fill(s, random);
    must(gpuhier_cu.cuMemcpyHtoD(device_base, before, BUFFERS * capacity), "copy to the GPU");
    /* A copy from pageable memory returns before its end has arrived, and our stream does not wait for it. */
    must(gpuhier_cu.cuStreamSynchronize(NULL), "wait for the copy");
    for (unsigned b = 0; b < s->nsrc; ++b) {
        args.src[b] = device_base + b * capacity + offset_of(s, b);
    }
    for (unsigned d = 0; d < s->ndst; ++d) {
        args.dst[d] = device_base + dst_of(s, d) * capacity + offset_of(s, dst_of(s, d));
    }
    const int rc = s->index < 0 ? gpuhier_reduce_push(&kernels, GPUHIER_REDUCE_bor_uint8, &args, stream)
                                : gpuhier_reduce_launch(&kernels, s->index, &args, stream);
    if (OMPI_SUCCESS != rc) {
        case_failed(s, "cannot be launched", (uint64_t) -rc);
        return;
    }
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait for the kernel");
    must(gpuhier_cu.cuMemcpyDtoH(after, device_base, BUFFERS * capacity), "copy from the GPU");
    for (unsigned b = 0; b < BUFFERS; ++b) {
        const bool is_dst = s->in_place ? b < s->ndst : b >= MAX_SRC && b < MAX_SRC + s->ndst;
        if (is_dst) {
            check_destination(s, b);
        } else if (0 != memcmp(before + b * capacity, after + b * capacity, capacity)) {
            case_failed(s, "wrote into a buffer that is no destination", b);
        }
    }
    ++cases;
}

static void kernel_check(int index)
{
    static const uint32_t nsrc[] = {1, 2, 3, 4, 8, 9, MAX_SRC};
    static const uint64_t count[] = {1, 13, 1021};
    shape_t s = {.index = index, .elem_bytes = 1};
    uint64_t random = 42;

    if (index >= 0) {
        s.reference = kernel_reference_find(kernel_names[index]);
        if (NULL == s.reference) {
            case_failed(&s, "no reference", 0);
            return;
        }
        s.elem_bytes = s.reference->elem_bytes;
    }
    for (unsigned n = 0; n < sizeof(nsrc) / sizeof(nsrc[0]); ++n) {
        for (unsigned c = 0; c < sizeof(count) / sizeof(count[0]); ++c) {
            for (s.alignment = 0; s.alignment < 4; ++s.alignment) {
                s.nsrc = index < 0 ? 1 : nsrc[n];
                s.ndst = (n + c + (unsigned) s.alignment) % 3 ? nsrc[n] : 1;
                s.count = count[c];
                s.in_place = (n + c + (unsigned) s.alignment) % 2;
                case_run(&s, &random);
            }
        }
    }
}

/* -1 where GPUs are not emulated. */
static long launches(void)
{
    int (*counter)(const char *, unsigned long long *);
    unsigned long long value;
    *(void **) &counter = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cudasim_counter");
    return NULL != counter && 0 == counter("launches", &value) ? (long) value : -1;
}

/* More ranges than a launch takes, of odd lengths and none, at any place: byte by byte what the host copies. The halves
 * of the buffers are source and destination. */
static void moves_check(void)
{
    enum { RANGES = 2 * GPUHIER_MOVES_MAX + 7 };
    const size_t half = BUFFERS * capacity / 2, room = half / RANGES;
    gpuhier_moves_args_t args = {.count = 0};
    uint64_t random = 7;
    int rc = OMPI_SUCCESS;
    unsigned some = 0;
    for (size_t i = 0; i < 2 * half; ++i) {
        before[i] = (unsigned char) kernel_random(&random);
    }
    must(gpuhier_cu.cuMemcpyHtoD(device_base, before, 2 * half), "copy to the GPU");
    must(gpuhier_cu.cuStreamSynchronize(NULL), "wait for the copy");
    const long launches_before = launches();
    for (unsigned i = 0; i < RANGES && OMPI_SUCCESS == rc; ++i) {
        const size_t bytes = 0 == i % 5 ? 0 : kernel_random(&random) % (room - 64);
        const size_t from = i * room + kernel_random(&random) % 16;
        const size_t to = half + i * room + kernel_random(&random) % 32;
        some += bytes > 0;
        rc = gpuhier_reduce_move(&kernels, &args, device_base + to, device_base + from, bytes, stream);
        memcpy(before + to, before + from, bytes);
    }
    rc = OMPI_SUCCESS == rc ? gpuhier_reduce_moves(&kernels, &args, stream) : rc;
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait for the kernel");
    const long made = launches() - launches_before;
    must(gpuhier_cu.cuMemcpyDtoH(after, device_base, 2 * half), "copy from the GPU");
    if (OMPI_SUCCESS != rc || 0 != memcmp(before, after, 2 * half)
        || (launches_before >= 0 && (some + GPUHIER_MOVES_MAX - 1) / GPUHIER_MOVES_MAX != made)) {
        printf("gpuhier_moves: error %d, %ld launches, or wrong bytes\n", rc, made);
        ++failures;
    }
    ++cases;
}

/* What a caller may get wrong is refused, and nothing to do is done. */
static void check_arguments(void)
{
    gpuhier_kernel_args_t args = {.count = 0, .nsrc = 1, .ndst = 1};
    const bool right =
        OMPI_SUCCESS == gpuhier_reduce_launch(&kernels, 0, &args, stream)
        && OMPI_ERR_BAD_PARAM == gpuhier_reduce_launch(&kernels, -1, &args, stream)
        && OMPI_ERR_BAD_PARAM == gpuhier_reduce_launch(&kernels, GPUHIER_REDUCE_COUNT + 1, &args, stream);
    args.nsrc = GPUHIER_KERNEL_MAX_PEERS + 1;
    const bool many_src = OMPI_ERR_BAD_PARAM == gpuhier_reduce_launch(&kernels, 0, &args, stream);
    args.nsrc = 1;
    args.ndst = 0;
    const bool no_dst = OMPI_ERR_BAD_PARAM == gpuhier_reduce_push(&kernels, GPUHIER_REDUCE_bor_uint8, &args, stream);
    if (!right || !many_src || !no_dst) {
        printf("wrong arguments are not refused\n");
        ++failures;
    }
}

/* The emulated driver takes any image; a real one wants nvcc's container, whole: a header of 16 bytes, then its length.
 */
static void check_fatbin(void)
{
    static const unsigned char magic[4] = {0x50, 0xed, 0x55, 0xba};
    uint64_t length;

    memcpy(&length, gpuhier_fatbin + 8, sizeof(length));
    if (0 != memcmp(gpuhier_fatbin, magic, sizeof(magic)) || 16 + length != gpuhier_fatbin_size) {
        printf("the embedded kernels are no fatbin, or not all of it\n");
        ++failures;
    }
}

/* Milliseconds of one call of run, the best of several; run leaves its work on the stream. */
static float measure(void (*run)(void *), void *arg)
{
    enum { ROUNDS = 15, INNER = 20 };
    CUevent start, end;
    float best = 0;

    must(gpuhier_cu.cuEventCreate(&start, CU_EVENT_DEFAULT), "make an event");
    must(gpuhier_cu.cuEventCreate(&end, CU_EVENT_DEFAULT), "make an event");
    CUresult (*elapsed)(float *, CUevent, CUevent);
    *(void **) &elapsed = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuEventElapsedTime");
    for (int i = 0; i < ROUNDS; ++i) {
        float ms = 0;
        must(gpuhier_cu.cuEventRecord(start, stream), "record");
        for (int k = 0; k < INNER; ++k) {
            run(arg);
        }
        must(gpuhier_cu.cuEventRecord(end, stream), "record");
        must(gpuhier_cu.cuCtxSynchronize(), "wait");
        must(elapsed(&ms, start, end), "cuEventElapsedTime");
        best = 0 == i || ms < best ? ms : best;
    }
    gpuhier_cu.cuEventDestroy(start);
    gpuhier_cu.cuEventDestroy(end);
    return best / INNER;
}

static const size_t bench_bytes = (size_t) 64 << 20;
static CUdeviceptr bench_base;
typedef struct bench {
    int index;
    gpuhier_kernel_args_t args;
} bench_t;

static void bench_copy(void *arg)
{
    (void) arg;
    must(gpuhier_cu.cuMemcpyAsync(bench_base + bench_bytes, bench_base, bench_bytes, stream), "copy");
}

static void bench_launch(void *arg)
{
    bench_t *b = arg;
    const int rc = b->index < 0 ? gpuhier_reduce_push(&kernels, GPUHIER_REDUCE_bor_uint8, &b->args, stream)
                                : gpuhier_reduce_launch(&kernels, b->index, &b->args, stream);
    if (OMPI_SUCCESS != rc) {
        exit(1);
    }
}

/* GB/s counts every byte read and every byte written. */
static void print_bandwidths(void)
{
    static const struct {
        const char *name;
        uint32_t nsrc, ndst;
        size_t shift; /* of the first source, in bytes */
    } rows[] = {
        {NULL, 1, 1, 0},
        {NULL, 1, 4, 0},
        {NULL, 1, 1, 4},
        {"gpuhier_sum_float", 2, 1, 0},
        {"gpuhier_sum_double", 2, 1, 0},
        {"gpuhier_sum_float", 4, 1, 0},
        {"gpuhier_sum_double", 4, 1, 0},
        {"gpuhier_sum_float", 8, 1, 0},
        {"gpuhier_sum_double", 8, 1, 0},
        {"gpuhier_sum_float", 4, 4, 0},
        {"gpuhier_sum_double", 4, 4, 0},
        {"gpuhier_sum_float", 8, 8, 0},
        {"gpuhier_sum_double", 8, 8, 0},
        {"gpuhier_sum_float", 2, 1, 4},
        {"gpuhier_sum_double", 2, 1, 8},
        {"gpuhier_max_int8", 4, 1, 0},
        {"gpuhier_prod_double_complex", 4, 1, 0},
        {"gpuhier_minloc_double_int", 4, 1, 0},
    };
    must(gpuhier_cu.cuMemAlloc(&bench_base, 17 * bench_bytes), "allocate memory to measure with");
    const double copy = 2e-6 * (double) bench_bytes / measure(bench_copy, NULL);
    printf("%-28s %9.1f GB/s\n", "device-to-device copy", copy);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); ++r) {
        bench_t b = {.index = -1, .args = {.nsrc = rows[r].nsrc, .ndst = rows[r].ndst, .count = bench_bytes - 256}};
        for (int i = 0; NULL != rows[r].name && i < GPUHIER_REDUCE_COUNT; ++i) {
            if (0 == strcmp(rows[r].name, kernel_names[i])) {
                b.index = i;
                b.args.count = (bench_bytes - 256) / kernel_reference_find(kernel_names[i])->elem_bytes;
            }
        }
        for (unsigned k = 0; k < 8; ++k) {
            b.args.src[k] = bench_base + k * bench_bytes + (0 == k ? rows[r].shift : 0);
            b.args.dst[k] = bench_base + (8 + k) * bench_bytes;
        }
        const double rate = 1e-6 * (double) bench_bytes * (b.args.nsrc + b.args.ndst) / measure(bench_launch, &b);
        printf("%-28s %9.1f GB/s  %5.1f %% of copy  (%u -> %u%s)\n",
               NULL == rows[r].name ? "gpuhier_copy" : rows[r].name, rate, 100 * rate / copy, b.args.nsrc, b.args.ndst,
               0 != rows[r].shift ? ", not congruent" : "");
    }
    gpuhier_cu.cuMemFree(bench_base);
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    char name[128] = "";

    const int status = kernels_open(&kernels, &device, &context);
    if (0 != status) {
        return status;
    }
    must(gpuhier_cu.cuDeviceGetName(name, sizeof(name), device), "name GPU 0");
    must(gpuhier_cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), "make a stream");

    capacity = 1021 * 16 + 3 * GUARD;
    before = malloc(BUFFERS * capacity);
    after = malloc(BUFFERS * capacity);
    if (NULL == before || NULL == after) {
        perror("malloc");
        return 1;
    }
    must(gpuhier_cu.cuMemAlloc(&device_base, BUFFERS * capacity), "allocate");
    for (int i = -1; i < GPUHIER_REDUCE_COUNT; ++i) {
        kernel_check(i);
    }
    moves_check();
    check_arguments();
    check_fatbin();
    printf("%s: %d kernels, %lu cases, %lu failures\n", name, GPUHIER_REDUCE_COUNT + 2, cases, failures);

    const bool emulated = NULL != dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cudasim_counter");
    if (!emulated) {
        print_bandwidths();
    }
    gpuhier_cu.cuMemFree(device_base);
    gpuhier_cu.cuStreamDestroy(stream);
    gpuhier_reduce_close(&kernels);
    gpuhier_cu.cuCtxPopCurrent(&context);
    gpuhier_cu.cuDevicePrimaryCtxRelease(device);
    free(before);
    free(after);
    return 0 != failures || 0 == cases;
}
