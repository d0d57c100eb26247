/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The cache of what is mapped of other processes, on a driver that only counts: what is pinned outlives its
 * context, and a mapping that is to be kept is kept again after another user has let go of it. Memory that peers fail
 * to map again and again is not offered any more. Nothing is closed while a kernel waits for its peers. Memory of
 * cuMemCreate is mapped once for all GPUs of a process, other memory in one context only.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/coll_gpuhier_fd_passing.h"
#include "gpu/coll_gpuhier_ipc_cache.h"

/* free() of the objects in this program, by the linker's --wrap: how often this address was freed. */
static const void *watched;
static int freed;
void __real_free(void *memory);
void __wrap_free(void *memory);

void __wrap_free(void *memory)
{
    freed += NULL != memory && watched == memory;
    __real_free(memory);
}

/* -- the driver --------------------------------------------------------------------- */

static CUcontext current = (CUcontext) (uintptr_t) 0x1000;
static int opened, closed;
static bool blocked; /* an old mapping is in the way: nothing is opened until one is closed */

static CUresult fake_current(CUcontext *context_p)
{
    *context_p = current;
    return CUDA_SUCCESS;
}

static CUresult fake_push(CUcontext context)
{
    (void) context;
    return CUDA_SUCCESS;
}

static CUresult fake_pop(CUcontext *context_p)
{
    *context_p = current;
    return CUDA_SUCCESS;
}

static CUresult fake_capture(CUstreamCaptureMode *mode)
{
    (void) mode;
    return CUDA_SUCCESS;
}

static CUresult fake_open(CUdeviceptr *address_p, CUipcMemHandle handle, unsigned flags)
{
    (void) handle;
    (void) flags;
    if (blocked) {
        return CUDA_ERROR_ALREADY_MAPPED;
    }
    *address_p = 0x100000 * (CUdeviceptr) ++opened;
    return CUDA_SUCCESS;
}

static CUresult fake_close(CUdeviceptr address)
{
    (void) address;
    assert_false(gpuhier_kernel_waits);
    ++closed;
    blocked = false;
    return CUDA_SUCCESS;
}

static CUresult fake_range(CUdeviceptr *base_p, size_t *bytes_p, CUdeviceptr address)
{
    *base_p = address & ~(CUdeviceptr) 0xffff;
    *bytes_p = 0x10000;
    return CUDA_SUCCESS;
}

static CUresult fake_handle(CUipcMemHandle *handle_p, CUdeviceptr address)
{
    memset(handle_p, 0, sizeof(*handle_p));
    memcpy(handle_p, &address, sizeof(address));
    return CUDA_SUCCESS;
}

static CUresult fake_set(const void *value, CUpointer_attribute name, CUdeviceptr address)
{
    (void) value;
    (void) name;
    (void) address;
    return CUDA_SUCCESS;
}

static CUdevice device; /* of the current context */
static int imported, hidden;
static uint64_t allowed; /* devices, by their numbers, since the last look */

static CUresult fake_device(CUdevice *device_p)
{
    *device_p = device;
    return CUDA_SUCCESS;
}

static CUresult fake_name(CUresult result, const char **name_p)
{
    (void) result;
    *name_p = "CUDA_ERROR";
    return CUDA_SUCCESS;
}

static CUresult fake_import(CUmemGenericAllocationHandle *handle_p, void *shareable, CUmemAllocationHandleType type)
{
    (void) shareable;
    (void) type;
    *handle_p = (CUmemGenericAllocationHandle) ++imported;
    return CUDA_SUCCESS;
}

static CUresult fake_reserve(CUdeviceptr *address_p, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    (void) bytes;
    (void) alignment;
    (void) wish;
    (void) flags;
    *address_p = 0x10000000 * (CUdeviceptr) imported;
    return CUDA_SUCCESS;
}

static CUresult fake_show(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
    (void) address;
    (void) bytes;
    (void) offset;
    (void) handle;
    (void) flags;
    return CUDA_SUCCESS;
}

