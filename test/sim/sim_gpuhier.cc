/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component's own schedule in time: each node's first owner asks
 * gpuhier_plan_transfer() what to send, and its stages wait for each other as
 * coll_gpuhier_pipeline.c says.
 *
 *   RS     a slice buffer is free                 NVLink: the shard from all other GPUs
 *   vote   at once                                log2 N messages, before the first X
 *   X      RS of the slice is done                rail, and memory for each reduction, or the host
 *   AG     X of the slice is done                 NVLink: the shard to all other GPUs; frees the buffer
 *
 * Where the host reduces (gpuhier_plan_by_host()), RS stores to host memory and AG loads from it, over PCIe.
 *
 * One actor for each of these, and one X for each slice buffer, since exchanges of
 * consecutive slices overlap.
 */
#include "sim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace sg4 = simgrid::s4u;

namespace
{

/* What all owners share. */
struct Call {
    const Case &c;
    gpuhier_hierarchy_t hierarchy;
    gpuhier_shape_t shape;
    bool mirrored;
    int simulated_nodes;
    std::unique_ptr<Cluster> cluster;
    uint64_t slices = 0;
    std::vector<double> ends;   /* [slices] when the last node had it */
    std::vector<uint64_t> sent; /* [simulated nodes] bytes */

    explicit Call(const Case &c);
    gpuhier_plan_t plan(int node) const;
    ~Call()
    {
        gpuhier_shape_fini(&shape);
        gpuhier_hierarchy_fini(&hierarchy);
    }
};

bool all_map(void *, int, int)
{
    return true;
}

/* What the component itself would do. */
gpuhier_plan_t Call::plan(int node) const
{
    const gpuhier_limits_t limits = {c.slice_bytes,     c.slices_in_flight,
                                     c.algorithm,       GPUHIER_WIRE_RDMA,
                                     c.slice_bytes_max, gpuhier_choice_host_shard(c.host_shard_bytes, c.nodes, true)};
    gpuhier_plan_t plan;
    if (0
        != gpuhier_choice_plan(&plan, &shape, gpuhier_hierarchy_member(&hierarchy, node, 0), c.bytes / sizeof(double),
                               sizeof(double), &limits)) {
        std::fprintf(stderr, "sim: no such plan\n");
        std::exit(1);
    }
    return plan;
}

Call::Call(const Case &c) : c(c)
{
    const int gpus = c.machine.gpus;
    std::vector<uint64_t> nodes(static_cast<size_t>(c.nodes) * gpus);
    for (size_t i = 0; i < nodes.size(); ++i) {
        nodes[i] = i / gpus * gpus;
    }
    if (0
            != gpuhier_hierarchy_init(&hierarchy, static_cast<int>(nodes.size()), nodes.data(), all_map, nullptr,
                                      GPUHIER_GROUP_MAX)
        || 0 != gpuhier_shape_init(&shape, &hierarchy)) {
        std::fprintf(stderr, "sim: out of memory\n");
        std::exit(1);
    }
    /* Nodes do the same only if no chunk of a piece is empty: an empty one is not sent. */
    const gpuhier_plan_t first = plan(0);
    const uint64_t piece = gpuhier_range_length(gpuhier_plan_piece(&first, first.nslices - 1, first.first_piece));
    mirrored = c.mirrored && gpuhier_unit_count(piece, first.unit) >= static_cast<uint64_t>(first.nchunks);
    simulated_nodes = mirrored ? 2 : c.nodes;
    cluster = std::make_unique<Cluster>(c.machine, simulated_nodes);
    sent.resize(simulated_nodes);
}

/* The first owner of one node. */
struct Owner {
    Call &call;
    int node;
    const gpuhier_plan_t plan;
    sg4::SemaphorePtr buffers, voted;
    std::vector<sg4::SemaphorePtr> reduced, exchanged; /* [slices in flight] */

    Owner(Call &call, int node);
    void start();
    void reduce_scatter();
    void vote();
    void exchange(int buffer);
    void all_gather();

