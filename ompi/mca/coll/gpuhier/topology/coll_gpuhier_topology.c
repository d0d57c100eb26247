/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * This rank's record, what two records say about each other, and the choice of rails from the records of a node.
 *
 * Making the record reads /proc and /sys and asks hwloc. All other functions only compute, except for
 * gpuhier_record_process_lives(), which asks the kernel and /proc. coll_gpuhier_topology_{nics,pci}.c find the network
 * devices and their distances.
 *
 * Called by plan/, team/, engine/ and gpuhier_info.
 */
#include "ompi_config.h"

#include "topology/coll_gpuhier_topology_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ompi/constants.h"

/* -- node and process --------------------------------------------------------------- */

/* Device and inode of a file. Both stay as they are where it cannot be seen. */
static void identify(const char *path, uint64_t *device_p, uint64_t *inode_p)
{
    struct stat info;
    if (0 == stat(path, &info)) {
        *device_p = (uint64_t) info.st_dev;
        *inode_p = (uint64_t) info.st_ino;
    }
}

static void fill_node(gpuhier_node_id_t *node)
{
    char text[128] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (NULL == file || NULL == fgets(text, sizeof(text), file) || strlen(text) < 36) { /* of a container: no id */
        memset(text, 0, sizeof(text));
        gethostname(text, sizeof(text) - 1);
    }
    if (NULL != file) {
        fclose(file);
    }
    const uint64_t hash = gpuhier_hash(text, strlen(text));
    memcpy(node->boot_id, &hash, sizeof(hash));
    identify("/proc/self/ns/ipc", &node->ipc_device, &node->ipc_inode);
    identify("/dev/shm", &node->shm_device, &node->shm_inode);
}

/* Does /proc show this process's own pid namespace? A container may have the /proc of another one. */
static bool proc_is_mine(void)
{
    char text[32] = "";
    return readlink("/proc/self", text, sizeof(text) - 1) > 0 && atoi(text) == (int) getpid();
}

/*
 * Reads a process's state letter and start time, fields 3 and 22 of /proc/PID/stat (see proc(5)). The name before them
 * may contain anything. Returns false if they cannot be read, which does not mean that the process is dead: /proc may
 * hide it, and descriptors or memory may be short.
 */
static bool process_status(int pid, char *state_p, uint64_t *start_p)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (NULL == file) {
        return false;
    }
    char line[1024];
    if (NULL == fgets(line, sizeof(line), file)) {
        line[0] = '\0';
    }
    fclose(file);
    char state;
    unsigned long long start;
    const char *after = strrchr(line, ')');
    if (NULL == after
        || 2
               != sscanf(after, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                         &state, &start)) {
        return false;
    }
    *state_p = state;
    *start_p = start;
    return true;
}

/*
 * Has the process with this pid, in this pid namespace, ended? Asks the kernel, which hides no process. False when the
 * kernel cannot tell. *told_p becomes true if a pidfd was there to ask; only then does a zombie count as ended.
 */
static bool process_ended(int pid, bool *told_p)
{
    int file = -1;
#if defined(SYS_pidfd_open)
    file = (int) syscall(SYS_pidfd_open, pid, 0);
#endif
    *told_p = file >= 0;
    if (file < 0) {
        return 0 != kill(pid, 0) && ESRCH == errno;
    }
    const bool ended = 1 == poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, 0);
    close(file);
    return ended;
}

static void fill_process(gpuhier_record_t *record)
{
    record->pid = (int32_t) getpid();
    uint64_t device = 0;
    identify("/proc/self/ns/pid", &device, &record->pid_inode);
    char state;
    if (!proc_is_mine() || !process_status(record->pid, &state, &record->start_time)) {
        record->start_time = 0;
    }
}

bool gpuhier_record_is_valid(const void *data, size_t bytes)
{
    gpuhier_record_t record;
    if (sizeof(record) != bytes) {
        return false;
    }
    memcpy(&record, data, sizeof(record));
    if (GPUHIER_FORMAT_VERSION != record.version || sizeof(record) != record.bytes
        || record.nics > GPUHIER_RECORD_NICS_MAX
        || (record.nvlinks > GPUHIER_NVLINKS_MAX && GPUHIER_NVLINKS_UNKNOWN != record.nvlinks)) {
        return false;
    }
    for (int i = 0; i < record.nics; ++i) {
        if ('\0' == record.nic[i].device[0] || NULL == memchr(record.nic[i].device, '\0', GPUHIER_RECORD_DEVICE_MAX)) {
            return false;
        }
    }
    return true;
}

