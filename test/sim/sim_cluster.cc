/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulated network, and what is worked out without simulating it; see sim.h.
 *
 * NVLink and GPU memory are modelled as processors whose operations are bytes: what
 * runs on one at the same time shares it evenly, as kernels of one GPU do.
 */
#include "sim.h"

#include <algorithm>
#include <cmath>

namespace sg4 = simgrid::s4u;

Cluster::Cluster(const Machine &machine, int nodes)
{
    sg4::NetZone *zone = sg4::create_star_zone("cluster");
    for (int i = 0; i < nodes; ++i) {
        const std::string number = std::to_string(i);
        nodes_.push_back(zone->create_host("node-" + number, 1.0)->seal());
        nvlink_.push_back(zone->create_host("nvlink-" + number, machine.nvlink)->seal());
        memory_.push_back(zone->create_host("memory-" + number, machine.memory)->seal());
        host_.push_back(zone->create_host("host-" + number, machine.host_reduce)->seal());
        /* Both ways at once; the latency is counted once, on the way out. */
        sg4::Link *out = zone->create_link("out-" + number, machine.rail)->set_latency(machine.rail_latency)->seal();
        sg4::Link *in = zone->create_link("in-" + number, machine.rail)->set_latency(0.0)->seal();
        zone->add_route(nodes_[i]->get_netpoint(), nullptr, nullptr, nullptr, {sg4::LinkInRoute(out)}, false);
        zone->add_route(nullptr, nodes_[i]->get_netpoint(), nullptr, nullptr, {sg4::LinkInRoute(in)}, false);
    }
    zone->seal();
}

void Cluster::work(sg4::Host *what, double bytes)
{
    sg4::this_actor::exec_init(bytes)->set_host(what)->wait();
}

double sim_extrapolate(const std::vector<double> &ends, uint64_t total)
{
    const size_t n = ends.size();
    if (0 == n || total <= n) {
        return 0 == n ? 0.0 : ends.back();
    }
    const size_t half = n / 2;
    return ends.back()
           + static_cast<double>(total - n) * (ends[n - 1] - ends[half - 1]) / static_cast<double>(n - half);
}

double sim_bound(const Case &c)
{
    const double bytes = static_cast<double>(c.bytes), nodes = c.nodes, ranks = nodes * c.machine.gpus;
    const double rails = 2.0 * (nodes - 1.0) / nodes * bytes / (c.machine.gpus * c.machine.rail);
    const double gpu = 2.0 * (ranks - 1.0) / ranks * bytes / (c.machine.nvlink + c.machine.rail);
    return std::max(rails, gpu) + std::ceil(std::log2(nodes)) * c.machine.rail_latency;
}
