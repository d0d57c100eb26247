/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels for multicast addresses through the CUDA driver: one process makes a multicast object for all of its
 * GPUs, and every kernel is checked against the scalar reference, on the first GPU and on the last, into all copies at
 * the same place and at another one, and into ordinary memory, with guard zones. Operands whose order counts are whole
 * numbers here, so that every order gives the same sum. On the emulated driver and on a real one; without GPUs that
 * have multicast objects it is skipped (77).
 */
#include "gpu/coll_gpuhier_reduce.h"
#include "kernel_driver.h"
#include "kernel_reference.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ompi/constants.h"

enum { GPUS_MAX = 8, GUARD = 256, LONGEST = 300016, ROOM = LONGEST + 2 * GUARD, IMAGE = 2 * ROOM };

static gpuhier_reduce_t kernels;
static gpuhier_multicast_kernels_t multicast[2];
static CUcontext contexts[2];
static CUstream streams[2];
static int ngpus;
static CUdeviceptr all, own[GPUS_MAX], plain[2]; /* of two GPUs: memory that is no copy */
static unsigned char before[GPUS_MAX][IMAGE], after[IMAGE], other[ROOM];
static unsigned long cases, failures;

typedef enum where { SAME_PLACE, OTHER_PLACE, PLAIN } where_t;

typedef struct shape {
    const char *name;
    const kernel_reference_t *reference; /* NULL: gpuhier_multicast_store */
    int index;                           /* GPUHIER_REDUCE_COUNT: gpuhier_multicast_store */
    uint64_t bytes;
    where_t to;
    int gpu; /* 0, or 1 for the last one */
} shape_t;

static void case_failed(const shape_t *s, const char *what, uint64_t at)
{
    if (++failures <= 20) {
        printf("%s, %llu bytes, to %d, gpu %d: %s (at %llu)\n", s->name, (unsigned long long) s->bytes, (int) s->to,
               s->gpu, what, (unsigned long long) at);
    }
}

/* The begin of the source, and of the destination in a copy, in bytes. */
static size_t from_at(void)
{
    return GUARD;
}

static size_t to_at(const shape_t *s)
{
    return SAME_PLACE == s->to ? GUARD : ROOM + GUARD;
}

static void fill(const shape_t *s, uint64_t *random)
{
    for (int g = 0; g < ngpus; ++g) {
        for (size_t i = 0; i < IMAGE; ++i) {
            before[g][i] = (unsigned char) kernel_random(random);
        }
        for (uint64_t at = 0; NULL != s->reference && at < s->bytes; at += s->reference->elem_bytes) {
            unsigned char *elem = before[g] + from_at() + at;
            const float small = (float) (kernel_random(random) % 1000) - 500;
            const double middle = (double) (kernel_random(random) % 1000000) - 500000;
            if (GPUHIER_REDUCE_sum_float == s->index) {
                memcpy(elem, &small, sizeof(small));
            } else if (GPUHIER_REDUCE_sum_double == s->index) {
                memcpy(elem, &middle, sizeof(middle));
            } else {
                s->reference->fill(elem, kernel_random(random));
            }
        }
    }
    for (size_t i = 0; i < sizeof(other); ++i) {
        other[i] = (unsigned char) kernel_random(random);
    }
}

/* The element at this place of the range. */
static void expected_of(const shape_t *s, uint64_t at, unsigned char *elem)
{
    unsigned char right[16];
    if (NULL == s->reference) {
        *elem = other[GUARD + at];
        return;
    }
    memcpy(elem, before[0] + from_at() + at, s->reference->elem_bytes);
    for (int g = 1; g < ngpus; ++g) {
        memcpy(right, before[g] + from_at() + at, s->reference->elem_bytes);
        s->reference->reduce(elem, right);
        memcpy(elem, right, s->reference->elem_bytes);
    }
}

