/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The topology: distances on drawn machines, the choice of rails, the finding of
 * network devices below a made-up /sys, records and what is told from them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ompi_config.h"

#include "coll_gpuhier_topology_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ompi/constants.h"

/* -- a drawn machine ------------------------------------------------------------------ */

/*
 * packages, in each some host bridges, below each some PCI switches, below each
 * GPUs and RDMA devices (mlx5_0, mlx5_1, ... in this order). Buses are numbered
 * through; the GPUs' PCI addresses are kept.
 */
typedef struct {
    int packages;
    int host_bridges; /* per package */
    int switches;     /* per host bridge */
    int gpus;         /* per switch */
    int nics;         /* per switch */
    int ngpus;
    int nnics;
    gpuhier_pci_id_t gpu[64];
} machine_t;

static int next_index;

static void draw_pci(FILE *xml, int bus, int device, const char *type, const char *osdev)
{
    fprintf(xml, "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:%02x.0\" pci_type=\"%s\" pci_link_speed=\"0\"",
            next_index++, (unsigned) bus, (unsigned) device, type);
    if (NULL == osdev) {
        fprintf(xml, "/>\n");
    } else {
        fprintf(xml, "><object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"3\"/></object>\n", next_index++,
                osdev);
    }
}

static void draw_host_bridge(FILE *xml, machine_t *machine, int *bus)
{
    int first = *bus;
    int last = first + machine->switches * 2;
    int i;
    int j;
    char name[16];

    fprintf(xml, "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%02x-%02x]\">\n",
            next_index++, (unsigned) first, (unsigned) last);
    for (i = 0; i < machine->switches; ++i) {
        int below = first + 1 + i * 2;

        fprintf(xml,
                "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[%02x-%02x]\" "
                "pci_busid=\"0000:%02x:%02x.0\" pci_type=\"0604 [10b5:8747] [0000:0000] ca\" pci_link_speed=\"0\">\n",
                next_index++, (unsigned) below, (unsigned) below + 1, (unsigned) first, (unsigned) i + 1);
        for (j = 0; j < machine->gpus; ++j) {
            draw_pci(xml, below, j, "0302 [10de:2330] [10de:16c1] a1", NULL);
            machine->gpu[machine->ngpus++] = (gpuhier_pci_id_t){.bus = (uint8_t) below, .device = (uint8_t) j};
        }
        for (j = 0; j < machine->nics; ++j) {
            snprintf(name, sizeof(name), "mlx5_%d", machine->nnics++);
            draw_pci(xml, below + 1, j, "0207 [15b3:1021] [15b3:0041] 00", name);
        }
        fprintf(xml, "</object>\n");
    }
    fprintf(xml, "</object>\n");
    *bus = last + 1;
}

