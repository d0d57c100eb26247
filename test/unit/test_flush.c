/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of machines by which gpuhier flushes what NICs write into GPU memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <cuda.h>

#include "gpu/coll_gpuhier_device.h"

enum {
    NO_ORDER = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE,
    OWNER = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER,
    ALL = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES,
    HOST = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST,
    MEMOPS = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS
};

static const struct {
    const char *machine;
    gpuhier_flush_facts_t facts;
    gpuhier_flush_t expected, for_peers;
} table[] = {
    {"a driver that says nothing", {0, false, 0, 0}, GPUHIER_FLUSH_IMPOSSIBLE, GPUHIER_FLUSH_IMPOSSIBLE},
    {"V100, no order", {70, false, NO_ORDER, HOST | MEMOPS}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"V100 with NVLink to a POWER9, order",
     {70, true, OWNER, HOST},
     GPUHIER_FLUSH_IMPOSSIBLE,
     GPUHIER_FLUSH_IMPOSSIBLE},
    {"A100, no order", {80, false, NO_ORDER, HOST}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"A100, order", {80, false, OWNER, HOST}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"A100, order for all", {80, false, ALL, HOST | MEMOPS}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"A100, order, memory operations only",
     {80, false, OWNER, MEMOPS},
     GPUHIER_FLUSH_IMPOSSIBLE,
     GPUHIER_FLUSH_IMPOSSIBLE},
    {"sm_89, order", {89, false, ALL, HOST}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"H100, order", {90, false, OWNER, HOST}, GPUHIER_FLUSH_NONE, GPUHIER_FLUSH_CALL},
    {"H100, order, no options", {90, false, ALL, 0}, GPUHIER_FLUSH_NONE, GPUHIER_FLUSH_NONE},
    {"H100, no order", {90, false, NO_ORDER, HOST}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"H100, no order, no options", {90, false, NO_ORDER, 0}, GPUHIER_FLUSH_IMPOSSIBLE, GPUHIER_FLUSH_IMPOSSIBLE},
    {"H100, no order, memory operations only",
     {90, false, NO_ORDER, MEMOPS},
     GPUHIER_FLUSH_IMPOSSIBLE,
     GPUHIER_FLUSH_IMPOSSIBLE},
    {"B200, order", {100, false, ALL, HOST}, GPUHIER_FLUSH_NONE, GPUHIER_FLUSH_NONE},
    {"GH200, no order", {90, true, NO_ORDER, HOST}, GPUHIER_FLUSH_CALL, GPUHIER_FLUSH_CALL},
    {"GH200, order, so the call does nothing",
     {90, true, ALL, HOST | MEMOPS},
     GPUHIER_FLUSH_IMPOSSIBLE,
     GPUHIER_FLUSH_IMPOSSIBLE},
    {"GB200, no order, no options", {100, true, NO_ORDER, 0}, GPUHIER_FLUSH_IMPOSSIBLE, GPUHIER_FLUSH_IMPOSSIBLE},
};

static void machines(void **state)
{
    (void) state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
        const gpuhier_flush_t found = gpuhier_flush_decide(&table[i].facts, false);
        const gpuhier_flush_t for_peers = gpuhier_flush_decide(&table[i].facts, true);
        if (found != table[i].expected || for_peers != table[i].for_peers) {
            print_error("%s: %d and for peers %d, expected %d and %d\n", table[i].machine, (int) found, (int) for_peers,
                        (int) table[i].expected, (int) table[i].for_peers);
            ++wrong;
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(machines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