static CUresult fake_allow(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    (void) address;
    (void) bytes;
    assert_int_equal(1, count);
    allowed |= (uint64_t) 1 << access->location.id;
    return CUDA_SUCCESS;
}

static CUresult fake_release(CUmemGenericAllocationHandle handle)
{
    (void) handle;
    return CUDA_SUCCESS;
}

static CUresult fake_hide(CUdeviceptr address, size_t bytes)
{
    (void) address;
    (void) bytes;
    ++hidden;
    return CUDA_SUCCESS;
}

static CUresult fake_unreserve(CUdeviceptr address, size_t bytes)
{
    (void) address;
    (void) bytes;
    return CUDA_SUCCESS;
}

static int driver_make(void **state)
{
    (void) state;
    gpuhier_cu.cuCtxGetDevice = fake_device;
    gpuhier_cu.cuGetErrorName = fake_name;
    gpuhier_cu.cuMemImportFromShareableHandle = fake_import;
    gpuhier_cu.cuMemAddressReserve = fake_reserve;
    gpuhier_cu.cuMemMap = fake_show;
    gpuhier_cu.cuMemSetAccess = fake_allow;
    gpuhier_cu.cuMemRelease = fake_release;
    gpuhier_cu.cuMemUnmap = fake_hide;
    gpuhier_cu.cuMemAddressFree = fake_unreserve;
    imported = hidden = device = 0;
    allowed = 0;
    gpuhier_cu.cuMemGetAddressRange = fake_range;
    gpuhier_cu.cuIpcGetMemHandle = fake_handle;
    gpuhier_cu.cuPointerSetAttribute = fake_set;
    gpuhier_cu.cuCtxGetCurrent = fake_current;
    gpuhier_cu.cuCtxPushCurrent = fake_push;
    gpuhier_cu.cuCtxPopCurrent = fake_pop;
    gpuhier_cu.cuThreadExchangeStreamCaptureMode = fake_capture;
    gpuhier_cu.cuIpcOpenMemHandle = fake_open;
    gpuhier_cu.cuIpcCloseMemHandle = fake_close;
    opened = closed = freed = 0;
    blocked = gpuhier_kernel_waits = false;
    return 0;
}

static int cache_end(void **state)
{
    (void) state;
    gpuhier_kernel_waits = false;
    gpuhier_ipc_finalize();
    watched = NULL;
    return 0;
}

/* -- the tests ---------------------------------------------------------------------- */

static gpuhier_memref_t ref_of(uint64_t base, uint64_t bytes)
{
    return (gpuhier_memref_t){.process = ~gpuhier_process_word(), .base = base, .bytes = bytes, .id = base};
}

static gpuhier_mapping_t *map(const gpuhier_memref_t *ref, bool keep)
{
    gpuhier_mapping_t *mapping = NULL;
    CUdeviceptr address = 0;
    assert_int_equal(0, gpuhier_map(ref, keep, &mapping, &address));
    assert_non_null(mapping);
    return mapping;
}

static void pinned_outlives_its_context(void **state)
{
    (void) state;
    const gpuhier_memref_t ref = ref_of(0x10000, 4096);
    gpuhier_mapping_t *first = map(&ref, true);
    assert_ptr_equal(first, map(&ref, true));
    watched = first;
    gpuhier_ipc_forget(current, 0);
    assert_int_equal(0, freed);
    gpuhier_mapping_t *second = map(&ref, true); /* in a new context with the old one's handle */
    assert_ptr_not_equal(first, second);
    assert_int_equal(2, opened);
    gpuhier_unmap(first);
    assert_int_equal(0, freed);
    gpuhier_unmap(first);
    assert_int_equal(1, freed);
    assert_ptr_equal(second, map(&ref, true));
    gpuhier_unmap(second);
    gpuhier_unmap(second);
    assert_int_equal(0, closed); /* what was lost with its context is not closed */
}

static void unpinned_goes_at_once(void **state)
{
    (void) state;
    const gpuhier_memref_t ref = ref_of(0x10000, 4096);
    gpuhier_mapping_t *mapping = map(&ref, false);
    gpuhier_unmap(mapping);
    watched = mapping;
    gpuhier_ipc_forget(current, 0);
    assert_int_equal(1, freed);
    assert_int_equal(0, closed);
}

