/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fibers.
 *
 * Owns stacks and the switches between them. Does not own what runs on them, nor who resumes it when (sim_engine.c).
 * A fiber may be parked by one thread and resumed by another, so its function keeps no pointer to a thread's own data
 * (errno) while it parks. A stack is kept for the next fiber, and has a page without access below it.
 */
/* The checked longjmp() takes a jump to another stack for an error. */
#undef _FORTIFY_SOURCE

#include "sim_fiber.h"

#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES ((size_t) 256 << 10)
#define GUARD_BYTES ((size_t) 4096)
#define USED_BYTES (STACK_BYTES - ((sizeof(struct sim_fiber) + 63) & ~(size_t) 63))

/* Lies at the top of its stack. The stack begins with a loop that runs one function after the other. It is entered by
 * ucontext once; later switches do not ask the kernel for the signal mask. */
struct sim_fiber {
    jmp_buf self, resumer;
    void (*run)(void *argument);
    void *argument;
    bool begun;             /* the loop is */
    bool ended;             /* the function has */
    struct sim_fiber *next; /* in the list of free ones */
};

static pthread_mutex_t fiber_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_fiber *free_fibers;

/* makecontext() passes numbers of 32 bits. */
static void entry(unsigned high, unsigned low)
{
    struct sim_fiber *fiber = (struct sim_fiber *) ((uintptr_t) high << 32 | low);

    for (;;) {
        fiber->run(fiber->argument);
        fiber->ended = true;
        sim_fiber_park(fiber);
    }
}

static struct sim_fiber *fiber_make(void)
{
    char *stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (MAP_FAILED == (void *) stack || 0 != mprotect(stack, GUARD_BYTES, PROT_NONE)) {
        fprintf(stderr, "cudasim: out of host memory\n");
        abort();
    }
    return (struct sim_fiber *) (void *) (stack + GUARD_BYTES + STACK_BYTES
                                          - ((sizeof(struct sim_fiber) + 63) & ~63ul));
}

struct sim_fiber *sim_fiber_new(void (*run)(void *argument), void *argument)
{
    struct sim_fiber *fiber;

    pthread_mutex_lock(&fiber_mutex);
    fiber = free_fibers;
    if (NULL != fiber) {
        free_fibers = fiber->next;
    }
    pthread_mutex_unlock(&fiber_mutex);
    if (NULL == fiber) {
        fiber = fiber_make();
    }
    fiber->run = run;
    fiber->argument = argument;
    fiber->ended = false;
    return fiber;
}

/* Does not return here. */
static void begin(struct sim_fiber *fiber)
{
    ucontext_t context;

    fiber->begun = true;
    getcontext(&context);
    context.uc_stack.ss_sp = (char *) fiber - USED_BYTES;
    context.uc_stack.ss_size = USED_BYTES;
    context.uc_link = NULL;
    makecontext(&context, (void (*)(void)) entry, 2, (unsigned) ((uintptr_t) fiber >> 32),
                (unsigned) (uintptr_t) fiber);
    setcontext(&context);
    abort();
}

bool sim_fiber_resume(struct sim_fiber *fiber)
{
    if (0 == _setjmp(fiber->resumer)) {
        if (fiber->begun) {
            _longjmp(fiber->self, 1);
        }
        begin(fiber);
    }
    if (!fiber->ended) {
        return false;
    }
    pthread_mutex_lock(&fiber_mutex);
    fiber->next = free_fibers;
    free_fibers = fiber;
    pthread_mutex_unlock(&fiber_mutex);
    return true;
}

void sim_fiber_park(struct sim_fiber *fiber)
{
    if (0 == _setjmp(fiber->self)) {
        _longjmp(fiber->resumer, 1);
    }
}
