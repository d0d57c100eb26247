/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb topo: the matrix of ways between GPUs and network devices, groups, rails, and the path of data.
 */
#include "ompi_config.h"

#include "info_svg.h"

#include <stdio.h>
#include <string.h>

#include "info_json.h"

/* -- text --------------------------------------------------------------------------- */

static void print_head(const info_machine_t *machine)
{
    printf("machine: %s", machine->title);
    if (machine->is_described) {
        printf(", described%s", machine->nodes > 1 ? "" : "\n");
    }
    if (machine->nodes > 1) {
        printf(", %d nodes\n", machine->nodes);
    }
    if (!machine->is_described) {
        printf(": %d%s GPU%s", machine->ngpus,
               machine->is_emulated ? " "
                                      "emulated"
                                    : "",
               1 == machine->ngpus ? "" : "s");
        if (0 != machine->cuda_version) {
            printf(", driver for CUDA %d.%d", machine->cuda_version / 1000, machine->cuda_version % 1000 / 10);
        }
        printf("\n");
    }
    if ('\0' != machine->blind[0]) {
        printf("%s\n", machine->blind);
    }
}

static void print_gpus(const info_machine_t *machine)
{
    char text[32];

    for (int i = 0; i < machine->ngpus; ++i) {
        const info_gpu_t *gpu = &machine->gpu[i];

        printf("GPU%d: %s", i, gpu->name);
        if ('\0' != gpu->failure[0]) {
            printf(", does not answer and is left out: %s\n", gpu->failure);
            continue;
        }
        if (0 != gpu->id.cc_major) {
            printf(", compute capability %d.%d", gpu->id.cc_major, gpu->id.cc_minor);
        }
        printf(", PCI %04x:%02x:%02x", (unsigned) gpu->id.pci.domain, gpu->id.pci.bus, gpu->id.pci.device);
        if (machine->record[i].numa_node >= 0) {
            printf(", NUMA node %d", (int) machine->record[i].numa_node);
        }
        if (0 != gpu->memory) {
            printf(", %s", info_bytes_text((double) gpu->memory, text));
        }
        printf("%s%s\n", '\0' != gpu->slice[0] ? ", MIG slice " : "", gpu->slice);
    }
}

static void print_matrix(const info_machine_t *machine)
{
    bool used[INFO_WAY_COUNT] = {false};
    bool any_link = false;
    char name[16], text[8];

    printf("%-7s", "");
    for (int i = 0; i < machine->ngpus + machine->nnics; ++i) {
        snprintf(name, sizeof(name), i < machine->ngpus ? "GPU%d" : "NIC%d",
                 i < machine->ngpus ? i : i - machine->ngpus);
        printf("%-7s", name);
    }
    printf("\n");
    for (int i = 0; i < machine->ngpus; ++i) {
        snprintf(name, sizeof(name), "GPU%d", i);
        printf("%-7s", name);
        for (int j = 0; j < machine->ngpus; ++j) {
            printf("%-7s", info_way_text(machine, i, j, text));
            any_link = any_link || 0 != machine->links[i][j];
            used[machine->way[i][j]] = used[machine->way[i][j]] || 0 == machine->links[i][j];
        }
        for (int n = 0; n < machine->nnics; ++n) {
            printf("%-7s", info_way_names[machine->nic_way[i][n]]);
            used[machine->nic_way[i][n]] = true;
        }
        printf("\n");
    }
    if (any_link) {
        printf("  NV#   joined by # NVLink links\n");
    }
    for (int way = INFO_WAY_SLICE; way < INFO_WAY_COUNT; ++way) {
        if (used[way]) {
            printf("  %-5s %s\n", info_way_names[way], info_way_texts[way]);
        }
    }
}

static void print_nics(const info_machine_t *machine)
{
    printf("network devices:%s\n", 0 == machine->nnics ? " none but the loopback" : "");
    for (int n = 0; n < machine->nnics; ++n) {
        const info_nic_t *nic = &machine->nic[n];

        printf("  NIC%d: %-16s %-9s %s%s", n, nic->found.device,
               nic->found.is_taken ? "taken:" : "not taken:", nic->found.reason, nic->is_efa ? " (EFA)" : "");
        if (0 != nic->gbit) {
            printf(", %d Gbit/s", nic->gbit);
        }
        printf("\n");
    }
}

static void print_rails(const info_machine_t *machine, int gpu, bool tcp)
{
    const char *rails[GPUHIER_RAILS_MAX];
    const int nrails = info_machine_rails(machine, gpu, tcp, rails);

    for (int rail = 0; rail < nrails; ++rail) {
        printf(" %s", rails[rail]);
    }
    printf("%s\n", nrails > 0                 ? ""
                   : tcp && !machine->has_tcp ? " none: coll_gpuhier_devices names RDMA ports"
                                              : " whatever UCX finds");
}