bool gpuhier_record_same_node(const gpuhier_record_t *a, const gpuhier_record_t *b)
{
    return 0 == memcmp(&a->node, &b->node, sizeof(a->node));
}

void gpuhier_topology_number_nodes(const gpuhier_record_t *records, int count, uint64_t *nodes_p)
{
    /*
     * Compares with the first rank of each node only. Until the end, these ranks are a list: the upper half of an entry
     * is the next one, or 0 after the last one.
     */
    for (int i = 0; i < count; ++i) {
        int first = 0;
        while (first != i && !gpuhier_record_same_node(&records[first], &records[i])) {
            int next = (int) (nodes_p[first] >> 32);
            if (0 == next) {
                next = i;
                nodes_p[first] |= (uint64_t) i << 32;
            }
            first = next;
        }
        nodes_p[i] = (uint64_t) first;
    }
    for (int i = 0; i < count; ++i) {
        nodes_p[i] &= UINT32_MAX;
    }
}

bool gpuhier_record_same_pids(const gpuhier_record_t *a, const gpuhier_record_t *b)
{
    return gpuhier_record_same_node(a, b) && a->pid_inode == b->pid_inode && 0 != a->pid_inode;
}

bool gpuhier_record_process_lives(const gpuhier_record_t *mine, const gpuhier_record_t *other)
{
    if (!gpuhier_record_same_pids(mine, other)) {
        return true;
    }
    bool told;
    if (process_ended(other->pid, &told)) {
        return false;
    }
    uint64_t start;
    char state;
    if (0 == mine->start_time || 0 == other->start_time || !process_status(other->pid, &state, &start)) {
        return true;
    }
    /* The letter is that of the main thread. It is Z also if that thread has left by pthread_exit() and others work. */
    return start == other->start_time && (told || ('Z' != state && 'X' != state));
}

/* -- rails -------------------------------------------------------------------------- */

/* A device of the node while rails are chosen. */
typedef struct {
    const char *device;
    int load; /* ranks that have it as a rail */
} candidate_t;

/* The number of devices that are nearest to a rank's GPU, at equal distance. They come first in the record. */
static int nearest_count(const gpuhier_record_t *record)
{
    int i = 0;
    while (i < record->nics && record->nic[i].distance == record->nic[0].distance) {
        i++;
    }
    return i;
}

/* Finds the device among the candidates, or adds it. */
static candidate_t *find_candidate(candidate_t *candidates, int *count, const char *device)
{
    for (int i = 0; i < *count; ++i) {
        if (0 == strcmp(candidates[i].device, device)) {
            return &candidates[i];
        }
    }
    candidate_t *added = &candidates[(*count)++];
    *added = (candidate_t){.device = device};
    return added;
}

/* Step 1 of the header's rule: taken[r] becomes the bit set of the rails of rank r, by their place in its record. */
static void take_one_each(const gpuhier_record_t *const *records, int count, candidate_t *candidates, int *known,
                          uint32_t *taken)
{
    for (int width = 1; width <= GPUHIER_RECORD_NICS_MAX; ++width) {
        for (int r = 0; r < count; ++r) {
            if (nearest_count(records[r]) != width) {
                continue;
            }
            candidate_t *best = NULL;
            int chosen = 0;
            for (int i = 0; i < width; ++i) {
                candidate_t *candidate = find_candidate(candidates, known, records[r]->nic[i].device);
                if (NULL == best || candidate->load < best->load) {
                    best = candidate;
                    chosen = i;
                }
            }
            best->load++;
            taken[r] = UINT32_C(1) << chosen;
        }
    }
}