/* was: what the memory held; at: where the destination begins in it. */
static void check_destination(const shape_t *s, const unsigned char *was, const unsigned char *is, size_t at,
                              size_t length)
{
    const size_t step = NULL == s->reference ? 1 : s->reference->elem_bytes;
    unsigned char expected[16];
    if (0 != memcmp(was, is, at) || 0 != memcmp(was + at + s->bytes, is + at + s->bytes, length - at - s->bytes)) {
        case_failed(s, "wrote outside its range", 0);
    }
    for (uint64_t i = 0; i < s->bytes; i += step) {
        expected_of(s, i, expected);
        if (0 != memcmp(expected, is + at + i, step)) {
            case_failed(s, "wrong result", i);
            return;
        }
    }
}

static void copy_in(CUdeviceptr to, const void *from, size_t bytes)
{
    must(gpuhier_cu.cuMemcpyHtoD(to, from, bytes), "copy to the GPU");
}

static int start(const shape_t *s)
{
    const gpuhier_multicast_kernels_t *k = &multicast[s->gpu];
    const gpuhier_multicast_args_t args = {.from = NULL == s->reference ? plain[s->gpu] + GUARD : all + from_at(),
                                           .to = PLAIN == s->to ? plain[s->gpu] + GUARD : all + to_at(s),
                                           .bytes = s->bytes,
                                           .to_all = PLAIN != s->to};
    must(gpuhier_cu.cuCtxPushCurrent(contexts[s->gpu]), "enter a context");
    const int rc = gpuhier_multicast_launch(k, s->index, &args, streams[s->gpu]);
    must(gpuhier_cu.cuStreamSynchronize(streams[s->gpu]), "wait for the kernel");
    CUcontext old;
    must(gpuhier_cu.cuCtxPopCurrent(&old), "leave a context");
    return rc;
}

static void case_run(const shape_t *s, uint64_t *random)
{
    fill(s, random);
    for (int g = 0; g < ngpus; ++g) {
        copy_in(own[g], before[g], IMAGE);
    }
    copy_in(plain[s->gpu], other, sizeof(other));
    must(gpuhier_cu.cuStreamSynchronize(NULL), "wait for the copies");
    if (OMPI_SUCCESS != start(s)) {
        case_failed(s, "cannot be launched", 0);
        return;
    }
    for (int g = 0; g < ngpus; ++g) {
        must(gpuhier_cu.cuMemcpyDtoH(after, own[g], IMAGE), "copy from the GPU");
        if (PLAIN != s->to) {
            check_destination(s, before[g], after, to_at(s), IMAGE);
        } else if (0 != memcmp(before[g], after, IMAGE)) {
            case_failed(s, "wrote into a copy", (uint64_t) g);
        }
    }
    must(gpuhier_cu.cuMemcpyDtoH(after, plain[s->gpu], sizeof(other)), "copy from the GPU");
    if (PLAIN == s->to) {
        check_destination(s, other, after, GUARD, sizeof(other));
    } else if (0 != memcmp(other, after, sizeof(other))) {
        case_failed(s, "wrote into its source", 0);
    }
    ++cases;
}

static void kernel_check(const char *name, const kernel_reference_t *reference, int index)
{
    static const uint64_t bytes[] = {16, 4112, LONGEST};
    uint64_t random = 42 + (uint64_t) index;
    shape_t s = {.name = name, .reference = reference, .index = index};
    for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); ++b) {
        for (s.gpu = 0; s.gpu < 2; ++s.gpu) {
            s.bytes = bytes[b];
            s.to = NULL == reference ? OTHER_PLACE : (where_t) ((b + (unsigned) s.gpu) % 3);
            case_run(&s, &random);
        }
    }
}

/* What the switch can do, and where the order counts. */
static void check_table(void)
{
    const gpuhier_multicast_args_t none = {.bytes = 0};
    const bool right =
        gpuhier_multicast_can(GPUHIER_REDUCE_sum_uint32, false)
        && gpuhier_multicast_can(GPUHIER_REDUCE_min_int64, false)
        && gpuhier_multicast_can(GPUHIER_REDUCE_bxor_uint8, false)
        && gpuhier_multicast_can(GPUHIER_REDUCE_sum_double, true)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_sum_double, false)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_sum_float, false)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_sum_uint16, true)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_max_float, true)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_prod_uint64, true)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_land_uint32, true) && !gpuhier_multicast_can(-1, true)
        && !gpuhier_multicast_can(GPUHIER_REDUCE_COUNT, true)
        && OMPI_ERR_BAD_PARAM == gpuhier_multicast_launch(&multicast[0], GPUHIER_REDUCE_prod_uint64, &none, streams[0])
        && OMPI_SUCCESS == gpuhier_multicast_launch(&multicast[0], GPUHIER_REDUCE_sum_uint64, &none, streams[0]);
    if (!right) {
        printf("the table of what a switch can do is wrong\n");
        ++failures;
    }
}

