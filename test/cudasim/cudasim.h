/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the emulated libcuda.so.1 exports beside the driver's interface. A test
 * finds these by dlsym; a real driver has none of them.
 */
#ifndef CUDASIM_H
#define CUDASIM_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reads a counter of this process. Returns 0, or -1 when there is none of that name.
 *   link.A.B    bytes that left memory of A for B; A and B are physical GPU numbers
 *               or "host"; traffic within GPU A is link.A.A
 *   link.A.switch link.switch.A
 *               bytes of multicast that GPU A's links carried to the NVSwitches, and from them
 *   launches copies memsets allocs frees syncs queries ipc_exports ipc_opens
 *   ipc_closes event_records gdr_reads gdr_writes
 *   events_live allocs_live host_allocs_live ipc_live multicast_live gdr_live
 *               calls, or things that exist now (.._live)
 *   model_late_ns model_worst_ns
 *               modelled ns by which work ended later than its model says, since the emulator itself was too slow:
 *               the sum, and the worst. Where they are not small, a larger CUDASIM_DILATION is needed.
 */
int cudasim_counter(const char *name, unsigned long long *value_p);

/* Sets all counters but the .._live ones to zero. */
void cudasim_counters_reset(void);

/* The clock in modelled nanoseconds; 0 without a model. */
unsigned long long cudasim_model_ns(void);

/* Where the process itself can read and write what it knows by this address: GPU memory traps by its own address. A
 * made-up NIC reads it there (test/nodes/made_up_nic.c). */
void *cudasim_view(void *address);

/* Turns the timeline (CUDASIM_TRACE) off, which writes it, and on again. It is on from the start. */
void cudasim_trace(int wanted);

#ifdef __cplusplus
}
#endif

#endif /* CUDASIM_H */
