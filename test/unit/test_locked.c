/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Page-locked blocks, on a driver that locks whole pages, as CUDA does, and refuses a page that is locked already:
 * blocks share no page, whatever the size of a page, the budget holds, and a block that is given back is used again.
 * Where the driver locks nothing, there are no blocks. Children of fork() have none.
 */
#include "ompi_config.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_params.h"
#include "host/coll_gpuhier_locked.h"

#define BLOCKS 40
#define BUDGET ((size_t) BLOCKS << 16)

gpuhier_params_t gpuhier_params;
gpuhier_cu_t gpuhier_cu;

static int failures;

static void check(bool right, const char *what)
{
    if (!right) {
        ++failures;
        fprintf(stderr, "test_locked: %s\n", what);
    }
}

/* -- what stands around it ----------------------------------------------------------- */

static struct {
    uintptr_t first, last; /* numbers of pages */
    uintptr_t address;
} locked[BLOCKS + 1];
static int nlocked;
static bool refuses; /* any memory, as with confidential computing */

static CUresult fake_register(void *memory, size_t bytes, unsigned flags)
{
    const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE), address = (uintptr_t) memory;
    (void) flags;
    if (refuses || BLOCKS == nlocked) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    locked[nlocked].first = address / page;
    locked[nlocked].last = (address + bytes - 1) / page;
    locked[nlocked].address = address;
    for (int i = 0; i < nlocked; ++i) {
        if (locked[i].first <= locked[nlocked].last && locked[nlocked].first <= locked[i].last) {
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        }
    }
    ++nlocked;
    return CUDA_SUCCESS;
}

static CUresult fake_unregister(void *memory)
{
    for (int i = 0; i < nlocked; ++i) {
        if (locked[i].address == (uintptr_t) memory) {
            locked[i] = locked[--nlocked];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static CUresult fake_attributes(unsigned n, CUpointer_attribute *names, void **values, CUdeviceptr address)
{
    (void) n;
    (void) names;
    *(unsigned long long *) values[0] = address;
    return CUDA_SUCCESS;
}

int gpuhier_end_arm(void)
{
    return OMPI_SUCCESS;
}

bool gpuhier_buffer_is_gone(CUdeviceptr address, uint64_t id)
{
    return address != id;
}

int gpuhier_cuda_failed(CUresult result, const char *what)
{
    (void) what;
    return CUDA_SUCCESS == result ? OMPI_SUCCESS : OMPI_ERROR;
}

int gpuhier_cuda_enter(CUcontext context, gpuhier_cuda_scope_t *scope)
{
    (void) context;
    (void) scope;
    return OMPI_SUCCESS;
}

void gpuhier_cuda_leave(gpuhier_cuda_scope_t *scope)
{
    (void) scope;
}

/* -- the tests ----------------------------------------------------------------------- */

static bool child_has(void *page)
{
    char mapped;
    int status = -1;
    const pid_t child = fork();
    if (0 == child) {
        _exit(0 != mincore(page, 1, (void *) &mapped) && ENOMEM == errno ? 0 : 1);
    }
    (void) waitpid(child, &status, 0);
    return 0 != status;
}

/* A child of fork() has no such pages: a write could otherwise move the parent's to a place that the GPU does not know.
 * An emulator of another processor may ignore the advice. */
static void keep_from_children(void)
{
    const size_t page_bytes = (size_t) sysconf(_SC_PAGESIZE);
    gpuhier_locked_t *block = gpuhier_locked_take(1, NULL);
    void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(0 == madvise(page, page_bytes, MADV_DONTFORK), "the advice is refused");
    check(child_has(page) || !child_has(block->memory), "a child has the pages of a block");
    (void) munmap(page, page_bytes);
    gpuhier_locked_give(block);
}

/* As many blocks as the budget allows; then no more, until one is given back, which is then the next. */
static void fill(size_t bytes)
{
    gpuhier_locked_t *blocks[BLOCKS];
    int n = 0;
    while (n < BLOCKS && NULL != (blocks[n] = gpuhier_locked_take(bytes, NULL))) {
        check(blocks[n]->bytes >= bytes, "a block is too short");
        ++n;
    }
    check(BLOCKS == n, "the driver refused a block");
    check(NULL == gpuhier_locked_take(bytes, NULL), "there is a block beyond the budget");
    if (n > 0) {
        gpuhier_locked_t *last = blocks[n - 1];
        gpuhier_locked_give(last);
        check(last == gpuhier_locked_take(bytes, NULL), "a block that was given back is not used again");
    }
    while (n > 0) {
        gpuhier_locked_give(blocks[--n]);
    }
    gpuhier_locked_finalize();
    check(0 == nlocked, "memory is locked after the end");
}

int main(void)
{
    gpuhier_params.stage_bytes = BUDGET;
    gpuhier_cu.cuMemHostRegister = fake_register;
    gpuhier_cu.cuMemHostUnregister = fake_unregister;
    gpuhier_cu.cuPointerGetAttributes = fake_attributes;
    fill(1);
    fill(65536);
    refuses = true;
    check(NULL == gpuhier_locked_take(100, NULL), "there is a block that is not locked");
    refuses = false;
    check(NULL == gpuhier_locked_take(BUDGET + 1, NULL), "there is a block longer than the budget");
    keep_from_children();
    gpuhier_locked_t *all = gpuhier_locked_take(BUDGET, NULL);
    check(NULL != all, "the budget is not available after a refusal");
    if (NULL != all) {
        gpuhier_locked_give(all);
    }
    gpuhier_locked_finalize();
    if (0 == failures) {
        printf("test_locked: right with pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
    }
    return 0 != failures;
}
