/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Damaged ways between GPUs: CUDASIM_DAMAGE.
 */
#ifndef SIM_DAMAGE_H
#define SIM_DAMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the list and reserves the views that it needs; after sim_window_setup. Returns 0, or -1 after a message. */
int sim_damage_setup(void);

/* What kernels on that GPU (physical number) add to a device address to reach the memory behind it. */
ptrdiff_t sim_damage_alias(int gpu);

/*
 * Under the memory lock: shows blocks of a memory file, which are memory of GPU `gpu`, in the views as each of them is
 * to see them (0, or -1 when out of memory), and hides them again. The real view is sim_blocks_show()'s own.
 */
int sim_damage_show(uintptr_t address, size_t bytes, int fd, off_t offset, int gpu);
void sim_damage_hide(uintptr_t address, size_t bytes);

#endif /* SIM_DAMAGE_H */
