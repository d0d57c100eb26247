/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb predict: how long a call should take, by the component's own schedule and the tables of rates,
 * beside one flat ring over all ranks.
 *
 * The model. P ranks on each of N nodes, message of B bytes, cut into S slices by the plan:
 *   in a node    each rank reads its shard of B/P bytes from every other one, and writes the result to every other one:
 *                a pair of GPUs carries B/P each way in each of the two stages; the busiest link bounds the stage
 *                The other collectives have one of these stages, or both at once in opposite directions. A root's link
 *                carries the whole message
 *   levels       (plan/coll_gpuhier_levels.h) two ranks that meet at a level, in a circle whose shards are B/n bytes,
 *                carry 2 B/n each way. On one node the last level has the shards of the level before, and carries B/n.
 *                Each stage has a kernel for each level, but on one node none for the last
 *   one group    its hosts wait for each other before the kernel of a call in slices starts, and after it
 *   one-shot     short messages in one node: each rank sends B bytes to every other one, or 2 B/P bytes in two shots,
 *                and its links carry GPUHIER_MAILBOX_WIRE times as many. Where there are blocks, it sends each rank
 * one; a root's link carries P - 1 messages between      each rank sends what info_sent_bytes() says over its share of
 * the node's rails, and every step of the exchange costs a message's latency. Where NVLink joins the nodes, a rank's
 * links carry it, and a step costs two messages and a copy in all       one slice through its stages, and for every
 * further slice the longest of a stage, the rails' part of the exchange, and all stages over the slices in flight. A
 * slice takes at least as long as the busiest link of a node needs for both stages; where NVLink joins the nodes, that
 * link carries the exchange, too flat ring    2 (n - 1) steps of B/n bytes, each at the pace of the slowest link on the
 * way, over one rail; where blocks have owners half of them; with a root n - 1 steps of a short message, and B bytes at
 * that pace Bus bandwidth is as nccl-tests define it: 2 (n - 1)/n B / time, with blocks half of that, with a root B /
 * time.
 */
#include "ompi_config.h"

#include "info_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_json.h"
#include "info_machine.h"
#include "info_rates.h"
#include "info_traffic.h"
#include "plan/coll_gpuhier_part.h"

/* What the model needs of the machine. Rates in GB/s one way: 1 GB/s is 1000 bytes in a microsecond. */
typedef struct model {
    int ranks; /* on a node */
    int nodes;
    double node_us;        /* microseconds that one byte of message costs the busiest link of a node in one stage */
    double levels_us;      /* the same in levels, in all */
    uint64_t levels_bytes; /* the shortest message that is reduced in levels; 0: none is */
    int levels;
    bool is_pcie;     /* some GPUs of a node reach each other over PCIe */
    double ring_rate; /* slowest link between neighbours in a node */
    double rank_rate; /* a rank's share of the rails */
    double rail_rate; /* one rail */
    bool by_links;    /* NVLink joins the nodes, so those two are a GPU's links */
    char link[96];
    char rail[96];
    const char *link_source; /* of the rates; NULL: there is no such link */
    const char *pcie_source;
    const char *rail_source;
} model_t;

/* From a table: every GPU has one port for all its peers, as with switches. */
static int model_links(const info_options_t *options, model_t *model)
{
    const info_rate_t *rate = info_link_rate(options->link);

    if (NULL == rate) {
        return info_fail(INFO_BAD_USAGE, "--link %s: one of %s is expected", options->link, info_rate_names(0));
    }
    const int links = 0 != options->links ? options->links : rate->links;
    const double port = info_rate_of(rate, links);
    const int p = model->ranks;
    model->node_us = p < 2 ? 0.0 : (double) (p - 1) / p / port / 1000.0;
    model->ring_rate = port;
    model->is_pcie = 0 == strncmp("pcie", rate->name, 4);
    model->link_source = rate->source;
    snprintf(model->link, sizeof(model->link), "%d x %s, %.0f GB/s each way", links, rate->name, port);
    return INFO_OK;
}

/* What a link carries each way between two GPUs of a node, as a part of the message, in all stages of a call. */
static double share_flat(const void *arg, int gpu, int other)
{
    (void) gpu;
    (void) other;
    return 2.0 / *(const int *) arg;
}

