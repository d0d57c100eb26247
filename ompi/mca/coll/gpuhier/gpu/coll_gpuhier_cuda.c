/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the entry points of the CUDA driver and the mapping of its errors. Makes no context and initialises nothing: the
 * program does. Called by every layer that works with the GPU.
 */
#include "ompi_config.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/coll_gpuhier_compat.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "opal/util/output.h"

gpuhier_cu_t gpuhier_cu;

#define HEAP_FIELD 47 /* of /proc/self/stat: start_brk */

static _Atomic bool present;
static pthread_once_t once = PTHREAD_ONCE_INIT; /* driver_find() sets the other variables */
static uintptr_t heap_begin = UINTPTR_MAX;
static void *const *heap_end;          /* glibc's __curbrk, NULL without it. UCX makes sbrk(0) a system call. */
static uintptr_t data_begin, data_end; /* of the program's own variables */

/* Where the heap begins, from /proc/self/stat. The highest address, which makes the heap empty, where that fails. */
static uintptr_t heap_find(void)
{
    char line[1024] = "";
    unsigned long begin = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    if (NULL != file) {
        const char *at = NULL != fgets(line, sizeof(line), file) ? strrchr(line, ')')
                                                                 : NULL; /* the program's name may hold any character */
        for (int field = 2; NULL != at && field < HEAP_FIELD; ++field) {
            at = strchr(at + 1, ' ');
        }
        begin = NULL != at ? strtoul(at, NULL, 10) : 0;
        fclose(file);
    }
    return 0 != begin ? begin : UINTPTR_MAX;
}

/* Finds the first object's writable segment, for dl_iterate_phdr(): the first object is the program. */
static int data_find(struct dl_phdr_info *program, size_t size, void *unused)
{
    (void) size;
    (void) unused;
    for (int i = 0; i < program->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
        if (PT_LOAD == segment->p_type && 0 != (segment->p_flags & PF_W)) {
            data_begin = program->dlpi_addr + segment->p_vaddr;
            data_end = data_begin + segment->p_memsz;
        }
    }
    return 1;
}

static void driver_find(void)
{
    heap_begin = heap_find();
    (void) dl_iterate_phdr(data_find, NULL);
    heap_end = dlsym(RTLD_DEFAULT, "__curbrk");
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (NULL == library) {
        return;
    }
#define NAME(symbol) NAME_OF(symbol)
#define NAME_OF(symbol) #symbol
#define FIND(symbol)                                                                  \
    gpuhier_cu.symbol = (__typeof__(gpuhier_cu.symbol)) dlsym(library, NAME(symbol)); \
    if (NULL == gpuhier_cu.symbol) {                                                  \
        missing = NAME(symbol);                                                       \
    }
    const char *missing = NULL;
    GPUHIER_CU_MULTICAST(FIND)
    gpuhier_cu.has_multicast = CUDA_VERSION >= 12010 && NULL == missing;
    missing = NULL;
    GPUHIER_CU_LOADING(FIND)
    gpuhier_cu.has_loading = CUDA_VERSION >= 12040 && NULL == missing;
    missing = NULL;
    GPUHIER_CU_FUNCTIONS(FIND)
#undef FIND
#undef NAME_OF
#undef NAME
    if (NULL != missing) {
        opal_output(0,
                    "coll:gpuhier: libcuda.so.1 has no %s; the driver is too old (CUDA 11.4 or newer is needed), "
                    "so GPU buffers are left to Open MPI",
                    missing);
        dlclose(library);
        return;
    }
    /* The library stays loaded: its functions are called until the process ends. */
    atomic_store_explicit(&present, true, memory_order_release);
}

static __attribute__((noinline)) bool find_once(void)
{
    pthread_once(&once, driver_find);
    return atomic_load_explicit(&present, memory_order_relaxed);
}

bool gpuhier_cuda_present(void)
{
    return atomic_load_explicit(&present, memory_order_acquire) || find_once();
}

static _Thread_local CUresult last_error;

CUresult gpuhier_cuda_last_error(void)
{
    return last_error;
}

const char *gpuhier_cuda_name(CUresult result)
{
    const char *name = NULL;
    if (CUDA_SUCCESS != gpuhier_cu.cuGetErrorName(result, &name) || NULL == name) {
        name = "unknown error";
    }
    return name;
}

int gpuhier_cuda_failed(CUresult result, const char *what)
{
    last_error = result;
    opal_output_verbose(5, ompi_coll_base_framework.framework_output, "coll:gpuhier: %s failed with %s (%d)", what,
                        gpuhier_cuda_name(result), (int) result);
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_INITIALIZED:
        return OMPI_ERR_NOT_SUPPORTED;
    default:
        return OMPI_ERROR;
    }
}

bool gpuhier_cuda_gone(CUresult result)
{
    return CUDA_ERROR_DEINITIALIZED == result || CUDA_ERROR_CONTEXT_IS_DESTROYED == result
           || CUDA_ERROR_INVALID_CONTEXT == result || CUDA_ERROR_NOT_INITIALIZED == result;
}