static hwloc_topology_t draw(machine_t *machine)
{
    const unsigned all = (1u << machine->packages) - 1;
    hwloc_topology_t topology;
    char *text = NULL;
    size_t bytes = 0;
    FILE *xml = open_memstream(&text, &bytes);
    int bus = 0;
    int p;
    int i;

    assert_non_null(xml);
    next_index = 1;
    fprintf(xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
#define SETS "cpuset=\"0x%x\" complete_cpuset=\"0x%x\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\""
    fprintf(xml, "<object type=\"Machine\" os_index=\"0\" " SETS " allowed_cpuset=\"0x%x\" allowed_nodeset=\"0x%x\" gp_index=\"%d\">\n",
            all, all, all, all, all, all, next_index++);
    for (p = 0; p < machine->packages; ++p) {
        unsigned set = 1u << p;

        fprintf(xml, "<object type=\"Package\" os_index=\"%d\" " SETS " gp_index=\"%d\">\n", p, set, set, set, set, next_index++);
        fprintf(xml, "<object type=\"NUMANode\" os_index=\"%d\" " SETS " gp_index=\"%d\" local_memory=\"1073741824\"/>\n", p, set,
                set, set, set, next_index++);
        fprintf(xml, "<object type=\"PU\" os_index=\"%d\" " SETS " gp_index=\"%d\"/>\n", p, set, set, set, set, next_index++);
        for (i = 0; i < machine->host_bridges; ++i) {
            draw_host_bridge(xml, machine, &bus);
        }
        fprintf(xml, "</object>\n");
    }
    fprintf(xml, "</object>\n</topology>\n");
    fclose(xml);
    assert_int_equal(0, hwloc_topology_init(&topology));
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    assert_int_equal(0, hwloc_topology_set_xmlbuffer(topology, text, (int) bytes + 1));
    assert_int_equal(0, hwloc_topology_load(topology));
    free(text);
    return topology;
}

static void name_nics(gpuhier_found_nic_t *nics, int count)
{
    int i;

    memset(nics, 0, sizeof(*nics) * (size_t) count);
    for (i = 0; i < count; ++i) {
        snprintf(nics[i].device, sizeof(nics[i].device), "mlx5_%d:1", i);
        nics[i].is_rdma = true;
        nics[i].is_taken = true;
    }
}

/* 8 GPUs and 8 NICs, a pair of them below each switch, two switches below each host bridge, two such in a package. */
static void test_distances_8x8(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 1, .nics = 1};
    hwloc_topology_t topology = draw(&machine);
    gpuhier_found_nic_t nics[8];
    int g;
    int n;

    (void) state;
    assert_int_equal(8, machine.ngpus);
    for (g = 0; g < 8; ++g) {
        name_nics(nics, 8);
        assert_int_equal(g / 4, gpuhier_topology_distances(topology, &machine.gpu[g], nics, 8));
        for (n = 0; n < 8; ++n) {
            int expected = (n == g) ? 0 : (n / 2 == g / 2) ? 34 : (n / 4 == g / 4) ? 64 : 128;

            assert_int_equal(expected, nics[n].distance);
        }
    }
    assert_string_equal("below the GPU's PCI switch", gpuhier_distance_text(0));
    assert_string_equal("below the GPU's PCI host bridge", gpuhier_distance_text(34));
    assert_string_equal("on the GPU's NUMA node", gpuhier_distance_text(64));
    assert_string_equal("on another package than the GPU", gpuhier_distance_text(128));
    hwloc_topology_destroy(topology);
}

/* No GPU, a GPU that the topology does not have, and NICs that it does not have. */
static void test_distances_unknown(void **state)
{
    machine_t machine = {.packages = 1, .host_bridges = 1, .switches = 2, .gpus = 1, .nics = 1};
    hwloc_topology_t topology = draw(&machine);
    gpuhier_pci_id_t nowhere = {.domain = 7, .bus = 0xee};
    gpuhier_found_nic_t nics[3];
    int i;

    (void) state;
    name_nics(nics, 3);
    assert_int_equal(-1, gpuhier_topology_distances(topology, NULL, nics, 3));
    for (i = 0; i < 3; ++i) {
        assert_int_equal(GPUHIER_DISTANCE_UNKNOWN, nics[i].distance);
    }
    assert_int_equal(-1, gpuhier_topology_distances(topology, &nowhere, nics, 3));
    assert_int_equal(GPUHIER_DISTANCE_UNKNOWN, nics[0].distance);
    assert_int_equal(0, gpuhier_topology_distances(topology, &machine.gpu[0], nics, 3));
    assert_int_equal(0, nics[0].distance);
    assert_int_equal(34, nics[1].distance);
    assert_int_equal(GPUHIER_DISTANCE_UNKNOWN, nics[2].distance); /* mlx5_2 is not there */
    /* By its PCI address instead of its name. */
    snprintf(nics[2].device, sizeof(nics[2].device), "eth7");
    nics[2].has_pci = true;
    nics[2].pci = (gpuhier_pci_id_t){.bus = (uint8_t) (machine.gpu[1].bus + 1)};
    assert_int_equal(0, gpuhier_topology_distances(topology, &machine.gpu[1], nics, 3));
    assert_int_equal(0, nics[2].distance);
    assert_int_equal(GPUHIER_DISTANCE_UNKNOWN, 255);
    hwloc_topology_destroy(topology);
}

