/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the component is compared with, in the manner of libraries whose one kernel
 * stays for the whole call: no launches between steps, so each is charged one.
 *
 * Flat ring: through all GPUs of a node, then to the next node; for each rail a ring of its
 * own with its part of the message. One node stands for all.
 *
 * Double tree: a chain of GPUs in each node, and between nodes two binary trees for each rail, each
 * with half of the rail's part, the inner nodes of one being leaves of the other. In chunks,
 * up and down at once.
 */
#include "sim.h"

#include <algorithm>
#include <cmath>

namespace sg4 = simgrid::s4u;

namespace
{

int nothing;

/* The GPUs of a node, and between the last and the first the rail. */
struct Ring {
    const Case &c;
    std::vector<sg4::Host *> gpus, memory;
    std::vector<double> ends; /* of a step, on the last GPU */

    explicit Ring(const Case &c);
    void run(int gpu, double chunk);
};

Ring::Ring(const Case &c) : c(c)
{
    const Machine &m = c.machine;
    sg4::NetZone *zone = sg4::create_full_zone("ring");
    for (int i = 0; i < m.gpus; ++i) {
        gpus.push_back(zone->create_host("gpu-" + std::to_string(i), 1.0)->seal());
        memory.push_back(zone->create_host("memory-" + std::to_string(i), m.memory)->seal());
    }
    for (int i = 0; i < m.gpus; ++i) {
        const bool out = i == m.gpus - 1;
        /* All but one of the rings leave a GPU by NVLink. */
        sg4::Link *link = zone->create_link("to-" + std::to_string(i + 1), out ? m.rail : m.nvlink / (m.gpus - 1));
        link->set_latency(out ? m.rail_latency : m.nvlink_latency)->seal();
        zone->add_route(gpus[i]->get_netpoint(), gpus[(i + 1) % m.gpus]->get_netpoint(), nullptr, nullptr,
                        {sg4::LinkInRoute(link)}, false);
    }
    zone->seal();
}

void Ring::run(int gpu, double chunk)
{
    const int next = (gpu + 1) % c.machine.gpus;
    const int reducing = c.nodes * c.machine.gpus - 1;
    sg4::this_actor::sleep_for(c.machine.kernel);
    for (size_t step = 0; step < ends.size(); ++step) {
        int *word;
        sg4::CommPtr in = sg4::Mailbox::by_name("ring" + std::to_string(gpu))->get_async<int>(&word);
        sg4::CommPtr out = sg4::Mailbox::by_name("ring" + std::to_string(next))
                               ->put_async(&nothing, static_cast<uint64_t>(std::ceil(chunk)));
        in->wait();
        out->wait();
        if (static_cast<int>(step) < reducing) {
            sg4::this_actor::exec_init(3.0 * chunk)->set_host(memory[gpu])->wait();
        }
        ends[step] = std::max(ends[step], sg4::Engine::get_clock());
    }
}

/* Parents in a binary tree that is in order: odd numbers (counted from 1) are leaves. -1: the root. */
std::vector<int> tree_parents(int nodes, bool reversed)
{
    std::vector<int> parents(nodes);
    for (int v = 1; v <= nodes; ++v) {
        const int bit = v & -v;
        int up = (v ^ bit) | (bit << 1);
        while (up > nodes) {
            up ^= up & -up; /* there is nothing above on the right: what is left of it */
        }
        if (up == v || 0 == up) {
            up = 0;
        }
        parents[reversed ? nodes - v : v - 1] = 0 == up ? -1 : reversed ? nodes - up : up - 1;
    }
    return parents;
}

struct Tree {
    const Case &c;
    const Cluster &cluster;
    const std::string name;
    std::vector<int> parents;
    std::vector<std::vector<int>> children;
    std::vector<sg4::SemaphorePtr> ready; /* [nodes] chunks that the node's own GPUs have added up */
    double chunk;
    std::vector<double> ends; /* [chunks simulated] */

