/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * When a thread that waits inside Open MPI sleeps: only after a millisecond and 512 questions in which nothing has
 * moved. Each test plays the questions that such waits ask, with times of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/coll_gpuhier_wait.h"

#define BEGIN_US 5000000u

static void moves(gpuhier_rest_t *rest)
{
    atomic_store(&rest->moved, true);
}

/* Asks every step_us from *now_us on, for so long. Returns how many times a nap is due. */
static unsigned ask(gpuhier_rest_t *rest, uint64_t *now_us, uint64_t for_us, uint64_t step_us)
{
    unsigned naps = 0;
    for (const uint64_t end = *now_us + for_us; *now_us < end; *now_us += step_us) {
        naps += gpuhier_rest_is_due(rest, *now_us);
    }
    return naps;
}

/* Polls in vain are no reason to sleep for a millisecond; then each of them is. */
static void patience(void **state)
{
    (void) state;
    gpuhier_rest_t rest = {0};
    uint64_t now_us = BEGIN_US;
    assert_int_equal(ask(&rest, &now_us, 1000, 1), 0);
    assert_false(gpuhier_rest_is_due(&rest, now_us));
    ++now_us;
    assert_int_equal(ask(&rest, &now_us, 1000, 10), 100);
}

/* Where a yield takes long, others work: 512 polls go by before a nap, however long they take. */
static void slow_yields(void **state)
{
    (void) state;
    gpuhier_rest_t rest = {0};
    uint64_t now_us = BEGIN_US;
    assert_int_equal(ask(&rest, &now_us, 512 * 4000, 4000), 0);
    assert_int_equal(ask(&rest, &now_us, 10 * 4000, 4000), 9);
}

/* Short calls one after the other: progress is asked in each of them, and each of them moves something, wherever that
 * is noticed. No nap, for however long. */
static void calls_that_move(void **state)
{
    (void) state;
    gpuhier_rest_t rest = {0};
    uint64_t now_us = BEGIN_US;
    for (int call = 0; call < 10000; ++call) {
        assert_int_equal(ask(&rest, &now_us, 12, 4), 0);
        moves(&rest);
    }
}

/* What moves ends the sleeping, and patience begins anew. */
static void moving_ends_naps(void **state)
{
    (void) state;
    gpuhier_rest_t rest = {0};
    uint64_t now_us = BEGIN_US;
    assert_true(ask(&rest, &now_us, 5000, 5) > 100);
    moves(&rest);
    assert_int_equal(ask(&rest, &now_us, 999, 1), 0);
    assert_true(ask(&rest, &now_us, 300, 1) > 0);
}

/* A program that computes for a while, and then waits: the wait is a new one. */
static void new_wait(void **state)
{
    (void) state;
    gpuhier_rest_t rest = {0};
    uint64_t now_us = BEGIN_US;
    assert_true(ask(&rest, &now_us, 5000, 5) > 100);
    now_us += GPUHIER_REST_GAP_US;
    assert_int_equal(ask(&rest, &now_us, 999, 1), 0);
    assert_true(ask(&rest, &now_us, 300, 1) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience),         cmocka_unit_test(slow_yields), cmocka_unit_test(calls_that_move),
        cmocka_unit_test(moving_ends_naps), cmocka_unit_test(new_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
