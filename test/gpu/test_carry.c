/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * gpuhier_carry through the CUDA driver: the input comes to page-locked memory, and the host's answer to the GPU, over
 * lengths and alignments, in place and not, with guard zones. A kernel that is told to leave, or whose patience ends,
 * leaves the output as it was, and answers to earlier calls mean nothing to it. On the emulated driver and on a real
 * one; without a GPU it is skipped (77).
 */
#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "kernel_driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ompi/constants.h"

enum { GUARD = 64, POISON = 0xa5, MOST = 20000, ROOM = MOST + 3 * GUARD };

static gpuhier_reduce_t kernels;
static CUstream stream;
static CUdeviceptr buffers;   /* in, then out */
static unsigned char *pinned; /* MOST bytes, guards behind them, then the words */
static unsigned char before[2 * ROOM], after[2 * ROOM];
static uint64_t number;
static unsigned long cases, failures;

typedef struct shape {
    size_t bytes;
    size_t in_at, out_at; /* offsets behind the guard */
    bool in_place;
} shape_t;

static void case_failed(const shape_t *s, const char *what)
{
    if (++failures <= 20) {
        printf("%zu bytes, offsets %zu and %zu, in place %d: %s\n", s->bytes, s->in_at, s->out_at, s->in_place, what);
    }
}

static _Atomic uint64_t *word_of(size_t at)
{
    return (_Atomic uint64_t *) (void *) (pinned + ROOM + at);
}

static size_t out_place(const shape_t *s)
{
    return s->in_place ? GUARD + s->in_at : ROOM + GUARD + s->out_at;
}

/* Waits until the kernel has said more than `state`. Returns what it has said. */
static uint64_t wait_beyond(uint64_t state)
{
    const struct timespec pause = {.tv_nsec = 20000};
    uint64_t word;
    while (number != (word = atomic_load(word_of(GPUHIER_CARRY_KERNEL))) >> 2 || (word & 3) <= state) {
        nanosleep(&pause, NULL);
    }
    return word & 3;
}

static void say(uint64_t answer)
{
    atomic_store(word_of(GPUHIER_CARRY_HOST), number << 2 | answer);
}

/* Starts the kernel, and checks that the input has come. */
static void begin(const shape_t *s, uint64_t patience_ns)
{
    for (size_t i = 0; i < sizeof(before); ++i) {
        before[i] = (unsigned char) (i * 31 + number * 7);
    }
    memset(pinned, POISON, ROOM);
    must(gpuhier_cu.cuMemcpyHtoD(buffers, before, sizeof(before)), "copy to the GPU");
    must(gpuhier_cu.cuStreamSynchronize(NULL), "wait for the copy");
    const gpuhier_carry_args_t args = {.in = buffers + GUARD + s->in_at,
                                       .out = buffers + out_place(s),
                                       .pinned = (uint64_t) (uintptr_t) pinned,
                                       .bytes = s->bytes,
                                       .words = (uint64_t) (uintptr_t) (pinned + ROOM),
                                       .number = ++number,
                                       .patience = patience_ns};
    if (OMPI_SUCCESS != gpuhier_reduce_carry(&kernels, &args, stream)) {
        case_failed(s, "cannot be launched");
        return;
    }
    (void) wait_beyond(0);
    if (0 != memcmp(pinned, before + GUARD + s->in_at, s->bytes)) {
        case_failed(s, "the input has not come");
    }
    for (size_t i = s->bytes; i < ROOM; ++i) {
        if (POISON != pinned[i]) {
            case_failed(s, "wrote behind the input");
            return;
        }
    }
}

/* Checks the buffers, of which the output is `expected`. */
static void end(const shape_t *s, const unsigned char *expected)
{
    memcpy(before + out_place(s), expected, s->bytes);
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait for the kernel");
    must(gpuhier_cu.cuMemcpyDtoH(after, buffers, sizeof(after)), "copy from the GPU");
    if (0 != memcmp(before, after, sizeof(before))) {
        case_failed(s, "the buffers are not as expected");
    }
    ++cases;
}

#define FOR_LONG ((uint64_t) 60000000000u) /* ns */

static void check_result(const shape_t *s)
{
    static unsigned char result[MOST];
    begin(s, FOR_LONG);
    for (size_t i = 0; i < s->bytes; ++i) {
        result[i] = (unsigned char) ~pinned[i];
    }
    memcpy(pinned, result, s->bytes);
    say(GPUHIER_CARRY_RESULT);
    if (GPUHIER_CARRY_COMPLETE != wait_beyond(GPUHIER_CARRY_INPUT)) {
        case_failed(s, "has not completed");
    }
    end(s, result);
}

/* told: the host says so; else it says nothing. */
static void check_leave(bool told)
{
    const shape_t s = {.bytes = 1000, .in_at = 3, .out_at = 8};
    const struct timespec moment = {.tv_nsec = 20000000};
    begin(&s, told ? FOR_LONG : 1000000);
    static unsigned char old[MOST];
    memcpy(old, before + out_place(&s), s.bytes);
    if (told) {
        nanosleep(&moment, NULL);
        if (GPUHIER_CARRY_INPUT != (atomic_load(word_of(GPUHIER_CARRY_KERNEL)) & 3)) {
            case_failed(&s, "has not waited");
        }
        say(GPUHIER_CARRY_LEAVE);
    }
    if (GPUHIER_CARRY_LEFT != wait_beyond(GPUHIER_CARRY_INPUT)) {
        case_failed(&s, "has not left");
    }
    end(&s, old);
}

int main(void)
{
    static const size_t bytes[] = {1, 7, 8, 16, 17, 63, 1000, 4096, 8192, 8193, MOST - 16};
    static const size_t at[] = {0, 16, 1, 8, 4, 3};
    CUdevice device;
    CUcontext context;
    const int status = kernels_open(&kernels, &device, &context);
    if (0 != status) {
        return status;
    }
    must(gpuhier_cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), "make a stream");
    must(gpuhier_cu.cuMemAlloc(&buffers, sizeof(before)), "allocate");
    must(gpuhier_cu.cuMemHostAlloc((void **) &pinned, ROOM + 2 * GPUHIER_CARRY_HOST, CU_MEMHOSTALLOC_PORTABLE),
         "allocate");
    memset(pinned, 0, ROOM + 2 * GPUHIER_CARRY_HOST);
    for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); ++b) {
        for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); ++i) {
            check_result(&(shape_t){bytes[b], at[i], at[(b + i) % (sizeof(at) / sizeof(at[0]))], false});
        }
        check_result(&(shape_t){bytes[b], at[b % (sizeof(at) / sizeof(at[0]))], 0, true});
    }
    for (int told = 0; told <= 1; ++told) {
        check_leave(told);
        check_result(&(shape_t){.bytes = 100});
    }
    printf("%lu cases, %lu failures\n", cases, failures);
    gpuhier_cu.cuMemFree(buffers);
    gpuhier_cu.cuMemFreeHost(pinned);
    gpuhier_cu.cuStreamDestroy(stream);
    gpuhier_reduce_close(&kernels);
    gpuhier_cu.cuCtxPopCurrent(&context);
    gpuhier_cu.cuDevicePrimaryCtxRelease(device);
    return 0 != failures || 0 == cases;
}
