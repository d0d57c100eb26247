/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated libgdrapi.so.2.
 *
 *   gdr_test off     there is no kernel module
 *   gdr_test memory  the host reads and writes device memory; freed memory gives SIGBUS; what cannot be pinned
 *   gdr_test room    with CUDASIM_GDR=256K: no more than that is pinned
 *   gdr_test model   with CUDASIM_MODEL: copies take what the model says
 *   gdr_test faults  with CUDASIM_FAIL=gdr_pin_buffer:2:12,gdr_map:*:5
 *
 * Status 0: as it should be.
 */
#include "cudasim.h"
#include "gdr_abi.h"

#include <cuda.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((size_t) 65536)

static int failures;

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
            failures++;                                                 \
        }                                                               \
    } while (0)

static sigjmp_buf back;

static void on_bus_error(int signal_number)
{
    (void) signal_number;
    siglongjmp(back, 1);
}

static bool gives_sigbus(const volatile char *address)
{
    if (0 != sigsetjmp(back, 1)) {
        return true;
    }
    (void) *address;
    return false;
}

static unsigned long long counter(const char *name)
{
    unsigned long long value = 0;

    CHECK(0 == cudasim_counter(name, &value));
    return value;
}

static void test_memory(gdr_t gdr)
{
    CUdeviceptr large = 0, small = 0, managed = 0;
    gdr_mh_t pin, other;
    gdr_info_t info;
    char *mapped = NULL, *second = NULL, word[16] = "", host[64] = {0};
    int flag = -1;

    CHECK(0 == cuMemAlloc(&large, 4 << 20) && 0 == cuMemAlloc(&small, 64));
    CHECK(0 == cuMemsetD8(large, 7, PAGE) && 0 == cuMemsetD8(small, 8, 64));
    CHECK(0 == gdr_pin_buffer(gdr, large, 2 * PAGE, 0, 0, &pin));
    CHECK(0 == gdr_map(gdr, pin, (void **) &mapped, 2 * PAGE));
    CHECK(0 == gdr_get_info_v2(gdr, pin, &info) && large == info.va && 2 * PAGE == info.mapped_size && info.mapped);
    CHECK(0 == gdr_copy_from_mapping(pin, word, mapped + 8, sizeof(word)) && 7 == word[0] && 7 == word[15]);
    memcpy(word, "0123456789abcdef", 16);
    CHECK(0 == gdr_copy_to_mapping(pin, mapped + PAGE, word, sizeof(word)));
    CHECK(0 == cuMemcpyDtoH(host, large + PAGE, 16) && 0 == memcmp(host, word, 16));
    CHECK(1 == counter("gdr_reads") && 1 == counter("gdr_writes") && 1 == counter("gdr_live"));

    /* Small allocations lie in one block; their pages can be pinned more than once. */
    CHECK(0 == gdr_pin_buffer(gdr, small & ~(PAGE - 1), PAGE, 0, 0, &other));
    CHECK(0 == gdr_map(gdr, other, (void **) &second, PAGE) && 8 == second[small % PAGE + 63]);
    CHECK(EINVAL == gdr_map(gdr, other, (void **) &second, PAGE));

    CHECK(EINVAL == gdr_unmap(gdr, other, mapped, PAGE) && 0 == gdr_unmap(gdr, other, second, PAGE));
    CHECK(0 == gdr_unpin_buffer(gdr, other) && EINVAL == gdr_unpin_buffer(gdr, other));
    CHECK(EINVAL == gdr_pin_buffer(gdr, large + 512, PAGE, 0, 0, &other));
    CHECK(EINVAL == gdr_pin_buffer(gdr, (unsigned long) host & ~(PAGE - 1), PAGE, 0, 0, &other));
    CHECK(EINVAL == gdr_pin_buffer(gdr, large, 8 << 20, 0, 0, &other));
    CHECK(0 == cuMemAllocManaged(&managed, PAGE, CU_MEM_ATTACH_GLOBAL));
    CHECK(EINVAL == gdr_pin_buffer(gdr, managed & ~(PAGE - 1), PAGE, 0, 0, &other));

    signal(SIGBUS, on_bus_error);
    CHECK(!gives_sigbus(mapped) && 0 == gdr_get_callback_flag(gdr, pin, &flag) && 0 == flag);
    CHECK(0 == cuMemFree(large));
    CHECK(gives_sigbus(mapped) && gives_sigbus(mapped + PAGE) && 0 == gdr_get_callback_flag(gdr, pin, &flag)
          && 1 == flag);
    CHECK(0 == gdr_unmap(gdr, pin, mapped, 2 * PAGE) && 0 == gdr_unpin_buffer(gdr, pin) && 0 == counter("gdr_live"));
}

