/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is ordered before and after a call. Asynchronous work makes a missing wait visible, above all
 * with CUDASIM_ASYNC=thread or lazy:
 *   - input written by work that is only queued on the legacy default stream;
 *   - a result read on a stream that synchronises with nothing;
 *   - buffers overwritten or freed as soon as the call returns, while a slow peer might still read them.
 *
 *   allreduce_order [--stock]
 *   allreduce_order --stock staged    calls are staged for the saved collective (told not to probe)
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of queued work in front of the input, so that it is late. */
#define BALLAST (1 << 20)

typedef struct scene {
    suite_t *suite;
    value_case_t c;
    size_t count;
    size_t bytes;
    unsigned char *pinned; /* this rank's input */
    unsigned char *result; /* pinned as well */
    buffer_t send;
    buffer_t recv;
    buffer_t ballast;
} scene_t;

static void scene_begin(scene_t *s, suite_t *suite, size_t count)
{
    memset(s, 0, sizeof(*s));
    s->suite = suite;
    s->c.type = value_type_find("double");
    s->c.op = value_op_find("sum");
    s->c.nranks = suite->nranks;
    s->count = count;
    s->bytes = count * s->c.type->extent;
    CUDA_MUST(cudaMallocHost((void **) &s->pinned, s->bytes));
    CUDA_MUST(cudaMallocHost((void **) &s->result, s->bytes));
    buffer_alloc(&s->ballast, BUFFER_DEVICE, BALLAST, 0);
}

static void scene_end(scene_t *s)
{
    buffer_free(&s->ballast);
    CUDA_MUST(cudaFreeHost(s->pinned));
    CUDA_MUST(cudaFreeHost(s->result));
}

static void scene_call(scene_t *s, const char *what)
{
    pvars_t before, after;

    pvars_read(&before);
    int error = MPI_Allreduce(s->send.message, s->recv.message, (int) s->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    pvars_read(&after);
    ++s->suite->calls;
    if (MPI_SUCCESS != error) {
        suite_fail(s->suite, "%s: MPI_Allreduce returned %d", what, error);
    }
    if (PATH_ACCELERATED == s->suite->default_path && 1 != after.accelerated - before.accelerated) {
        suite_fail(s->suite, "%s: was not accelerated", what);
    }
    if (PATH_SAVED == s->suite->default_path && 1 != after.staged - before.staged) {
        suite_fail(s->suite, "%s: was not staged", what);
    }
}

static void scene_check(scene_t *s, const char *what)
{
    size_t first_wrong = 0;
    size_t wrong = value_check(&s->c, 0, s->count, s->result, &first_wrong);

    if (wrong > 0) {
        char line[256];
        value_describe(&s->c, first_wrong, s->result + first_wrong * s->c.type->extent, line, sizeof(line));
        suite_fail(s->suite, "%s, count %zu: %zu elements are wrong; %s", what, s->count, wrong, line);
    }
}

/* The input is still being written, on the legacy default stream, when the call is made. */
static void queued_input(scene_t *s)
{
    CUDA_MUST(cudaMemsetAsync(s->ballast.message, s->suite->rank, BALLAST, 0));
    CUDA_MUST(cudaMemcpyAsync(s->send.message, s->pinned, s->bytes, cudaMemcpyHostToDevice, 0));
    scene_call(s, "input queued on the default stream");
    CUDA_MUST(cudaMemcpy(s->result, s->recv.message, s->bytes, cudaMemcpyDeviceToHost));
    scene_check(s, "input queued on the default stream");
}

/* The result is read on a stream that does not wait for the default stream. */
static void unrelated_reader(scene_t *s)
{
    cudaStream_t stream;

    buffer_write(&s->send, s->pinned, s->bytes);
    CUDA_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    scene_call(s, "result read on another stream");
    CUDA_MUST(cudaMemcpyAsync(s->result, s->recv.message, s->bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_MUST(cudaStreamSynchronize(stream));
    CUDA_MUST(cudaStreamDestroy(stream));
    scene_check(s, "result read on another stream");
}

/* The send buffer changes and goes as soon as the call returns: peers must have read it by then. */
static void buffers_gone(scene_t *s)
{
    buffer_write(&s->send, s->pinned, s->bytes);
    scene_call(s, "send buffer overwritten at once");
    CUDA_MUST(cudaMemset(s->send.base, 0xff, s->bytes));
    CUDA_MUST(cudaMemcpy(s->result, s->recv.message, s->bytes, cudaMemcpyDeviceToHost));
    /* A peer that writes late would write into memory that has another use now. */
    CUDA_MUST(cudaMemset(s->recv.message, 0x11, s->bytes));
    CUDA_MUST(cudaDeviceSynchronize());
    scene_check(s, "send buffer overwritten at once");
}

static void receive_buffer_reused(scene_t *s)
{
    unsigned char *host = malloc(s->bytes);

    MPI_Barrier(MPI_COMM_WORLD);
    CUDA_MUST(cudaMemcpy(host, s->recv.message, s->bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < s->bytes; ++i) {
        if (0x11 != host[i]) {
            suite_fail(s->suite, "byte %zu of a receive buffer was written after its owner's call had returned", i);
            break;
        }
    }
    free(host);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {5, 1021, 100003, 700001};
    suite_t suite;

    suite_begin(&suite, "allreduce_order", &argc, &argv);
    if (argc > 1 && 0 == strcmp(argv[argc - 1], "staged")) {
        suite.default_path = PATH_SAVED;
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        int rounds = counts[i] > 50000 ? 4 : 25;
        scene_t s;
        scene_begin(&s, &suite, counts[i]);
        for (int round = 0; round < rounds; ++round) {
            void (*const scenes[])(scene_t *) = {queued_input, unrelated_reader, buffers_gone};
            for (int k = 0; k < 3; ++k) {
                s.c.salt = ++suite.salt;
                value_fill(&s.c, suite.rank, 0, s.count, s.pinned);
                buffer_alloc(&s.send, BUFFER_DEVICE, s.bytes, 0);
                buffer_alloc(&s.recv, BUFFER_DEVICE, s.bytes, 0);
                scenes[k](&s);
                if (2 == k) {
                    receive_buffer_reused(&s);
                }
                buffer_free(&s.send);
                buffer_free(&s.recv);
            }
        }
        scene_end(&s);
    }
    return suite_end(&suite);
}
