/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns libgdrapi.so.2 and the windows: a list in order of use. And tries, when a device is made, what the host can do
 * with the GPU's memory, and what a query of the default stream means.
 *
 * A window belongs to an allocation, which its buffer id names. When the program frees the allocation, the driver takes
 * the pages away, and an access gives SIGBUS. So a window is found by the id that the driver gives at each call, and no
 * other allocation ever has the id of a freed one. Two allocations in one page have a window each. Windows of memory
 * that was freed are closed when the next one is opened.
 *
 * Called by the device and by the small form.
 */
#include "ompi_config.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_compat.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "opal/class/opal_list.h"
#include "opal/util/output.h"

#define PAGE_BYTES ((uint64_t) 65536) /* a page of the GPU: whole pages are pinned */
#define WORD_BYTES 16                 /* the GPU serves a shorter read as two reads: docs/model.md */
#define WINDOWS_MAX 64                /* in the list, including those that only count uses */
#define IDLE_LOOKUPS 1024             /* an unused window stays this long, so that many buffers in turn pin nothing */

/* The library's types and functions. All but the first return 0 or an errno. */
typedef struct pin {
    unsigned long handle;
} pin_t;
typedef struct info {
    uint64_t begin; /* of what is mapped, in the GPU's addresses */
    uint64_t others[15];
} info_t;

static struct {
    void *(*open)(void);
    int (*close)(void *library);
    int (*pin_buffer)(void *library, unsigned long address, size_t bytes, uint64_t token, uint32_t space, pin_t *pin_p);
    int (*unpin_buffer)(void *library, pin_t pin);
    int (*get_info)(void *library, pin_t pin, info_t *info_p);
    int (*map)(void *library, pin_t pin, void **at_p, size_t bytes);
    int (*unmap)(void *library, pin_t pin, void *at, size_t bytes);
    int (*copy_to_mapping)(pin_t pin, void *to, const void *from, size_t bytes);
    int (*copy_from_mapping)(pin_t pin, void *to, const void *from, size_t bytes);
} gdr;

typedef struct window {
    opal_list_item_t super;
    uint64_t begin, end; /* pages in the GPU's addresses */
    uint64_t place, id;  /* an address in the allocation, and the id of it */
    uint64_t used;       /* the last look-up that found it */
    uint64_t retry;      /* it could not be pinned, and is not tried again before this look-up */
    unsigned uses;
    void *at;    /* NULL: only uses are counted */
    char *first; /* what lies at `begin`, as the host sees it */
    pin_t pin;
} window_t;
OBJ_CLASS_INSTANCE(window_t, opal_list_item_t, NULL, NULL);

static void *library; /* NULL: not open */
static bool sought, usable;
static opal_list_t windows; /* most recently used first; constructed while the library is open */
static size_t mapped_bytes;
static uint64_t lookups;

static bool functions_find(void)
{
    void *file = dlopen("libgdrapi.so.2", RTLD_NOW | RTLD_LOCAL);
    const struct {
        void *function_p;
        const char *name, *older;
    } functions[] = {{&gdr.open, "gdr_open", NULL},
                     {&gdr.close, "gdr_close", NULL},
                     {&gdr.pin_buffer, "gdr_pin_buffer", NULL},
                     {&gdr.unpin_buffer, "gdr_unpin_buffer", NULL},
                     {&gdr.get_info, "gdr_get_info_v2", "gdr_get_info"},
                     {&gdr.map, "gdr_map", NULL},
                     {&gdr.unmap, "gdr_unmap", NULL},
                     {&gdr.copy_to_mapping, "gdr_copy_to_mapping", NULL},
                     {&gdr.copy_from_mapping, "gdr_copy_from_mapping", NULL}};
    bool complete = NULL != file; /* it stays loaded until the process ends */
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && complete; ++i) {
        void *found = dlsym(file, functions[i].name);
        found = NULL != found || NULL == functions[i].older ? found : dlsym(file, functions[i].older);
        memcpy(functions[i].function_p, &found, sizeof(found));
        complete = NULL != found;
    }
    return complete;
}