/* -- rails ----------------------------------------------------------------------------- */

#define RANKS_MAX 16

static gpuhier_record_t world[RANKS_MAX];
static const gpuhier_record_t *world_p[RANKS_MAX];

/* A record with these devices at these distances (in rising order), device d being "nic<d>". */
static void set_nics(int rank, const int *devices, const uint8_t *distances, int count)
{
    gpuhier_record_t *record = &world[rank];
    int i;

    memset(record, 0, sizeof(*record));
    record->version = GPUHIER_RECORD_VERSION;
    record->bytes = sizeof(*record);
    record->nics = (uint8_t) count;
    for (i = 0; i < count; ++i) {
        snprintf(record->nic[i].device, sizeof(record->nic[i].device), "nic%d", devices[i]);
        record->nic[i].distance = (NULL == distances) ? GPUHIER_DISTANCE_UNKNOWN : distances[i];
    }
    world_p[rank] = record;
}

static void all_equal(int ranks, int nics)
{
    int devices[GPUHIER_RECORD_NICS_MAX];
    int i;

    for (i = 0; i < nics; ++i) {
        devices[i] = i;
    }
    for (i = 0; i < ranks; ++i) {
        set_nics(i, devices, NULL, nics);
    }
}

/* The rails of a rank, as "nic0 nic2". */
static const char *rails_of(int ranks, int me)
{
    static char text[GPUHIER_RAILS_MAX * GPUHIER_RECORD_DEVICE_MAX];
    const char *rails[GPUHIER_RAILS_MAX];
    int count = gpuhier_topology_pick_rails(world_p, ranks, me, rails);
    int at = 0;
    int i;

    text[0] = '\0';
    for (i = 0; i < count; ++i) {
        at += snprintf(text + at, sizeof(text) - (size_t) at, "%s%s", (0 == i) ? "" : " ", rails[i]);
    }
    return text;
}

/* The drawn 8x8 machine: each rank takes the NIC of its own switch. */
static void test_rails_8x8(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 1, .nics = 1};
    hwloc_topology_t topology = draw(&machine);
    gpuhier_found_nic_t nics[8];
    char expected[16];
    int g;
    int d;

    (void) state;
    for (g = 0; g < 8; ++g) {
        int devices[8];
        uint8_t distances[8];
        int kept = 0;
        int wanted;

        name_nics(nics, 8);
        gpuhier_topology_distances(topology, &machine.gpu[g], nics, 8);
        for (wanted = 0; wanted < 256; ++wanted) {
            for (d = 0; d < 8; ++d) {
                if (nics[d].distance == wanted) {
                    devices[kept] = d;
                    distances[kept++] = nics[d].distance;
                }
            }
        }
        set_nics(g, devices, distances, kept);
    }
    for (g = 0; g < 8; ++g) {
        snprintf(expected, sizeof(expected), "nic%d", g);
        assert_string_equal(expected, rails_of(8, g));
    }
    /* Alone on the node: all of them, the own first. */
    world_p[0] = &world[5];
    assert_string_equal("nic5 nic4 nic6 nic7 nic0 nic1 nic2 nic3", rails_of(1, 0));
    hwloc_topology_destroy(topology);
}

