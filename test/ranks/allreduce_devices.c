/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One process, several GPUs: the pointer decides where a call works, not the current device.
 *   - buffers on one GPU, then on another, call by call, the current device being either or none;
 *   - input still queued on the default stream of the buffer's own GPU;
 *   - a thread that has no CUDA context calls with memory that belongs to none (pools, mapped chunks);
 *   - memory of another GPU's pool, which no copy from this GPU may touch, so the call is staged on all ranks;
 *   - an MPI_Alltoallw whose blocks lie on two GPUs, and are still worked on there.
 * All but the last two once on the accelerated path, once staged.
 *
 *   allreduce_devices [--stock]
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COUNT 30011
#define BALLAST (4 << 20) /* bytes of queued work in front of the input, so that it is late */

/* What is called: on the GPU, and one that is staged where Open MPI is not CUDA-aware. */
static const char *const types[] = {"double", "long_double"};

typedef struct scene {
    suite_t *suite;
    value_case_t c;
    size_t count, bytes;           /* bytes: of COUNT elements, of which a call takes the first `count` */
    unsigned char *input, *result; /* pinned */
    int home;                      /* the device that the suite chose */
} scene_t;

static void check(scene_t *s, const buffer_t *recv, const char *what)
{
    size_t first_wrong = 0;
    buffer_read(recv, s->result, s->bytes);
    size_t wrong = value_check(&s->c, 0, s->count, s->result, &first_wrong);
    if (wrong > 0) {
        suite_fail(s->suite, "%s, %s: %zu elements are wrong from %zu on", s->c.type->name, what, wrong, first_wrong);
    }
}

static void call_by(scene_t *s, const buffer_t *send, const buffer_t *recv, bool on_gpus, const char *what)
{
    char named[96];
    pvars_t before;
    snprintf(named, sizeof(named), "%s, %s", s->c.type->name, what);
    pvars_read(&before);
    int error =
        MPI_Allreduce(send->message, recv->message, (int) s->count, s->c.type->type, s->c.op->op, MPI_COMM_WORLD);
    ++s->suite->calls;
    if (MPI_SUCCESS != error) {
        suite_fail(s->suite, "%s: MPI_Allreduce returned %d", named, error);
    }
    suite_check_paths(s->suite, named, &before, on_gpus, !on_gpus);
}

static void call(scene_t *s, const buffer_t *send, const buffer_t *recv, const char *what)
{
    call_by(s, send, recv, s->c.type->accelerated, what);
}

static void new_input(scene_t *s)
{
    s->c.salt = ++s->suite->salt;
    value_fill(&s->c, s->suite->rank, 0, COUNT, s->input);
}

/* Device and current device take turns, out of step. */
static void alternate(scene_t *s)
{
    static const buffer_kind_t kinds[] = {BUFFER_DEVICE, BUFFER_OTHER};
    int ngpus = 1;
    CUDA_MUST(cudaGetDeviceCount(&ngpus));
    for (int i = 0; i < 12; ++i) {
        buffer_t send, recv;
        new_input(s);
        buffer_alloc(&send, kinds[i % 2], s->bytes, 0);
        buffer_alloc(&recv, kinds[i / 3 % 2], s->bytes, 0);
        buffer_write(&send, s->input, s->bytes);
        CUDA_MUST(cudaSetDevice((s->home + i / 2) % ngpus));
        call(s, &send, &recv, "devices alternate");
        CUDA_MUST(cudaSetDevice(s->home));
        check(s, &recv, "devices alternate");
        buffer_free(&send);
        buffer_free(&recv);
    }
}

