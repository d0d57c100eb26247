/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuMemcpy and cuMemset in all their forms.
 *
 * Owns the translation of the driver's many signatures to sim_copy.h's two. The
 * synchronous forms run on the legacy default stream (or the thread's, _ptds).
 */
#include "api.h"
#include "sim_copy.h"
#include "sim_engine.h"

static CUresult copy_peer(uintptr_t to, CUcontext to_ctx, uintptr_t from, CUcontext from_ctx, size_t bytes,
                          CUstream handle, bool async)
{
    struct sim_copy copy = {to, from, SIM_ON_GPU, SIM_ON_GPU, bytes, 1, bytes, bytes, to_ctx, from_ctx};
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS != sim_context_check(to_ctx) || CUDA_SUCCESS != sim_context_check(from_ctx)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return CUDA_SUCCESS == rc ? sim_copy(&copy, stream, async) : rc;
}

static CUresult copy_plain(uintptr_t to, enum sim_side to_side, uintptr_t from, enum sim_side from_side, size_t bytes,
                           CUstream handle, bool async)
{
    struct sim_copy copy = {to, from, to_side, from_side, bytes, 1, bytes, bytes, NULL, NULL};
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    return CUDA_SUCCESS == rc ? sim_copy(&copy, stream, async) : rc;
}

CUresult sim_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_plain(to, SIM_ANY, from, SIM_ANY, bytes, NULL, false);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_plain(to, SIM_ANY, from, SIM_ANY, bytes, stream, true);
}

CUresult sim_cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes)
{
    return copy_peer(to, to_ctx, from, from_ctx, bytes, NULL, false);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes,
                               CUstream stream)
{
    return copy_peer(to, to_ctx, from, from_ctx, bytes, stream, true);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_plain(to, SIM_ON_GPU, (uintptr_t) from, SIM_ON_HOST, bytes, NULL, false);
}

CUresult sim_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_plain((uintptr_t) to, SIM_ON_HOST, from, SIM_ON_GPU, bytes, NULL, false);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_plain(to, SIM_ON_GPU, from, SIM_ON_GPU, bytes, NULL, false);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_plain(to, SIM_ON_GPU, (uintptr_t) from, SIM_ON_HOST, bytes, stream, true);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_plain((uintptr_t) to, SIM_ON_HOST, from, SIM_ON_GPU, bytes, stream, true);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_plain(to, SIM_ON_GPU, from, SIM_ON_GPU, bytes, stream, true);
}

/* One side of a two-dimensional copy: where its first byte is. CUDA arrays do not exist here. */
static CUresult side_2d(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch,
                        uintptr_t *address_p, enum sim_side *side_p)
{
    switch ((int) type) {
    case CU_MEMORYTYPE_HOST:
        *address_p = (uintptr_t) host;
        *side_p = SIM_ON_HOST;
        break;
    case CU_MEMORYTYPE_DEVICE:
        *address_p = (uintptr_t) device;
        *side_p = SIM_ON_GPU;
        break;
    case CU_MEMORYTYPE_UNIFIED:
        *address_p = (uintptr_t) device;
        *side_p = SIM_ANY;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *address_p += y * pitch + x;
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *given, CUstream handle, bool async)
{
    struct sim_copy copy = {0};
    CUstream stream;
    CUresult rc;

    if (NULL == given) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    copy.width = given->WidthInBytes;
    copy.height = given->Height;
    copy.to_pitch = 0 != given->dstPitch ? given->dstPitch : copy.width;
    copy.from_pitch = 0 != given->srcPitch ? given->srcPitch : copy.width;
    rc = side_2d(given->dstMemoryType, given->dstHost, given->dstDevice, given->dstXInBytes, given->dstY, copy.to_pitch,
                 &copy.to, &copy.to_side);
    if (CUDA_SUCCESS == rc) {
        rc = side_2d(given->srcMemoryType, given->srcHost, given->srcDevice, given->srcXInBytes, given->srcY,
                     copy.from_pitch, &copy.from, &copy.from_side);
    }
    if (CUDA_SUCCESS == rc) {
        rc = sim_stream_resolve(handle, &stream);
    }
    if (CUDA_SUCCESS == rc) {
        copy.to_ctx = copy.from_ctx = stream->ctx; /* more lenient than a real driver may be */
    }
    return CUDA_SUCCESS == rc ? sim_copy(&copy, stream, async) : rc;
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, false);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, false);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_2d(copy, stream, true);
}

static CUresult fill(CUdeviceptr to, size_t pitch, uint32_t value, size_t element, size_t count, size_t height,
                     CUstream handle, bool async)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    return CUDA_SUCCESS == rc ? sim_fill(to, pitch, value, element, count, height, stream, async) : rc;
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill(to, 0, value, 1, count, 1, NULL, false);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill(to, 0, value, 2, count, 1, NULL, false);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    return fill(to, 0, value, 4, count, 1, NULL, false);
}

CUresult sim_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(to, 0, value, 1, count, 1, stream, true);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return fill(to, 0, value, 2, count, 1, stream, true);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return fill(to, 0, value, 4, count, 1, stream, true);
}

CUresult sim_cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return fill(to, pitch, value, 1, width, height, NULL, false);
}

CUresult sim_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                               CUstream stream)
{
    return fill(to, pitch, value, 1, width, height, stream, true);
}