void gpuhier_cuda_freed(CUresult result, const char *what)
{
    if (!gpuhier_cuda_gone(result)) {
        (void) gpuhier_cuda_error(result, what);
    }
}

/* Older drivers load a kernel when it is looked up. */
static CUresult kernel_load(CUfunction function)
{
#if CUDA_VERSION >= 12040
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
    if (gpuhier_cu.has_loading) {
        CUresult result = gpuhier_cu.cuFuncLoad(function);
        result = CUDA_SUCCESS != result ? result : gpuhier_cu.cuFuncIsLoaded(&state, function);
        return CUDA_SUCCESS != result || CU_FUNCTION_LOADING_STATE_LOADED == state ? result
                                                                                   : CUDA_ERROR_FUNCTION_NOT_LOADED;
    }
#else
    (void) function;
#endif
    return CUDA_SUCCESS;
}

CUresult gpuhier_cuda_kernel(CUmodule module, const char *name, int threads, CUfunction *function_p, int *blocks_p)
{
    int blocks = 0;
    CUresult result = gpuhier_cu.cuModuleGetFunction(function_p, module, name);
    result = CUDA_SUCCESS != result ? result : kernel_load(*function_p);
    result = CUDA_SUCCESS != result
                 ? result
                 : gpuhier_cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, *function_p, threads, 0);
    *blocks_p = blocks > 0 ? blocks : 1;
    return result;
}

int gpuhier_cuda_attribute(CUdevice_attribute name, int ordinal)
{
    int value = 0;
    CUdevice device;
    if (CUDA_SUCCESS != gpuhier_cu.cuDeviceGet(&device, ordinal)
        || CUDA_SUCCESS != gpuhier_cu.cuDeviceGetAttribute(&value, name, device)) {
        return 0;
    }
    return value;
}

int gpuhier_cuda_enter(CUcontext context, gpuhier_cuda_scope_t *scope)
{
    int rc = NULL == context ? OMPI_ERR_NOT_AVAILABLE : GPUHIER_CU(cuCtxPushCurrent, context);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    scope->capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    rc = GPUHIER_CU(cuThreadExchangeStreamCaptureMode, &scope->capture_mode);
    if (OMPI_SUCCESS != rc) {
        CUcontext ours;
        (void) gpuhier_cu.cuCtxPopCurrent(&ours);
    }
    return rc;
}

void gpuhier_cuda_leave(gpuhier_cuda_scope_t *scope)
{
    CUcontext ours;
    (void) gpuhier_cu.cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
    (void) gpuhier_cu.cuCtxPopCurrent(&ours);
}

bool gpuhier_buffer_is_gone(CUdeviceptr address, uint64_t id)
{
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    unsigned long long now = 0;
    void *value = &now;
    CUresult result = gpuhier_cu.cuPointerGetAttributes(1, &name, &value, address);
    return CUDA_SUCCESS == result ? now != id : gpuhier_cuda_gone(result);
}

/*
 * The context in which to work on memory that belongs to no context (pools, mapped chunks): the current context if it
 * is on the memory's device, else the device's primary context if the program uses it.
 */
static CUcontext context_for(int ordinal)
{
    CUcontext current = NULL, primary = NULL;
    CUdevice device;
    unsigned flags;
    int active = 0;
    if (CUDA_SUCCESS == gpuhier_cu.cuCtxGetCurrent(&current) && NULL != current
        && CUDA_SUCCESS == gpuhier_cu.cuCtxGetDevice(&device) && ordinal == (int) device) {
        return current;
    }
    if (CUDA_SUCCESS == gpuhier_cu.cuDeviceGet(&device, ordinal)
        && CUDA_SUCCESS == gpuhier_cu.cuDevicePrimaryCtxGetState(device, &flags, &active) && active
        && CUDA_SUCCESS == gpuhier_cu.cuDevicePrimaryCtxRetain(&primary, device)) {
        (void) gpuhier_cu.cuDevicePrimaryCtxRelease(device); /* the program keeps the context alive */
        return primary;
    }
    return current;
}

/* The calling thread's stack. The lowest and the highest address are equal where the C library does not say. */
static _Thread_local uintptr_t stack_low, stack_high;

static void __attribute__((noinline)) stack_find(void)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    stack_low = stack_high = 1;
    if (0 == pthread_getattr_np(pthread_self(), &attributes)) {
        if (0 == pthread_attr_getstack(&attributes, &low, &bytes)) {
            stack_low = (uintptr_t) low;
            stack_high = (uintptr_t) low + bytes;
        }
        (void) pthread_attr_destroy(&attributes);
    }
}

/* In the part of this thread's stack that is in use? Not asked on a stack that a library of user-level threads made. */
static bool on_stack(uintptr_t address)
{
    const uintptr_t here = (uintptr_t) __builtin_frame_address(0);
    if (0 == stack_high) {
        stack_find();
    }
    return here >= stack_low && address >= here && address < stack_high;
}

int gpuhier_stream_await(CUstream stream)
{
    const int rc = GPUHIER_CU(cuStreamSynchronize, stream);
    while (OMPI_SUCCESS != rc && CUDA_ERROR_NOT_READY == gpuhier_cu.cuStreamQuery(stream)) {
    }
    return rc;
}

