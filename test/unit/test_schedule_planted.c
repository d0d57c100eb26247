/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests the tests: one step of one rank's program is spoiled, for every step of
 * every rank in some shapes, and each time the execution must be found wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pure_sim.h"

/* What is spoiled. */
typedef enum fault {
    FAULT_SEND_TO,       /* a wrong peer */
    FAULT_RECV_FROM,     /* a wrong peer */
    FAULT_PEERS_MOVED,   /* all that reduce send to the next group and receive from the one before */
    FAULT_STALE_PARTNER, /* every owner repeats its step before: all messages match */
    FAULT_RANGE,         /* one unit less is sent and received */
    FAULT_ACTION,        /* copied instead of added, added instead of copied */
    FAULT_ORDER,         /* operands exchanged */
    FAULT_NO_SEND,
    FAULT_COUNT
} fault_t;

typedef struct plant {
    fault_t fault;
    int rank;
    int step;
    bool planted;
} plant_t;

static void swap_action(gpuhier_transfer_t *transfer)
{
    transfer->action =
        GPUHIER_ACTION_COPY == transfer->action ? GPUHIER_ACTION_REDUCE_LOCAL_FIRST : GPUHIER_ACTION_COPY;
}

/* Spoils a step of all ranks; without folding every message still finds a receiver that waits for it. */
static void spoil_all(plant_t *plant, const gpuhier_plan_t *plan, uint64_t slice, int piece, int step,
                      gpuhier_transfer_t *transfer)
{
    int ngroups = plan->shape->hierarchy->ngroups;

    if (step != plant->step || 0 == step) {
        return;
    }
    if (FAULT_STALE_PARTNER == plant->fault) {
        gpuhier_plan_transfer(plan, slice, piece, step - 1, transfer);
        plant->planted = true;
    } else if (-1 != transfer->send_to && -1 != transfer->recv_from && GPUHIER_ACTION_COPY != transfer->action) {
        /* Not where finished chunks are copied: there a neighbour may hold the very same chunk. */
        int right = gpuhier_shape_owner(plan->shape, piece, (plan->group + 1) % ngroups);
        int left = gpuhier_shape_owner(plan->shape, piece, (plan->group + ngroups - 1) % ngroups);
        plant->planted = plant->planted || right != transfer->send_to || left != transfer->recv_from;
        transfer->send_to = right;
        transfer->recv_from = left;
    }
}

static void spoil(void *arg, const gpuhier_plan_t *plan, uint64_t slice, int piece, int step,
                  gpuhier_transfer_t *transfer)
{
    plant_t *plant = arg;
    int nranks = plan->shape->hierarchy->nranks;

    if (FAULT_STALE_PARTNER == plant->fault || FAULT_PEERS_MOVED == plant->fault) {
        spoil_all(plant, plan, slice, piece, step, transfer);
        return;
    }
    if (plan->rank != plant->rank || step != plant->step) {
        return;
    }
    if ((FAULT_SEND_TO == plant->fault || FAULT_NO_SEND == plant->fault) && -1 != transfer->send_to) {
        transfer->send_to = FAULT_SEND_TO == plant->fault ? (transfer->send_to + 1) % nranks : -1;
    } else if (FAULT_RECV_FROM == plant->fault && -1 != transfer->recv_from) {
        transfer->recv_from = (transfer->recv_from + 1) % nranks;
    } else if (FAULT_RANGE == plant->fault && -1 != transfer->send_to
               && gpuhier_range_length(transfer->send) > plan->unit) {
        transfer->send.end -= plan->unit;
    } else if (FAULT_ACTION == plant->fault && -1 != transfer->recv_from) {
        swap_action(transfer);
    } else if (FAULT_ORDER == plant->fault && GPUHIER_ACTION_REDUCE_LOCAL_FIRST == transfer->action) {
        transfer->action = GPUHIER_ACTION_REDUCE_RECEIVED_FIRST;
    } else if (FAULT_ORDER == plant->fault && GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == transfer->action) {
        transfer->action = GPUHIER_ACTION_REDUCE_LOCAL_FIRST;
    } else {
        return;
    }
    plant->planted = true;
}