typedef struct leveled {
    gpuhier_parts_t parts;
    int ranks;
    bool several; /* nodes */
} leveled_t;

/* Which shard a rank owns. */
static int shard_of(const leveled_t *leveled, int rank)
{
    int shard = 0;

    while (rank != leveled->parts.member[shard]) {
        ++shard;
    }
    return shard;
}

/* Two ranks meet at the level at which their places differ, if they differ at no other. */
static double share_levels(const void *arg, int gpu, int other)
{
    const leveled_t *leveled = arg;
    const gpuhier_parts_t *parts = &leveled->parts;
    double shards = 1.0, share = 0.0;
    int met = 0;

    for (int level = 0, stride = leveled->ranks; level < parts->levels; ++level) {
        const bool is_doubled = !leveled->several && level + 1 == parts->levels; /* no shards of its own, and no AG */
        shards *= is_doubled ? 1.0 : parts->size[level];
        stride /= parts->size[level];
        if (shard_of(leveled, gpu) / stride % parts->size[level]
            != shard_of(leveled, other) / stride % parts->size[level]) {
            ++met;
            share = (is_doubled ? 1.0 : 2.0) / shards;
        }
    }
    return 1 == met ? share : 0.0;
}

typedef double (*share_fn_t)(const void *arg, int gpu, int other);

/*
 * Microseconds that one byte of message costs the busiest of NVLink pairs, switch ports, PCIe slots, what joins the
 * slots of a PCI switch with the rest, and the way between sockets, among the first p GPUs. pcie: NULL where no pair
 * needs it.
 */
static double busiest_us(const info_machine_t *machine, int p, const info_rate_t *nvlink, const info_rate_t *pcie,
                         share_fn_t share, const void *arg)
{
    double us = 0.0, crossing = 0.0, above[INFO_GPUS_MAX] = {0.0};

    for (int i = 0; i < p; ++i) {
        double port = 0.0, slot = 0.0;
        int at = 0; /* the first GPU at the switch of this one */
        while (at < i && INFO_WAY_PIX != machine->way[at][i]) {
            ++at;
        }
        for (int j = 0; j < p; ++j) {
            const double part = i == j ? 0.0 : share(arg, i, j);
            if (0 != machine->links[i][j] && NULL != nvlink) {
                const double busy = part / info_rate_of(nvlink, machine->links[i][j]);
                port += busy;
                us = fmax(us, busy);
            } else {
                slot += part;
                above[at] += INFO_WAY_PIX == machine->way[i][j] ? 0.0 : part;
                crossing += INFO_WAY_SYS == machine->way[i][j] ? part / 2.0 : 0.0; /* both ways are summed up */
            }
        }
        us = machine->switch_links > 0 ? fmax(us, port) : us;
        us = slot > 0.0 ? fmax(us, slot / info_rate_of(pcie, 1)) : us;
    }
    for (int i = 0; i < p; ++i) {
        us = above[i] > 0.0 ? fmax(us, above[i] / info_rate_of(pcie, 1)) : us;
    }
    return fmax(us, crossing / INFO_GBYTE_SOCKETS) / 1000.0;
}

/* Finds the levels, if the nodes have a rank on each of their GPUs and are one group each. */
static void model_levels(const info_machine_t *machine, const info_rate_t *nvlink, const info_rate_t *pcie,
                         model_t *model)
{
    gpuhier_hierarchy_t h;
    leveled_t leveled = {.ranks = model->ranks, .several = model->nodes > 1};
    int gpus[INFO_GPUS_MAX];
    bool by_host;

    if (0 == info_machine_groups(machine, &h, gpus, &by_host)) {
        return;
    }
    if (1 == h.ngroups && h.nranks == model->ranks && model->ranks == machine->ngpus
        && info_machine_levels(machine, &h, 0, gpus, by_host, &leveled.parts)) {
        model->levels = leveled.parts.levels;
        model->levels_bytes = (uint64_t) machine->levels_bytes;
        model->levels_us = busiest_us(machine, model->ranks, nvlink, pcie, share_levels, &leveled);
    }
    gpuhier_hierarchy_fini(&h);
}

