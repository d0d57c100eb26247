/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The topology: distances on drawn machines, records and what is told from them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ompi_config.h"

#include "topology_draw.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ompi/constants.h"

/* -- distances ------------------------------------------------------------------------- */

/* 8 GPUs and 8 NICs, a pair of them below each switch, two switches below each host bridge, two such in a package. */
static void test_distances_8x8(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 1, .nics = 1};
    hwloc_topology_t topology = topology_draw(&machine);
    gpuhier_found_nic_t nics[8];
    int g;
    int n;

    (void) state;
    assert_int_equal(8, machine.ngpus);
    for (g = 0; g < 8; ++g) {
        topology_name_nics(nics, 8);
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

/* GPUs below one switch have the same number, whatever host bridge it is below. */
static void test_switches(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 3};
    hwloc_topology_t topology = topology_draw(&machine);
    gpuhier_pci_id_t nowhere = {.domain = 7, .bus = 0xee};
    gpuhier_pci_id_t nic = {0};
    hwloc_obj_t object = NULL;
    machine_t other = {.packages = 1, .lone_nics = 1};

    (void) state;
    assert_int_equal(24, machine.ngpus);
    for (int a = 0; a < machine.ngpus; ++a) {
        const int found = gpuhier_topology_switch(topology, &machine.gpu[a]);
        assert_true(found >= 0);
        for (int b = 0; b < machine.ngpus; ++b) {
            assert_int_equal(a / 3 == b / 3, found == gpuhier_topology_switch(topology, &machine.gpu[b]));
        }
    }
    assert_int_equal(-1, gpuhier_topology_switch(topology, &nowhere));
    hwloc_topology_destroy(topology);
    topology = topology_draw(&other); /* a device with nothing between it and its host bridge */
    object = hwloc_get_next_pcidev(topology, NULL);
    assert_non_null(object);
    nic.bus = object->attr->pcidev.bus;
    nic.device = object->attr->pcidev.dev;
    assert_int_equal(-1, gpuhier_topology_switch(topology, &nic));
    hwloc_topology_destroy(topology);
}

/* No GPU, a GPU that the topology does not have, and NICs that it does not have. */
static void test_distances_unknown(void **state)
{
    machine_t machine = {.packages = 1, .host_bridges = 1, .switches = 2, .gpus = 1, .nics = 1};
    hwloc_topology_t topology = topology_draw(&machine);
    gpuhier_pci_id_t nowhere = {.domain = 7, .bus = 0xee};
    gpuhier_found_nic_t nics[3];
    int i;

    (void) state;
    topology_name_nics(nics, 3);
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

/* -- records ------------------------------------------------------------------------------- */

static void test_record_local(void **state)
{
    gpuhier_gpu_info_t gpu = {.uuid = {1, 2, 3}, .pci = {.bus = 0xfe}, .ordinal = 3, .cc_major = 9};
    gpuhier_record_t first;
    gpuhier_record_t second;
    char *report = NULL;

    (void) state;
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(&gpu, GPUHIER_DEVICES_ALL, NULL, &first, &report));
    assert_non_null(report);
    free(report);
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(NULL, GPUHIER_DEVICES_ALL, NULL, &second, NULL));
    assert_true(gpuhier_record_is_valid(&first, sizeof(first)));
    assert_true(gpuhier_record_is_valid(&second, sizeof(second)));
    assert_true(gpuhier_record_same_node(&first, &second));
    assert_int_equal(getpid(), first.pid);
    assert_true(first.has_gpu && !second.has_gpu && 3 == first.gpu_ordinal && 9 == first.cc_major);
    assert_memory_equal(gpu.uuid, first.gpu_uuid, 16);
    assert_true(0 != first.start_time && first.start_time == second.start_time);
    assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_topology_local(&gpu, GPUHIER_DEVICES_ALL, "nosuch0", &first, &report));
    assert_non_null(strstr(report, "nosuch0"));
    free(report);
}

static void test_record_valid(void **state)
{
    gpuhier_record_t good;
    gpuhier_record_t record;
    size_t bytes;

    (void) state;
    memset(&good, 0, sizeof(good));
    good.version = GPUHIER_FORMAT_VERSION;
    good.bytes = sizeof(good);
    good.nics = 2;
    snprintf(good.nic[0].device, sizeof(good.nic[0].device), "nic0");
    snprintf(good.nic[1].device, sizeof(good.nic[1].device), "nic1");
    record = good;
    assert_true(gpuhier_record_is_valid(&record, sizeof(record)));
    for (bytes = 0; bytes < sizeof(record); ++bytes) {
        assert_false(gpuhier_record_is_valid(&record, bytes));
    }
    record.version++;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = good;
    record.bytes--;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = good;
    record.nics = GPUHIER_RECORD_NICS_MAX + 1;
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = good;
    memset(record.nic[1].device, 'x', sizeof(record.nic[1].device));
    assert_false(gpuhier_record_is_valid(&record, sizeof(record)));
    record = good;
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
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(NULL, GPUHIER_DEVICES_ALL, NULL, &mine, NULL));
    assert_true(gpuhier_record_process_lives(&mine, &mine));
    pid = fork();
    if (0 == pid) {
        gpuhier_topology_local(NULL, GPUHIER_DEVICES_ALL, NULL, &other, NULL);
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

/* Who cannot look knows nothing of a death, and sees it once he can look again. */
static void test_process_unseen(void **state)
{
    gpuhier_record_t mine;
    gpuhier_record_t gone;
    struct rlimit limit;
    rlim_t soft;

    (void) state;
    assert_int_equal(OMPI_SUCCESS, gpuhier_topology_local(NULL, GPUHIER_DEVICES_ALL, NULL, &mine, NULL));
    gone = mine;
    gone.start_time++;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &limit));
    soft = limit.rlim_cur;
    limit.rlim_cur = 0;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &limit));
    const bool seen[] = {gpuhier_record_process_lives(&mine, &mine), gpuhier_record_process_lives(&mine, &gone)};
    limit.rlim_cur = soft;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &limit));
    assert_true(seen[0]);
    assert_true(seen[1]);
    assert_true(gpuhier_record_process_lives(&mine, &mine));
    assert_false(gpuhier_record_process_lives(&mine, &gone));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances_8x8), cmocka_unit_test(test_distances_unknown), cmocka_unit_test(test_switches),
        cmocka_unit_test(test_record_local),  cmocka_unit_test(test_record_valid),      cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_process_lives), cmocka_unit_test(test_process_unseen),
    };

    /* Keeps hwloc's plugins loaded: what libpciaccess holds for the whole process looks like a leak without them. */
    static hwloc_topology_t keep;

    if (0 != hwloc_topology_init(&keep)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
