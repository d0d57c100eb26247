/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiler as NVTX sees it, which counts gpuhier's ranges and prints the counts when the process ends:
 * NVTX_INJECTION64_PATH names this library.
 */
#include <nvtx3/nvToolsExt.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic unsigned long long pushes, pops, starts, ends, bytes, strange;
static _Atomic int depth;
static int domain; /* its address is the handle */

static nvtxDomainHandle_t create(const char *name)
{
    return 0 == strcmp(name, "gpuhier") ? (nvtxDomainHandle_t) (void *) &domain : NULL;
}

static void look(nvtxDomainHandle_t of, const nvtxEventAttributes_t *event)
{
    strange += (void *) of != (void *) &domain || NVTX_MESSAGE_TYPE_ASCII != event->messageType
               || 0 != strncmp(event->message.ascii, "MPI_", 4);
    bytes += event->payload.ullValue;
}

static int push(nvtxDomainHandle_t of, const nvtxEventAttributes_t *event)
{
    look(of, event);
    ++pushes;
    return depth++;
}

static int pop(nvtxDomainHandle_t of)
{
    strange += (void *) of != (void *) &domain;
    ++pops;
    return --depth;
}

static nvtxRangeId_t start(nvtxDomainHandle_t of, const nvtxEventAttributes_t *event)
{
    look(of, event);
    return ++starts;
}

static void end(nvtxDomainHandle_t of, nvtxRangeId_t id)
{
    strange += (void *) of != (void *) &domain || 0 == id || id > starts;
    ++ends;
}

static void print(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    printf("nvtx_tool: rank %s pushes %llu pops %llu depth %d starts %llu ends %llu bytes %llu strange %llu\n",
           NULL != rank ? rank : "-", pushes, pops, depth, starts, ends, bytes, strange);
}

/* What NVTX calls when it has loaded this library. Returns 1 if that is accepted. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    NvtxFunctionTable table = NULL;
    unsigned int entries = 0;
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    if (NULL == callbacks || 1 != callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &entries)
        || entries <= NVTX_CBID_CORE2_DomainCreateA) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer) create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer) push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer) pop;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer) start;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer) end;
    static atomic_flag told = ATOMIC_FLAG_INIT; /* each library with NVTX in it calls this function */
    if (!atomic_flag_test_and_set(&told)) {
        atexit(print);
    }
    return 1;
}