/* From a machine: its links, and whether the component reduces in levels there. */
static int model_machine(const info_machine_t *machine, model_t *model)
{
    const info_rate_t *nvlink = info_nvlink_rate(machine->nvlink_generation);
    const info_rate_t *pcie = info_pcie_rate(machine->pcie_generation);
    const int p = model->ranks;

    if (p > machine->ngpus) {
        return info_fail(INFO_BAD_USAGE, "--ranks %d, but the machine has %d GPUs", p, machine->ngpus);
    }
    model->ring_rate = 0.0;
    model->link_source = NULL == nvlink ? NULL : nvlink->source;
    model->pcie_source = NULL == pcie ? NULL : pcie->source;
    for (int i = 0; i < p; ++i) {
        for (int j = 0; j < p; ++j) {
            double rate;
            if (i == j) {
                continue;
            }
            if (0 != machine->links[i][j] && NULL != nvlink) {
                rate = info_rate_of(nvlink, machine->links[i][j]);
            } else if (NULL == pcie) {
                return info_fail(INFO_BAD_USAGE, "the generation of PCIe is not known: say --link, for instance "
                                                 "pcie4");
            } else {
                model->is_pcie = true;
                rate = info_rate_of(pcie, 1);
                rate = INFO_WAY_SYS == machine->way[i][j] && rate > INFO_GBYTE_SOCKETS ? INFO_GBYTE_SOCKETS : rate;
            }
            if (j == (i + 1) % p) {
                model->ring_rate = 0.0 == model->ring_rate ? rate : fmin(model->ring_rate, rate);
            }
        }
    }
    model->node_us = busiest_us(machine, p, nvlink, pcie, share_flat, &p) / 2.0;
    model_levels(machine, nvlink, pcie, model);
    snprintf(model->link, sizeof(model->link), "%.40s, %s%s%s", machine->title, NULL == nvlink ? "" : nvlink->name,
             NULL != nvlink && NULL != pcie ? ", " : "", NULL == pcie ? "" : pcie->name);
    return INFO_OK;
}

/* NVLink in place of rails, where it joins all nodes of the machine. */
static bool model_fabric(const info_options_t *options, const info_machine_t *machine, model_t *model)
{
    const info_rate_t *rate = NULL == machine ? NULL : info_nvlink_rate(machine->nvlink_generation);

    if (NULL == rate || !machine->is_fabric || model->nodes < 2 || NULL != options->rail) {
        return false;
    }
    model->by_links = true;
    model->rank_rate = model->rail_rate = info_rate_of(rate, machine->switch_links);
    model->rail_source = "NVLink between nodes, if there is an IMEX channel; it has not run on such a machine";
    snprintf(model->rail, sizeof(model->rail), "%d x %s of each GPU, %.0f GB/s each way", machine->switch_links,
             rate->name, model->rail_rate);
    return true;
}

/* tcp: the rails are interfaces, whose rate a process does not reach. */
static int model_rails(const info_options_t *options, const info_machine_t *machine, bool tcp, model_t *model)
{
    const info_rate_t *rate = NULL == options->rail ? NULL : info_rail_rate(options->rail);
    int taken = 0, gbit = 0;

    if (model_fabric(options, machine, model)) {
        return INFO_OK;
    }
    if (NULL != options->rail && NULL == rate) {
        return info_fail(INFO_BAD_USAGE, "--rail %s: one of %s is expected", options->rail, info_rate_names(1));
    }
    for (int n = 0; NULL != machine && n < machine->nnics; ++n) {
        if (machine->nic[n].found.is_taken && machine->nic[n].gbit > 0) {
            taken++;
            gbit = machine->nic[n].gbit;
        }
    }
    if (NULL == rate && 0 == gbit) {
        return 1 == model->nodes
                   ? INFO_OK
                   : info_fail(INFO_BAD_USAGE, "the rate of the rails is not known: say --rail, for instance ndr");
    }
    const int rails = 0 != options->rails ? options->rails : taken > 0 ? taken : model->ranks;
    model->rail_rate = NULL != rate ? info_rate_of(rate, 1) : gbit / 8.0 * INFO_PORT_PAYLOAD;
    model->rank_rate = model->rail_rate * rails / model->ranks;
    model->rail_source = NULL != rate ? rate->source
                         : tcp        ? "TCP: the machine's ports, at most 3 GB/s for each rank, an assumption"
                                      : "the machine's ports, 0.95 of their rate";
    if (tcp) {
        model->rail_rate = fmin(model->rail_rate, INFO_GBYTE_TCP);
        model->rank_rate = fmin(model->rank_rate, INFO_GBYTE_TCP);
    }
    if (NULL != rate) {
        snprintf(model->rail, sizeof(model->rail),
                 "%d x %s, %.1f GB/s each "
                 "way",
                 rails, rate->name, model->rail_rate);
    } else {
        snprintf(model->rail, sizeof(model->rail),
                 "%d x %d Gbit/s, %.1f GB/s each "
                 "way",
                 rails, gbit, model->rail_rate);
    }
    return INFO_OK;
}