    double slice_to_others(uint64_t slice) const
    {
        gpuhier_range_t range = gpuhier_plan_slice(&plan, slice);
        return static_cast<double>(gpuhier_range_length(range) * plan.elem_bytes) * (plan.group_size - 1)
               / plan.group_size;
    }
    /* What a kernel needs to load its rank's shard of a slice from host memory. */
    double host_load(uint64_t slice, int operands) const
    {
        const double bytes =
            gpuhier_range_length(gpuhier_plan_part(&plan, slice, plan.index, plan.group_size)) * plan.elem_bytes;
        return call.c.machine.pcie_load + operands * bytes / call.c.machine.pcie;
    }
    double host_store(uint64_t slice) const
    {
        const double bytes =
            gpuhier_range_length(gpuhier_plan_part(&plan, slice, plan.index, plan.group_size)) * plan.elem_bytes;
        return call.c.machine.pcie_store + bytes / call.c.machine.pcie;
    }
    /* Two nodes may stand for all. */
    int simulated(int group) const
    {
        return call.mirrored ? 1 - node : group;
    }
    sg4::Mailbox *mailbox(const char *what, int to, int from, int number) const
    {
        return sg4::Mailbox::by_name(std::string(what) + std::to_string(to) + "." + std::to_string(from) + "."
                                     + std::to_string(number));
    }
};

Owner::Owner(Call &call, int node) : call(call), node(node), plan(call.plan(node))
{
    buffers = sg4::Semaphore::create(plan.slice_buffers);
    voted = sg4::Semaphore::create(0);
    for (int i = 0; i < plan.slice_buffers; ++i) {
        reduced.push_back(sg4::Semaphore::create(0));
        exchanged.push_back(sg4::Semaphore::create(0));
    }
}

void Owner::start()
{
    sg4::Host *host = call.cluster->node(node);
    sg4::Actor::create("rs", host, [this] { reduce_scatter(); });
    sg4::Actor::create("vote", host, [this] { vote(); });
    for (int buffer = 0; buffer < plan.slice_buffers; ++buffer) {
        sg4::Actor::create("x", host, [this, buffer] { exchange(buffer); });
    }
    sg4::Actor::create("ag", host, [this] { all_gather(); });
}

void Owner::reduce_scatter()
{
    for (uint64_t slice = 0; slice < call.slices; ++slice) {
        buffers->acquire();
        sg4::this_actor::sleep_for(call.c.machine.kernel);
        call.cluster->nvlink(node, slice_to_others(slice));
        if (plan.by_host) {
            sg4::this_actor::sleep_for(host_store(slice));
        }
        reduced[gpuhier_plan_buffer(&plan, slice)]->release();
    }
}

void Owner::vote()
{
    static int nothing;
    for (int step = 0; step < gpuhier_schedule_vote_steps(call.c.nodes); ++step) {
        int to, from, *word;
        gpuhier_schedule_vote_peers(call.c.nodes, node, step, &to, &from);
        sg4::CommPtr in = mailbox("vote", node, simulated(from), step)->get_async<int>(&word);
        sg4::CommPtr out = mailbox("vote", simulated(to), node, step)->put_async(&nothing, sizeof(uint32_t));
        in->wait();
        out->wait();
    }
    for (int i = 0; i < plan.slice_buffers; ++i) {
        voted->release();
    }
}

void Owner::exchange(int buffer)
{
    static int nothing;
    bool first = true;
    for (uint64_t slice = static_cast<uint64_t>(buffer); slice < call.slices;
         slice += static_cast<uint64_t>(plan.slice_buffers)) {
        reduced[buffer]->acquire();
        if (first) {
            voted->acquire();
        }
        first = false;
        for (int step = 0; step < plan.nsteps; ++step) {
            gpuhier_transfer_t t;
            gpuhier_plan_transfer(&plan, slice, plan.first_piece, step, &t);
            sg4::CommPtr in, out;
            int *word;
            if (t.recv_from >= 0) {
                in = mailbox("x", node, simulated(call.hierarchy.group_of[t.recv_from]), buffer)->get_async<int>(&word);
            }
            if (t.send_to >= 0) {
                uint64_t bytes = gpuhier_range_length(t.send) * plan.elem_bytes;
                out = mailbox("x", simulated(call.hierarchy.group_of[t.send_to]), node, buffer)
                          ->put_async(&nothing, bytes);
                call.sent[node] += bytes;
            }
            if (in) {
                in->wait();
            }
            if (out) {
                out->wait();
            }
            const bool is_left =
                step + 1 == plan.nsteps && GPUHIER_ACTION_NONE != gpuhier_plan_last_action(&plan); /* to AG */
            if (!is_left
                && (GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t.action
                    || GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == t.action)) {
                const double bytes = gpuhier_range_length(t.recv) * plan.elem_bytes;
                sg4::this_actor::sleep_for(plan.by_host ? call.c.machine.host_step : call.c.machine.kernel);
                if (plan.by_host) {
                    call.cluster->host(node, bytes);
                } else {
                    call.cluster->memory(node, 3.0 * bytes);
                }
            }
        }
        exchanged[buffer]->release();
    }
}

void Owner::all_gather()
{
    for (uint64_t slice = 0; slice < call.slices; ++slice) {
        exchanged[gpuhier_plan_buffer(&plan, slice)]->acquire();
        sg4::this_actor::sleep_for(call.c.machine.kernel);
        if (plan.by_host) {
            sg4::this_actor::sleep_for(
                host_load(slice, GPUHIER_ACTION_NONE != gpuhier_plan_last_action(&plan) ? 2 : 1));
        } else if (GPUHIER_ACTION_NONE != gpuhier_plan_last_action(&plan)) {
            const gpuhier_range_t shard = gpuhier_plan_part(&plan, slice, plan.index, plan.group_size);
            call.cluster->memory(node, 3.0 * static_cast<double>(gpuhier_range_length(shard) * plan.elem_bytes));
        }
        call.cluster->nvlink(node, slice_to_others(slice));
        buffers->release();
        call.ends[slice] = std::max(call.ends[slice], sg4::Engine::get_clock());
    }
}

} // namespace

Outcome sim_gpuhier(const Case &c)
{
    Call call(c);
    std::vector<Owner> owners;
    owners.reserve(call.simulated_nodes);
    for (int node = 0; node < call.simulated_nodes; ++node) {
        owners.emplace_back(call, node);
    }
    const gpuhier_plan_t &plan = owners[0].plan;
    call.slices = plan.nslices;
    call.ends.resize(call.slices);
    for (Owner &owner : owners) {
        owner.start();
    }
    sg4::Engine::get_instance()->run();
    return {call.ends.empty() ? 0.0 : call.ends.back(), call.sent[0], info_sent_bytes(&plan)};
}