static CUdeviceptr show(CUmemGenericAllocationHandle handle, size_t bytes)
{
    CUmemAccessDesc access[GPUS_MAX];
    CUdeviceptr address = 0;
    must(gpuhier_cu.cuMemAddressReserve(&address, bytes, 0, 0, 0), "reserve addresses");
    must(gpuhier_cu.cuMemMap(address, bytes, 0, handle, 0), "map");
    for (int g = 0; g < ngpus; ++g) {
        access[g] =
            (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = g}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    must(gpuhier_cu.cuMemSetAccess(address, bytes, access, (size_t) ngpus), "grant access");
    return address;
}

/* Makes the object and a copy on each GPU. */
static void copies_make(void)
{
    CUmulticastObjectProp object = {.numDevices = (unsigned) ngpus, .size = IMAGE};
    CUmemGenericAllocationHandle handle, memory;
    size_t unit = 0;
    must(gpuhier_cu.cuMulticastGetGranularity(&unit, &object, CU_MULTICAST_GRANULARITY_MINIMUM), "ask for lengths");
    object.size = (IMAGE + unit - 1) / unit * unit;
    must(gpuhier_cu.cuMulticastCreate(&handle, &object), "make a multicast object");
    for (int g = 0; g < ngpus; ++g) {
        must(gpuhier_cu.cuMulticastAddDevice(handle, g), "add a GPU");
    }
    for (int g = 0; g < ngpus; ++g) {
        const CUmemAllocationProp copy = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = g}};
        must(gpuhier_cu.cuMemCreate(&memory, object.size, &copy, 0), "make memory");
        own[g] = show(memory, object.size);
        must(gpuhier_cu.cuMulticastBindMem(handle, 0, memory, 0, object.size, 0), "bind memory");
    }
    all = show(handle, object.size);
}

/* GPUs that have multicast objects; the test wants two or more. */
static int gpus_count(void)
{
    const int gpus = gpus_found();
    int supported = 1, n = 0;
    for (int g = 0; g < gpus && g < GPUS_MAX && supported && gpuhier_cu.has_multicast; ++g) {
        must(gpuhier_cu.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, g), "ask a GPU");
        n += supported;
    }
    return n;
}

/* On the GPU with this number, the first or the last. */
static void gpu_open(int which, int device)
{
    must(gpuhier_cu.cuDevicePrimaryCtxRetain(&contexts[which], device), "make a context");
    must(gpuhier_cu.cuCtxPushCurrent(contexts[which]), "enter a context");
    must(gpuhier_cu.cuStreamCreateWithPriority(&streams[which], CU_STREAM_NON_BLOCKING, 0), "make a stream");
    must(gpuhier_cu.cuMemAlloc(&plain[which], ROOM), "allocate");
    if (OMPI_SUCCESS != gpuhier_multicast_kernels_open(&multicast[which])) {
        printf("the kernels cannot be loaded\n");
        exit(1);
    }
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    const int status = kernels_open(&kernels, &device, &context);
    if (0 != status) {
        return status;
    }
    ngpus = gpus_count();
    if (ngpus < 2) {
        printf("no two GPUs with multicast objects\n");
        return 77;
    }
    gpu_open(1, ngpus - 1);
    gpu_open(0, 0);
    copies_make();
    check_table();
    for (int index = 0; index < GPUHIER_REDUCE_COUNT; ++index) {
        if (gpuhier_multicast_can(index, true)) {
            kernel_check(kernel_names[index], kernel_reference_find(kernel_names[index]), index);
        }
    }
    kernel_check("gpuhier_multicast_store", NULL, GPUHIER_REDUCE_COUNT);
    printf("%d GPUs, %lu cases, %lu failures\n", ngpus, cases, failures);
    return 0 == failures && cases > 0 ? 0 : 1;
}
