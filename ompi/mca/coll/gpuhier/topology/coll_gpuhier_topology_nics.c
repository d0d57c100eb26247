/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which network devices this machine has, by the names that UCX gives them, and
 * which of them may be rails.
 *
 * Found: every port of every device of /sys/class/infiniband, and every
 * interface of /sys/class/net but the loopback. Taken, without a list from the
 * user, is the first of these classes that is not empty:
 *   1. RDMA ports that are active, of devices that this process may open,
 *   2. interfaces that are up and have an address beyond the link,
 *   3. the same of bridges, containers and tunnels,
 * and of that class all that are at least half as fast as its fastest (a
 * management port beside the fabric is no rail). With a list: what it names.
 * How near a device is to the GPU does not matter here.
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
    va_list args;
    va_list again;
    int length;
    char *grown;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    grown = (length < 0) ? NULL : realloc(text->text, text->length + (size_t) length + 1);
    if (NULL != grown) {
        vsnprintf(grown + text->length, (size_t) length + 1, format, again);
        text->text = grown;
        text->length += (size_t) length;
    }
    va_end(again);
}

/* folder/leaf; false if that is too long a path. */
static bool join(char path[PATH_MAX], const char *folder, const char *leaf)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, leaf);

    return 0 <= length && length < PATH_MAX;
}

/* The first line of folder/leaf, without its end; "" if it cannot be read. */
static void read_line(char *line, size_t bytes, const char *folder, const char *leaf)
{
    char path[PATH_MAX];
    FILE *file;

    line[0] = '\0';
    file = join(path, folder, leaf) ? fopen(path, "re") : NULL;
    if (NULL == file) {
        return;
    }
    if (NULL == fgets(line, (int) bytes, file)) {
        line[0] = '\0';
    }
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

/* The PCI address that the link "device" of a device's folder ends in. */
static void find_pci(gpuhier_found_nic_t *nic, const char *folder)
{
    char path[PATH_MAX];
    char target[PATH_MAX];
    const char *last;
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned function;

    if (!join(path, folder, "device") || NULL == realpath(path, target)) {
        return;
    }
    last = strrchr(target, '/');
    if (NULL != last && 4 == sscanf(last, "/%x:%x:%x.%x", &domain, &bus, &device, &function)) {
        nic->has_pci = true;
        nic->pci = (gpuhier_pci_id_t){
            .domain = domain, .bus = (uint8_t) bus, .device = (uint8_t) device, .function = (uint8_t) function};
    }
}

/* Names that tools give to interfaces that lead to no wire of their own. */
static bool name_is_virtual(const char *name)
{
    static const char *const prefixes[] = {"docker", "virbr", "vmnet",   "br-",   "veth", "vnet",
                                           "cni",    "cali",  "flannel", "lxc",   "lxd",  "podman",
                                           "tun",    "tap",   "ifb",     "dummy", "wg",   "nerdctl"};
    size_t i;

    for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); ++i) {
        if (0 == strncmp(name, prefixes[i], strlen(prefixes[i]))) {
            return true;
        }
    }
    return false;
}

static void describe_interface(gpuhier_found_nic_t *nic, const char *folder, bool up)
{
    char path[PATH_MAX];
    char line[64];
    long speed;

    nic->is_virtual = name_is_virtual(nic->device) || (join(path, folder, "bridge") && 0 == access(path, F_OK));
    nic->is_usable = up;
    read_line(line, sizeof(line), folder, "speed");
    speed = strtol(line, NULL, 10);
    nic->mbit = (speed > 0) ? (unsigned) speed : 0;
    find_pci(nic, folder);
}

/*
 * May this process open the RDMA device? sysfs shows all of the machine's devices in every container, but
 * programs use them by the nodes of /dev, which a container has only if it was given them.
 */