/* The place of a device among the nearest ones of a rank, or -1. */
static int nearest_place(const gpuhier_record_t *record, const char *device)
{
    const int near = nearest_count(record);
    for (int i = 0; i < near; ++i) {
        if (0 == strcmp(record->nic[i].device, device)) {
            return i;
        }
    }
    return -1;
}

/* Step 2: gives away the devices that no rank took. */
static void take_rest(const gpuhier_record_t *const *records, int count, const candidate_t *candidates, int known,
                      uint32_t *taken)
{
    for (int c = 0; c < known; ++c) {
        if (0 != candidates[c].load) {
            continue;
        }
        int best = -1;
        int best_place = 0;
        int fewest = GPUHIER_RAILS_MAX;
        for (int r = 0; r < count; ++r) {
            const int place = nearest_place(records[r], candidates[c].device);
            const int rails = __builtin_popcount(taken[r]);
            if (place >= 0 && rails < fewest) {
                best = r;
                best_place = place;
                fewest = rails;
            }
        }
        if (best >= 0) {
            taken[best] |= UINT32_C(1) << best_place;
        }
    }
}

int gpuhier_topology_pick_rails(const gpuhier_record_t *const *records, int count, int me,
                                const char *rails_p[GPUHIER_RAILS_MAX])
{
    uint32_t mine = UINT32_MAX;
    if (1 != count) {
        candidate_t *candidates = calloc((size_t) count * GPUHIER_RECORD_NICS_MAX, sizeof(*candidates));
        uint32_t *taken = calloc((size_t) count, sizeof(*taken));
        const bool has_memory = NULL != candidates && NULL != taken;
        if (has_memory) {
            int known = 0;
            take_one_each(records, count, candidates, &known, taken);
            take_rest(records, count, candidates, known, taken);
            mine = taken[me];
        }
        free(candidates);
        free(taken);
        if (!has_memory) {
            return -1;
        }
    }
    int nrails = 0;
    for (int i = 0; i < records[me]->nics && nrails < GPUHIER_RAILS_MAX; ++i) {
        if (0 != (mine & UINT32_C(1) << i)) {
            rails_p[nrails++] = records[me]->nic[i].device;
        }
    }
    return nrails;
}

/* -- the local record --------------------------------------------------------------- */

/* Puts the taken devices into the record, nearest first. Equally near ones keep the order in which they were found. */
static void fill_nics(gpuhier_record_t *record, const gpuhier_found_nic_t *nics, int count)
{
    for (unsigned distance = 0; distance <= GPUHIER_DISTANCE_UNKNOWN; ++distance) {
        for (int i = 0; i < count && record->nics < GPUHIER_RECORD_NICS_MAX; ++i) {
            if (nics[i].is_taken && distance == nics[i].distance) {
                gpuhier_nic_t *nic = &record->nic[record->nics++];
                nic->distance = nics[i].distance;
                nic->is_rdma = nics[i].is_rdma;
                memcpy(nic->device, nics[i].device, sizeof(nic->device));
            }
        }
    }
}

static void report_nics(gpuhier_text_t *report, const gpuhier_found_nic_t *nics, int count)
{
    if (0 == count) {
        gpuhier_text_add(report, "no network device but the loopback\n");
    }
    for (int i = 0; i < count; ++i) {
        gpuhier_text_add(report, "%-16s %-9s %s", nics[i].device,
                         nics[i].is_taken ? "taken:" : "not taken:", nics[i].reason);
        if (nics[i].is_taken) {
            gpuhier_text_add(report, ", %s (distance %u)", gpuhier_distance_text(nics[i].distance), nics[i].distance);
        }
        gpuhier_text_add(report, "\n");
    }
}

