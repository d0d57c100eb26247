/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tags: no two messages that may be under way at once have the same one, whatever the number of ranks. Each team has
 * its own; words differ by word and sender, and from all messages of calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "team/coll_gpuhier_partners.h"

#define TEAM 0x80000001u
#define RAILS 8
#define WORDS (GPUHIER_WORD_LAST + RAILS)

static void senders_differ(void **state)
{
    (void) state;
    const int ranks[] = {0, 1, 255, 256, 1022, 1023, 1024, 1025, 2049, 65537, 262145, (int) GPUHIER_TAG_RANKS - 1};
    const int n = sizeof(ranks) / sizeof(ranks[0]);
    for (int a = 0; a < n * WORDS; ++a) {
        for (int b = 0; b < a; ++b) {
            assert_true(gpuhier_word_tag(TEAM, a / n, ranks[a % n]) != gpuhier_word_tag(TEAM, b / n, ranks[b % n]));
        }
    }
}

static void words_of_rails_differ(void **state)
{
    (void) state;
    assert_true(GPUHIER_WORD_NOTICE < GPUHIER_WORD_GREETING);
    assert_true(GPUHIER_WORD_GREETING + RAILS - 1 < GPUHIER_WORD_LAST + 1); /* rail 0's last word is the notice */
    assert_true(GPUHIER_WORD_LAST + RAILS - 1 < 16);
}

/* Whatever the slice, piece and step: a call's messages are no words, and payload is no vote. */
static void calls_have_no_words(void **state)
{
    (void) state;
    for (uint64_t slice = 0; slice < 600; ++slice) {
        for (uint64_t piece = 0; piece < 2048; ++piece) {
            const uint64_t tag = gpuhier_slice_tag(TEAM, slice * 7 + piece, slice, piece, piece * 3);
            assert_true((tag >> 20 & 255u) < GPUHIER_TAG_WORDS);
            assert_int_equal(TEAM, tag >> 32);
        }
    }
    for (uint64_t step = 0; step < 2048; ++step) {
        const uint64_t vote = gpuhier_beside_tag(TEAM, step, GPUHIER_TAG_VOTE, step),
                       small = gpuhier_beside_tag(TEAM, step, GPUHIER_TAG_SMALL, step);
        assert_true(vote != small);
        assert_int_equal(GPUHIER_TAG_BESIDE, vote >> 20 & 255u);
        assert_int_equal(GPUHIER_TAG_BESIDE, small >> 20 & 255u);
    }
    for (int word = 0; word < WORDS; ++word) {
        const uint64_t tag = gpuhier_word_tag(TEAM, word, -1 & ((1 << 30) - 1));
        assert_int_equal(GPUHIER_TAG_WORDS, tag >> 20 & 255u);
        assert_int_equal(TEAM, tag >> 32);
    }
}

/* Eight slices in flight, of which the first may be any. */
static void slices_in_flight_differ(void **state)
{
    (void) state;
    for (uint64_t first = 0; first < 1024; ++first) {
        for (uint64_t other = first + 1; other < first + 8; ++other) {
            assert_true(gpuhier_slice_tag(TEAM, 1, first, 5, 6) != gpuhier_slice_tag(TEAM, 1, other, 5, 6));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(senders_differ), cmocka_unit_test(words_of_rails_differ),
                                       cmocka_unit_test(calls_have_no_words),
                                       cmocka_unit_test(slices_in_flight_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
