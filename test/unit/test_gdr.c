/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The windows by which the host reads and writes GPU memory, on a libgdrapi.so.2 and a driver that only count: when a
 * window is opened and closed, and which one serves which address. dlopen() and dlsym() are wrapped by the linker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/coll_gpuhier_gdr.h"

#define PAGE ((uint64_t) 65536)
#define MOST ((int) (GPUHIER_GDR_BUDGET / PAGE)) /* windows of a page */
#define IDLE 1025                                /* look-ups after which a window may be closed for another one */

/* -- the library -------------------------------------------------------------------- */

typedef struct pin {
    unsigned long handle;
} pin_t;

static struct {
    uint64_t address;
    size_t bytes;
    char *memory; /* NULL: not pinned */
} pins[1024];
static int npins, open_pins, mapped, opened;
static bool refuses;
static size_t last_bytes; /* of the last read */

static void *fake_open(void)
{
    ++opened;
    return &opened;
}

static int fake_close(void *library)
{
    assert_ptr_equal(&opened, library);
    --opened;
    return 0;
}

static int fake_pin(void *library, unsigned long address, size_t bytes, uint64_t token, uint32_t space, pin_t *pin_p)
{
    (void) library;
    (void) token;
    (void) space;
    assert_int_equal(0, address % PAGE);
    assert_int_equal(0, bytes % PAGE);
    if (refuses) {
        return 12;
    }
    assert_true(npins < 1024);
    pins[npins].address = address;
    pins[npins].bytes = bytes;
    pins[npins].memory = malloc(bytes + PAGE);
    memset(pins[npins].memory, 0, bytes + PAGE);
    pin_p->handle = (unsigned long) npins++;
    ++open_pins;
    return 0;
}

static int fake_unpin(void *library, pin_t pin)
{
    (void) library;
    assert_non_null(pins[pin.handle].memory);
    free(pins[pin.handle].memory);
    pins[pin.handle].memory = NULL;
    --open_pins;
    return 0;
}

/* What is mapped begins a page before what was asked for, as larger pages may. */
static int fake_info(void *library, pin_t pin, uint64_t info[16])
{
    (void) library;
    info[0] = pins[pin.handle].address - PAGE;
    return 0;
}

static int fake_map(void *library, pin_t pin, void **at_p, size_t bytes)
{
    (void) library;
    assert_int_equal(pins[pin.handle].bytes, bytes);
    *at_p = pins[pin.handle].memory;
    ++mapped;
    return 0;
}

static int fake_unmap(void *library, pin_t pin, void *at, size_t bytes)
{
    (void) library;
    assert_ptr_equal(pins[pin.handle].memory, at);
    assert_int_equal(pins[pin.handle].bytes, bytes);
    --mapped;
    return 0;
}

static void check_inside(pin_t pin, const char *at, size_t bytes)
{
    const char *memory = pins[pin.handle].memory;
    assert_non_null(memory);
    assert_true(at >= memory + PAGE && at + bytes <= memory + PAGE + pins[pin.handle].bytes);
}

static int fake_to(pin_t pin, void *to, const void *from, size_t bytes)
{
    check_inside(pin, to, bytes);
    memcpy(to, from, bytes);
    return 0;
}

static int fake_from(pin_t pin, void *to, const void *from, size_t bytes)
{
    check_inside(pin, from, bytes);
    memcpy(to, from, bytes);
    last_bytes = bytes;
    return 0;
}

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *file, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
    (void) flags;
    return 0 == strcmp("libgdrapi.so.2", name) ? &npins : NULL;
}

