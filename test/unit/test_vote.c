/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The vote among group leaders: after the last step, and not before, each leader
 * has heard all others; each message has one receiver that waits for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "plan/coll_gpuhier_schedule.h"

enum { GROUPS = 300 };

/* heard[g][x]: g knows x's mask. Runs the given number of steps; says whether all know all. */
static bool all_heard(int ngroups, int steps)
{
    static bool heard[GROUPS][GROUPS];
    static bool before[GROUPS][GROUPS];

    memset(heard, 0, sizeof(heard));
    for (int g = 0; g < ngroups; ++g) {
        heard[g][g] = true;
    }
    for (int step = 0; step < steps; ++step) {
        memcpy(before, heard, sizeof(heard));
        for (int g = 0; g < ngroups; ++g) {
            int send_to = -1;
            int recv_from = -1;
            int matched = -1;
            int unused = -1;
            gpuhier_schedule_vote_peers(ngroups, g, step, &send_to, &recv_from);
            assert_in_range(send_to, 0, ngroups - 1);
            assert_in_range(recv_from, 0, ngroups - 1);
            assert_int_not_equal(send_to, g);
            gpuhier_schedule_vote_peers(ngroups, recv_from, step, &matched, &unused);
            assert_int_equal(matched, g);
            for (int x = 0; x < ngroups; ++x) {
                heard[g][x] = heard[g][x] || before[recv_from][x];
            }
        }
    }
    for (int g = 0; g < ngroups; ++g) {
        for (int x = 0; x < ngroups; ++x) {
            if (!heard[g][x]) {
                return false;
            }
        }
    }
    return true;
}

static void test_everyone_hears_everyone(void **state)
{
    (void) state;
    for (int n = 1; n <= GROUPS; n += n < 70 ? 1 : 23) {
        int steps = gpuhier_schedule_vote_steps(n);
        assert_true(all_heard(n, steps));
        assert_true(0 == steps || !all_heard(n, steps - 1));
        assert_true(1LL << steps >= n);
        assert_true(0 == steps || 1LL << (steps - 1) < n);
    }
}

static void test_many_groups(void **state)
{
    (void) state;
    assert_int_equal(gpuhier_schedule_vote_steps(INT32_MAX), 31);
    for (int step = 0; step < 31; ++step) {
        int send_to;
        int recv_from;
        gpuhier_schedule_vote_peers(INT32_MAX, INT32_MAX - 1, step, &send_to, &recv_from);
        assert_int_equal(send_to, (1LL << step) - 1);
        assert_int_equal(recv_from, INT32_MAX - 1 - (1LL << step));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everyone_hears_everyone),
        cmocka_unit_test(test_many_groups),
    };

    return cmocka_run_group_tests_name("vote", tests, NULL, NULL);
}