static void kept_again(void **state)
{
    (void) state;
    const gpuhier_memref_t scratch = ref_of(0x10000, 4096), user = ref_of(0x20000, 1000);
    gpuhier_unmap(map(&scratch, true));
    gpuhier_ipc_unkeep(&scratch);
    gpuhier_unmap(map(&scratch, true));
    gpuhier_ipc_trim(0, 0);
    assert_int_equal(0, closed);
    gpuhier_unmap(map(&scratch, true));
    assert_int_equal(1, opened);
    gpuhier_unmap(map(&user, false));
    assert_false(gpuhier_ipc_exceeds(1000, 0));
    gpuhier_ipc_trim(1000, 0); /* scratch does not count */
    assert_int_equal(0, closed);
    assert_true(gpuhier_ipc_exceeds(999, 0));
    gpuhier_ipc_trim(999, 0);
    assert_false(gpuhier_ipc_exceeds(999, 0));
    assert_int_equal(1, closed);
    gpuhier_unmap(map(&user, false));
    assert_int_equal(3, opened);
}

static void unkept_is_user_memory(void **state)
{
    (void) state;
    const gpuhier_memref_t scratch = ref_of(0x10000, 4096);
    gpuhier_unmap(map(&scratch, true));
    gpuhier_ipc_unkeep(&scratch);
    gpuhier_unmap(map(&scratch, false));
    gpuhier_ipc_trim(4095, 0);
    assert_int_equal(1, closed);
}

static void not_offered_for_ever(void **state)
{
    (void) state;
    const gpuhier_buffer_t buffer = {.kind = GPUHIER_BUFFER_DEVICE, .id = 7, .ipc_capable = true};
    gpuhier_memref_t ref;
    unsigned uses, calls = 0;
    while (calls < 1000 && OMPI_SUCCESS == gpuhier_export((void *) (uintptr_t) 0x30010, &buffer, &ref, &uses)) {
        for (int peer = 0; peer < 9; ++peer) { /* however many they are, it is one call */
            gpuhier_export_unmapped(&ref, &ref);
        }
        gpuhier_export_tried(&ref, false);
        if (3 == ++calls) {
            gpuhier_export_tried(&ref, true); /* and it begins to count anew */
        }
    }
    assert_int_equal(3 + 16, calls);
    const gpuhier_buffer_t other = {.kind = GPUHIER_BUFFER_DEVICE, .id = 8, .ipc_capable = true};
    assert_int_equal(OMPI_SUCCESS, gpuhier_export((void *) (uintptr_t) 0x30010, &other, &ref, &uses));
}

static CUcontext other_context(void)
{
    return (CUcontext) (uintptr_t) 0x2000;
}

/* What a peer sends: a descriptor of the memory. */
static void send_descriptor(const gpuhier_memref_t *ref)
{
    const gpuhier_fd_key_t fd_key = {ref->process, ref->base, ref->id};
    const int file = memfd_create("memory", MFD_CLOEXEC);
    assert_true(gpuhier_fd_passing_open(gpuhier_process_word()));
    assert_int_equal(OMPI_SUCCESS, gpuhier_fd_send(&fd_key, file, gpuhier_process_word()));
    close(file);
}

