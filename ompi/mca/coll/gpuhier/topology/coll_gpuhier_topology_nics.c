/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which network devices this machine has, by the names that UCX gives them, and which of them may be rails.
 *
 * Found: each port of each device in /sys/class/infiniband, and each interface in /sys/class/net except the loopback.
 * With a list from the user, the devices that it names are taken. Otherwise the first of these classes that is not
 * empty:
 *   1. active RDMA ports of devices that this process may open,
 *   2. interfaces that are up and have an address beyond the link,
 *   3. the same of bridges, containers and tunnels,
 * and of that class only devices at least half as fast as its fastest one, because a management port beside the fabric
 * is no rail. The distance to the GPU does not matter here.
 *
 * Called by coll_gpuhier_topology.c.
 */
#include "ompi_config.h"

#include "topology/coll_gpuhier_topology_internal.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ompi/constants.h"

void gpuhier_text_add(gpuhier_text_t *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *grown = (length < 0) ? NULL : realloc(text->text, text->length + (size_t) length + 1);
    if (NULL != grown) {
        vsnprintf(grown + text->length, (size_t) length + 1, format, again);
        text->text = grown;
        text->length += (size_t) length;
    }
    va_end(again);
}

/* Makes the path folder/leaf. Returns false if it is too long. */
static bool join(char path[PATH_MAX], const char *folder, const char *leaf)
{
    const int length = snprintf(path, PATH_MAX, "%s/%s", folder, leaf);
    return 0 <= length && length < PATH_MAX;
}

/* Reads the first line of folder/leaf, without its end. It is "" if the file cannot be read. */
static void read_line(char *line, size_t bytes, const char *folder, const char *leaf)
{
    char path[PATH_MAX];
    line[0] = '\0';
    FILE *file = join(path, folder, leaf) ? fopen(path, "re") : NULL;
    if (NULL == file) {
        return;
    }
    if (NULL == fgets(line, (int) bytes, file)) {
        line[0] = '\0';
    }
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

/* Sets the PCI address: the last part of the path to which the link "device" in a device's folder leads. */
static void find_pci(gpuhier_found_nic_t *nic, const char *folder)
{
    char path[PATH_MAX], target[PATH_MAX];
    if (!join(path, folder, "device") || NULL == realpath(path, target)) {
        return;
    }
    unsigned domain, bus, device, function;
    const char *last = strrchr(target, '/');
    if (NULL != last && 4 == sscanf(last, "/%x:%x:%x.%x", &domain, &bus, &device, &function)) {
        nic->has_pci = true;
        nic->pci = (gpuhier_pci_id_t){
            .domain = domain, .bus = (uint8_t) bus, .device = (uint8_t) device, .function = (uint8_t) function};
    }
}

/* Does the name come from a tool that makes interfaces without a wire? */
static bool name_is_virtual(const char *name)
{
    static const char *const prefixes[] = {"docker", "virbr",  "vmnet",     "br-",     "veth",   "vnet", "cni",
                                           "cali",   "cilium", "flannel",   "vxlan",   "geneve", "kube", "nodelocaldns",
                                           "lxc",    "lxd",    "podman",    "nerdctl", "tun",    "tap",  "gre",
                                           "ipip",   "wg",     "tailscale", "zt",      "ifb",    "dummy"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); ++i) {
        if (0 == strncmp(name, prefixes[i], strlen(prefixes[i]))) {
            return true;
        }
    }
    return false;
}

static void describe_interface(gpuhier_found_nic_t *nic, const char *folder, bool up)
{
    char path[PATH_MAX];
    nic->is_virtual = name_is_virtual(nic->device) || (join(path, folder, "bridge") && 0 == access(path, F_OK));
    nic->is_usable = up;
    char line[64];
    read_line(line, sizeof(line), folder, "speed");
    const long speed = strtol(line, NULL, 10);
    nic->mbit = (speed > 0) ? (unsigned) speed : 0;
    find_pci(nic, folder);
}

/*
 * May this process open the RDMA device? /sys shows all devices of the machine in every container. Programs use them
 * through files of /dev, which a container has only if it was given the devices.
 */
static bool may_open(const char *sys, const char *dev, const char *name)
{
    char verbs[PATH_MAX];
    DIR *dir = join(verbs, sys, "class/infiniband_verbs") ? opendir(verbs) : NULL;
    bool may = false;
    struct dirent *entry;
    while (NULL != dir && !may && NULL != (entry = readdir(dir))) {
        char folder[PATH_MAX], path[PATH_MAX], nodes[PATH_MAX];
        char device[GPUHIER_RECORD_DEVICE_MAX];
        if ('.' != entry->d_name[0] && join(folder, verbs, entry->d_name) && join(nodes, dev, "infiniband")
            && join(path, nodes, entry->d_name)) {
            read_line(device, sizeof(device), folder, "ibdev");
            may = 0 == strcmp(name, device) && 0 == access(path, R_OK | W_OK);
        }
    }
    if (NULL != dir) {
        closedir(dir);
    }
    return may;
}