/* Loads and opens the library at the first call. Returns false where it or its kernel module is missing. */
static bool is_open(void)
{
    if (!sought) {
        sought = true;
        usable = functions_find();
    }
    if (usable && NULL == library) {
        library = gdr.open();
        if (NULL != library) {
            OBJ_CONSTRUCT(&windows, opal_list_t);
        }
        usable = NULL != library;
    }
    return usable;
}

static void window_close(window_t *window)
{
    opal_list_remove_item(&windows, &window->super);
    if (NULL != window->at) {
        (void) gdr.unmap(library, window->pin, window->at, (size_t) (window->end - window->begin));
        (void) gdr.unpin_buffer(library, window->pin);
        mapped_bytes -= (size_t) (window->end - window->begin);
    }
    OBJ_RELEASE(window);
}

static window_t *window_find(uint64_t begin, uint64_t end, uint64_t id)
{
    window_t *window;
    OPAL_LIST_FOREACH (window, &windows, window_t) {
        if (id == window->id && begin >= window->begin && end <= window->end) {
            return window;
        }
    }
    return NULL;
}

/* Closes windows of memory that was freed, and then the least recently used ones, until `bytes` fit the budget. Returns
 * false if they do not fit, since the other windows are in use. */
static bool room_make(size_t bytes)
{
    window_t *window, *next;
    OPAL_LIST_FOREACH_SAFE (window, next, &windows, window_t) {
        if (NULL != window->at && gpuhier_buffer_is_gone((CUdeviceptr) window->place, window->id)) {
            window_close(window);
        }
    }
    OPAL_LIST_FOREACH_SAFE_REV(window, next, &windows, window_t)
    {
        if (mapped_bytes + bytes > GPUHIER_GDR_BUDGET && NULL != window->at && lookups - window->used > IDLE_LOOKUPS) {
            window_close(window);
        }
    }
    return mapped_bytes + bytes <= GPUHIER_GDR_BUDGET;
}

/* Pins and maps the window's pages. The context is current. */
static bool window_open(window_t *window)
{
    const size_t bytes = (size_t) (window->end - window->begin);
    info_t info = {0};
    void *at = NULL;
    unsigned yes = 1;
    if (!room_make(bytes)
        || OMPI_SUCCESS != GPUHIER_CU(cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, window->place)) {
        return false;
    }
    int error = gdr.pin_buffer(library, (unsigned long) window->begin, bytes, 0, 0, &window->pin);
    if (0 != error) {
        opal_output_verbose(5, gpuhier_output(), "coll:gpuhier: gdr_pin_buffer of %zu bytes failed with %d", bytes,
                            error);
        return false;
    }
    error = gdr.map(library, window->pin, &at, bytes);
    if (0 == error) {
        error = gdr.get_info(library, window->pin, &info);
        if (0 == error && info.begin <= window->begin) {
            window->at = at;
            window->first = (char *) at + (window->begin - info.begin);
            mapped_bytes += bytes;
            return true;
        }
        (void) gdr.unmap(library, window->pin, at, bytes);
    }
    (void) gdr.unpin_buffer(library, window->pin);
    opal_output_verbose(5, gpuhier_output(), "coll:gpuhier: gdr_map of %zu bytes failed with %d", bytes, error);
    return false;
}

/* Forgets the least recently used window that only counts uses. There is one, since few windows are open. */
static void count_forget(void)
{
    window_t *window;
    OPAL_LIST_FOREACH_REV(window, &windows, window_t)
    {
        if (NULL == window->at) {
            window_close(window);
            return;
        }
    }
}

static window_t *window_add(uint64_t begin, uint64_t end, uint64_t id)
{
    window_t *window = OBJ_NEW(window_t);
    if (NULL == window) {
        return NULL;
    }
    if (opal_list_get_size(&windows) >= WINDOWS_MAX) {
        count_forget();
    }
    window->begin = begin / PAGE_BYTES * PAGE_BYTES;
    window->end = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    window->place = begin;
    window->id = id;
    window->retry = 0;
    window->uses = 0;
    window->at = NULL;
    opal_list_prepend(&windows, &window->super);
    return window;
}