static bool has_root(const gpuhier_collective_t *collective)
{
    return GPUHIER_RANKS_ROOT == collective->from || GPUHIER_RANKS_ROOT == collective->to;
}

/* Bytes that the rank sends to other nodes which sends most. With a root, ranks of some groups send less than others.
 */
static double sent_most(const info_options_t *options, const gpuhier_limits_t *limits, const gpuhier_plan_t *plan)
{
    const gpuhier_hierarchy_t *h = plan->shape->hierarchy;
    uint64_t most = info_sent_bytes(plan);

    for (int g = 1; g < h->ngroups && has_root(options->collective); ++g) {
        gpuhier_plan_t other;
        if (0 == info_plan_make(&other, plan->shape, gpuhier_hierarchy_member(h, g, 0), plan->count, options, limits)) {
            const uint64_t sent = info_sent_bytes(&other);
            most = sent > most ? sent : most;
        }
    }
    return (double) most;
}

/* One kernel in a node, in slices: how often a link carries the message each way, in stages. */
static double stages_in_node(const model_t *model, const gpuhier_collective_t *collective)
{
    return gpuhier_collective_is_all_to_all(collective) ? 2.0
           : has_root(collective) && model->ranks > 1   ? (double) model->ranks / (model->ranks - 1)
                                                        : 1.0;
}

/* Microseconds of one call. bytes: of the message; sent: sent_most(). *how_p: what it does. */
static double time_of(const model_t *model, const gpuhier_plan_t *plan, const gpuhier_collective_t *collective,
                      double bytes, double sent, gpuhier_form_kind_t form, const char **how_p)
{
    const bool is_all_to_all = gpuhier_collective_is_all_to_all(collective);
    const int ngroups = plan->shape->hierarchy->ngroups;

    if (GPUHIER_FORM_ONESHOT == form && !is_all_to_all) {
        const int messages = has_root(collective) ? model->ranks : 1;
        *how_p = "one-shot kernel";
        return INFO_US_KERNEL + INFO_US_LINK + bytes * model->node_us * GPUHIER_MAILBOX_WIRE * messages;
    }
    if (GPUHIER_FORM_ONESHOT == form) {
        const bool twice = bytes >= (double) gpuhier_choice_two_shots_from(model->ranks);
        const double flat = 2.0 * bytes * model->node_us * GPUHIER_MAILBOX_WIRE;
        *how_p = twice ? "two-shot kernel" : "one-shot kernel";
        return INFO_US_KERNEL + (twice ? 2.0 * INFO_US_LINK + flat : INFO_US_LINK + flat * model->ranks / 2.0);
    }
    if (GPUHIER_FORM_SMALL == form) {
        *how_p = "on the host";
        return INFO_US_ON_HOST
               + (ngroups > 1 ? INFO_US_STEP * gpuhier_schedule_vote_steps(ngroups)
                                    + bytes * gpuhier_schedule_vote_steps(ngroups) / (1000.0 * model->rank_rate)
                              : 0.0);
    }
    const bool in_levels = is_all_to_all && 0 != model->levels_bytes && bytes >= (double) model->levels_bytes;
    if (1 == ngroups && in_levels) {
        *how_p = model->levels > 2 ? "three levels" : "two levels";
        return 2.0 * INFO_US_TURN + 2.0 * (model->levels - 1) * INFO_US_KERNEL + bytes * model->levels_us;
    }
    if (1 == ngroups) {
        *how_p = "one kernel";
        return 2.0 * INFO_US_TURN + INFO_US_KERNEL + stages_in_node(model, collective) * bytes * model->node_us;
    }
    *how_p = gpuhier_part_name(plan);
    const double slices = (double) (plan->nslices > 0 ? plan->nslices : 1);
    const double stages = collective->has_blocks ? 1.0 : 2.0; /* with a root, its group alone has one of them */
    const double in_node = bytes / slices * (in_levels ? model->levels_us : stages * model->node_us);
    const double stage = (in_levels ? model->levels : 1) * INFO_US_KERNEL + in_node / 2.0;
    const double step = model->by_links ? 2.0 * INFO_US_STEP + INFO_US_KERNEL : INFO_US_STEP;
    const double wire = sent / slices / (1000.0 * model->rank_rate);
    const double exchange = plan->nsteps * step + wire;
    const double links = in_node + (model->by_links ? wire : 0.0);
    /* So many slices are under way, from RS to AG, and hide each other's latencies. A rail carries one at a time. */
    const double pace = fmax((2.0 * stage + exchange) / plan->slice_buffers, model->by_links ? 0.0 : wire);
    return 2.0 * stage + exchange + (slices - 1.0) * fmax(links, fmax(stage, pace));
}

