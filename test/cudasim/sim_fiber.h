/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A function on a stack of its own, which one thread can leave half done and another can go on with.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>

/* Sanitizers follow threads, not stacks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define SIM_HAS_FIBERS 0
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#        define SIM_HAS_FIBERS 0
#    endif
#endif
#ifndef SIM_HAS_FIBERS
#    define SIM_HAS_FIBERS 1
#endif

struct sim_fiber;

/* Makes one, which has not begun. */
struct sim_fiber *sim_fiber_new(void (*run)(void *argument), void *argument);

/* Goes on with it until it parks (false) or ends (true), after which it is no more. One thread at a time. */
bool sim_fiber_resume(struct sim_fiber *fiber);

/* Called by its function: returns to the thread that resumed it, and returns when another resume comes. */
void sim_fiber_park(struct sim_fiber *fiber);

#endif /* SIM_FIBER_H */