bool gpuhier_gdr_map(const void *address, size_t bytes, const gpuhier_buffer_t *buffer, unsigned uses)
{
    const uint64_t begin = (uint64_t) (uintptr_t) address;
    if (GPUHIER_BUFFER_DEVICE != buffer->kind || !buffer->ipc_capable || 0 == buffer->id || !is_open()) {
        return false;
    }
    window_t *window = window_find(begin, begin + bytes, buffer->id);
    if (NULL == window) {
        window = window_add(begin, begin + bytes, buffer->id);
        if (NULL == window) {
            return false;
        }
    } else if (opal_list_get_first(&windows) != &window->super) {
        opal_list_remove_item(&windows, &window->super);
        opal_list_prepend(&windows, &window->super);
    }
    window->used = ++lookups;
    if (NULL == window->at && ++window->uses > uses && lookups >= window->retry && !window_open(window)) {
        window->retry = lookups + IDLE_LOOKUPS;
    }
    return NULL != window->at;
}

/* Keeps the loads of the window behind the load that has shown the program's work to be done. Loads of write-combined
 * memory may pass the locked instruction that is a fence in C on x86 (Intel's manual, volume 3, 8.1.2). */
static void read_fence(void)
{
#if defined(__x86_64__)
    __builtin_ia32_mfence();
    __builtin_ia32_lfence();
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

bool gpuhier_gdr_read(void *to, CUdeviceptr from, size_t bytes, uint64_t id)
{
    const window_t *window = NULL != library ? window_find(from, from + bytes, id) : NULL;
    if (NULL == window || NULL == window->at) {
        return false;
    }
    const char *at = window->first + (from - window->begin);
    const size_t before = (size_t) (from % WORD_BYTES);
    read_fence();
    if (before + bytes > WORD_BYTES || WORD_BYTES == bytes) {
        return 0 == gdr.copy_from_mapping(window->pin, to, at, bytes);
    }
    char word[WORD_BYTES] __attribute__((aligned(WORD_BYTES)));
    const bool done = 0 == gdr.copy_from_mapping(window->pin, word, at - before, sizeof(word));
    memcpy(to, word + before, bytes);
    return done;
}

bool gpuhier_gdr_write(CUdeviceptr to, const void *from, size_t bytes, uint64_t id)
{
    const window_t *window = NULL != library ? window_find(to, to + bytes, id) : NULL;
    if (NULL == window || NULL == window->at) {
        return false;
    }
    const bool done = 0 == gdr.copy_to_mapping(window->pin, window->first + (to - window->begin), from, bytes);
    atomic_thread_fence(memory_order_seq_cst); /* write-combined stores leave before the program's next launch */
    return done;
}

void gpuhier_gdr_finalize(void)
{
    if (NULL == library) {
        return;
    }
    while (!opal_list_is_empty(&windows)) {
        window_close((window_t *) opal_list_get_first(&windows));
    }
    OBJ_DESTRUCT(&windows);
    (void) gdr.close(library);
    library = NULL;
}

/* -- trials -------------------------------------------------------------------------- */

#define ROUNDS 10            /* for each stream: another thread's work can look like an answer, but not in all rounds */
#define PATIENCE_US 1000000u /* how long all rounds together wait for the default stream to become idle */
#define HELD_US 100000u      /* the longest wait of hold(), or a driver that calls it inside the launch would hang */
#define HELD_POLL_US 20u     /* hold() sleeps between looks, and leaves the core to the thread that launched it */
#define MOST_VOID 3          /* void rounds that the trial puts up with, see is_seen() */

static bool copy(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    return OMPI_SUCCESS == gpuhier_stream_copy(stream, to, from, sizeof(uint64_t));
}

bool gpuhier_gdr_works(CUdeviceptr word, CUstream stream)
{
    gpuhier_buffer_t buffer;
    uint64_t ours = 0x9e3779b97f4a7c15ull * gpuhier_clock_us(), seen = 0;
    const CUdeviceptr from = (CUdeviceptr) (uintptr_t) &ours, to = (CUdeviceptr) (uintptr_t) &seen;
    gpuhier_buffer_inspect((void *) (uintptr_t) word, &buffer);
    if (!gpuhier_gdr_map((void *) (uintptr_t) word, sizeof(ours), &buffer, 0) || !copy(word, from, stream)
        || !gpuhier_gdr_read(&seen, word, sizeof(seen), buffer.id) || ours != seen) {
        return false;
    }
    ours = ~ours;
    return gpuhier_gdr_write(word, &ours, sizeof(ours), buffer.id) && copy(to, word, stream) && ours == seen;
}

/* Static, because hold() may still read it after the trial: the driver may run host functions of several streams one
 * after the other, and the program's own may take long. */
static _Atomic int held;
enum { HELD, RELEASED, RAN_OUT };

static void CUDA_CB hold(void *arg)
{
    const uint64_t begin = gpuhier_clock_us();
    int expected = HELD;
    (void) arg;
    while (HELD == atomic_load_explicit(&held, memory_order_acquire)) {
        if (gpuhier_clock_us() - begin >= HELD_US) {
            atomic_compare_exchange_strong(&held, &expected, RAN_OUT);
            break;
        }
        usleep(HELD_POLL_US);
    }
}

static bool becomes_idle(CUstream stream, uint64_t until_us)
{
    CUresult result;
    while (CUDA_ERROR_NOT_READY == (result = gpuhier_cu.cuStreamQuery(stream)) && gpuhier_clock_us() < until_us) {
        sched_yield();
    }
    return CUDA_SUCCESS == result;
}

typedef enum { SEEN, NOT_SEEN, VOID } answer_t;

/* Does the default stream, which has no work, seem busy while this blocking stream is held up? The round is void if
 * the stream was no longer held up when the answer came: on a busy host this thread may have waited for a core. */
static answer_t is_seen(CUstream stream, uint64_t until_us)
{
    int expected = HELD;
    atomic_store_explicit(&held, HELD, memory_order_release);
    if (!becomes_idle(CU_STREAM_LEGACY, until_us) || OMPI_SUCCESS != GPUHIER_CU(cuLaunchHostFunc, stream, hold, NULL)) {
        return NOT_SEEN;
    }
    const CUresult answer = gpuhier_cu.cuStreamQuery(CU_STREAM_LEGACY);
    const bool was_held = atomic_compare_exchange_strong(&held, &expected, RELEASED);
    if (!becomes_idle(stream, until_us)) {
        return NOT_SEEN;
    }
    return !was_held                                                                    ? VOID
           : CUDA_ERROR_NOT_READY == answer && becomes_idle(CU_STREAM_LEGACY, until_us) ? SEEN
                                                                                        : NOT_SEEN;
}

bool gpuhier_gdr_query_suffices(void)
{
    const uint64_t until_us = gpuhier_clock_us() + PATIENCE_US;
    CUstream stream;
    if (!gpuhier_cuda_is_usable(CU_STREAM_LEGACY)) {
        return false;
    }
    if (OMPI_SUCCESS != GPUHIER_CU(cuStreamCreateWithPriority, &stream, CU_STREAM_DEFAULT, 0)) {
        return false;
    }
    answer_t answer = SEEN;
    for (int i = 0, void_rounds = 0; i < 2 * ROUNDS && NOT_SEEN != answer;) {
        answer = is_seen(0 == i % 2 ? stream : CU_STREAM_PER_THREAD, until_us);
        i += SEEN == answer;
        if (VOID == answer && ++void_rounds > MOST_VOID) {
            answer = NOT_SEEN;
        }
    }
    (void) GPUHIER_CU(cuStreamDestroy, stream);
    return SEEN == answer;
}
