/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modelled time (CUDASIM_MODEL): what the hardware costs, and the clock that makes it cost that.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cudasim_twin.h"
#include "sim_multicast.h"
#include "sim_window.h"

/*
 * The keys of a model file, X(field, key). Times are in microseconds, rates in GB/s (1e9 bytes), sizes in KiB.
 * All of them are required; docs/model.md says what each means.
 */
#define SIM_MODEL_KEYS(X)                       \
    X(sms, "gpu.sms")                           \
    X(start, "gpu.start")                       \
    X(kernel, "gpu.kernel")                     \
    X(gap, "gpu.gap")                           \
    X(event, "gpu.event")                       \
    X(visible, "gpu.visible")                   \
    X(memory_rate, "memory.rate")               \
    X(memory_load, "memory.load")               \
    X(sm_in_flight, "sm.in_flight")             \
    X(link_rate, "link.rate")                   \
    X(link_load, "link.load")                   \
    X(link_store, "link.store")                 \
    X(link_is_pcie, "link.is_pcie")             \
    X(multicast_rate, "multicast.rate")         \
    X(multicast_load, "multicast.load")         \
    X(pcie_rate, "pcie.rate")                   \
    X(pcie_load, "pcie.load")                   \
    X(pcie_store, "pcie.store")                 \
    X(copy_engines, "copy.engines")             \
    X(copy_start, "copy.start")                 \
    X(copy_link_rate, "copy.link_rate")         \
    X(copy_local_rate, "copy.local_rate")       \
    X(copy_pageable, "copy.pageable")           \
    X(copy_pageable_rate, "copy.pageable_rate") \
    X(gdr_pin, "gdr.pin")                       \
    X(gdr_read, "gdr.read")                     \
    X(gdr_read_rate, "gdr.read_rate")           \
    X(gdr_write, "gdr.write")                   \
    X(gdr_write_rate, "gdr.write_rate")         \
    X(rail_rate, "rail.rate")                   \
    X(rail_latency, "rail.latency")

#define SIM_MODEL_FIELD(field, key) double field;

/* Constant after sim_model_setup. Times in real ns (dilated), rates in bytes per real ns, sizes in bytes. */
struct sim_model {
    bool on;
    double dilation; /* real ns in a modelled one */
    SIM_MODEL_KEYS(SIM_MODEL_FIELD)
    uint64_t *host; /* what each driver function costs its caller, by its number in cuda_api.def */
};

extern struct sim_model sim_model;

/* Reads CUDASIM_MODEL and CUDASIM_DILATION. Returns 0, or -1 after one message that names file, line and fault. */
int sim_model_setup(void);

/* The caller pays for driver function number call. */
void sim_model_pay(unsigned call);

/* The caller pays so many real ns for something else of that name, which must stay. */
void sim_model_pay_for(uint64_t cost, const char *name);

/* Sleeps until a point of the monotonic clock; notes by how much it was missed if is_work. */
void sim_model_sleep(uint64_t until, bool is_work);

/* Whether the host can know already that work which ended then has ended; or waits until it can. */
bool sim_model_is_visible(uint64_t end);
void sim_model_await(uint64_t end);

/* The ports of the GPU whose memory lies at the address; NULL for host memory. */
struct sim_gpu_ports *sim_model_ports(uintptr_t address);

/* ---- one piece of work on the GPU ---- */

#define SIM_MODEL_FLOWS 192

/* Bytes between the GPU that works and one place. */
struct sim_flow {
    struct sim_gpu_ports *ports;       /* NULL: host memory, or a team's */
    struct sim_gpu_ports *const *team; /* those of all GPUs of a team, through the switch; NULL: of none */
    int count;                         /* of them */
    size_t bytes;
    bool is_write;
};

struct sim_push;

/* The clock of a kernel at work. Owned by the thread that runs the twin. */
struct sim_kernel_time {
    struct sim_gpu_ports *own;
    uint64_t at; /* up to where its time has passed */
    bool waited; /* for something that another does: its time is the present */
    uint32_t blocks, threads;
    cudasim_shape_t shape;
    unsigned nflows;
    struct sim_flow flows[SIM_MODEL_FLOWS];
    struct sim_push *pushes; /* not yet due, in their order */
};

void sim_kernel_begin(struct sim_kernel_time *time, struct sim_gpu_ports *own, uint64_t start, uint32_t blocks,
                      uint32_t threads);
void sim_kernel_flow(struct sim_kernel_time *time, uintptr_t address, size_t bytes, bool is_write);
void sim_kernel_multicast(struct sim_kernel_time *time, const struct sim_team *team, size_t bytes, bool is_write);
void sim_kernel_push(struct sim_kernel_time *time, uintptr_t to, const void *from, size_t bytes);
void sim_kernel_push_multicast(struct sim_kernel_time *time, const struct sim_team *team, const void *from,
                               size_t bytes);
void sim_kernel_wait(struct sim_kernel_time *time);
uint64_t sim_kernel_end(struct sim_kernel_time *time); /* when all that it did is done */

/* A copy that the GPU's engines begin at start. Returns its end. */
uint64_t sim_model_copy(struct sim_gpu_ports *own, struct sim_gpu_ports *to, struct sim_gpu_ports *from, bool pageable,
                        size_t bytes, uint64_t start);

/* Writes words as a GPU does, by the host's address: aligned 8 bytes at a time, in ascending order (cudasim_push). */
void sim_deliver(void *to, const void *from, size_t bytes);

#endif /* SIM_MODEL_H */