static void test_room(gdr_t gdr)
{
    CUdeviceptr memory;
    gdr_mh_t pins[5];

    CHECK(0 == cuMemAlloc(&memory, 4 << 20));
    for (size_t i = 0; i < 4; i++) {
        CHECK(0 == gdr_pin_buffer(gdr, memory + i * PAGE, PAGE, 0, 0, &pins[i]));
    }
    CHECK(ENOMEM == gdr_pin_buffer(gdr, memory, PAGE, 0, 0, &pins[4]));
    CHECK(0 == gdr_unpin_buffer(gdr, pins[2]));
    CHECK(0 == gdr_pin_buffer(gdr, memory, PAGE, 0, 0, &pins[4]));
}

static void test_faults(gdr_t gdr)
{
    CUdeviceptr memory;
    gdr_mh_t pin;
    void *mapped;

    CHECK(0 == cuMemAlloc(&memory, 4 << 20));
    CHECK(0 == gdr_pin_buffer(gdr, memory, PAGE, 0, 0, &pin));
    CHECK(ENOMEM == gdr_pin_buffer(gdr, memory, PAGE, 0, 0, &pin));
    CHECK(0 == gdr_pin_buffer(gdr, memory, PAGE, 0, 0, &pin));
    CHECK(EIO == gdr_map(gdr, pin, &mapped, PAGE));
}

/* A figure of the model file. */
static double figure(const char *key)
{
    FILE *file = fopen(getenv("CUDASIM_MODEL"), "re");
    char line[512], name[64];
    double value, found = -1;

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (2 == sscanf(line, "%63s = %lf", name, &value) && 0 == strcmp(name, key)) {
            found = value;
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    CHECK(found > 0);
    return found;
}

static void test_model(gdr_t gdr)
{
    static const size_t sizes[] = {1, 8, 16, 4096};
    const double load = figure("gdr.read"), load_rate = figure("gdr.read_rate");
    const double store = figure("gdr.write"), store_rate = figure("gdr.write_rate");
    CUdeviceptr memory;
    gdr_mh_t pin;
    char *mapped, host[4096] = {0};

    CHECK(0 == cuMemAlloc(&memory, 4 << 20));
    unsigned long long begin = cudasim_model_ns(), end;
    CHECK(0 == gdr_pin_buffer(gdr, memory, PAGE, 0, 0, &pin) && 0 == gdr_map(gdr, pin, (void **) &mapped, PAGE));
    CHECK((double) (cudasim_model_ns() - begin) >= 1e3 * (figure("gdr.pin") - 0.2)); /* see docs/model.md, Errors */
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const double bytes = (double) sizes[i], loads = 8 == sizes[i] ? 2 : 1;
        /* A thread's calls that follow each other begin at the last one's end, so ten of them are taken together. */
        begin = cudasim_model_ns();
        for (int call = 0; call < 10; call++) {
            CHECK(0 == gdr_copy_from_mapping(pin, host, mapped, sizes[i]));
        }
        end = cudasim_model_ns();
        printf("%zu bytes read: %.2f us, modelled %.2f\n", sizes[i], 1e-4 * (double) (end - begin),
               loads * load + 1e-3 * bytes / load_rate);
        CHECK(1e-4 * (double) (end - begin) > 0.95 * (loads * load + 1e-3 * bytes / load_rate));
        begin = cudasim_model_ns();
        for (int call = 0; call < 10; call++) {
            CHECK(0 == gdr_copy_to_mapping(pin, mapped, host, sizes[i]));
        }
        end = cudasim_model_ns();
        printf("%zu bytes written: %.2f us, modelled %.2f\n", sizes[i], 1e-4 * (double) (end - begin),
               store + 1e-3 * bytes / store_rate);
        CHECK(1e-4 * (double) (end - begin) > 0.95 * (store + 1e-3 * bytes / store_rate) - 0.02);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    CUcontext context;
    gdr_t gdr;
    int major = 0, minor = 0;

    CHECK(0 == cuInit(0) && 0 == cuDevicePrimaryCtxRetain(&context, 0) && 0 == cuCtxSetCurrent(context));
    gdr = gdr_open();
    gdr_runtime_get_version(&major, &minor);
    CHECK(2 == major);
    if (0 == strcmp(what, "off")) {
        CHECK(NULL == gdr);
    } else if (NULL == gdr) {
        fprintf(stderr, "gdr_open failed\n");
        failures++;
    } else if (0 == strcmp(what, "memory")) {
        test_memory(gdr);
    } else if (0 == strcmp(what, "model")) {
        test_model(gdr);
    } else if (0 == strcmp(what, "room")) {
        test_room(gdr);
    } else if (0 == strcmp(what, "faults")) {
        test_faults(gdr);
    } else {
        failures++;
    }
    if (NULL != gdr) {
        CHECK(0 == gdr_close(gdr));
    }
    return failures > 0;
}
