/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program as users write them, built by nvcc -cudart shared: runtime calls and a <<<>>> launch.
 */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

__global__ void launch_add(int *values, int count, int term)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count) {
        values[i] += term;
    }
}

static void check(cudaError_t rc, const char *what)
{
    if (cudaSuccess != rc) {
        fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorString(rc), cudaGetErrorName(rc));
        exit(1);
    }
}

#define CHECK(call) check(call, #call)

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        exit(1);
    }
}

#define DEMAND(condition) demand(condition, #condition)

int main()
{
    const int count = 100000;
    const size_t bytes = count * sizeof(int);
    std::vector<int> host(count, 1);
    int devices = 0, version = 0, *device, *managed, *pinned, *async;
    cudaDeviceProp properties;
    cudaPointerAttributes attributes;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    float ms = -1;

    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(devices - 1));
    CHECK(cudaGetDeviceProperties(&properties, devices - 1));
    DEMAND(properties.multiProcessorCount > 0 && properties.totalGlobalMem > 0 && properties.warpSize == 32);
    CHECK(cudaRuntimeGetVersion(&version));
    DEMAND(version == CUDART_VERSION);
    DEMAND(cudaErrorInvalidDevice == cudaSetDevice(1000));
    DEMAND(cudaErrorInvalidDevice == cudaPeekAtLastError());
    DEMAND(cudaErrorInvalidDevice == cudaGetLastError());
    DEMAND(cudaSuccess == cudaGetLastError());

    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize()); // the stream does not follow the default stream
    CHECK(cudaEventRecord(begin, stream));
    launch_add<<<(count + 255) / 256, 256, 0, stream>>>(device, count, 41);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    DEMAND(ms >= 0);
    CHECK(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
        DEMAND(host[i] == 42);
    }
    launch_add<<<0, 256, 0, stream>>>(device, count, 1);
    DEMAND(cudaErrorInvalidConfiguration == cudaGetLastError());

    CHECK(cudaMallocManaged(&managed, bytes));
    managed[count - 1] = 7;
    launch_add<<<(count + 255) / 256, 256>>>(managed, count, 3);
    CHECK(cudaDeviceSynchronize());
    DEMAND(10 == managed[count - 1]);

    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMallocAsync(&async, bytes, stream));
    CHECK(cudaMemsetAsync(async, 1, bytes, stream));
    CHECK(cudaMemcpyAsync(pinned, async, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(async, stream));
    CHECK(cudaStreamSynchronize(stream));
    DEMAND(0x01010101 == pinned[count / 2]);

    CHECK(cudaPointerGetAttributes(&attributes, device));
    DEMAND(cudaMemoryTypeDevice == attributes.type && devices - 1 == attributes.device);
    CHECK(cudaPointerGetAttributes(&attributes, managed));
    DEMAND(cudaMemoryTypeManaged == attributes.type);
    CHECK(cudaPointerGetAttributes(&attributes, pinned));
    DEMAND(cudaMemoryTypeHost == attributes.type);
    CHECK(cudaPointerGetAttributes(&attributes, host.data()));
    DEMAND(cudaMemoryTypeUnregistered == attributes.type);

    CHECK(cudaHostRegister(host.data(), bytes, cudaHostRegisterDefault));
    CHECK(cudaHostUnregister(host.data()));
    DEMAND(cudaErrorHostMemoryNotRegistered == cudaHostUnregister(host.data()));
    (void) cudaGetLastError();
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
    CHECK(cudaFree(nullptr));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaDeviceReset());
    puts("ok");
    return 0;
}
