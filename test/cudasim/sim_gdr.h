/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Device memory that the host reads and writes: what the emulated libgdrapi.so.2 asks of the emulated libcuda.so.1.
 */
#ifndef SIM_GDR_H
#define SIM_GDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_GDR_PAGE ((size_t) 1 << 16)

/* The next six return 0 or an errno. */

/* Is there a kernel module (CUDASIM_GDR)? */
int cudasim_gdr_open(void);

/* Pins whole pages of one allocation, or of one block that small allocations share. */
int cudasim_gdr_pin(uint64_t address, size_t bytes, void **pin_p);
int cudasim_gdr_unpin(void *pin);

/* Shows the first bytes of a pin to the host, until unmap or unpin. Memory that is freed meanwhile gives SIGBUS. */
int cudasim_gdr_map(void *pin, size_t bytes, void **address_p);
int cudasim_gdr_unmap(void *pin, void *address, size_t bytes);

/* Copies between memory of the host and a mapping; counts it, and takes the time of the model. */
int cudasim_gdr_copy(void *pin, void *to, const void *from, size_t bytes, bool to_mapping);

/* What is pinned: its address, its length, whether it is mapped, and whether its memory was freed. */
void cudasim_gdr_info(void *pin, uint64_t *address_p, size_t *bytes_p, bool *mapped_p, bool *freed_p);

/* Under the memory lock: the blocks are about to be freed. */
void sim_gdr_revoke(uintptr_t address, size_t bytes);

#endif /* SIM_GDR_H */
