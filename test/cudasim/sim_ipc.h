/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory and events of other processes.
 */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include <cuda.h>

#include "sim_memory.h"

/* Closes whatever the context has still open. */
void sim_ipc_context_clear(CUcontext ctx);

/* This process's number where /proc shows it, which may be that of an outer pid namespace. */
int32_t sim_ipc_pid(void);

/* Under the memory lock: the head of another process's memory file, which stays until the peer is released. NULL: the
 * process is gone. */
struct sim_shared *sim_ipc_peer_hold(int32_t pid, int fd, uint64_t word, void **peer_p);
void sim_ipc_peer_release(void *peer);

/* The head of the memory file that an opened allocation lies in; it stays while the allocation is open. */
struct sim_shared *sim_ipc_owner(const struct sim_alloc *alloc);

/* Gives a new event its slot. CUDA_ERROR_OUT_OF_MEMORY when all are in use. */
CUresult sim_event_make_interprocess(CUevent event);

/* Lets go of the mapping that an imported event lives in. */
void sim_ipc_event_release(void *slot_map);

#endif /* SIM_IPC_H */