/* A library from before version 2.4, which has no gdr_get_info_v2. */
void *__wrap_dlsym(void *file, const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {{"gdr_open", (void (*)(void)) fake_open},
                     {"gdr_close", (void (*)(void)) fake_close},
                     {"gdr_pin_buffer", (void (*)(void)) fake_pin},
                     {"gdr_unpin_buffer", (void (*)(void)) fake_unpin},
                     {"gdr_get_info", (void (*)(void)) fake_info},
                     {"gdr_map", (void (*)(void)) fake_map},
                     {"gdr_unmap", (void (*)(void)) fake_unmap},
                     {"gdr_copy_to_mapping", (void (*)(void)) fake_to},
                     {"gdr_copy_from_mapping", (void (*)(void)) fake_from}};
    (void) file;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        if (0 == strcmp(functions[i].name, name)) {
            void *found;
            memcpy(&found, &functions[i].function, sizeof(found));
            return found;
        }
    }
    return NULL;
}

/* -- the driver --------------------------------------------------------------------- */

static uint64_t gone; /* the allocation with this id was freed */

static CUresult fake_attributes(unsigned n, CUpointer_attribute *names, void **values, CUdeviceptr address)
{
    assert_int_equal(1, n);
    assert_int_equal(CU_POINTER_ATTRIBUTE_BUFFER_ID, names[0]);
    const unsigned long long id = address / (4 * PAGE);
    *(unsigned long long *) values[0] = id == gone ? 0 : id;
    return CUDA_SUCCESS;
}

static CUresult fake_set(const void *value, CUpointer_attribute name, CUdeviceptr address)
{
    (void) value;
    (void) name;
    (void) address;
    return CUDA_SUCCESS;
}

static int begin(void **state)
{
    (void) state;
    gpuhier_cu.cuPointerGetAttributes = fake_attributes;
    gpuhier_cu.cuPointerSetAttribute = fake_set;
    npins = 0;
    refuses = false;
    gone = 0;
    return 0;
}

static int end(void **state)
{
    (void) state;
    gpuhier_gdr_finalize();
    assert_int_equal(0, open_pins);
    assert_int_equal(0, mapped);
    assert_int_equal(0, opened);
    return 0;
}

/* -- the tests ---------------------------------------------------------------------- */

/* Allocations of four pages; the id is their number. */
static uint64_t place_of(int allocation, uint64_t offset)
{
    return 4 * PAGE * (uint64_t) allocation + offset;
}

static gpuhier_buffer_t buffer_of(uint64_t address)
{
    return (gpuhier_buffer_t){.kind = GPUHIER_BUFFER_DEVICE, .id = address / (4 * PAGE), .ipc_capable = true};
}

static bool map(uint64_t address, size_t bytes, unsigned uses)
{
    const gpuhier_buffer_t buffer = buffer_of(address);
    return gpuhier_gdr_map((const void *) (uintptr_t) address, bytes, &buffer, uses);
}

static void opened_after_uses(void **state)
{
    (void) state;
    char word[8];
    const uint64_t at = place_of(3, 512);
    for (int i = 0; i < 3; ++i) {
        assert_false(map(at, 8, 3));
        assert_false(gpuhier_gdr_read(word, at, 8, 3));
    }
    assert_int_equal(0, npins);
    assert_true(map(at, 8, 3));
    assert_true(map(at + 100, 80, 3)); /* the same page of the same allocation */
    assert_int_equal(1, npins);
    assert_false(map(at + PAGE, 8, 3));
    gpuhier_buffer_t other = buffer_of(at);
    other.id = 77; /* memory of another allocation in this page */
    assert_false(gpuhier_gdr_map((const void *) (uintptr_t) at, 8, &other, 3));
    other = buffer_of(at);
    other.kind = GPUHIER_BUFFER_MANAGED;
    assert_false(gpuhier_gdr_map((const void *) (uintptr_t) at, 8, &other, 0));
    other = buffer_of(at);
    other.ipc_capable = false;
    assert_false(gpuhier_gdr_map((const void *) (uintptr_t) at, 8, &other, 0));
}