static void test_rails_equal(void **state)
{
    static const char *const two_of_four[] = {"nic0 nic2", "nic1 nic3"};
    static const char *const five_of_three[] = {"nic0", "nic1", "nic2", "nic0", "nic1"};
    char expected[16];
    int i;

    (void) state;
    all_equal(4, 4);
    for (i = 0; i < 4; ++i) {
        snprintf(expected, sizeof(expected), "nic%d", i);
        assert_string_equal(expected, rails_of(4, i));
    }
    all_equal(8, 1);
    for (i = 0; i < 8; ++i) {
        assert_string_equal("nic0", rails_of(8, i));
    }
    all_equal(2, 4);
    for (i = 0; i < 2; ++i) {
        assert_string_equal(two_of_four[i], rails_of(2, i));
    }
    all_equal(5, 3);
    for (i = 0; i < 5; ++i) {
        assert_string_equal(five_of_three[i], rails_of(5, i));
    }
    all_equal(1, 4);
    assert_string_equal("nic0 nic1 nic2 nic3", rails_of(1, 0));
    all_equal(1, 16);
    assert_string_equal("nic0 nic1 nic2 nic3 nic4 nic5 nic6 nic7", rails_of(1, 0));
    all_equal(3, 0);
    assert_string_equal("", rails_of(3, 1));
}

/* Two NICs near each GPU are both used; a rank with one choice is served before one with two. */
static void test_rails_shared(void **state)
{
    const uint8_t near_far[] = {0, 0, 128, 128};

    (void) state;
    set_nics(0, (int[]){0, 1, 2, 3}, near_far, 4);
    set_nics(1, (int[]){2, 3, 0, 1}, near_far, 4);
    assert_string_equal("nic0 nic1", rails_of(2, 0));
    assert_string_equal("nic2 nic3", rails_of(2, 1));
    set_nics(0, (int[]){0, 1}, near_far, 2);
    set_nics(1, (int[]){0}, near_far, 1);
    assert_string_equal("nic1", rails_of(2, 0));
    assert_string_equal("nic0", rails_of(2, 1));
}

/* Random nodes: everyone has a rail, only near ones, none lies idle, and equal choices are used evenly. */
static void test_rails_random(void **state)
{
    const char *rails[GPUHIER_RAILS_MAX];
    int round;

    (void) state;
    srand(20260101);
    for (round = 0; round < 3000; ++round) {
        int ranks = 2 + rand() % (RANKS_MAX - 1);
        int nics = 1 + rand() % GPUHIER_RECORD_NICS_MAX;
        int same = rand() % 2;
        int load[GPUHIER_RECORD_NICS_MAX] = {0};
        int near[GPUHIER_RECORD_NICS_MAX] = {0};
        int most = 0;
        int least = RANKS_MAX;
        int full = 0;
        int r;
        int i;

        for (r = 0; r < ranks; ++r) {
            int devices[GPUHIER_RECORD_NICS_MAX];
            uint8_t distances[GPUHIER_RECORD_NICS_MAX];
            int width = same ? nics : 1 + rand() % nics;
            int first = same ? 0 : rand() % nics;

            for (i = 0; i < nics; ++i) {
                devices[i] = (first + i) % nics;
                distances[i] = (i < width) ? 3 : 64;
            }
            set_nics(r, devices, distances, nics);
            for (i = 0; i < width; ++i) {
                near[devices[i]]++;
            }
        }
        for (r = 0; r < ranks; ++r) {
            int count = gpuhier_topology_pick_rails(world_p, ranks, r, rails);

            assert_in_range(count, 1, GPUHIER_RAILS_MAX);
            full += GPUHIER_RAILS_MAX == count;
            for (i = 0; i < count; ++i) {
                int device = atoi(rails[i] + 3);
                int place;

                for (place = 0; 0 != strcmp(world[r].nic[place].device, rails[i]); ++place) {
                    assert_true(place < nics);
                }
                assert_int_equal(3, world[r].nic[place].distance);
                assert_ptr_equal(rails[i], world[r].nic[place].device);
                load[device]++;
            }
        }
        for (i = 0; i < nics; ++i) {
            if (near[i] > 0) {
                assert_true(load[i] > 0 || full > 0);
            }
            most = (load[i] > most) ? load[i] : most;
            least = (load[i] < least) ? load[i] : least;
        }
        if (same) {
            assert_true(most - least <= 1);
        }
    }
}

