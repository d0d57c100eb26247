/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel module below GDRCopy.
 *
 * Owns what is pinned and where the host sees it: a further mapping of the process's memory file, outside of the window
 * of device addresses. When the memory is freed, a file without any bytes takes the place of the mapping, so that an
 * access gives SIGBUS, as on hardware. CUDASIM_GDR says how many bytes can be pinned, as if the BAR of the
 * GPU had that size.
 *
 * Memory is freed under the memory lock, so that lock comes before the one of the pins.
 */
#include "sim_gdr.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "sim_counters.h"
#include "sim_memory.h"
#include "sim_model.h"

#define WORD_BYTES 16 /* shorter copies out of a mapping, but of one byte, are read twice: see models/ */

struct pin {
    uintptr_t address;
    size_t bytes;
    int device; /* physical number */
    void *mapped;
    size_t mapped_bytes;
    bool freed;
    struct pin *next;
};

static pthread_mutex_t pin_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins;
static size_t pinned_bytes;
static int empty_file = -1;

/* Bytes of CUDASIM_GDR: digits and K, M or G; 0 without it. */
static size_t room(void)
{
    const char *text = getenv("CUDASIM_GDR");
    char *end;
    size_t bytes;

    if (NULL == text || '\0' == text[0]) {
        return 0;
    }
    bytes = strtoull(text, &end, 10);
    bytes <<= 'G' == *end ? 30 : 'M' == *end ? 20 : 'K' == *end ? 10 : 0;
    end += '\0' != *end;
    if ('-' == text[0] || '\0' != *end) {
        fprintf(stderr, "cudasim: CUDASIM_GDR is '%s'; bytes are expected, as in 16M\n", text);
        return 0;
    }
    return bytes;
}

SIM_EXPORT int cudasim_gdr_open(void)
{
    return 0 == room() ? ENODEV : 0;
}

SIM_EXPORT int cudasim_gdr_pin(uint64_t address, size_t bytes, void **pin_p)
{
    const size_t most = room();
    struct pin *pin;
    int device;

    if (0 != address % SIM_GDR_PAGE || 0 == bytes || 0 != bytes % SIM_GDR_PAGE) {
        return EINVAL;
    }
    if (sim_model.on) {
        sim_model_pay_for((uint64_t) sim_model.gdr_pin, "gdr_pin_buffer");
    }
    sim_memory_lock();
    device = sim_memory_device_of((uintptr_t) address, bytes);
    pthread_mutex_lock(&pin_mutex);
    pin = device < 0 || bytes > most || pinned_bytes > most - bytes ? NULL : calloc(1, sizeof(*pin));
    if (NULL != pin) {
        *pin = (struct pin){.address = (uintptr_t) address, .bytes = bytes, .device = device, .next = pins};
        pins = pin;
        pinned_bytes += bytes;
        sim_count(gdr_live);
    }
    pthread_mutex_unlock(&pin_mutex);
    sim_memory_unlock();
    *pin_p = pin;
    return NULL != pin ? 0 : device < 0 ? EINVAL : ENOMEM;
}

static void unmap(struct pin *pin)
{
    if (NULL != pin->mapped) {
        munmap(pin->mapped, pin->mapped_bytes);
        pin->mapped = NULL;
    }
}

SIM_EXPORT int cudasim_gdr_unpin(void *handle)
{
    struct pin **link = &pins, *pin = handle;

    pthread_mutex_lock(&pin_mutex);
    while (NULL != *link && *link != pin) {
        link = &(*link)->next;
    }
    if (NULL != *link) {
        *link = pin->next;
        unmap(pin);
        pinned_bytes -= pin->bytes;
        sim_uncount(gdr_live);
    } else {
        pin = NULL;
    }
    pthread_mutex_unlock(&pin_mutex);
    free(pin);
    return NULL == pin ? EINVAL : 0;
}

