/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the file of shared host memory and its registration with the driver. Does not know which rank uses which lane.
 * Called by set-up, by the team's end and by the engine.
 */
#include "ompi_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/coll_gpuhier_sync.h"
#include "gpu/coll_gpuhier_device.h"
#include "gpu/coll_gpuhier_hostmem.h"
#include "opal/util/error.h"

#define HEADER_BYTES 256 /* room for the proof word; keeps the slice buffers aligned */

static int refuse(char *reason, const char *what, const char *why)
{
    snprintf(reason, GPUHIER_HOSTMEM_REASON_BYTES, "%s: %s", what, why);
    return OMPI_ERR_OUT_OF_RESOURCE;
}

/* 0 for CUDA_SUCCESS. */
static int driver_check(CUresult result, const char *what, char *reason)
{
    int rc = gpuhier_cuda_error(result, what);
    return OMPI_SUCCESS == rc ? rc : refuse(reason, what, gpuhier_cuda_name(result));
}

size_t gpuhier_hostmem_place(const gpuhier_hostmem_t *hostmem, int buffer)
{
    return HEADER_BYTES + (size_t) buffer * hostmem->buffer_bytes;
}

int gpuhier_hostmem_open(gpuhier_hostmem_t *hostmem, uint64_t word, bool create, const gpuhier_hostmem_size_t *size,
                         char *reason)
{
    char name[GPUHIER_SHM_NAME_BYTES];
    struct stat status;
    gpuhier_shm_name(name, "lanes-", word);
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    hostmem->buffer_bytes = size->buffer_bytes;
    hostmem->lane_bytes = (gpuhier_hostmem_place(hostmem, size->nbuffers) + page - 1) / page * page;
    hostmem->bytes = hostmem->lane_bytes * (size_t) size->nlanes;
    hostmem->file = shm_open(name, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
    hostmem->file_open = hostmem->file >= 0;
    if (!hostmem->file_open || (create && 0 != ftruncate(hostmem->file, (off_t) hostmem->bytes))
        || 0 != fstat(hostmem->file, &status)) {
        return refuse(reason, "a file in /dev/shm", strerror(errno));
    }
    if ((size_t) status.st_size != hostmem->bytes) {
        return refuse(reason, "a file in /dev/shm", "it has another size than was agreed");
    }
    void *memory = mmap(NULL, hostmem->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, hostmem->file, 0);
    if (MAP_FAILED == memory) {
        return refuse(reason, "mmap", strerror(errno));
    }
    hostmem->memory = memory;
    return OMPI_SUCCESS;
}

int gpuhier_hostmem_reserve(gpuhier_hostmem_t *hostmem, int index, char *reason)
{
    int problem =
        gpuhier_shm_reserve(hostmem->file, (off_t) (hostmem->lane_bytes * (size_t) index), (off_t) hostmem->lane_bytes);
    close(hostmem->file);
    hostmem->file_open = false;
    return 0 == problem ? OMPI_SUCCESS : refuse(reason, "room in /dev/shm", strerror(problem));
}

/* The next two move one word, and wait for no other work of the program. The driver's copies have one end in GPU
 * memory, and kernels move the word from there to host memory or back, as in calls: the driver may let the processor
 * copy from host memory to host memory. */
static int word_copy(CUdeviceptr to, CUdeviceptr from, const gpuhier_lane_t *lane, char *reason)
{
    const int rc = gpuhier_stream_copy(lane->stream[GPUHIER_STAGE_IN], to, from, sizeof(uint64_t));
    return OMPI_SUCCESS == rc ? rc : refuse(reason, "cuMemcpyAsync", gpuhier_cuda_name(gpuhier_cuda_last_error()));
}

static int word_move(CUdeviceptr to, CUdeviceptr from, const gpuhier_lane_t *lane, char *reason)
{
    CUstream stream = lane->stream[GPUHIER_STAGE_IN];
    int rc = gpuhier_reduce_copy(&lane->device->reduce, to, from, sizeof(uint64_t), stream);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_stream_await(stream);
    return OMPI_SUCCESS == rc ? rc : refuse(reason, "a kernel", opal_strerror(rc));
}

static uint64_t proof_of(uint64_t word, int index)
{
    return word ^ ((uint64_t) index + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

int gpuhier_hostmem_register(gpuhier_hostmem_t *hostmem, uint64_t word, int index, const gpuhier_lane_t *lane,
                             char *reason)
{
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    int rc =
        driver_check(gpuhier_cu.cuMemHostRegister(hostmem->memory, hostmem->bytes, flags), "cuMemHostRegister", reason);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    CUresult result = gpuhier_cu.cuMemHostGetDevicePointer(&hostmem->device, hostmem->memory, 0);
    if (CUDA_SUCCESS != result) {
        (void) gpuhier_cu.cuMemHostUnregister(hostmem->memory);
        hostmem->device = 0;
        return driver_check(result, "cuMemHostGetDevicePointer", reason);
    }
    const uint64_t proof = proof_of(word, index);
    rc = word_copy(lane->scratch, (CUdeviceptr) (uintptr_t) &proof, lane, reason);
    return OMPI_SUCCESS != rc ? rc : word_move(gpuhier_hostmem_lane(hostmem, index), lane->scratch, lane, reason);
}

int gpuhier_hostmem_prove(gpuhier_hostmem_t *hostmem, uint64_t word, int nlanes, const gpuhier_lane_t *lane,
                          char *reason)
{
    int rc = OMPI_SUCCESS;
    for (int i = 0; i < nlanes && OMPI_SUCCESS == rc; ++i) {
        uint64_t proof = 0;
        rc = word_move(lane->scratch, gpuhier_hostmem_lane(hostmem, i), lane, reason);
        rc = OMPI_SUCCESS != rc ? rc : word_copy((CUdeviceptr) (uintptr_t) &proof, lane->scratch, lane, reason);
        if (OMPI_SUCCESS == rc && proof_of(word, i) != proof) {
            rc = refuse(reason, "a file in /dev/shm", "it does not show what another process wrote");
        }
    }
    return rc;
}

void gpuhier_hostmem_unlink(uint64_t word)
{
    char name[GPUHIER_SHM_NAME_BYTES];
    gpuhier_shm_name(name, "lanes-", word);
    shm_unlink(name);
}

void gpuhier_hostmem_close(gpuhier_hostmem_t *hostmem, CUcontext context)
{
    gpuhier_cuda_scope_t scope;
    if (0 != hostmem->device && OMPI_SUCCESS == gpuhier_cuda_enter(context, &scope)) {
        GPUHIER_CU_FREE(cuMemHostUnregister, hostmem->memory);
        gpuhier_cuda_leave(&scope);
    }
    if (NULL != hostmem->memory) {
        munmap(hostmem->memory, hostmem->bytes);
    }
    if (hostmem->file_open) {
        close(hostmem->file);
    }
    memset(hostmem, 0, sizeof(*hostmem));
}