/* NAN: the collective has none. */
static double ring_time(const model_t *model, const gpuhier_collective_t *collective, double bytes)
{
    const double n = (double) model->ranks * model->nodes;
    const double rate = model->nodes > 1 && (model->rail_rate < model->ring_rate || model->ranks < 2)
                            ? model->rail_rate
                            : model->ring_rate;

    const double step = model->nodes > 1 ? INFO_US_STEP : INFO_US_LINK;
    if (GPUHIER_RANKS_PAIR == collective->from) {
        return (double) NAN;
    }
    if (n < 2.0) {
        return 0.0;
    }
    if (has_root(collective)) {
        return INFO_US_KERNEL + (n - 1.0) * step + bytes / (1000.0 * rate);
    }
    return INFO_US_KERNEL + (collective->has_blocks ? 1.0 : 2.0) * (n - 1.0) * (step + bytes / n / (1000.0 * rate));
}

static double busbw(const model_t *model, const gpuhier_collective_t *collective, double bytes, double us)
{
    const double n = (double) model->ranks * model->nodes;

    const double factor = has_root(collective) ? 1.0 : (collective->has_blocks ? 1.0 : 2.0) * (n - 1.0) / n;

    return us <= 0.0 ? 0.0 : factor * bytes / us / 1000.0;
}

static int print_rows(const info_options_t *options, const model_t *model, const gpuhier_shape_t *shape,
                      gpuhier_wire_t wire)
{
    const gpuhier_limits_t limits = info_limits(options, wire, shape->hierarchy->ngroups);
    const gpuhier_collective_t *collective = options->collective;
    const int nranks = shape->hierarchy->nranks;
    gpuhier_facts_t facts = info_facts(options, &limits, shape->hierarchy, model->is_pcie);

    gpuhier_choice_narrow(&facts, collective, nranks, 0); /* equal blocks */
    for (uint64_t bytes = 1024; bytes <= (uint64_t) 1 << 30; bytes *= 8) {
        const uint64_t blocks = collective->has_blocks ? (uint64_t) nranks : 1;
        const uint64_t count = options->has_count ? options->count : bytes / options->elem_bytes / blocks;
        gpuhier_plan_t plan;
        const char *how;
        char text[32];

        if (0 != info_plan_make(&plan, shape, 0, count, options, &limits)) {
            return info_plan_fail(options);
        }
        if (0 == count && !options->has_count) {
            continue; /* no element of each block */
        }
        const double size = info_size(options, nranks, count);
        facts.bytes = gpuhier_choice_axis(collective, nranks, count * options->elem_bytes);
        const double us = time_of(model, &plan, collective, size, sent_most(options, &limits, &plan),
                                  gpuhier_choice_form(&facts), &how);
        const double ring = ring_time(model, collective, size);
        if (options->json) {
            info_json_open(NULL, '{');
            info_json_number("bytes", size);
            info_json_text("path", how);
            info_json_int("slices", (long long) plan.nslices);
            info_json_number("us", us);
            info_json_number("busbw_gbyte", busbw(model, collective, size, us));
            info_json_number("flat_ring_us", ring);
            info_json_number("flat_ring_busbw_gbyte", busbw(model, collective, size, ring));
            info_json_close();
        } else {
            printf("%-11s %-20s %6llu %12.1f %10.2f", info_bytes_text(size, text), how,
                   (unsigned long long) plan.nslices, us, busbw(model, collective, size, us));
            if (isnan(ring)) {
                printf(" %14s %10s\n", "-", "-");
            } else {
                printf(" %14.1f %10.2f\n", ring, busbw(model, collective, size, ring));
            }
        }
        if (options->has_count) {
            break;
        }
    }
    return INFO_OK;
}