hwloc_topology_t gpuhier_topology_load(void)
{
    /* These components would start GPU libraries, CUDA among them, which the program must start itself. */
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"};
    hwloc_topology_t topology;
    if (0 != hwloc_topology_init(&topology)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); ++i) {
        (void) hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    }
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (0 != hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

static void fill_gpu(gpuhier_record_t *record, const gpuhier_gpu_info_t *gpu)
{
    record->has_gpu = 1;
    memcpy(record->gpu_uuid, gpu->uuid, sizeof(record->gpu_uuid));
    record->gpu_pci = gpu->pci;
    record->gpu_ordinal = gpu->ordinal;
    record->cc_major = (int16_t) gpu->cc_major;
    record->cc_minor = (int16_t) gpu->cc_minor;
    record->is_confidential = gpu->nvlinks.is_confidential;
    record->nvlinks = gpu->nvlinks.count < 0 ? GPUHIER_NVLINKS_UNKNOWN : 0;
    for (int i = 0; i < gpu->nvlinks.count; ++i) {
        if (gpu->nvlinks.to[i].is_switch) {
            record->nvswitch = 1;
        } else {
            record->nvlink[record->nvlinks++] = gpuhier_pci_place(&gpu->nvlinks.to[i].pci);
        }
    }
}

void gpuhier_topology_place(const gpuhier_gpu_info_t *gpu, const char *device_list, hwloc_topology_t topology,
                            gpuhier_found_nic_t *nics, int count, gpuhier_record_t *record_p)
{
    gpuhier_record_t record;
    memset(&record, 0, sizeof(record));
    record.version = GPUHIER_FORMAT_VERSION;
    record.bytes = sizeof(record);
    record.numa_node = record.package = record.pci_switch = record.gpu_ordinal = -1;
    fill_node(&record.node);
    fill_process(&record);
    if (NULL != gpu) {
        fill_gpu(&record, gpu);
    }
    if (NULL != topology) {
        if (NULL == device_list || '\0' == device_list[0]) {
            gpuhier_topology_leave_far(topology, nics, count);
        }
        record.numa_node = gpuhier_topology_distances(topology, NULL == gpu ? NULL : &gpu->pci, nics, count);
        record.package = NULL == gpu ? -1 : gpuhier_topology_package(topology, &gpu->pci);
        record.pci_switch = NULL == gpu ? -1 : gpuhier_topology_switch(topology, &gpu->pci);
    }
    fill_nics(&record, nics, count);
    *record_p = record;
}

/* May NVLink leave out a GPU of the machine? Then packages and PCI switches decide how calls run. */
static bool is_apart(const gpuhier_gpu_info_t *gpu)
{
    bool has_switch = false;
    for (int i = 0; i < gpu->nvlinks.count; ++i) {
        has_switch = has_switch || gpu->nvlinks.to[i].is_switch;
    }
    return gpu->nvlinks.count >= 0 && !has_switch && gpu->nvlinks.others > gpu->nvlinks.count;
}

int gpuhier_topology_local(const gpuhier_gpu_info_t *gpu, gpuhier_devices_t devices, const char *device_list,
                           gpuhier_record_t *record_p, char **report_p)
{
    if (NULL != report_p) {
        *report_p = NULL;
    }
    gpuhier_found_nic_t *nics = calloc(GPUHIER_FOUND_NICS_MAX, sizeof(*nics));
    if (NULL == nics) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    const bool looks = GPUHIER_DEVICES_NONE != devices;
    const int count =
        looks ? gpuhier_nics_find("/sys", "/dev", gpuhier_nics_interface_is_up, NULL, nics, GPUHIER_FOUND_NICS_MAX) : 0;
    for (int i = 0; i < count && GPUHIER_DEVICES_TCP == devices; ++i) {
        nics[i].is_failed = nics[i].is_rdma;
        nics[i].is_usable = nics[i].is_usable && !nics[i].is_rdma;
    }
    gpuhier_text_t report = {0};
    int rc = gpuhier_nics_choose(nics, count, looks ? device_list : NULL, &report);
    if (OMPI_SUCCESS == rc) {
        /* hwloc takes long on large machines. Distances decide nothing without a GPU, or with one device. */
        const bool is_needed = NULL != gpu && (count >= 2 || is_apart(gpu));
        hwloc_topology_t topology = is_needed ? gpuhier_topology_load() : NULL;
        gpuhier_topology_place(gpu, device_list, topology, nics, count, record_p);
        if (NULL != topology) {
            hwloc_topology_destroy(topology);
        }
    }
    if (looks) {
        report_nics(&report, nics, count);
    }
    if (NULL != report_p) {
        *report_p = report.text;
    } else {
        free(report.text);
    }
    free(nics);
    return rc;
}