SIM_EXPORT int cudasim_gdr_map(void *handle, size_t bytes, void **address_p)
{
    struct pin *pin = handle;
    void *mapped = MAP_FAILED;
    int problem = EINVAL;

    pthread_mutex_lock(&pin_mutex);
    if (!pin->freed && NULL == pin->mapped && bytes > 0 && bytes <= pin->bytes) {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, sim_window.fd,
                      (off_t) (SIM_SHARED_BYTES + (pin->address - sim_window.base)));
        problem = errno;
    }
    if (MAP_FAILED != mapped) {
        madvise(mapped, bytes, MADV_DONTDUMP);
        madvise(mapped, bytes, MADV_DONTFORK);
        pin->mapped = *address_p = mapped;
        pin->mapped_bytes = bytes;
        problem = 0;
    }
    pthread_mutex_unlock(&pin_mutex);
    return problem;
}

SIM_EXPORT int cudasim_gdr_unmap(void *handle, void *address, size_t bytes)
{
    struct pin *pin = handle;
    bool right;

    pthread_mutex_lock(&pin_mutex);
    right = NULL != address && pin->mapped == address && pin->mapped_bytes == bytes;
    if (right) {
        unmap(pin);
    }
    pthread_mutex_unlock(&pin_mutex);
    return right ? 0 : EINVAL;
}

SIM_EXPORT int cudasim_gdr_copy(void *handle, void *to, const void *from, size_t bytes, bool to_mapping)
{
    const struct pin *pin = handle;
    const uintptr_t place = (uintptr_t) (to_mapping ? to : from);

    if (NULL == pin->mapped || place < (uintptr_t) pin->mapped
        || place + bytes > (uintptr_t) pin->mapped + pin->mapped_bytes) {
        fprintf(stderr, "cudasim: a copy of GDRCopy leaves its mapping\n");
        abort(); /* the real library would read or write whatever is there */
    }
    if (sim_model.on && to_mapping) {
        sim_model_pay_for((uint64_t) (sim_model.gdr_write + (double) bytes / sim_model.gdr_write_rate),
                          "gdr_copy_to_mapping");
    } else if (sim_model.on) {
        const double reads = bytes > 1 && bytes < WORD_BYTES ? 2 : 1;
        sim_model_pay_for((uint64_t) (reads * sim_model.gdr_read + (double) bytes / sim_model.gdr_read_rate),
                          "gdr_copy_from_mapping");
    }
    memcpy(to, from, bytes);
    if (to_mapping) {
        atomic_thread_fence(memory_order_seq_cst);
        sim_count(gdr_writes);
        sim_count_link(SIM_HOST, pin->device, bytes);
    } else {
        sim_count(gdr_reads);
        sim_count_link(pin->device, SIM_HOST, bytes);
    }
    return 0;
}

SIM_EXPORT void cudasim_gdr_info(void *handle, uint64_t *address_p, size_t *bytes_p, bool *mapped_p, bool *freed_p)
{
    const struct pin *pin = handle;

    pthread_mutex_lock(&pin_mutex);
    *address_p = pin->address;
    *bytes_p = pin->bytes;
    *mapped_p = NULL != pin->mapped;
    *freed_p = pin->freed;
    pthread_mutex_unlock(&pin_mutex);
}

void sim_gdr_revoke(uintptr_t address, size_t bytes)
{
    pthread_mutex_lock(&pin_mutex);
    for (struct pin *pin = pins; NULL != pin; pin = pin->next) {
        if (pin->address + pin->bytes <= address || address + bytes <= pin->address) {
            continue;
        }
        pin->freed = true;
        if (empty_file < 0) {
            empty_file = memfd_create("cudasim-freed", MFD_CLOEXEC);
        }
        if (NULL != pin->mapped
            && MAP_FAILED
                   == mmap(pin->mapped, pin->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty_file,
                           0)) {
            fprintf(stderr, "cudasim: cannot take freed memory away from the host: %s\n", strerror(errno));
            abort();
        }
    }
    pthread_mutex_unlock(&pin_mutex);
}