/* The other GPU's default stream still works on the input, and on the old contents of the output. */
static void queued_elsewhere(scene_t *s)
{
    buffer_t send, recv, ballast;
    buffer_alloc(&send, BUFFER_OTHER, s->bytes, 0);
    buffer_alloc(&recv, BUFFER_OTHER, s->bytes, 0);
    buffer_alloc(&ballast, BUFFER_OTHER, BALLAST, 0);
    for (int i = 0; i < 10; ++i) {
        new_input(s);
        CUDA_MUST(cudaSetDevice(send.device));
        CUDA_MUST(cudaMemsetAsync(ballast.message, i, BALLAST, 0));
        CUDA_MUST(cudaMemsetAsync(recv.message, i, s->bytes, 0));
        CUDA_MUST(cudaMemcpyAsync(send.message, s->input, s->bytes, cudaMemcpyHostToDevice, 0));
        CUDA_MUST(cudaSetDevice(s->home));
        call(s, &send, &recv, "input queued on another device");
        check(s, &recv, "input queued on another device");
    }
    buffer_free(&send);
    buffer_free(&recv);
    buffer_free(&ballast);
}

static void alloc_in_pool(scene_t *s, buffer_t *buffer, int device)
{
    CUDA_MUST(cudaSetDevice(device));
    buffer_alloc(buffer, BUFFER_POOL, s->bytes, 0);
    CUDA_MUST(cudaSetDevice(s->home));
}

static void free_in_pool(scene_t *s, buffer_t *buffer)
{
    CUDA_MUST(cudaSetDevice(buffer->device));
    buffer_free(buffer);
    CUDA_MUST(cudaSetDevice(s->home));
}

/* Rank 0 has its input or output there, and the others cannot know. */
static void pool_elsewhere(scene_t *s)
{
    static const size_t counts[] = {100, COUNT};
    int ngpus = 1;
    CUDA_MUST(cudaGetDeviceCount(&ngpus));
    for (int i = 0; i < 4 && ngpus > 1; ++i) {
        buffer_t send, recv;
        const int other = 0 == s->suite->rank ? (s->home + 1) % ngpus : s->home;
        new_input(s);
        s->count = counts[i / 2];
        alloc_in_pool(s, &send, 0 == i % 2 ? other : s->home);
        alloc_in_pool(s, &recv, 0 == i % 2 ? s->home : other);
        buffer_write(&send, s->input, s->bytes);
        call_by(s, &send, &recv, false, "a pool of another device");
        check(s, &recv, "a pool of another device");
        free_in_pool(s, &send);
        free_in_pool(s, &recv);
    }
    s->count = COUNT;
}

#define RANKS_MAX 16