static void describe_port(gpuhier_found_nic_t *nic, const char *folder, int port, bool opens)
{
    nic->is_rdma = true;
    char leaf[32], line[64];
    snprintf(leaf, sizeof(leaf), "ports/%d/state", port);
    read_line(line, sizeof(line), folder, leaf);
    const bool is_active = NULL != strstr(line, "ACTIVE");
    nic->is_closed = is_active && !opens;
    nic->is_usable = is_active && opens;
    snprintf(leaf, sizeof(leaf), "ports/%d/rate", port);
    read_line(line, sizeof(line), folder, leaf);
    nic->mbit = (unsigned) (strtod(line, NULL) * 1000.0);
    snprintf(leaf, sizeof(leaf), "ports/%d/link_layer", port);
    read_line(line, sizeof(line), folder, leaf);
    nic->is_ethernet = 0 == strcmp(line, "Ethernet");
    find_pci(nic, folder);
}

/* Puts RDMA ports first, and longer names after shorter ones, so that eth10 comes after eth9. */
static int compare_nics(const void *a, const void *b)
{
    const gpuhier_found_nic_t *left = a, *right = b;
    if (left->is_rdma != right->is_rdma) {
        return left->is_rdma ? -1 : 1;
    }
    const size_t left_length = strlen(left->device), right_length = strlen(right->device);
    return left_length == right_length ? strcmp(left->device, right->device) : left_length < right_length ? -1 : 1;
}

/* The devices that are found. */
typedef struct {
    gpuhier_found_nic_t *nics;
    int count, max;
} found_t;

/* Begins a device under UCX's name; port 0: an interface. Returns false if the name is too long. */
static bool begin(gpuhier_found_nic_t *nic, const char *name, int port)
{
    memset(nic, 0, sizeof(*nic));
    nic->distance = GPUHIER_DISTANCE_UNKNOWN;
    const int length = (0 == port) ? snprintf(nic->device, sizeof(nic->device), "%s", name)
                                   : snprintf(nic->device, sizeof(nic->device), "%s:%d", name, port);
    return length < (int) sizeof(nic->device);
}

static int worth_of(const gpuhier_found_nic_t *nic)
{
    return !nic->is_usable ? 0 : nic->is_virtual ? 1 : 2;
}

/* Adds a device. Where there is no room left, as on a host of containers or of virtual functions, which lists hundreds
 * in an order of its own, it takes the place of one that is worth less. */
static void add(found_t *found, const gpuhier_found_nic_t *nic)
{
    gpuhier_found_nic_t *place = found->count < found->max ? &found->nics[found->count++] : NULL;
    for (int i = 0; NULL == place && i < found->count; ++i) {
        place = worth_of(&found->nics[i]) < worth_of(nic) ? &found->nics[i] : NULL;
    }
    if (NULL != place) {
        *place = *nic;
    }
}

/* Adds the ports of an RDMA device, which has one or two. */
static void add_rdma_device(found_t *found, const char *folder, const char *name, bool opens)
{
    for (int port = 1; port <= 2; ++port) {
        gpuhier_found_nic_t nic;
        char path[PATH_MAX], leaf[32];
        snprintf(leaf, sizeof(leaf), "ports/%d", port);
        if (join(path, folder, leaf) && 0 == access(path, F_OK) && begin(&nic, name, port)) {
            describe_port(&nic, folder, port, opens);
            add(found, &nic);
        }
    }
}

int gpuhier_nics_find(const char *sys, const char *dev, bool (*up)(void *arg, const char *name), void *arg,
                      gpuhier_found_nic_t *nics, int max)
{
    static const char *const classes[] = {"class/infiniband", "class/net"};
    found_t found = {.nics = nics, .max = max};
    for (int i = 0; i < 2; ++i) {
        char path[PATH_MAX];
        struct dirent *entry;
        DIR *dir = join(path, sys, classes[i]) ? opendir(path) : NULL;

        while (NULL != dir && NULL != (entry = readdir(dir))) {
            char folder[PATH_MAX];
            if ('.' == entry->d_name[0] || 0 == strcmp(entry->d_name, "lo") || !join(folder, path, entry->d_name)) {
                continue;
            }
            if (0 == i) {
                add_rdma_device(&found, folder, entry->d_name, may_open(sys, dev, entry->d_name));
                continue;
            }
            gpuhier_found_nic_t nic;
            if (begin(&nic, entry->d_name, 0)) {
                describe_interface(&nic, folder, up(arg, entry->d_name));
                add(&found, &nic);
            }
        }
        if (NULL != dir) {
            closedir(dir);
        }
    }
    qsort(nics, (size_t) found.count, sizeof(*nics), compare_nics);
    return found.count;
}

bool gpuhier_nics_address_counts(const struct sockaddr *address)
{
    if (NULL != address && AF_INET == address->sa_family) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *) (const void *) address;
        return 0xa9fe != ntohl(ipv4->sin_addr.s_addr) >> 16; /* 169.254/16 */
    }
    if (NULL != address && AF_INET6 == address->sa_family) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *) (const void *) address;
        return !IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr);
    }
    return false;
}

