/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The binomial tree: played for every number of ranks up to 130, with messages that are handed over only when both
 * sides have come to them. No rank waits for ever, the root counts each rank once, and all hear the result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/coll_gpuhier_tree.h"

#define MOST 130

typedef struct player {
    int number; /* of its next move */
    int sum;    /* ranks counted below and including it; then, the result */
} player_t;

static bool sends(gpuhier_tree_move_t move)
{
    return GPUHIER_TREE_TO_PARENT == move || GPUHIER_TREE_TO_CHILD == move;
}

/* Makes this rank's move if its peer has come to the other side of it. */
static bool play(player_t *players, int rank, int nranks)
{
    gpuhier_tree_move_t mine, theirs;
    int peer, back;
    if (!gpuhier_tree_move(rank, nranks, players[rank].number, &mine, &peer) || !sends(mine)) {
        return false;
    }
    assert_true(peer >= 0 && peer < nranks && peer != rank);
    if (!gpuhier_tree_move(peer, nranks, players[peer].number, &theirs, &back) || sends(theirs) || back != rank) {
        return false;
    }
    assert_int_equal(GPUHIER_TREE_TO_PARENT == mine ? GPUHIER_TREE_FROM_CHILD : GPUHIER_TREE_FROM_PARENT, theirs);
    players[peer].sum = GPUHIER_TREE_TO_PARENT == mine ? players[peer].sum + players[rank].sum : players[rank].sum;
    ++players[rank].number;
    ++players[peer].number;
    return true;
}

static void all_sizes(void **state)
{
    (void) state;
    for (int nranks = 1; nranks <= MOST; ++nranks) {
        player_t players[MOST];
        int messages = 0;
        for (int rank = 0; rank < nranks; ++rank) {
            players[rank] = (player_t){0, 1};
        }
        for (bool moved = true; moved;) {
            moved = false;
            for (int rank = 0; rank < nranks; ++rank) {
                while (play(players, rank, nranks)) {
                    moved = true;
                    ++messages;
                }
            }
        }
        assert_int_equal(2 * (nranks - 1), messages);
        for (int rank = 0; rank < nranks; ++rank) {
            gpuhier_tree_move_t move;
            int peer;
            assert_false(gpuhier_tree_move(rank, nranks, players[rank].number, &move, &peer));
            assert_int_equal(nranks, players[rank].sum);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
