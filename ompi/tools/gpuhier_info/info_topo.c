/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb topo: the matrix of ways between GPUs and network devices, groups, rails, and the path of data.
 */
#include "ompi_config.h"

#include "info_topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "info_driver.h"
#include "info_json.h"
#include "net/coll_gpuhier_net.h"
#include "ompi/constants.h"
#include "plan/coll_gpuhier_rails.h"

const char *info_way_text(const info_machine_t *machine, int gpu, int other, char text[8])
{
    if (machine->links[gpu][other] > 0 && gpu != other) {
        snprintf(text, 8, "NV%d", machine->links[gpu][other]);
        return text;
    }
    return info_way_names[machine->way[gpu][other]];
}

/* UCX registers a page of GPU memory in the context that is current. Returns NULL without one. */
static const info_driver_t *gpu_enter(const info_machine_t *machine, CUdevice *device_p)
{
    const info_driver_t *driver = info_driver(NULL);
    CUcontext context;
    if (NULL == driver || 0 == machine->ngpus || CUDA_SUCCESS != driver->cuDeviceGet(device_p, 0)
        || CUDA_SUCCESS != driver->cuDevicePrimaryCtxRetain(&context, *device_p)) {
        return NULL;
    }
    if (CUDA_SUCCESS != driver->cuCtxPushCurrent(context)) {
        (void) driver->cuDevicePrimaryCtxRelease(*device_p);
        return NULL;
    }
    return driver;
}

static void gpu_leave(const info_driver_t *driver, CUdevice device)
{
    CUcontext context;
    if (NULL != driver) {
        (void) driver->cuCtxPopCurrent(&context);
        (void) driver->cuDevicePrimaryCtxRelease(device);
    }
}

/* Opens the rails, and where UCX cannot use RDMA ports those over TCP, as a job does. */
static int rails_open(const info_machine_t *machine, gpuhier_net_cuda_mode_t mode, gpuhier_net_t **net_p,
                      info_ucx_t *ucx_p)
{
    const char *devices[GPUHIER_RAILS_MAX];
    const char *why = "";
    int nrails = gpuhier_rails_devices(&machine->record[0], devices);

    int rc = gpuhier_net_open(devices, nrails, mode, net_p, &why);
    if (OMPI_SUCCESS != rc && info_machine_has_rdma(machine)) {
        snprintf(ucx_p->no_rdma, sizeof(ucx_p->no_rdma), "%s", why);
        nrails = gpuhier_rails_devices(&machine->tcp[0], devices);
        rc = machine->has_tcp ? gpuhier_net_open(devices, nrails, mode, net_p, &why) : rc;
    }
    if (OMPI_SUCCESS != rc) {
        snprintf(ucx_p->failure, sizeof(ucx_p->failure), "%s", why);
    }
    return rc;
}

void info_ask_ucx(const info_machine_t *machine, const info_options_t *options, info_ucx_t *ucx_p)
{
    gpuhier_net_t *net;

    memset(ucx_p, 0, sizeof(*ucx_p));
    snprintf(ucx_p->version, sizeof(ucx_p->version), "%s", ucp_get_version_string());
    const gpuhier_net_cuda_mode_t mode = 1 == options->mca.net   ? GPUHIER_NET_CUDA_DIRECT
                                         : 2 == options->mca.net ? GPUHIER_NET_CUDA_STAGED
                                                                 : GPUHIER_NET_CUDA_AUTO;
    const bool rdma = info_machine_is_rdma(machine);
    ucx_p->asked = GPUHIER_NET_CUDA_DIRECT == mode || (GPUHIER_NET_CUDA_AUTO == mode && rdma);
    CUdevice device = 0;
    const info_driver_t *driver = GPUHIER_NET_CUDA_AUTO == mode && rdma ? gpu_enter(machine, &device) : NULL;
    if (OMPI_SUCCESS == rails_open(machine, mode, &net, ucx_p)) {
        ucx_p->takes_gpu_memory = gpuhier_net_can_cuda(net);
        ucx_p->gpu = gpuhier_net_gpu(net);
        gpuhier_net_close(net);
    }
    gpu_leave(driver, device);
}

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

const char *info_node_path_text(const info_machine_t *machine, const gpuhier_hierarchy_t *h, const int *gpus)
{
    return info_machine_links(machine, h, gpus) ? "mapped GPU memory of the partners in the other group"
                                                : "page-locked host memory that the groups share";
}

static void network_text(const info_machine_t *machine, const info_ucx_t *ucx, char *text, size_t room)
{
    static const char or_pml[] = ", or by Open MPI's own messages if these have a fabric";
    const bool rdma = info_machine_is_rdma(machine);

    if (NULL != ucx && '\0' != ucx->failure[0]) {
        snprintf(text, room, "none: UCX cannot be opened, calls go to Open MPI's own collectives");
    } else if (NULL != ucx) {
        const bool by_rdma = rdma && '\0' == ucx->no_rdma[0];
        snprintf(text, room, "%s over %s rails%s%s", ucx->takes_gpu_memory ? "GPU memory" : "pinned host memory",
                 by_rdma ? "rdma" : "tcp", '\0' == ucx->no_rdma[0] ? "" : ", since UCX cannot use the RDMA ports",
                 by_rdma ? "" : or_pml);
    } else if (info_machine_is_efa(machine)) {
        snprintf(
            text, room,
            "GPU memory over rdma rails if UCX has EFA (from 1.19) and takes it, else pinned host memory over rdma "
            "or tcp rails%s",
            or_pml);
    } else if (rdma) {
        snprintf(text, room, "GPU memory over rdma rails if UCX takes it, else pinned host memory");
    } else {
        snprintf(text, room, "pinned host memory over tcp rails%s", or_pml);
    }
}

void info_path_text(const info_machine_t *machine, const info_ucx_t *ucx, char *text, size_t room)
{
    char network[INFO_PATH_ROOM];

    network_text(machine, ucx, network, sizeof(network));
    snprintf(text, room, "%s%s",
             machine->is_fabric ? "mapped GPU memory over NVLink if there is an IMEX channel, else " : "", network);
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