static void print_groups(const info_machine_t *machine, const info_ucx_t *ucx)
{
    gpuhier_hierarchy_t h;
    int gpus[INFO_GPUS_MAX];
    bool by_host;
    const int nranks = info_machine_groups(machine, &h, gpus, &by_host);

    if (0 == nranks) {
        return;
    }
    printf("groups of one rank on each GPU, by the peer access that the driver grants (a job tries it):\n");
    for (int g = 0; g < h.ngroups; ++g) {
        const int size = gpuhier_hierarchy_group_size(&h, g);
        int linked = 0, pairs = 0;

        printf("  group %d:", g);
        for (int i = 0; i < size; ++i) {
            const int a = gpus[gpuhier_hierarchy_member(&h, g, i)];
            printf(" GPU%d", a);
            for (int j = 0; j < i; ++j) {
                linked += 0 != machine->links[a][gpus[gpuhier_hierarchy_member(&h, g, j)]];
                pairs++;
            }
        }
        if (pairs > 0) {
            printf(", %d of %d pairs by NVLink", linked, pairs);
        }
        printf("\n");
    }
    if (machine->nodes > 1) {
        printf("  and so on each of %d nodes: %d groups in all\n", machine->nodes, h.ngroups * machine->nodes);
    }
    for (int rank = 0; rank < nranks; ++rank) {
        printf("with one rank on each GPU, rank %d drives:", rank);
        print_rails(machine, gpus[rank], false);
    }
    if (NULL == ucx ? info_machine_is_efa(machine) : '\0' != ucx->no_rdma[0]) {
        printf("%s\n",
               NULL == ucx
                   ? "EFA ports need UCX 1.19 or later, built with EFA, which a job finds out. Without it, over TCP:"
                   : "UCX cannot use the RDMA ports here, so that a job goes on over TCP:");
        for (int rank = 0; rank < nranks; ++rank) {
            printf("  rank %d drives:", rank);
            print_rails(machine, gpus[rank], true);
        }
    }
    printf("path in a group: %s, every rank reads from and writes to every other one\n",
           by_host ? "page-locked host memory that the ranks share" : "mapped GPU memory");
    for (int g = 0; g < h.ngroups; ++g) {
        gpuhier_parts_t parts;
        char text[128], where[32] = "";
        if (h.ngroups > 1) {
            snprintf(where, sizeof(where), "group %d ", g);
        }
        if (info_machine_levels(machine, &h, g, gpus, by_host, &parts)) {
            printf("  %sfrom %d bytes: %s\n", where, machine->levels_bytes,
                   gpuhier_levels_text(&parts, text, sizeof(text)));
        }
    }
    if (h.ngroups > 1) {
        printf("path between groups of one node: %s\n", info_node_path_text(machine, &h, gpus));
    }
    gpuhier_hierarchy_fini(&h);
}

static void print_ucx(const info_ucx_t *ucx)
{
    if ('\0' != ucx->no_rdma[0]) {
        printf("UCX %s: cannot use the RDMA ports: %s\n", ucx->version, ucx->no_rdma);
    }
    printf("UCX %s: ", ucx->version);
    if ('\0' != ucx->failure[0]) {
        printf("cannot be opened: %s\n", ucx->failure);
    } else {
        const char *remedy = gpuhier_net_gpu_remedy(ucx->gpu);
        printf("%s GPU memory: %s%s%s\n", ucx->takes_gpu_memory ? "takes" : "is not given",
               gpuhier_net_gpu_reason(ucx->gpu), '\0' == remedy[0] ? "" : "; ", remedy);
    }
}

static void print_text(const info_machine_t *machine, const info_ucx_t *ucx)
{
    char path[2 * INFO_PATH_ROOM];

    print_head(machine);
    print_gpus(machine);
    if (machine->ngpus > 0) {
        print_matrix(machine);
    }
    print_nics(machine);
    print_groups(machine, ucx);
    info_path_text(machine, ucx, path, sizeof(path));
    printf("path between groups: %s\n", path);
    if (NULL != ucx) {
        print_ucx(ucx);
    }
}

/* -- JSON --------------------------------------------------------------------------- */

static void json_gpus(const info_machine_t *machine)
{
    char text[64];

    info_json_open("gpus", '[');
    for (int i = 0; i < machine->ngpus; ++i) {
        const info_gpu_t *gpu = &machine->gpu[i];

        info_json_open(NULL, '{');
        info_json_text("name", gpu->name);
        snprintf(text, sizeof(text), "%04x:%02x:%02x", (unsigned) gpu->id.pci.domain, gpu->id.pci.bus,
                 gpu->id.pci.device);
        info_json_text("pci", text);
        info_json_int("numa", machine->record[i].numa_node);
        info_json_int("memory", (long long) gpu->memory);
        info_json_text("mig", '\0' == gpu->slice[0] ? NULL : gpu->slice);
        info_json_text("failure", '\0' == gpu->failure[0] ? NULL : gpu->failure);
        info_json_open("gpu_ways", '[');
        for (int j = 0; j < machine->ngpus; ++j) {
            info_json_text(NULL, info_way_text(machine, i, j, text));
        }
        info_json_close();
        info_json_open("nic_ways", '[');
        for (int n = 0; n < machine->nnics; ++n) {
            info_json_text(NULL, info_way_names[machine->nic_way[i][n]]);
        }
        info_json_close();
        info_json_close();
    }
    info_json_close();
}