/* Plants the fault in each step of each rank; returns how often it could be planted. */
static int hunt(const pure_world_t *world, gpuhier_algorithm_t algorithm, fault_t fault)
{
    int nsteps = gpuhier_schedule_steps(algorithm, world->hierarchy.ngroups);
    bool everyone = FAULT_STALE_PARTNER == fault || FAULT_PEERS_MOVED == fault;
    int planted = 0;

    for (int rank = 0; rank < (everyone ? 1 : world->hierarchy.nranks); ++rank) {
        for (int step = 0; step < nsteps; ++step) {
            plant_t plant = {.fault = fault, .rank = rank, .step = step};
            pure_sim_t sim = {.world = world,
                              .count = 101,
                              .elem_bytes = 128,
                              .seed = 7,
                              .tamper = spoil,
                              .tamper_arg = &plant,
                              .limits = {.slice_bytes = 1 << 20, .slice_buffers = 2, .algorithm = algorithm}};
            const char *problem = pure_sim_run(&sim, NULL);
            if (plant.planted && NULL == problem) {
                print_error("%s, %d groups: fault %d in step %d of rank %d was not noticed\n",
                            gpuhier_algorithm_names[algorithm], world->hierarchy.ngroups, fault, step, rank);
                fail();
            }
            if (!plant.planted && NULL != problem) {
                print_error("nothing planted, but: %s\n", problem);
                fail();
            }
            planted += plant.planted;
        }
    }
    return planted;
}

/* The shapes that faults are planted in: powers of two or not, equal or uneven groups. */
static int hunt_everywhere(fault_t fault, gpuhier_algorithm_t algorithm)
{
    static const int sizes[][7] = {{2, 2},          {2, 3, 1},          {1, 1, 1, 1},
                                   {3, 1, 2, 2, 1}, {1, 2, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}};
    static const int nnodes[] = {2, 3, 4, 5, 6, 7};
    int planted = 0;

    for (size_t i = 0; i < sizeof(nnodes) / sizeof(nnodes[0]); ++i) {
        pure_world_t world;
        pure_world_init(&world, nnodes[i], sizes[i], PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
        if (FAULT_PEERS_MOVED != fault || nnodes[i] > 3) {
            planted += hunt(&world, algorithm, fault);
        }
        pure_world_fini(&world);
    }
    return planted;
}

static void hunt_all_algorithms(fault_t fault)
{
    for (int a = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; a < GPUHIER_ALGORITHM_COUNT; ++a) {
        /* A ring's peers are the next and the one before, and never change: nothing to move. */
        if (FAULT_PEERS_MOVED == fault && GPUHIER_ALGORITHM_RING == a) {
            continue;
        }
        assert_true(hunt_everywhere(fault, (gpuhier_algorithm_t) a) > 0);
    }
}

static void test_planted_wrong_peer(void **state)
{
    (void) state;
    hunt_all_algorithms(FAULT_SEND_TO);
    hunt_all_algorithms(FAULT_RECV_FROM);
    hunt_all_algorithms(FAULT_PEERS_MOVED);
    hunt_all_algorithms(FAULT_STALE_PARTNER);
}

static void test_planted_wrong_range(void **state)
{
    (void) state;
    hunt_all_algorithms(FAULT_RANGE);
}

static void test_planted_wrong_action(void **state)
{
    (void) state;
    hunt_all_algorithms(FAULT_ACTION);
    hunt_all_algorithms(FAULT_ORDER);
}

static void test_planted_lost_message(void **state)
{
    (void) state;
    hunt_all_algorithms(FAULT_NO_SEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted_wrong_peer),
        cmocka_unit_test(test_planted_wrong_range),
        cmocka_unit_test(test_planted_wrong_action),
        cmocka_unit_test(test_planted_lost_message),
    };

    return cmocka_run_group_tests_name("schedule_planted", tests, NULL, NULL);
}