static void mapped_once_for_all_gpus(void **state)
{
    (void) state;
    const CUcontext first_context = current;
    gpuhier_memref_t ref = ref_of(0x10000, 4096);
    ref.shared = GPUHIER_SHARED_FILE;
    gpuhier_mapping_t *mapping = NULL;
    CUdeviceptr address = 0;
    assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_map(&ref, true, &mapping, &address));
    send_descriptor(&ref);
    gpuhier_mapping_t *first = map(&ref, true);
    assert_int_equal(1, allowed);
    current = other_context();
    device = 3;
    assert_ptr_equal(first, map(&ref, true));
    assert_int_equal(1 | 1 << 3, allowed);
    allowed = 0;
    assert_ptr_equal(first, map(&ref, true));
    assert_int_equal(0, allowed);
    gpuhier_ipc_forget(first_context, 0); /* the other GPU still works on it */
    assert_int_equal(0, hidden);
    current = first_context;
    device = 0;
    assert_ptr_equal(first, map(&ref, true)); /* in a new context */
    assert_int_equal(1, allowed);
    for (int i = 0; i < 4; ++i) {
        gpuhier_unmap(first);
    }
    gpuhier_ipc_forget(first_context, 0);
    gpuhier_ipc_forget(other_context(), 3);
    assert_ptr_equal(first, map(&ref, true));
    gpuhier_unmap(first);
    assert_int_equal(1, imported);
    assert_int_equal(0, hidden);
    gpuhier_ipc_unkeep(&ref);
    gpuhier_ipc_trim(0, 0);
    assert_int_equal(1, hidden);
}

/* A set-up sends descriptors to those who have the memory mapped, too. */
static void received_again(void **state)
{
    (void) state;
    gpuhier_memref_t ref = ref_of(0x10000, 4096);
    ref.shared = GPUHIER_SHARED_FILE;
    assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_map_received(&ref));
    for (int i = 0; i < 3; ++i) {
        send_descriptor(&ref);
        assert_int_equal(OMPI_SUCCESS, gpuhier_map_received(&ref));
        assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_map_received(&ref));
        gpuhier_unmap(map(&ref, true));
    }
    assert_int_equal(1, imported);
}

static void not_tried_in_a_second_context(void **state)
{
    (void) state;
    const CUcontext first_context = current;
    const gpuhier_memref_t ref = ref_of(0x10000, 4096);
    gpuhier_mapping_t *mapping = NULL;
    CUdeviceptr address = 0;
    gpuhier_unmap(map(&ref, false));
    current = other_context();
    assert_int_not_equal(OMPI_SUCCESS, gpuhier_map(&ref, false, &mapping, &address));
    assert_int_equal(CUDA_ERROR_ALREADY_MAPPED, gpuhier_cuda_last_error());
    assert_int_equal(1, opened);
    current = first_context;
    gpuhier_ipc_trim(0, 0);
    current = other_context();
    gpuhier_unmap(map(&ref, false));
    assert_int_equal(2, opened);
    current = first_context;
}

/* New memory of the user waits for a later call. What is mapped, and what needs no closing, is mapped as ever. */
static void not_closed_while_a_kernel_waits(void **state)
{
    (void) state;
    const gpuhier_memref_t old = ref_of(0x10000, 4096), beside = ref_of(0x30000, 4096);
    gpuhier_memref_t renewed = ref_of(0x10800, 4096);
    gpuhier_mapping_t *mapping = NULL;
    CUdeviceptr address = 0;
    gpuhier_unmap(map(&old, false));
    gpuhier_kernel_waits = true;
    assert_int_equal(OMPI_ERR_NOT_AVAILABLE, gpuhier_map(&renewed, false, &mapping, &address));
    gpuhier_unmap(map(&old, false));
    assert_int_equal(1, opened);
    blocked = true;
    assert_int_equal(OMPI_ERR_NOT_AVAILABLE, gpuhier_map(&beside, false, &mapping, &address));
    blocked = false;
    gpuhier_unmap(map(&beside, false));
    assert_int_equal(2, opened);
    gpuhier_kernel_waits = false;
    gpuhier_unmap(map(&renewed, false));
    assert_int_equal(1, closed);
    assert_int_equal(3, opened);
    blocked = true;
    renewed = ref_of(0x40000, 4096);
    gpuhier_unmap(map(&renewed, false));
    assert_int_equal(3, closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pinned_outlives_its_context, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(unpinned_goes_at_once, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(kept_again, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(unkept_is_user_memory, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(not_offered_for_ever, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(mapped_once_for_all_gpus, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(received_again, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(not_tried_in_a_second_context, driver_make, cache_end),
        cmocka_unit_test_setup_teardown(not_closed_while_a_kernel_waits, driver_make, cache_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