static void copies(void **state)
{
    (void) state;
    char out[100], in[100] = {0};
    for (size_t i = 0; i < sizeof(out); ++i) {
        out[i] = (char) (i + 1);
    }
    const uint64_t at = place_of(5, PAGE - 48);
    assert_true(map(at, 100, 0)); /* two pages */
    assert_int_equal(2 * PAGE, pins[0].bytes);
    assert_true(gpuhier_gdr_write(at, out, 100, 5));
    assert_true(gpuhier_gdr_read(in, at, 100, 5));
    assert_memory_equal(out, in, 100);
    assert_true(gpuhier_gdr_read(in, at + 3, 9, 5)); /* within 16 bytes: one read of these */
    assert_memory_equal(out + 3, in, 9);
    assert_int_equal(16, last_bytes);
    assert_true(gpuhier_gdr_read(in, at + 10, 9, 5)); /* not within */
    assert_memory_equal(out + 10, in, 9);
    assert_int_equal(9, last_bytes);
    assert_false(gpuhier_gdr_read(in, at, 100, 6)); /* another allocation */
    assert_false(gpuhier_gdr_read(in, at + PAGE, 100, 5));
    gpuhier_gdr_finalize();
    assert_false(gpuhier_gdr_read(in, at, 100, 5));
    assert_false(gpuhier_gdr_write(at, in, 100, 5));
    assert_true(map(at, 100, 0)); /* opened again */
}

static void within_the_budget(void **state)
{
    (void) state;
    char word[8];
    for (int i = 1; i <= MOST; ++i) {
        assert_true(map(place_of(i, 0), 8, 0));
    }
    assert_false(map(place_of(100, 0), 8, 0)); /* all others were used lately */
    assert_int_equal(MOST, open_pins);
    for (int i = 0; i < IDLE; ++i) {
        assert_true(map(place_of(2 + i % (MOST - 1), 0), 8, 0));
    }
    assert_true(map(place_of(100, 0), 8, 0)); /* in place of the first */
    assert_int_equal(MOST, open_pins);
    assert_false(gpuhier_gdr_read(word, place_of(1, 0), 8, 1));
    assert_true(gpuhier_gdr_read(word, place_of(2, 0), 8, 2));
    assert_false(map(place_of(1, 0), 8, 0));
}

static void freed(void **state)
{
    (void) state;
    char word[8];
    for (int i = 1; i <= MOST; ++i) {
        assert_true(map(place_of(i, 0), 8, 0));
    }
    gone = 7;
    assert_true(map(place_of(100, 0), 8, 0));
    assert_int_equal(MOST, open_pins);
    assert_false(gpuhier_gdr_read(word, place_of(7, 0), 8, 7));
}

static void refused(void **state)
{
    (void) state;
    refuses = true;
    assert_false(map(place_of(1, 0), 8, 0));
    refuses = false;
    assert_true(map(place_of(2, 0), 8, 0));
    assert_false(map(place_of(1, 0), 8, 0)); /* it is not tried again at once */
    for (int i = 0; i < IDLE; ++i) {
        assert_true(map(place_of(2, 0), 8, 0));
    }
    assert_true(map(place_of(1, 0), 8, 0));
}

/* Many buffers of which only uses are counted take no window away. */
static void many(void **state)
{
    (void) state;
    for (int i = 1; i <= MOST; ++i) {
        assert_true(map(place_of(i, 0), 8, 0));
    }
    for (int i = 0; i < 500; ++i) {
        assert_false(map(place_of(100 + i, 0), 8, 3));
    }
    for (int i = 1; i <= MOST; ++i) {
        assert_true(map(place_of(i, 0), 8, 0));
    }
    assert_int_equal(MOST, npins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opened_after_uses, begin, end),
        cmocka_unit_test_setup_teardown(copies, begin, end),
        cmocka_unit_test_setup_teardown(within_the_budget, begin, end),
        cmocka_unit_test_setup_teardown(freed, begin, end),
        cmocka_unit_test_setup_teardown(refused, begin, end),
        cmocka_unit_test_setup_teardown(many, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