int gpuhier_stream_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    const int rc = GPUHIER_CU(cuMemcpyAsync, to, from, bytes, stream);
    return OMPI_SUCCESS != rc ? rc : gpuhier_stream_await(stream);
}

/* Nothing but the heap is ever mapped between its bounds. */
bool gpuhier_address_surely_host(const void *address)
{
    const uintptr_t at = (uintptr_t) address;
    return (at >= heap_begin && NULL != heap_end && at < (uintptr_t) *heap_end) || (at >= data_begin && at < data_end)
           || on_stack(at);
}

/* Asks the driver, twice if need be: the first answer may be the error of earlier asynchronous work of the program. */
static CUresult attributes_of(const void *address, unsigned n, CUpointer_attribute *names, void **values)
{
    CUresult result = gpuhier_cu.cuPointerGetAttributes(n, names, values, (CUdeviceptr) (uintptr_t) address);
    return CUDA_SUCCESS == result || CUDA_ERROR_NOT_INITIALIZED == result
               ? result
               : gpuhier_cu.cuPointerGetAttributes(n, names, values, (CUdeviceptr) (uintptr_t) address);
}

/* Can the host read there? The kernel copies the signal set from the address before it refuses `how`. */
static bool is_readable(const void *address)
{
    const uint64_t *word = (const uint64_t *) ((uintptr_t) address & ~(uintptr_t) (sizeof(*word) - 1));
    return 0 == syscall(SYS_rt_sigprocmask, ~0, word, NULL, sizeof(*word)) || EFAULT != errno;
}

/* What is an address about which the driver answers with an error? Device memory, if the host cannot read it. */
static bool is_refused_device(CUresult result, const void *address)
{
    if (CUDA_ERROR_NOT_INITIALIZED == result || is_readable(address)) {
        return false;
    }
    (void) gpuhier_cuda_error(result, "cuPointerGetAttributes");
    return true;
}

bool gpuhier_address_on_device(const void *address)
{
    if (NULL == address || gpuhier_address_surely_host(address) || !gpuhier_cuda_present()) {
        return false;
    }
    CUmemorytype type = (CUmemorytype) 0;
    unsigned managed = 0;
    /* The driver only reads the names. */
    static CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &managed};
    const CUresult result = attributes_of(address, 2, names, values);
    return CUDA_SUCCESS == result ? CU_MEMORYTYPE_DEVICE == type || managed : is_refused_device(result, address);
}

void gpuhier_buffer_inspect(const void *address, gpuhier_buffer_t *buffer_p)
{
    static const gpuhier_buffer_t host = {.kind = GPUHIER_BUFFER_HOST, .device = -1};
    static const gpuhier_buffer_t unknown = {.kind = GPUHIER_BUFFER_DEVICE, .device = -1};
    *buffer_p = host;
    if (NULL == address || gpuhier_address_surely_host(address) || !gpuhier_cuda_present()) {
        return;
    }
    CUmemorytype type = (CUmemorytype) 0;
    unsigned managed = 0, capable = 0;
    static CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    void *values[] = {&type, &buffer_p->context, &managed, &buffer_p->id, &buffer_p->device, &capable};
    CUresult result = attributes_of(address, sizeof(names) / sizeof(names[0]), names, values);
    if (CUDA_SUCCESS != result || (CU_MEMORYTYPE_DEVICE != type && !managed)) {
        *buffer_p = CUDA_SUCCESS != result && is_refused_device(result, address) ? unknown : host;
        return;
    }
    buffer_p->kind = managed ? GPUHIER_BUFFER_MANAGED : GPUHIER_BUFFER_DEVICE;
    if (NULL == buffer_p->context) {
        buffer_p->context = context_for(buffer_p->device);
    }
    buffer_p->ipc_capable = 0 != capable;
}

#define MEMORY_ID ((uint64_t) 1 << 63) /* tells ids of memory from those of allocations */

void gpuhier_buffer_identify(const void *address, gpuhier_buffer_t *buffer)
{
    if (GPUHIER_BUFFER_DEVICE != buffer->kind || buffer->ipc_capable) {
        return;
    }
    unsigned long long types = 0, id = 0;
    CUmemoryPool pool = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *values[] = {&types, &pool};
    CUpointer_attribute id_name[] = {CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};
    void *id_value[] = {&id};
    const CUdeviceptr at = (CUdeviceptr) (uintptr_t) address;
    const bool known = CUDA_SUCCESS == gpuhier_cu.cuPointerGetAttributes(2, names, values, at);
    /* The list of attributes that a driver answers together does not have the id (cuda.h), so it may refuse it. Without
     * an id, what is mapped now could not be told from what was mapped there before. */
    const bool has_id = CUDA_SUCCESS == gpuhier_cu.cuPointerGetAttributes(1, id_name, id_value, at) && 0 != id;
    buffer->shareable = known && has_id && NULL == pool && 0 != (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    buffer->pooled = known && NULL != pool;
    if (buffer->shareable) {
        buffer->id = id | MEMORY_ID;
    }
}