/* -- finding network devices --------------------------------------------------------------- */

static char root[] = "/tmp/gpuhier-topology-XXXXXX";
static char sys[64];

static void put(const char *path, const char *text)
{
    char command[512];
    char name[256];
    FILE *file;

    snprintf(name, sizeof(name), "%s/%s", sys, path);
    snprintf(command, sizeof(command), "mkdir -p '%.*s'", (int) (strrchr(name, '/') - name), name);
    assert_int_equal(0, system(command));
    file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_pci(const char *device, const char *pci)
{
    char command[1024];

    snprintf(command, sizeof(command), "mkdir -p '%s/devices/%s' '%s/class/%s' && ln -s '%s/devices/%s' '%s/class/%s/device'", sys,
             pci, sys, device, sys, pci, sys, device);
    assert_int_equal(0, system(command));
}

static int make_sys(void **state)
{
    (void) state;
    if (NULL == mkdtemp(root)) {
        return -1;
    }
    snprintf(sys, sizeof(sys), "%s/sys", root);
    put("class/infiniband/mlx5_10/ports/1/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_10/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put("class/infiniband/mlx5_9/ports/1/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_9/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put("class/infiniband/mlx5_9/ports/2/state", "1: DOWN\n");
    put("class/infiniband/mlx5_2/ports/1/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_2/ports/1/rate", "25 Gb/sec (1X EDR)\n");
    put_pci("infiniband/mlx5_9", "0000:17:00.1");
    put("class/net/eth0/speed", "10000\n");
    put("class/net/eth1/speed", "1000\n");
    put("class/net/eth2/speed", "-1\n");
    put("class/net/eth3/speed", "10000\n");
    put("class/net/docker0/speed", "10000\n");
    put("class/net/wire/bridge/x", "");
    put("class/net/lo/speed", "");
    put("class/net/a_name_that_is_much_longer_than_a_name_may_be/speed", "10000\n");
    put_pci("net/eth0", "0001:e3:1f.7");
    return 0;
}

static int remove_sys(void **state)
{
    char command[128];

    (void) state;
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    return system(command);
}

/* arg: the names of the interfaces that are up, each between blanks. */
static bool up(void *arg, const char *name)
{
    char padded[64];

    snprintf(padded, sizeof(padded), " %s ", name);
    return NULL != strstr(arg, padded);
}

static gpuhier_found_nic_t found[GPUHIER_FOUND_NICS_MAX];

/* The names of the taken devices, in order. */
static const char *taken(int count)
{
    static char text[512];
    int at = 0;
    int i;

    text[0] = '\0';
    for (i = 0; i < count; ++i) {
        assert_true('\0' != found[i].reason[0]);
        if (found[i].is_taken) {
            at += snprintf(text + at, sizeof(text) - (size_t) at, "%s%s", (0 == at) ? "" : " ", found[i].device);
        }
    }
    return text;
}

static void test_nics_rdma(void **state)
{
    int count = gpuhier_nics_find(sys, up, " eth0 docker0 ", found, GPUHIER_FOUND_NICS_MAX);

    (void) state;
    assert_int_equal(4 + 6, count);
    assert_string_equal("mlx5_2:1", found[0].device);
    assert_string_equal("mlx5_9:1", found[1].device);
    assert_string_equal("mlx5_9:2", found[2].device);
    assert_string_equal("mlx5_10:1", found[3].device);
    assert_true(found[1].has_pci && 0x17 == found[1].pci.bus && 0 == found[1].pci.device && 1 == found[1].pci.function);
    assert_false(found[3].has_pci);
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, NULL, NULL));
    assert_string_equal("mlx5_9:1 mlx5_10:1", taken(count));
    assert_non_null(strstr(found[0].reason, "25000 Mbit/s"));
    assert_non_null(strstr(found[2].reason, "no active link"));
}