static MPI_Datatype type_at(const buffer_t *buffer)
{
    const int length = COUNT;
    MPI_Aint address;
    MPI_Datatype type;
    MPI_Get_address(buffer->message, &address);
    MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Blocks lie on this GPU and on another one by turns, whose default streams still work on the input, and on the old
 * contents of the output. */
static void blocks_on_both(suite_t *suite)
{
    static const buffer_kind_t kinds[] = {BUFFER_DEVICE, BUFFER_OTHER};
    const size_t bytes = COUNT * sizeof(int);
    const int n = suite->nranks, salt = (int) ++suite->salt;
    buffer_t send[RANKS_MAX], recv[RANKS_MAX], ballast[2];
    MPI_Datatype given[RANKS_MAX], taken[RANKS_MAX];
    int ones[RANKS_MAX], zeros[RANKS_MAX], home, *values;
    pvars_t before;
    CUDA_MUST(cudaGetDevice(&home));
    CUDA_MUST(cudaMallocHost((void **) &values, (size_t) n * bytes));
    for (int i = 0; i < 2; ++i) {
        buffer_alloc(&ballast[i], kinds[i], BALLAST, 0);
    }
    for (int i = 0; i < n; ++i) {
        buffer_alloc(&send[i], kinds[i % 2], bytes, 0);
        buffer_alloc(&recv[i], kinds[(i + 1) % 2], bytes, 0);
        given[i] = type_at(&send[i]);
        taken[i] = type_at(&recv[i]);
        ones[i] = 1;
        zeros[i] = 0;
        for (int k = 0; k < COUNT; ++k) {
            values[i * COUNT + k] = salt + 100000 * (suite->rank * n + i) + k;
        }
    }
    for (int i = 0; i < 2; ++i) {
        CUDA_MUST(cudaSetDevice(ballast[i].device));
        CUDA_MUST(cudaMemsetAsync(ballast[i].message, salt, BALLAST, 0));
    }
    for (int i = 0; i < n; ++i) {
        CUDA_MUST(cudaSetDevice(send[i].device));
        CUDA_MUST(cudaMemcpyAsync(send[i].message, &values[i * COUNT], bytes, cudaMemcpyHostToDevice, 0));
        CUDA_MUST(cudaSetDevice(recv[i].device));
        CUDA_MUST(cudaMemsetAsync(recv[i].message, salt, bytes, 0));
    }
    CUDA_MUST(cudaSetDevice(home));
    pvars_read(&before);
    const int error = MPI_Alltoallw(MPI_BOTTOM, ones, zeros, given, MPI_BOTTOM, ones, zeros, taken, MPI_COMM_WORLD);
    ++suite->calls;
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "MPI_Alltoallw returned %d", error);
    }
    suite_check_paths(suite, "blocks on two devices", &before, 0, 1);
    for (int i = 0; i < n; ++i) {
        int wrong = 0;
        buffer_read(&recv[i], values, bytes);
        for (int k = 0; k < COUNT; ++k) {
            wrong += salt + 100000 * (i * n + suite->rank) + k != values[k];
        }
        if (wrong > 0) {
            suite_fail(suite, "blocks on two devices: %d of %d ints of rank %d are wrong", wrong, COUNT, i);
        }
        MPI_Type_free(&given[i]);
        MPI_Type_free(&taken[i]);
        buffer_free(&send[i]);
        buffer_free(&recv[i]);
    }
    for (int i = 0; i < 2; ++i) {
        buffer_free(&ballast[i]);
    }
    CUDA_MUST(cudaFreeHost(values));
}

typedef struct work {
    scene_t *scene;
    const buffer_t *send, *recv;
} work_t;

static void *thread_main(void *arg)
{
    work_t *work = arg;
    call(work->scene, work->send, work->recv, "a thread without a context");
    return NULL;
}

static void thread_without_context(scene_t *s)
{
    for (int kind = 0; kind < BUFFER_NKINDS; ++kind) {
        buffer_t send, recv;
        pthread_t thread;
        work_t work = {s, &send, &recv};
        if (!buffer_kind_on_device((buffer_kind_t) kind)) {
            continue;
        }
        new_input(s);
        buffer_alloc(&send, (buffer_kind_t) kind, s->bytes, 0);
        buffer_alloc(&recv, (buffer_kind_t) kind, s->bytes, 0);
        buffer_write(&send, s->input, s->bytes);
        if (0 != pthread_create(&thread, NULL, thread_main, &work)) {
            suite_fail(s->suite, "no thread");
            return;
        }
        pthread_join(thread, NULL);
        check(s, &recv, buffer_kind_name((buffer_kind_t) kind));
        buffer_free(&send);
        buffer_free(&recv);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    suite_begin(&suite, "allreduce_devices", &argc, &argv);
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); ++t) {
        scene_t s = {.suite = &suite, .count = COUNT};
        s.c = (value_case_t){value_type_find(types[t]), value_op_find("sum"), suite.nranks, 0, false, false};
        s.bytes = COUNT * s.c.type->extent;
        CUDA_MUST(cudaGetDevice(&s.home));
        CUDA_MUST(cudaMallocHost((void **) &s.input, s.bytes));
        CUDA_MUST(cudaMallocHost((void **) &s.result, s.bytes));
        memset(s.input, 0, s.bytes); /* padding of long double */
        thread_without_context(&s);
        alternate(&s);
        queued_elsewhere(&s);
        pool_elsewhere(&s);
        CUDA_MUST(cudaFreeHost(s.input));
        CUDA_MUST(cudaFreeHost(s.result));
    }
    for (int i = 0; i < 3 && !suite.cuda_aware; ++i) { /* else Open MPI moves the blocks itself */
        blocks_on_both(&suite);
    }
    return suite_end(&suite);
}