static void print_source(const char *source)
{
    if (NULL != source) {
        printf("  %s\n", source);
    }
}

static int print_all(const info_options_t *options, const model_t *model, gpuhier_wire_t wire)
{
    gpuhier_hierarchy_t h;
    gpuhier_shape_t shape;
    int rc = info_nodes_make(model->nodes, &model->ranks, 1, &h);

    if (INFO_OK != rc) {
        return rc;
    }
    if (0 != gpuhier_shape_init(&shape, &h)) {
        gpuhier_hierarchy_fini(&h);
        return info_fail(INFO_FAILED, "out of memory");
    }
    if (options->json) {
        info_json_open(NULL, '{');
        info_json_text("collective", options->collective->name);
        info_json_int("nodes", model->nodes);
        info_json_int("ranks_on_a_node", model->ranks);
        info_json_text("link", model->link);
        info_json_text("rails", model->nodes > 1 ? model->rail : NULL);
        info_json_bool("measured", false);
        info_json_text("link_source", model->link_source);
        info_json_text("pcie_source", model->pcie_source);
        info_json_text("rails_source", model->nodes > 1 ? model->rail_source : NULL);
        info_json_open("rows", '[');
    } else {
        printf("%s, %d node%s of %d rank%s; in a node: %s", options->collective->name, model->nodes,
               1 == model->nodes ? "" : "s", model->ranks, 1 == model->ranks ? "" : "s", model->link);
        printf("%s%s\n", model->nodes > 1 ? "; rails: " : "", model->nodes > 1 ? model->rail : "");
        printf("expected, not measured: rates by tables, %g us a kernel, %g us a message\n", INFO_US_KERNEL,
               INFO_US_STEP);
        print_source(model->link_source);
        print_source(model->pcie_source);
        print_source(model->nodes > 1 ? model->rail_source : NULL);
        printf("%-11s %-20s %6s %12s %10s %14s %10s\n", "size", "path", "slices", "us", "busbw GB/s",
               "flat "
               "ring us",
               "busbw GB/s");
    }
    rc = print_rows(options, model, &shape, wire);
    if (options->json) {
        info_json_close();
        info_json_close();
    }
    gpuhier_shape_fini(&shape);
    gpuhier_hierarchy_fini(&h);
    return rc;
}

int info_predict(const info_options_t *options)
{
    info_machine_t *machine = NULL;
    model_t model = {0};
    int rc = INFO_OK;

    if (options->nranks > 1) {
        return info_fail(INFO_BAD_USAGE, "predict takes equal nodes: --ranks with one number");
    }
    if (NULL != options->machine || NULL == options->link) {
        rc = info_machine_load(options, &machine);
    }
    if (INFO_OK != rc) {
        return rc;
    }
    model.ranks = 0 != options->nranks ? options->ranks[0] : NULL == machine ? 0 : machine->ngpus;
    model.nodes = 0 != options->nodes ? options->nodes : NULL == machine ? 1 : machine->nodes;
    if (0 == model.ranks) {
        rc = info_fail(INFO_BAD_USAGE, "there is no GPU here: say --machine FILE, or --link NAME and --ranks R");
    }
    rc = INFO_OK != rc ? rc : NULL != options->link ? model_links(options, &model) : model_machine(machine, &model);
    const bool tcp = NULL == options->rail && NULL != machine && !info_machine_is_rdma(machine);
    rc = INFO_OK != rc ? rc : model_rails(options, machine, tcp, &model);
    if (INFO_OK == rc) {
        rc = print_all(options, &model,
                       model.by_links ? GPUHIER_WIRE_NVLINK
                       : tcp          ? GPUHIER_WIRE_TCP
                                      : GPUHIER_WIRE_RDMA);
    }
    info_machine_free(machine);
    return rc;
}