/* The same machine without RDMA: skip what infiniband gave. */
static int find_interfaces(const char *names)
{
    char copy[128];
    int count;
    int skip = 0;

    snprintf(copy, sizeof(copy), "%s", names);
    count = gpuhier_nics_find(sys, up, copy, found, GPUHIER_FOUND_NICS_MAX);
    while (skip < count && found[skip].is_rdma) {
        skip++;
    }
    memmove(found, found + skip, sizeof(found[0]) * (size_t) (count - skip));
    return count - skip;
}

static void test_nics_interfaces(void **state)
{
    int count = find_interfaces(" eth0 eth1 eth2 docker0 ");
    int i;

    (void) state;
    assert_int_equal(6, count);
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, "", NULL));
    assert_string_equal("eth0 eth2", taken(count)); /* eth1 is slow, eth3 is down, eth2 does not tell */
    for (i = 0; 0 != strcmp("eth0", found[i].device); ++i) {
        assert_true(i < count);
    }
    assert_true(found[i].has_pci && 1 == found[i].pci.domain && 0xe3 == found[i].pci.bus && 0x1f == found[i].pci.device
                && 7 == found[i].pci.function);
    /* Virtual ones only when there is no other. */
    count = find_interfaces(" docker0 wire ");
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, NULL, NULL));
    assert_string_equal("wire docker0", taken(count));
    count = find_interfaces("");
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, NULL, NULL));
    assert_string_equal("", taken(count));
    assert_int_equal(0, gpuhier_nics_find("/nonexistent", up, "", found, GPUHIER_FOUND_NICS_MAX));
    assert_int_equal(3, gpuhier_nics_find(sys, up, " eth0 ", found, 3));
}

static void test_nics_list(void **state)
{
    static const char *const wrong[] = {"nosuch", "eth0,nosuch", "eth3", "mlx5_9:2", "mlx5_9:3", "eth", "eth00"};
    gpuhier_text_t report = {0};
    int count = gpuhier_nics_find(sys, up, " eth0 eth1 ", found, GPUHIER_FOUND_NICS_MAX);
    size_t i;

    (void) state;
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, "eth1,mlx5_2", &report));
    assert_string_equal("mlx5_2:1 eth1", taken(count));
    assert_null(report.text);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        count = gpuhier_nics_find(sys, up, " eth0 eth1 ", found, GPUHIER_FOUND_NICS_MAX);
        assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_nics_choose(found, count, wrong[i], &report));
        assert_non_null(report.text);
        free(report.text);
        report = (gpuhier_text_t){0};
    }
}

/* -- records ------------------------------------------------------------------------------- */

static void test_record_local(void **state)
{
    gpuhier_gpu_info_t gpu = {.uuid = {1, 2, 3}, .pci = {.bus = 0xfe}, .ordinal = 3, .cc_major = 9};
    gpuhier_record_t first;
    gpuhier_record_t second;
    char *report = NULL;

    (void) state;
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(&gpu, NULL, &first, &report));
    assert_non_null(report);
    free(report);
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(NULL, NULL, &second, NULL));
    assert_true(gpuhier_record_is_valid(&first, sizeof(first)));
    assert_true(gpuhier_record_is_valid(&second, sizeof(second)));
    assert_true(gpuhier_record_same_node(&first, &second));
    assert_int_equal(getpid(), first.pid);
    assert_true(first.has_gpu && !second.has_gpu && 3 == first.gpu_ordinal && 9 == first.cc_major);
    assert_memory_equal(gpu.uuid, first.gpu_uuid, 16);
    assert_true(0 != first.start_time && first.start_time == second.start_time);
    assert_true(first.process_word != second.process_word);
    assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_topology_local(&gpu, "nosuch0", &first, &report));
    assert_non_null(strstr(report, "nosuch0"));
    free(report);
}

