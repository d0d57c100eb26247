/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract test's parts and how they report.
 *
 * Every call is printed with its return code, every effect as a line of its own.
 * Nothing that differs from run to run or machine to machine is printed: no
 * addresses, no times, no names.
 */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <cuda.h>
#include <stdio.h>

/* The name of an error without the common beginning. */
const char *contract_name(CUresult rc);

/* Calls, prints the call's text and its code. */
#define CALL(call) printf("%s: %s\n", #call, contract_name(call))

/* Prints a statement and whether it holds. */
#define HOLDS(text, condition) printf("  %s: %s\n", text, (condition) ? "yes" : "NO")

#define PART(title) printf("== %s\n", title)

/* The parts, in order. Each leaves the thread's context stack as it found it. */
void contract_before_init(void);
void contract_devices(void);
void contract_contexts(void);
void contract_memory(void);
void contract_host_memory(void);
void contract_attributes(void);
void contract_copies(void);
void contract_streams(void);
void contract_modules(const char *fatbin);
void contract_mapped(void);
void contract_pools(void);
void contract_entry_points(void);
void contract_faults(void);

/* By itself, and with golden files of its own: status 77 where no GPUs can be in a team. */
int contract_multicast(const char *fatbin);

/* IPC: the parent's part, and the child's, which ran exec before either called cuInit. */
void contract_ipc_parent(int to_child, int from_child);
int contract_ipc_child(int from_parent, int to_parent);

#endif /* CONTRACT_H */