    Tree(const Case &c, const Cluster &cluster, bool reversed, uint64_t chunk, uint64_t chunks);
    sg4::Mailbox *mailbox(const char *way, int to, int from) const
    {
        return sg4::Mailbox::by_name(name + way + std::to_string(to) + "." + std::to_string(from));
    }
    void start(int node);
    void add_up(int node);
    void up(int node);
    void down(int node);
    void pass_down(int node, size_t i);
};

Tree::Tree(const Case &c, const Cluster &cluster, bool reversed, uint64_t chunk, uint64_t chunks)
    : c(c), cluster(cluster), name(reversed ? "b" : "a"), parents(tree_parents(c.nodes, reversed)), children(c.nodes),
      chunk(static_cast<double>(chunk)), ends(chunks)
{
    for (int node = 0; node < c.nodes; ++node) {
        if (parents[node] >= 0) {
            children[parents[node]].push_back(node);
        }
        ready.push_back(sg4::Semaphore::create(0));
    }
}

void Tree::start(int node)
{
    sg4::Host *host = cluster.node(node);
    sg4::Actor::create("add", host, [this, node] { add_up(node); });
    sg4::Actor::create("up", host, [this, node] { up(node); });
    if (parents[node] >= 0) {
        sg4::Actor::create("down", host, [this, node] { down(node); });
    }
}

/* The chain of GPUs: each link carries the chunks of all rails. */
void Tree::add_up(int node)
{
    sg4::this_actor::sleep_for(c.machine.kernel + (c.machine.gpus - 1) * c.machine.nvlink_latency);
    for (size_t i = 0; i < ends.size(); ++i) {
        cluster.nvlink(node, chunk * c.machine.gpus);
        ready[node]->release();
    }
}

void Tree::up(int node)
{
    for (size_t i = 0; i < ends.size(); ++i) {
        std::vector<sg4::CommPtr> in;
        int *word;
        for (int child : children[node]) {
            in.push_back(mailbox("up", node, child)->get_async<int>(&word));
        }
        ready[node]->acquire();
        for (sg4::CommPtr &comm : in) {
            comm->wait();
            cluster.memory(node, 3.0 * chunk);
        }
        if (parents[node] >= 0) {
            mailbox("up", parents[node], node)->put(&nothing, static_cast<uint64_t>(chunk));
        } else {
            pass_down(node, i);
        }
    }
}

void Tree::down(int node)
{
    for (size_t i = 0; i < ends.size(); ++i) {
        mailbox("down", node, parents[node])->get<int>();
        pass_down(node, i);
    }
}

void Tree::pass_down(int node, size_t i)
{
    std::vector<sg4::CommPtr> out;
    for (int child : children[node]) {
        out.push_back(mailbox("down", child, node)->put_async(&nothing, static_cast<uint64_t>(chunk)));
    }
    for (sg4::CommPtr &comm : out) {
        comm->wait();
    }
    cluster.nvlink(node, chunk * c.machine.gpus);
    ends[i] = std::max(ends[i], sg4::Engine::get_clock() + (c.machine.gpus - 1) * c.machine.nvlink_latency);
}

} // namespace

Outcome sim_flat_ring(const Case &c)
{
    Ring ring(c);
    const uint64_t ranks = static_cast<uint64_t>(c.nodes) * c.machine.gpus, steps = 2 * (ranks - 1);
    ring.ends.resize(std::min<uint64_t>(steps, 8 * static_cast<uint64_t>(c.repeated_max)));
    const double chunk = static_cast<double>(c.bytes) / c.machine.gpus / static_cast<double>(ranks);
    for (int gpu = 0; gpu < c.machine.gpus; ++gpu) {
        sg4::Actor::create("ring", ring.gpus[gpu], [&ring, gpu, chunk] { ring.run(gpu, chunk); });
    }
    sg4::Engine::get_instance()->run();
    return {sim_extrapolate(ring.ends, steps), 0, 0};
}

Outcome sim_double_tree(const Case &c)
{
    Cluster cluster(c.machine, c.nodes);
    /* Chunks that the time of one hop hides, neither too many nor too few: 64 KiB to 1 MiB. */
    const uint64_t part = std::max<uint64_t>(c.bytes / (2 * c.machine.gpus), 1);
    const uint64_t chunk =
        std::min<uint64_t>(part, std::min<uint64_t>(std::max<uint64_t>(part / 16, 64 << 10), 1 << 20));
    const uint64_t chunks = (part + chunk - 1) / chunk;
    const uint64_t simulated = std::min<uint64_t>(chunks, static_cast<uint64_t>(c.repeated_max));
    Tree a(c, cluster, false, chunk, simulated), b(c, cluster, true, chunk, simulated);
    for (int node = 0; node < c.nodes; ++node) {
        a.start(node);
        b.start(node);
    }
    sg4::Engine::get_instance()->run();
    return {std::max(sim_extrapolate(a.ends, chunks), sim_extrapolate(b.ends, chunks)), 0, 0};
}
