/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * sim_allreduce: simulated times of all-reduces, one row for each number of nodes and size.
 *
 *   sim_allreduce [--slice BYTES] [--host BYTES] [--full | --mirror] NODES,.. BYTES,.. WHAT,..
 *     WHAT      bound, auto, recursive_doubling, ring, halving, flat_ring, double_tree
 *     --slice   coll_gpuhier_slice_bytes, and no longer ones (4M, and up to 8M for long messages)
 *     --host    the key host_shard_bytes of coll_gpuhier_tune (64K)
 *     --full    simulate every node, slice and step, whatever it takes
 *     --mirror  two nodes stand for all, also where there are few
 *
 * Numbers may end in K, M or G. Prints microseconds. A process can run one simulation only, so each gets its own.
 * Exit status: 1 if a rail did not carry what the schedule's formula says.
 */
#include "sim.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace sg4 = simgrid::s4u;

namespace
{

/* Every node is simulated up to so many, if --full does not say otherwise. */
const int NODES_ALL = 64;

uint64_t number(const std::string &text)
{
    char *end;
    uint64_t value = std::strtoull(text.c_str(), &end, 10);
    const char *units = "KMG", *unit = '\0' == *end ? nullptr : std::strchr(units, *end);
    if (end == text.c_str() || ('\0' != *end && (nullptr == unit || '\0' != end[1]))) {
        std::fprintf(stderr, "sim_allreduce: '%s' is no number\n", text.c_str());
        std::exit(2);
    }
    return nullptr == unit ? value : value << (10 * (unit - units + 1));
}

std::vector<std::string> list(const std::string &text)
{
    std::vector<std::string> items;
    for (size_t begin = 0; begin <= text.size();) {
        size_t end = std::min(text.find(',', begin), text.size());
        items.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return items;
}

Outcome simulate(const Case &c, const std::string &what)
{
    if (what == "bound") {
        return {sim_bound(c), 0, 0};
    }
    static char name[] = "sim_allreduce", model[] = "--cfg=network/model:CM02", window[] = "--cfg=network/TCP-gamma:0",
                stack[] = "--cfg=contexts/stack-size:64", log[] = "--log=root.thresh:error";
    char *argv[] = {name, model, window, stack, log, nullptr};
    int argc = 5;
    sg4::Engine engine(&argc, argv);
    if (what == "flat_ring") {
        return sim_flat_ring(c);
    }
    if (what == "double_tree") {
        return sim_double_tree(c);
    }
    Case chosen = c;
    for (int i = 0; i < GPUHIER_ALGORITHM_COUNT; ++i) {
        if (what == gpuhier_algorithm_names[i]) {
            chosen.algorithm = static_cast<gpuhier_algorithm_t>(i);
            return sim_gpuhier(chosen);
        }
    }
    std::fprintf(stderr, "sim_allreduce: what is '%s'?\n", what.c_str());
    std::exit(2);
}

/* In a process of its own. */
Outcome apart(const Case &c, const std::string &what)
{
    int ends[2], status = 1;
    Outcome outcome = {};
    if (0 != pipe(ends)) {
        std::perror("sim_allreduce: pipe");
        std::exit(1);
    }
    std::fflush(stdout);
    pid_t child = fork();
    if (0 == child) {
        outcome = simulate(c, what);
        bool told = sizeof(outcome) == write(ends[1], &outcome, sizeof(outcome));
        _exit(told ? 0 : 1);
    }
    close(ends[1]);
    bool heard = sizeof(outcome) == read(ends[0], &outcome, sizeof(outcome));
    close(ends[0]);
    if (child < 0 || child != waitpid(child, &status, 0) || 0 != status || !heard || outcome.seconds <= 0.0) {
        std::fprintf(stderr, "sim_allreduce: %s of %" PRIu64 " bytes on %d nodes failed\n", what.c_str(), c.bytes,
                     c.nodes);
        std::exit(1);
    }
    return outcome;
}

} // namespace

int main(int argc, char **argv)
{
    Case c;
    bool full = false, mirror = false, right = true;
    int at = 1;
    for (; at < argc && 0 == std::strncmp(argv[at], "--", 2); ++at) {
        if (0 == std::strcmp(argv[at], "--full")) {
            full = true;
        } else if (0 == std::strcmp(argv[at], "--mirror")) {
            mirror = true;
        } else if (0 == std::strcmp(argv[at], "--slice") && at + 1 < argc) {
            c.slice_bytes = c.slice_bytes_max = number(argv[++at]);
        } else if (0 == std::strcmp(argv[at], "--host") && at + 1 < argc) {
            c.host_shard_bytes = number(argv[++at]);
        }
    }
    if (argc - at != 3) {
        std::fprintf(stderr,
                     "usage: sim_allreduce [--slice BYTES] [--host BYTES] [--full | --mirror] NODES,.. BYTES,.. "
                     "WHAT,..\n");
        return 2;
    }
    const std::vector<std::string> whats = list(argv[at + 2]);
    std::printf("# nodes bytes");
    for (const std::string &what : whats) {
        std::printf(" %s", what.c_str());
    }
    std::printf("\n");
    if (full) {
        c.repeated_max = 1 << 30;
    }
    for (const std::string &nodes : list(argv[at])) {
        for (const std::string &bytes : list(argv[at + 1])) {
            c.nodes = static_cast<int>(number(nodes));
            c.bytes = number(bytes);
            c.mirrored = (mirror || (!full && c.nodes > NODES_ALL)) && 0 == (c.nodes & (c.nodes - 1));
            std::printf("%d %" PRIu64, c.nodes, c.bytes);
            for (const std::string &what : whats) {
                Outcome outcome = apart(c, what);
                std::printf(" %.3f", 1e6 * outcome.seconds);
                if (0 != outcome.expected && outcome.sent != outcome.expected) {
                    std::printf(" (%" PRIu64 " bytes on the rail, should be %" PRIu64 ")", outcome.sent,
                                outcome.expected);
                    right = false;
                }
            }
            std::printf("\n");
            std::fflush(stdout);
        }
    }
    return right ? 0 : 1;
}
