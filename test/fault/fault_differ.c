/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks of which one is without gpuhier, or has another version of it: no rank probes, nothing is accelerated,
 * and all results are right. A rank with GPUHIER_TEST_HOST in its environment passes host memory: without the
 * component, Open MPI may not be able to take anything else.
 */
#include <stdlib.h>

#include "calls.h"

#define CALLS 20

int main(int argc, char **argv)
{
    suite_t suite;
    pvars_t before, after;
    const buffer_kind_t kind = NULL != getenv("GPUHIER_TEST_HOST") ? BUFFER_HOST : BUFFER_DEVICE;

    suite_begin(&suite, "fault_differ", &argc, &argv);
    pvars_read(&before);
    for (int i = 0; i < CALLS; ++i) {
        call_t call = {.type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .comm = MPI_COMM_NULL,
                       .count = 1000,
                       .send_kind = kind,
                       .recv_kind = kind,
                       .in_place = 1 == i % 2,
                       .path = PATH_ANY};
        suite_call(&suite, &call);
    }
    pvars_read(&after);
    if (after.accelerated != before.accelerated || after.probes != before.probes) {
        suite_fail(&suite, "%llu calls were accelerated, after %llu probes",
                   (unsigned long long) (after.accelerated - before.accelerated),
                   (unsigned long long) (after.probes - before.probes));
    }
    return suite_end(&suite);
}
