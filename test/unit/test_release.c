/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which releases of Open MPI a component may be loaded by: those with the major and minor number that it was built
 * for, and those that do not say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/coll_gpuhier_compat.h"

static void same_release(void **state)
{
    (void) state;
    assert_true(gpuhier_release_matches("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", 4, 1));
    assert_true(gpuhier_release_matches("Open MPI v4.1.10, package: Open MPI root@host", 4, 1));
    assert_true(gpuhier_release_matches("Open MPI v4.1.7a1", 4, 1));
    assert_true(gpuhier_release_matches("Open MPI v5.0.0rc12", 5, 0));
    assert_true(gpuhier_release_matches("Open MPI v5.0.9, package: x", 5, 0));
    assert_true(gpuhier_release_matches("Open MPI v6.0.0a1-dev, package: x", 6, 0));
}

static void other_release(void **state)
{
    (void) state;
    assert_false(gpuhier_release_matches("Open MPI v4.0.7, package: x", 4, 1));
    assert_false(gpuhier_release_matches("Open MPI v4.10.1", 4, 1));
    assert_false(gpuhier_release_matches("Open MPI v14.1.4", 4, 1));
    assert_false(gpuhier_release_matches("Open MPI v5.0.7", 4, 1));
    assert_false(gpuhier_release_matches("Open MPI v5.1.0", 5, 0));
    assert_false(gpuhier_release_matches("Open MPI v4.1.4", 5, 0));
}

static void no_release(void **state)
{
    (void) state;
    assert_true(gpuhier_release_matches("", 4, 1));
    assert_true(gpuhier_release_matches("IBM Spectrum MPI v10.4.0", 4, 1));
    assert_true(gpuhier_release_matches("Open MPI", 4, 1));
    assert_true(gpuhier_release_matches("Open MPI v4", 5, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_release),
        cmocka_unit_test(other_release),
        cmocka_unit_test(no_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