static bool may_open(const char *sys, const char *dev, const char *name)
{
    char verbs[PATH_MAX];
    bool may = false;
    struct dirent *entry;
    DIR *dir = join(verbs, sys, "class/infiniband_verbs") ? opendir(verbs) : NULL;

    while (NULL != dir && !may && NULL != (entry = readdir(dir))) {
        char folder[PATH_MAX];
        char path[PATH_MAX];
        char nodes[PATH_MAX];
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
    char leaf[32];
    char line[64];

    nic->is_rdma = true;
    snprintf(leaf, sizeof(leaf), "ports/%d/state", port);
    read_line(line, sizeof(line), folder, leaf);
    nic->is_closed = NULL != strstr(line, "ACTIVE") && !opens;
    nic->is_usable = NULL != strstr(line, "ACTIVE") && opens;
    snprintf(leaf, sizeof(leaf), "ports/%d/rate", port);
    read_line(line, sizeof(line), folder, leaf);
    nic->mbit = (unsigned) (strtod(line, NULL) * 1000.0);
    find_pci(nic, folder);
}

static int compare_names(const void *a, const void *b)
{
    /* Longer names after shorter ones, so that eth10 comes after eth9. */
    const gpuhier_found_nic_t *left = a;
    const gpuhier_found_nic_t *right = b;
    size_t left_length = strlen(left->device);
    size_t right_length = strlen(right->device);

    if (left_length != right_length) {
        return (left_length < right_length) ? -1 : 1;
    }
    return strcmp(left->device, right->device);
}

/* Add one device if there is room and its name fits; the name is UCX's. */
static gpuhier_found_nic_t *add(gpuhier_found_nic_t *nics, int *count, int max, const char *name, int port)
{
    gpuhier_found_nic_t *nic = &nics[*count];
    int length;

    if (*count >= max) {
        return NULL;
    }
    memset(nic, 0, sizeof(*nic));
    length = (0 == port) ? snprintf(nic->device, sizeof(nic->device), "%s", name)
                         : snprintf(nic->device, sizeof(nic->device), "%s:%d", name, port);
    if (length >= (int) sizeof(nic->device)) {
        return NULL;
    }
    nic->distance = GPUHIER_DISTANCE_UNKNOWN;
    (*count)++;
    return nic;
}

/* Add the ports of one RDMA device; those of today have one or two. */
static void add_rdma_device(gpuhier_found_nic_t *nics, int *count, int max, const char *folder, const char *name,
                            bool opens)
{
    int port;

    for (port = 1; port <= 2; ++port) {
        gpuhier_found_nic_t *nic;
        char path[PATH_MAX];
        char leaf[32];

        snprintf(leaf, sizeof(leaf), "ports/%d", port);
        if (join(path, folder, leaf) && 0 == access(path, F_OK)) {
            nic = add(nics, count, max, name, port);
            if (NULL != nic) {
                describe_port(nic, folder, port, opens);
            }
        }
    }
}

int gpuhier_nics_find(const char *sys, const char *dev, bool (*up)(void *arg, const char *name), void *arg,
                      gpuhier_found_nic_t *nics, int max)
{
    static const char *const classes[] = {"class/infiniband", "class/net"};
    char path[PATH_MAX];
    char folder[PATH_MAX];
    int count = 0;
    int i;

    for (i = 0; i < 2; ++i) {
        int begin = count;
        struct dirent *entry;
        DIR *dir = join(path, sys, classes[i]) ? opendir(path) : NULL;

        while (NULL != dir && NULL != (entry = readdir(dir))) {
            gpuhier_found_nic_t *nic;

            if ('.' == entry->d_name[0] || 0 == strcmp(entry->d_name, "lo") || !join(folder, path, entry->d_name)) {
                continue;
            }
            if (0 == i) {
                add_rdma_device(nics, &count, max, folder, entry->d_name, may_open(sys, dev, entry->d_name));
                continue;
            }
            nic = add(nics, &count, max, entry->d_name, 0);
            if (NULL != nic) {
                describe_interface(nic, folder, up(arg, entry->d_name));
            }
        }
        if (NULL != dir) {
            closedir(dir);
        }
        qsort(nics + begin, (size_t) (count - begin), sizeof(*nics), compare_names);
    }
    return count;
}

bool gpuhier_nics_address_counts(const struct sockaddr *address)
{
    if (NULL != address && AF_INET == address->sa_family) {
        return 0xa9fe
               != ntohl(((const struct sockaddr_in *) (const void *) address)->sin_addr.s_addr) >> 16; /* 169.254/16 */
    }
    return NULL != address && AF_INET6 == address->sa_family
           && !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *) (const void *) address)->sin6_addr);
}

