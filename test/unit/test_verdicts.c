/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What follows from the trials of two ranks, for all that each may have seen. A rank that remembers the pair starts no
 * kernels, so the other one, if it does not remember, looks for its writes in vain, and must not take it for a liar.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ompi_config.h"

#include "team/coll_gpuhier_verdicts.h"

#define NRANKS 2

static const int places[NRANKS] = {0, 1};

/* What a rank may have seen of the other one. */
typedef struct seen {
    bool maps, reads, arrived, passed;
} seen_t;

static void row_fill(gpuhier_verdicts_t *verdicts, int rank, const seen_t *seen)
{
    gpuhier_neighbour_t neighbours[NRANKS];
    memset(neighbours, 0, sizeof(neighbours));
    neighbours[rank].reads = neighbours[rank].arrived = true;
    neighbours[1 - rank].error = seen->maps ? 0 : 201;
    neighbours[1 - rank].reads = seen->reads;
    neighbours[1 - rank].arrived = seen->arrived;
    neighbours[1 - rank].passed = seen->passed;
    gpuhier_verdicts_note(verdicts, neighbours, NRANKS);
    memcpy(verdicts->cells + (size_t) rank * (1 + NRANKS), gpuhier_verdicts_mine(verdicts),
           gpuhier_verdicts_row_bytes(verdicts));
}

/* Do kernels of rank 0 reach rank 1, and the other way round? */
static void expect(const seen_t *first, const seen_t *second, bool there, bool back)
{
    gpuhier_verdicts_t verdicts;
    assert_int_equal(0, gpuhier_verdicts_init(&verdicts, NRANKS, NRANKS, places));
    assert_false(gpuhier_verdicts_complete(&verdicts));
    row_fill(&verdicts, 0, first);
    row_fill(&verdicts, 1, second);
    assert_true(gpuhier_verdicts_complete(&verdicts));
    assert_int_equal(there, gpuhier_verdicts_reach(&verdicts, 0, 1));
    assert_int_equal(back, gpuhier_verdicts_reach(&verdicts, 1, 0));
    assert_int_equal(first->maps ? 0 : 201, gpuhier_verdicts_error(&verdicts, 0));
    gpuhier_verdicts_fini(&verdicts);
}

static const seen_t sound = {true, true, true, false};      /* a trial that shows no fault */
static const seen_t remembers = {true, true, true, true};   /* passed earlier, mapped now */
static const seen_t refused = {false, false, true, true};   /* passed earlier, cannot be mapped now */
static const seen_t in_vain = {true, true, false, false};   /* the other one's writes are not there */
static const seen_t misread = {true, false, true, false};   /* reads wrong data */
static const seen_t unmapped = {false, false, true, false}; /* cannot map, but the other one's writes are there */

static void both_try(void **state)
{
    (void) state;
    expect(&sound, &sound, true, true);
    expect(&sound, &in_vain, false, true);
    expect(&in_vain, &sound, true, false);
    expect(&misread, &sound, false, true);
    expect(&unmapped, &sound, false, true);
}

static void both_remember(void **state)
{
    (void) state;
    expect(&remembers, &remembers, true, true);
    expect(&refused, &remembers, false, true);
}

static void one_remembers(void **state)
{
    (void) state;
    expect(&remembers, &in_vain, true, true);
    expect(&in_vain, &remembers, true, true);
    expect(&refused, &in_vain, false, true);
    expect(&in_vain, &refused, true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_try), cmocka_unit_test(both_remember),
                                       cmocka_unit_test(one_remembers)};
    return cmocka_run_group_tests_name("verdicts", tests, NULL, NULL);
}