static void json_nics(const info_machine_t *machine)
{
    info_json_open("nics", '[');
    for (int n = 0; n < machine->nnics; ++n) {
        const info_nic_t *nic = &machine->nic[n];

        info_json_open(NULL, '{');
        info_json_text("device", nic->found.device);
        info_json_text("kind", nic->is_efa ? "efa" : nic->found.is_rdma ? "rdma" : "ethernet");
        info_json_int("gbit", nic->gbit);
        info_json_bool("taken", nic->found.is_taken);
        info_json_text("reason", nic->found.reason);
        info_json_close();
    }
    info_json_close();
}

static void json_rails(const info_machine_t *machine, const char *name, const int *gpus, int nranks, bool tcp)
{
    info_json_open(name, '[');
    for (int rank = 0; rank < nranks; ++rank) {
        const char *rails[GPUHIER_RAILS_MAX];
        const int nrails = info_machine_rails(machine, gpus[rank], tcp, rails);

        info_json_open(NULL, '[');
        for (int rail = 0; rail < nrails; ++rail) {
            info_json_text(NULL, rails[rail]);
        }
        info_json_close();
    }
    info_json_close();
}

static void json_groups(const info_machine_t *machine)
{
    gpuhier_hierarchy_t h;
    int gpus[INFO_GPUS_MAX];
    bool by_host;
    const int nranks = info_machine_groups(machine, &h, gpus, &by_host);

    info_json_open("groups", '[');
    for (int g = 0; nranks > 0 && g < h.ngroups; ++g) {
        info_json_open(NULL, '[');
        for (int i = 0; i < gpuhier_hierarchy_group_size(&h, g); ++i) {
            info_json_int(NULL, gpus[gpuhier_hierarchy_member(&h, g, i)]);
        }
        info_json_close();
    }
    info_json_close();
    json_rails(machine, "rails", gpus, nranks, false);
    if (info_machine_has_rdma(machine)) {
        json_rails(machine, "rails_without_rdma", gpus, nranks, true);
    }
    if (nranks > 0) {
        info_json_int("groups_in_all", (long long) h.ngroups * machine->nodes);
        gpuhier_parts_t parts;
        const bool in_levels = info_machine_levels(machine, &h, 0, gpus, by_host, &parts);
        info_json_text("pattern_in_group", by_host ? "host" : in_levels ? "levels" : "direct");
        info_json_text("path_between_groups_of_a_node", h.ngroups < 2                           ? NULL
                                                        : info_machine_links(machine, &h, gpus) ? "links"
                                                                                                : "host memory");
        gpuhier_hierarchy_fini(&h);
    }
}

static void print_json(const info_machine_t *machine, const info_ucx_t *ucx)
{
    char path[2 * INFO_PATH_ROOM];

    info_path_text(machine, ucx, path, sizeof(path));
    info_json_open(NULL, '{');
    info_json_text("machine", machine->title);
    info_json_bool("described", machine->is_described);
    info_json_bool("emulated", machine->is_emulated);
    info_json_int("nodes", machine->nodes);
    info_json_text("blind", '\0' == machine->blind[0] ? NULL : machine->blind);
    json_gpus(machine);
    json_nics(machine);
    json_groups(machine);
    info_json_text("path_between_groups", path);
    if (NULL != ucx) {
        info_json_open("ucx", '{');
        info_json_text("version", ucx->version);
        info_json_bool("asked_for_gpu_memory", ucx->asked);
        info_json_bool("takes_gpu_memory", ucx->takes_gpu_memory);
        info_json_text("because", '\0' == ucx->failure[0] ? gpuhier_net_gpu_reason(ucx->gpu) : NULL);
        info_json_text("no_rdma", '\0' == ucx->no_rdma[0] ? NULL : ucx->no_rdma);
        info_json_text("failure", '\0' == ucx->failure[0] ? NULL : ucx->failure);
        info_json_close();
    }
    info_json_close();
}

int info_topo(const info_options_t *options)
{
    info_machine_t *machine;
    info_ucx_t ucx;
    int rc = info_machine_load(options, &machine);

    if (INFO_OK != rc) {
        return rc;
    }
    if (!machine->is_described) {
        info_ask_ucx(machine, options, &ucx);
    }
    const info_ucx_t *asked = machine->is_described ? NULL : &ucx;
    if (options->json) {
        print_json(machine, asked);
    } else {
        print_text(machine, asked);
    }
    if (NULL != options->svg) {
        rc = info_svg(machine, asked, options->svg);
    }
    info_machine_free(machine);
    return rc;
}
