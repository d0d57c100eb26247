/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A cluster of equal nodes in SimGrid, and all-reduces on it; shared by the
 * files of test/sim. See README.
 *
 * Only one rail is simulated: the rank of each node that owns the first shard,
 * its network interface, and its share of NVLink. All other ranks do the same at the
 * same time on links of their own.
 */
#ifndef GPUHIER_SIM_H
#define GPUHIER_SIM_H

#include <cstdint>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

extern "C" {
#include "plan/coll_gpuhier_choice.h"
#include "info_traffic.h"
}

/* Bytes per second, seconds. */
struct Machine {
    int gpus = 8; /* and rails, of each node */
    double nvlink = 450e9;
    double rail = 50e9;
    double memory = 3e12;         /* of one GPU */
    double rail_latency = 3e-6;   /* one way, between GPU memories */
    double nvlink_latency = 1e-6; /* inside one kernel that never ends, as rings and trees are made of */
    double kernel = 5e-6;         /* launch and seen completion */
    double pcie = 54e9;           /* each way, of one GPU: test/cudasim/models/h100-dgx has the sources of these */
    double pcie_load = 1.4e-6;    /* latency of a kernel's loads from host memory */
    double pcie_store = 0.7e-6;   /* and of its stores */
    double host_reduce = 10e9;    /* bytes of result a second, by one core from its caches: an estimate, see README */
    double host_step = 0.5e-6;    /* what a core needs besides: an estimate */
};

/* One all-reduce. */
struct Case {
    Machine machine;
    int nodes;
    uint64_t bytes;
    uint64_t slice_bytes = 4 << 20, slice_bytes_max = 8 << 20;
    int slices_in_flight = 4;
    uint64_t host_shard_bytes = 64 << 10;
    gpuhier_algorithm_t algorithm = GPUHIER_ALGORITHM_AUTO;
    /*
     * Two nodes stand for all: whatever a node sends goes to the other one of the two, which does the same. Exact
     * where all nodes do the same, that is for rings, and for powers of two.
     */
    bool mirrored = false;
    /* Of steps or chunks that repeat, so many are simulated, and the rest follow at the pace of the second half. */
    int repeated_max = 24;
};

struct Outcome {
    double seconds;
    uint64_t sent;     /* bytes on the rail of the first node, as far as was simulated */
    uint64_t expected; /* the same by the schedule's formula; 0 where there is none or not all was simulated */
};

/* The network: hosts node-0 .. with one rail each, all joined by a switch that is never the limit. */
class Cluster
{
public:
    Cluster(const Machine &machine, int nodes);
    simgrid::s4u::Host *node(int i) const
    {
        return nodes_[i];
    }

    /* Blocks the calling actor while these bytes go through a node's share of NVLink, or through its GPU's memory. */
    void nvlink(int node, double bytes) const
    {
        work(nvlink_[node], bytes);
    }
    void memory(int node, double bytes) const
    {
        work(memory_[node], bytes);
    }
    /* The same while the core of the node's first rank reduces to these bytes. */
    void host(int node, double bytes) const
    {
        work(host_[node], bytes);
    }

private:
    static void work(simgrid::s4u::Host *what, double bytes);
    std::vector<simgrid::s4u::Host *> nodes_, nvlink_, memory_, host_;
};

/* The time when the last of `total` equal steps ends, given when the simulated ones ended. */
double sim_extrapolate(const std::vector<double> &ends, uint64_t total);

/* Each of these runs one simulation to its end; a process can run one. */
Outcome sim_gpuhier(const Case &c);     /* sim_gpuhier.cc: the schedule of the component */
Outcome sim_flat_ring(const Case &c);   /* sim_others.cc: one ring through all GPUs, a copy of it for each rail */
Outcome sim_double_tree(const Case &c); /* sim_others.cc: chains in the nodes, two trees between them, for each rail */

/*
 * No all-reduce is faster: each rail carries its part of 2 (N - 1)/N of the message (Patarasuk and Yuan: Bandwidth
 * optimal all-reduce algorithms for clusters of workstations, 2009), each GPU sends 2 (R - 1)/R of it by NVLink and
 * rail together, and something goes through log2 N latencies.
 */
double sim_bound(const Case &c);

#endif /* GPUHIER_SIM_H */
