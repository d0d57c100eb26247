/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What work on a GPU takes under a model: kernels, pushes and copies, and the ports that they share.
 *
 * A port (a GPU's link in, link out, memory, PCIe each way, a copy engine) serves in the order of asking: it knows when
 * it is free, and a flow of b bytes takes it for b / rate from then on. Ports lie in the head of the memory file of
 * the process whose memory it is. Each process that has opened a handle of it maps that file, so readers and writers in
 * all processes of the node queue for the same port. Two processes that use one GPU have two sets of ports.
 *
 * A kernel's reported bytes are served in slices of about a microsecond. In each slice it asks every port that it uses,
 * in the order in which the kernel visits its sources, and sleeps until the last of them has served it. Kernels that
 * visit the same peer at once therefore queue behind each other, as on hardware.
 */
#include "sim_model.h"

#include <stdlib.h>
#include <string.h>

#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_ipc.h"
#include "sim_memory.h"

#define SLICE_NS 1000.0 /* modelled */
#define MAX_SLICES 64
#define POLL_NS 20000 /* real: how often a waiting kernel looks */
#define DEFAULT_THREAD_BYTES 64

struct sim_push {
    struct sim_push *next;
    uint64_t due;
    void *to; /* by the host's address */
    size_t bytes;
    unsigned char data[];
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Takes the port for so many ns from a point on, or from when it is free. Returns the end. */
static uint64_t port_take(struct sim_port *port, uint64_t from, double ns)
{
    uint64_t free_at = atomic_load_explicit(&port->free_at, memory_order_relaxed), end;

    do {
        end = later(free_at, from) + (uint64_t) ns;
    } while (!atomic_compare_exchange_weak(&port->free_at, &free_at, end));
    return end;
}

struct sim_gpu_ports *sim_model_ports(uintptr_t address)
{
    const struct sim_alloc *alloc = sim_memory_find(address);
    struct sim_shared *shared = sim_window.shared;

    if (NULL == alloc || alloc->kind >= SIM_KIND_HOST) {
        return NULL;
    }
    if (SIM_KIND_IMPORT == alloc->kind) {
        shared = sim_ipc_owner(alloc);
    }
    return &shared->ports[alloc->remote ? SIM_MAX_GPUS : alloc->device];
}

/* The ports to and from the host: where GPUs talk over PCIe, the same as those to peers. */
static struct sim_port *host_out(struct sim_gpu_ports *gpu)
{
    return sim_model.link_is_pcie > 0 ? &gpu->link_out : &gpu->pcie_out;
}

static struct sim_port *host_in(struct sim_gpu_ports *gpu)
{
    return sim_model.link_is_pcie > 0 ? &gpu->link_in : &gpu->pcie_in;
}

/* Carries bytes from one place to another (NULL: host memory), beginning at a point. Returns when the last has passed.
 */
static uint64_t carry(struct sim_gpu_ports *from, struct sim_gpu_ports *to, double bytes, uint64_t at)
{
    uint64_t end = at;

    if (NULL == from && NULL == to) {
        return at;
    }
    if (NULL != from) {
        end = later(end, port_take(&from->memory, at, bytes / sim_model.memory_rate));
    }
    if (NULL != to) {
        end = later(end, port_take(&to->memory, at, bytes / sim_model.memory_rate));
    }
    if (from == to) {
        return end;
    }
    if (NULL == to) {
        return later(end, port_take(host_out(from), at, bytes / sim_model.pcie_rate));
    }
    if (NULL == from) {
        return later(end, port_take(host_in(to), at, bytes / sim_model.pcie_rate));
    }
    end = later(end, port_take(&from->link_out, at, bytes / sim_model.link_rate));
    return later(end, port_take(&to->link_in, at, bytes / sim_model.link_rate));
}

/*
 * Multicast. A load makes the switch read all members' memory, the loading GPU's own too (NVIDIA/nccl issue 828), and
 * sends one result; a store reaches the switch once and then all members. So with P GPUs of which each reduces a P-th
 * of B bytes, the links of each carry (1 + 1/P) B each way.
 */
static uint64_t carry_team(struct sim_gpu_ports *own, const struct sim_flow *flow, double bytes, uint64_t at)
{
    const double link_ns = bytes / sim_model.multicast_rate, memory_ns = bytes / sim_model.memory_rate;
    uint64_t end = port_take(flow->is_write ? &own->link_out : &own->link_in, at, link_ns);

    for (int i = 0; i < flow->count; i++) {
        struct sim_gpu_ports *member = flow->team[i];
        end = later(end, port_take(&member->memory, at, memory_ns));
        end = later(end, port_take(flow->is_write ? &member->link_in : &member->link_out, at, link_ns));
    }
    return end;
}

/* Carries bytes of a kernel's flow. */
static uint64_t carry_flow(struct sim_gpu_ports *own, const struct sim_flow *flow, double bytes, uint64_t at)
{
    if (NULL != flow->team) {
        return carry_team(own, flow, bytes, at);
    }
    return flow->is_write ? carry(own, flow->ports, bytes, at) : carry(flow->ports, own, bytes, at);
}

/* ---- kernels ---- */

void sim_kernel_begin(struct sim_kernel_time *time, struct sim_gpu_ports *own, uint64_t start, uint32_t blocks,
                      uint32_t threads)
{
    memset(time, 0, offsetof(struct sim_kernel_time, flows));
    time->own = own;
    time->at = start + (uint64_t) sim_model.kernel;
    time->blocks = blocks;
    time->threads = threads;
    time->shape.thread_bytes = DEFAULT_THREAD_BYTES;
    time->pushes = NULL;
}

static void flow_add(struct sim_kernel_time *time, const struct sim_flow *flow)
{
    for (unsigned i = 0; i < time->nflows; i++) {
        struct sim_flow *old = &time->flows[i];
        if (flow->ports == old->ports && flow->team == old->team && flow->is_write == old->is_write) {
            old->bytes += flow->bytes;
            return;
        }
    }
    if (time->nflows < SIM_MODEL_FLOWS) {
        time->flows[time->nflows++] = *flow;
    }
}

void sim_kernel_flow(struct sim_kernel_time *time, uintptr_t address, size_t bytes, bool is_write)
{
    flow_add(time, &(struct sim_flow){.ports = sim_model_ports(address), .bytes = bytes, .is_write = is_write});
}

void sim_kernel_multicast(struct sim_kernel_time *time, const struct sim_team *team, size_t bytes, bool is_write)
{
    flow_add(time, &(struct sim_flow){.team = team->ports, .count = team->count, .bytes = bytes, .is_write = is_write});
}

/* How long a load takes from the place, or a store to it. */
static double latency(const struct sim_kernel_time *time, const struct sim_flow *flow)
{
    if (NULL != flow->team) {
        return flow->is_write ? sim_model.link_store : sim_model.multicast_load;
    }
    if (flow->ports == time->own) {
        return sim_model.memory_load;
    }
    if (flow->is_write) {
        return NULL == flow->ports ? sim_model.pcie_store : sim_model.link_store;
    }
    return NULL == flow->ports ? sim_model.pcie_load : sim_model.link_load;
}

/* Bytes that all its blocks together have in flight. */
static double in_flight(const struct sim_kernel_time *time)
{
    const double per_block = (double) time->threads * time->shape.thread_bytes;
    const double resident = time->blocks < sim_model.sms ? time->blocks : sim_model.sms;
    const double all = time->blocks * per_block, most = resident * sim_model.sm_in_flight;

    return all < most ? all : most;
}

/* Serves one part in that many of the flows of one direction, so many at once. Returns the end. */
static uint64_t serve(struct sim_kernel_time *time, bool is_write, unsigned at_once, double parts)
{
    uint64_t at = time->at, end = at;
    double lent = 0; /* how long the kernel's own loads in flight bound it */
    unsigned n = 0;

    for (unsigned i = 0; i < time->nflows; i++) {
        const struct sim_flow *flow = &time->flows[i];
        const double bytes = (double) flow->bytes / parts;
        if (is_write != flow->is_write) {
            continue;
        }
        if (at_once > 0 && n == at_once) {
            at = later(end, at + (uint64_t) lent);
            sim_model_sleep(at, false); /* ports are asked in the order of time: asking ahead would leave gaps */
            lent = 0;
            n = 0;
        }
        end = later(end, carry_flow(time->own, flow, bytes, at));
        lent += bytes * latency(time, flow) / in_flight(time);
        n++;
    }
    return later(end, at + (uint64_t) lent);
}

/* Lets the time pass that the bytes reported so far take. */
static void kernel_charge(struct sim_kernel_time *time)
{
    double first[2] = {0, 0}, sum[2] = {0, 0};

    if (time->waited) {
        time->at = later(time->at, sim_now_ns());
        time->waited = false;
    }
    if (0 == time->nflows) {
        return;
    }
    for (unsigned i = 0; i < time->nflows; i++) {
        const struct sim_flow *flow = &time->flows[i];
        const double wait = latency(time, flow);
        first[flow->is_write] = wait > first[flow->is_write] ? wait : first[flow->is_write];
        sum[flow->is_write] += (double) flow->bytes
                               / (NULL != flow->team         ? sim_model.multicast_rate
                                  : flow->ports == time->own ? sim_model.memory_rate
                                                             : sim_model.link_rate);
    }
    const double guess = (sum[0] > sum[1] ? sum[0] : sum[1]) / sim_model.dilation / SLICE_NS;
    const unsigned slices = guess < 1 ? 1 : guess > MAX_SLICES ? MAX_SLICES : (unsigned) guess;

    time->at += (uint64_t) first[0];
    /* A slice is written while the next is read. */
    for (unsigned s = 0; s <= slices; s++) {
        uint64_t end = time->at;
        if (s > 0) {
            end = later(end, serve(time, true, 0, slices));
        }
        if (s < slices) {
            end = later(end, serve(time, false, time->shape.at_once, slices));
        }
        time->at = end;
        sim_model_sleep(time->at, s == slices);
    }
    time->at += (uint64_t) first[1];
    time->nflows = 0;
}

/*
 * Stores what is aligned to two words, two at a time: x86-64 stores them whole, and keeps the order of stores. The
 * thread sanitizer knows atomic stores only. Returns the bytes stored.
 */
static size_t deliver_pairs(unsigned char *at, const unsigned char *from, size_t bytes)
{
    size_t done = 0;
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    typedef uint64_t pair_t __attribute__((vector_size(16), may_alias));
    pair_t pair;

    atomic_signal_fence(memory_order_release);
    for (; bytes - done >= sizeof(pair) && 0 == (uintptr_t) at % sizeof(pair); done += sizeof(pair)) {
        memcpy(&pair, from + done, sizeof(pair));
        *(volatile pair_t *) (void *) (at + done) = pair;
    }
#endif
    return done;
}

void sim_deliver(void *to, const void *from, size_t bytes)
{
    unsigned char *at = to;
    const unsigned char *byte = from, *end = byte + bytes;
    uint64_t word;
    size_t done;

    for (; byte < end && 0 != (uintptr_t) at % sizeof(word); at++, byte++) {
        __atomic_store_n(at, *byte, __ATOMIC_RELEASE);
    }
    for (; (size_t) (end - byte) >= sizeof(word); at += done, byte += done) {
        done = deliver_pairs(at, byte, (size_t) (end - byte));
        if (0 == done) {
            done = sizeof(word);
            memcpy(&word, byte, sizeof(word));
            __atomic_store_n((uint64_t *) (void *) at, word, __ATOMIC_RELEASE);
        }
    }
    for (; byte < end; at++, byte++) {
        __atomic_store_n(at, *byte, __ATOMIC_RELEASE);
    }
}

/* Delivers what is due; with all, waits for the rest as well. */
static void deliver_due(struct sim_kernel_time *time, bool all)
{
    struct sim_push *push;

    while (NULL != (push = time->pushes) && (all || push->due <= sim_now_ns())) {
        sim_model_sleep(push->due, true);
        sim_deliver(push->to, push->data, push->bytes);
        time->pushes = push->next;
        free(push);
    }
}

/* Bytes that arrive at a place (the host's address) at a time. */
static void push_add(struct sim_kernel_time *time, uint64_t due, void *to, const void *from, size_t bytes)
{
    struct sim_push *push = malloc(sizeof(*push) + bytes);

    if (NULL == push) {
        abort();
    }
    push->due = due;
    push->to = to;
    push->bytes = bytes;
    memcpy(push->data, from, bytes);
    /* In the order of their ends, so that the first is always the next; equal ends keep the order of pushes. */
    struct sim_push **link = &time->pushes;
    while (NULL != *link && (*link)->due <= push->due) {
        link = &(*link)->next;
    }
    push->next = *link;
    *link = push;
}

/* When the words of a push arrive, which the kernel is charged for. */
static uint64_t push_charge(struct sim_kernel_time *time, const struct sim_flow *flow)
{
    const double wait = latency(time, flow);

    kernel_charge(time);
    const uint64_t due = carry_flow(time->own, flow, (double) flow->bytes, time->at) + (uint64_t) wait;
    time->at += (uint64_t) ((double) flow->bytes * wait / in_flight(time));
    return due;
}

void sim_kernel_push(struct sim_kernel_time *time, uintptr_t to, const void *from, size_t bytes)
{
    const struct sim_flow flow = {.ports = sim_model_ports(to), .bytes = bytes, .is_write = true};

    push_add(time, push_charge(time, &flow), sim_host_view(to), from, bytes);
}

void sim_kernel_push_multicast(struct sim_kernel_time *time, const struct sim_team *team, const void *from,
                               size_t bytes)
{
    const struct sim_flow flow = {.team = team->ports, .count = team->count, .bytes = bytes, .is_write = true};
    const uint64_t due = push_charge(time, &flow);

    for (int i = 0; i < team->count; i++) {
        push_add(time, due, team->copies[i], from, bytes);
    }
}

void sim_kernel_wait(struct sim_kernel_time *time)
{
    kernel_charge(time);
    sim_model_sleep(time->at, true);
    deliver_due(time, false);
    uint64_t look = sim_now_ns() + POLL_NS;
    if (NULL != time->pushes && time->pushes->due < look) {
        look = time->pushes->due;
    }
    sim_model_sleep(look, false);
    deliver_due(time, false);
    time->waited = true;
}

uint64_t sim_kernel_end(struct sim_kernel_time *time)
{
    kernel_charge(time);
    for (const struct sim_push *push = time->pushes; NULL != push; push = push->next) {
        time->at = later(time->at, push->due);
    }
    deliver_due(time, true);
    return time->at;
}

/* ---- copies ---- */

uint64_t sim_model_copy(struct sim_gpu_ports *own, struct sim_gpu_ports *to, struct sim_gpu_ports *from, bool pageable,
                        size_t bytes, uint64_t start)
{
    const double rate = pageable                     ? sim_model.copy_pageable_rate
                        : NULL == to || NULL == from ? sim_model.pcie_rate
                        : to == from                 ? sim_model.copy_local_rate
                                                     : sim_model.copy_link_rate;
    const double alone = (double) bytes / rate;
    const double guess = alone / sim_model.dilation / SLICE_NS;
    const unsigned slices = guess < 1 ? 1 : guess > MAX_SLICES ? MAX_SLICES : (unsigned) guess;
    uint64_t at = start + (uint64_t) sim_model.copy_start + (pageable ? (uint64_t) sim_model.copy_pageable : 0);
    struct sim_port *engine = &own->engines[0];

    for (unsigned i = 1; i < (unsigned) sim_model.copy_engines; i++) {
        if (atomic_load(&own->engines[i].free_at) < atomic_load(&engine->free_at)) {
            engine = &own->engines[i];
        }
    }
    for (unsigned s = 0; s < slices; s++) {
        const uint64_t served = port_take(engine, at, alone / slices);
        at = later(served, carry(from, to, (double) bytes / slices, at));
        sim_model_sleep(at, s == slices - 1);
    }
    return at
           + (uint64_t) (NULL == to     ? sim_model.pcie_store
                         : NULL == from ? 0
                         : to == from   ? 0
                                        : sim_model.link_store);
}
