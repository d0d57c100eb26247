/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of modes: when probes are due, and that a kind of call has an entry
 * of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/coll_gpuhier_modes.h"

/* Which of the next n calls are preceded by a probe? Written from the rule in docs/protocol.md. */
static void expect_probes(gpuhier_mode_entry_t *entry, unsigned first_call, unsigned n, unsigned every)
{
    for (unsigned call = first_call; call < first_call + n; ++call) {
        bool early = 64 == every && (1 == call || 2 == call || 4 == call || 8 == call || 16 == call || 32 == call);
        unsigned by_calls = call < 1024 ? 64 : call < 2048 ? 128 : call < 4096 ? 256 : call < 8192 ? 512 : 1024;
        assert_int_equal(early || 0 == call % (every > by_calls ? every : by_calls), gpuhier_modes_probe_due(entry));
    }
}

static void probes_get_rarer(void **state)
{
    (void) state;
    gpuhier_modes_t modes;
    gpuhier_modes_init(&modes);
    expect_probes(gpuhier_modes_entry(&modes, 3, 4096), 1, 100000, 64);
    gpuhier_modes_fini(&modes);
}

static void flips_stretch_the_interval(void **state)
{
    (void) state;
    const unsigned every[] = {64, 64, 64, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096};
    gpuhier_modes_t modes;
    gpuhier_modes_init(&modes);
    gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&modes, 0, 8);
    for (size_t flips = 0; flips < sizeof(every) / sizeof(every[0]); ++flips) {
        assert_int_equal(GPUHIER_MODE_HOST, entry->mode);
        expect_probes(entry, 1, 9000, every[flips]);
        gpuhier_modes_to_acc(entry);
        assert_int_equal(GPUHIER_MODE_ACC, entry->mode);
        gpuhier_modes_to_host(entry, GPUHIER_REASON_host_elsewhere);
    }
    gpuhier_modes_fini(&modes);
}

static void flips_do_not_overflow(void **state)
{
    (void) state;
    gpuhier_modes_t modes;
    gpuhier_modes_init(&modes);
    gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&modes, 0, 8);
    for (int i = 0; i < 1000; ++i) {
        gpuhier_modes_to_acc(entry);
        gpuhier_modes_to_host(entry, GPUHIER_REASON_host_elsewhere);
    }
    expect_probes(entry, 1, 9000, 4096);
    gpuhier_modes_fini(&modes);
}

static void kinds_are_separate(void **state)
{
    (void) state;
    gpuhier_modes_t modes;
    gpuhier_modes_init(&modes);
    gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&modes, 5, 1024);
    assert_ptr_equal(entry, gpuhier_modes_entry(&modes, 5, 2047));
    assert_ptr_not_equal(entry, gpuhier_modes_entry(&modes, 5, 2048));
    assert_ptr_not_equal(entry, gpuhier_modes_entry(&modes, 5, 1023));
    assert_ptr_not_equal(entry, gpuhier_modes_entry(&modes, 6, 1024));
    gpuhier_modes_to_acc(entry);
    assert_int_equal(GPUHIER_MODE_HOST, gpuhier_modes_entry(&modes, GPUHIER_MODE_KINDS - 1, SIZE_MAX)->mode);
    assert_int_equal(GPUHIER_MODE_ACC, gpuhier_modes_entry(&modes, 5, 1500)->mode);
    gpuhier_modes_fini(&modes);
}

/* Without a row on one rank a class stays with the saved collective, whatever other classes do; looking does not make a
 * row. */
static void never_is_for_good(void **state)
{
    gpuhier_modes_t modes;
    (void) state;
    gpuhier_modes_init(&modes);
    assert_int_equal(GPUHIER_MODE_HOST, gpuhier_modes_mode(&modes, 3, 100));
    assert_null(modes.row[3]);
    gpuhier_modes_to_acc(gpuhier_modes_entry(&modes, 2, 100));
    gpuhier_modes_entry(&modes, 4, 100);
    gpuhier_modes_never(&modes, 3);
    gpuhier_modes_never(&modes, 4);
    for (size_t bytes = 1; bytes < 1u << 20; bytes *= 2) {
        assert_int_equal(GPUHIER_MODE_NEVER, gpuhier_modes_mode(&modes, 3, bytes));
        assert_int_equal(GPUHIER_MODE_NEVER, gpuhier_modes_mode(&modes, 4, bytes));
    }
    assert_int_equal(GPUHIER_MODE_ACC, gpuhier_modes_mode(&modes, 2, 100));
    gpuhier_modes_fini(&modes);
    assert_null(modes.row[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_get_rarer),      cmocka_unit_test(flips_stretch_the_interval),
        cmocka_unit_test(flips_do_not_overflow), cmocka_unit_test(kinds_are_separate),
        cmocka_unit_test(never_is_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