bool gpuhier_nics_interface_is_up(void *arg, const char *name)
{
    (void) arg;
    struct ifaddrs *all;
    if (0 != getifaddrs(&all)) {
        return false;
    }
    bool up = false;
    for (struct ifaddrs *at = all; NULL != at && !up; at = at->ifa_next) {
        up = 0 == strcmp(at->ifa_name, name) && 0 != (at->ifa_flags & IFF_UP) && 0 != (at->ifa_flags & IFF_RUNNING)
             && 0 == (at->ifa_flags & IFF_LOOPBACK) && gpuhier_nics_address_counts(at->ifa_addr);
    }
    freeifaddrs(all);
    return up;
}

/* The device that a listed name means, or NULL. "mlx5_0" means its first port. */
static gpuhier_found_nic_t *find_named(gpuhier_found_nic_t *nics, int count, const char *name, size_t length)
{
    for (int i = 0; i < count; ++i) {
        const char *rest = 0 == strncmp(nics[i].device, name, length) ? nics[i].device + length : "-";
        if ('\0' == *rest || (nics[i].is_rdma && 0 == strcmp(rest, ":1"))) {
            return &nics[i];
        }
    }
    return NULL;
}

/* Why a listed device cannot be used: the end of a sentence that begins with its name. */
static const char *unusable_text(const gpuhier_found_nic_t *nic)
{
    if (nic->is_closed) {
        return "has no node in /dev/infiniband that this process may open";
    }
    if (nic->is_failed) {
        return "UCX cannot use";
    }
    return nic->is_rdma ? "is not up" : "is not up or has no address beyond the link";
}

static int choose_listed(gpuhier_found_nic_t *nics, int count, const char *list, gpuhier_text_t *report)
{
    for (int i = 0; i < count; ++i) {
        snprintf(nics[i].reason, sizeof(nics[i].reason), "is not in the list %.*s", GPUHIER_NIC_REASON_MAX - 24, list);
    }
    for (const char *at = list; '\0' != *at;) {
        const size_t length = strcspn(at, ",");
        const char *name = at;
        at += length + (',' == at[length] ? 1 : 0);
        if (0 == length) {
            continue;
        }
        gpuhier_found_nic_t *nic = find_named(nics, count, name, length);
        if (NULL == nic || !nic->is_usable) {
            gpuhier_text_add(report, "the list of network devices names %.*s, which %s\n", (int) length, name,
                             NULL == nic ? "this machine does not have" : unusable_text(nic));
            return OMPI_ERR_NOT_FOUND;
        }
        nic->is_taken = true;
        snprintf(nic->reason, sizeof(nic->reason), "is in the list");
    }
    return OMPI_SUCCESS;
}

/* 0: RDMA, 1: interface, 2: virtual interface. */
static int class_of(const gpuhier_found_nic_t *nic)
{
    return nic->is_rdma ? 0 : nic->is_virtual ? 2 : 1;
}

int gpuhier_nics_choose(gpuhier_found_nic_t *nics, int count, const char *list, gpuhier_text_t *report)
{
    static const char *const names[] = {"an RDMA port", "an interface", "a virtual interface"};
    if (NULL != list && '\0' != list[0]) {
        return choose_listed(nics, count, list, report);
    }
    int best = 3;
    unsigned fastest = 0;  /* of that class */
    bool ethernet = false; /* the network of the fastest port; the other one is for storage, or leads elsewhere */
    for (int i = 0; i < count; ++i) {
        const int class = class_of(&nics[i]);
        if (nics[i].is_usable
            && (class < best || (class == best && nics[i].mbit + !nics[i].is_ethernet > fastest + !ethernet))) {
            best = class;
            fastest = nics[i].mbit;
            ethernet = nics[i].is_ethernet;
        }
    }
    for (int i = 0; i < count; ++i) {
        gpuhier_found_nic_t *nic = &nics[i];
        if (nic->is_closed) {
            snprintf(nic->reason, sizeof(nic->reason), "has no node in /dev/infiniband that this process may open");
        } else if (nic->is_failed) {
            snprintf(nic->reason, sizeof(nic->reason), "is an RDMA port, which UCX cannot use in this job");
        } else if (!nic->is_usable) {
            snprintf(nic->reason, sizeof(nic->reason),
                     nic->is_rdma ? "has no active link" : "is down or has no address beyond the link");
        } else if (class_of(nic) != best) {
            snprintf(nic->reason, sizeof(nic->reason), "is %s, and there is %s", names[class_of(nic)], names[best]);
        } else if (nic->is_ethernet != ethernet) {
            snprintf(nic->reason, sizeof(nic->reason), "is %s Ethernet port, and the fastest is %s",
                     ethernet ? "no" : "an", ethernet ? "one" : "none");
        } else if (0 != nic->mbit && nic->mbit < fastest / 2) {
            snprintf(nic->reason, sizeof(nic->reason), "has %u Mbit/s, and there is one with %u", nic->mbit, fastest);
        } else {
            nic->is_taken = true;
            snprintf(nic->reason, sizeof(nic->reason), "is %s that is up", names[class_of(nic)]);
        }
    }
    return OMPI_SUCCESS;
}