bool gpuhier_nics_interface_is_up(void *arg, const char *name)
{
    struct ifaddrs *all;
    struct ifaddrs *at;
    bool up = false;

    (void) arg;
    if (0 != getifaddrs(&all)) {
        return false;
    }
    for (at = all; NULL != at && !up; at = at->ifa_next) {
        up = 0 == strcmp(at->ifa_name, name) && 0 != (at->ifa_flags & IFF_UP) && 0 != (at->ifa_flags & IFF_RUNNING)
             && 0 == (at->ifa_flags & IFF_LOOPBACK) && gpuhier_nics_address_counts(at->ifa_addr);
    }
    freeifaddrs(all);
    return up;
}

/* Does a listed name mean this device? "mlx5_0" means its first port. */
static bool name_means(const char *name, size_t length, const gpuhier_found_nic_t *nic)
{
    size_t device_length = strlen(nic->device);

    if (device_length == length) {
        return 0 == strncmp(nic->device, name, length);
    }
    return nic->is_rdma && device_length == length + 2 && 0 == strncmp(nic->device, name, length)
           && 0 == strcmp(nic->device + length, ":1");
}

static int choose_listed(gpuhier_found_nic_t *nics, int count, const char *list, gpuhier_text_t *report)
{
    const char *at = list;
    int i;

    for (i = 0; i < count; ++i) {
        snprintf(nics[i].reason, sizeof(nics[i].reason), "is not in the list %.*s", GPUHIER_NIC_REASON_MAX - 24, list);
    }
    while ('\0' != *at) {
        size_t length = strcspn(at, ",");

        for (i = 0; i < count && !name_means(at, length, &nics[i]); ++i) {
            continue;
        }
        if (0 != length && i == count) {
            gpuhier_text_add(report, "the list of network devices names %.*s, which this machine does not have\n",
                             (int) length, at);
            return OMPI_ERR_NOT_FOUND;
        }
        if (0 != length && !nics[i].is_usable) {
            gpuhier_text_add(report, "the list of network devices names %.*s, which %s\n", (int) length, at,
                             nics[i].is_closed ? "has no node in /dev/infiniband that this process may open"
                             : nics[i].is_rdma ? "is not up"
                                               : "is not up or has no address beyond the link");
            return OMPI_ERR_NOT_FOUND;
        }
        if (0 != length) {
            nics[i].is_taken = true;
            snprintf(nics[i].reason, sizeof(nics[i].reason), "is in the list");
        }
        at += length + (',' == at[length] ? 1 : 0);
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
    unsigned fastest = 0;
    int best = 3;
    int i;

    if (NULL != list && '\0' != list[0]) {
        return choose_listed(nics, count, list, report);
    }
    for (i = 0; i < count; ++i) {
        if (nics[i].is_usable && class_of(&nics[i]) < best) {
            best = class_of(&nics[i]);
        }
    }
    for (i = 0; i < count; ++i) {
        if (nics[i].is_usable && class_of(&nics[i]) == best && nics[i].mbit > fastest) {
            fastest = nics[i].mbit;
        }
    }
    for (i = 0; i < count; ++i) {
        gpuhier_found_nic_t *nic = &nics[i];

        if (nic->is_closed) {
            snprintf(nic->reason, sizeof(nic->reason), "has no node in /dev/infiniband that this process may open");
        } else if (!nic->is_usable) {
            snprintf(nic->reason, sizeof(nic->reason),
                     nic->is_rdma ? "has no active link" : "is down or has no address beyond the link");
        } else if (class_of(nic) != best) {
            snprintf(nic->reason, sizeof(nic->reason), "is %s, and there is %s", names[class_of(nic)], names[best]);
        } else if (0 != nic->mbit && nic->mbit < fastest / 2) {
            snprintf(nic->reason, sizeof(nic->reason), "has %u Mbit/s, and there is one with %u", nic->mbit, fastest);
        } else {
            nic->is_taken = true;
            snprintf(nic->reason, sizeof(nic->reason), "is %s that is up", names[class_of(nic)]);
        }
    }
    return OMPI_SUCCESS;
}