static void test_record_valid(void **state)
{
    gpuhier_record_t record;
    size_t bytes;

    (void) state;
    all_equal(1, 2);
    record = world[0];
    assert_true(gpuhier_record_is_valid(&record, sizeof(record)));
    for (bytes = 0; bytes < sizeof(record); ++bytes) {
        assert_false(gpuhier_record_is_valid(&record, bytes));
    }
    record.version++;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = world[0];
    record.bytes--;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = world[0];
    record.nics = GPUHIER_RECORD_NICS_MAX + 1;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = world[0];
    record.links = GPUHIER_RECORD_LINKS_MAX + 1;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = world[0];
    memset(record.nic[1].device, 'x', sizeof(record.nic[1].device));
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = world[0];
    record.nic[1].device[0] = '\0';
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
}

/* Each part of a node's identity tells nodes apart. */
static void test_nodes(void **state)
{
    static const uint64_t expected[] = {0, 1, 0, 3, 1, 5, 6, 3, 0};
    gpuhier_record_t records[9];
    uint64_t nodes[9];
    int i;

    (void) state;
    memset(records, 0, sizeof(records));
    records[1].node.boot_id[15] = 1;
    records[4].node.boot_id[15] = 1;
    records[3].node.ipc_inode = 4026531839;
    records[7].node.ipc_inode = 4026531839;
    records[5].node.shm_device = 24;
    records[6].node.shm_inode = 24;
    gpuhier_topology_number_nodes(records, 9, nodes);
    for (i = 0; i < 9; ++i) {
        assert_int_equal(expected[i], nodes[i]);
    }
}

static void test_process_lives(void **state)
{
    gpuhier_record_t mine;
    gpuhier_record_t other;
    int ready[2];
    pid_t pid;
    char byte;

    (void) state;
    assert_int_equal(0, pipe(ready));
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(NULL, NULL, &mine, NULL));
    assert_true(gpuhier_record_process_lives(&mine, &mine));
    pid = fork();
    if (0 == pid) {
        gpuhier_topology_local(NULL, NULL, &other, NULL);
        _exit(sizeof(other) == write(ready[1], &other, sizeof(other)) && 1 == read(ready[1], &byte, 1));
    }
    assert_int_equal(sizeof(other), read(ready[0], &other, sizeof(other)));
    assert_int_equal(pid, other.pid);
    /* Ended but not waited for: dead, although its entry in /proc is still there. */
    assert_int_equal(0, waitid(P_PID, (id_t) pid, &(siginfo_t){0}, WEXITED | WNOWAIT));
    assert_false(gpuhier_record_process_lives(&mine, &other));
    assert_int_equal(pid, waitpid(pid, NULL, 0));
    assert_false(gpuhier_record_process_lives(&mine, &other));
    /* The same pid, another process. */
    other = mine;
    other.start_time++;
    assert_false(gpuhier_record_process_lives(&mine, &other));
    /* Of another node or namespace nothing is known. */
    other.node.shm_inode++;
    assert_true(gpuhier_record_process_lives(&mine, &other));
    other = mine;
    other.start_time++;
    other.pid_inode++;
    assert_true(gpuhier_record_process_lives(&mine, &other));
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances_8x8),
        cmocka_unit_test(test_distances_unknown),
        cmocka_unit_test(test_rails_8x8),
        cmocka_unit_test(test_rails_equal),
        cmocka_unit_test(test_rails_shared),
        cmocka_unit_test(test_rails_random),
        cmocka_unit_test_setup(test_nics_rdma, make_sys),
        cmocka_unit_test(test_nics_interfaces),
        cmocka_unit_test_teardown(test_nics_list, remove_sys),
        cmocka_unit_test(test_record_local),
        cmocka_unit_test(test_record_valid),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_process_lives),
    };

    /* Keeps hwloc's plugins loaded: what libpciaccess holds for the whole process looks like a leak without them. */
    static hwloc_topology_t keep;

    if (0 != hwloc_topology_init(&keep)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
