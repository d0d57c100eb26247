/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiling tool that counts what it sees of MPI, less what the program says that it calls.
 */
#ifndef GPUHIER_TEST_PMPI_TOOL_H
#define GPUHIER_TEST_PMPI_TOOL_H

#include <stdbool.h>

/* Counts from now on, or not. */
void pmpi_tool_count(bool on);

/* The program is about to make this call, "MPI_Barrier(...)" (or one that is no MPI function's, which is ignored). */
void pmpi_tool_expect(const char *call);

/*
 * The next function from number *from_p on that was seen more often than expected (*times_p > 0) or less often;
 * NULL when there is none.
 */
const char *pmpi_tool_surprise(int *from_p, long *times_p);

#endif /* GPUHIER_TEST_PMPI_TOOL_H */
