/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The finding of network devices below a made-up /sys, and the choice among them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ompi_config.h"

#include "topology/coll_gpuhier_topology_internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ompi/constants.h"

static char root[] = "/tmp/gpuhier-topology-XXXXXX";
static char sys[64];
static char dev[64];

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

    snprintf(command, sizeof(command),
             "mkdir -p '%s/devices/%s' '%s/class/%s' && ln -s '%s/devices/%s' '%s/class/%s/device'", sys, pci, sys,
             device, sys, pci, sys, device);
    assert_int_equal(0, system(command));
}

static int make_sys(void **state)
{
    (void) state;
    if (NULL == mkdtemp(root)) {
        return -1;
    }
    snprintf(sys, sizeof(sys), "%s/sys", root);
    snprintf(dev, sizeof(dev), "%s/dev", root);
    /* As the kernel numbers them: not by the devices' names. */
    put("class/infiniband_verbs/abi_version", "6\n");
    put("class/infiniband_verbs/uverbs0/ibdev", "mlx5_9\n");
    put("class/infiniband_verbs/uverbs1/ibdev", "mlx5_10\n");
    put("class/infiniband_verbs/uverbs2/ibdev", "mlx5_2\n");
    put("../dev/infiniband/uverbs0", "");
    put("../dev/infiniband/uverbs1", "");
    put("../dev/infiniband/uverbs2", "");
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
    int count = gpuhier_nics_find(sys, dev, up, " eth0 docker0 ", found, GPUHIER_FOUND_NICS_MAX);

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

/* InfiniBand and Ethernet do not mix: the network of the fastest port is taken, of equally fast ones InfiniBand. */
static void test_nics_ethernet(void **state)
{
    static const struct {
        const char *rate, *layers[2], *taken; /* of mlx5_9 */
    } cases[] = {{"200 Gb/sec", {"InfiniBand", "Ethernet"}, "mlx5_9:1"},
                 {"200 Gb/sec", {"Ethernet", "InfiniBand"}, "mlx5_10:1"},
                 {"100 Gb/sec", {"InfiniBand", "Ethernet"}, "mlx5_10:1"},
                 {"100 Gb/sec", {"InfiniBand", "InfiniBand"}, "mlx5_9:1 mlx5_10:1"},
                 {"200 Gb/sec", {"Ethernet", "Ethernet"}, "mlx5_9:1 mlx5_10:1"},
                 {"200 Gb/sec (4X HDR)", {"Unspecified", "Unspecified"}, "mlx5_9:1 mlx5_10:1"}};

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        put("class/infiniband/mlx5_9/ports/1/rate", cases[i].rate);
        put("class/infiniband/mlx5_9/ports/1/link_layer", cases[i].layers[0]);
        put("class/infiniband/mlx5_10/ports/1/link_layer", cases[i].layers[1]);
        const int count = gpuhier_nics_find(sys, dev, up, " eth0 ", found, GPUHIER_FOUND_NICS_MAX);
        assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, NULL, NULL));
        assert_string_equal(cases[i].taken, taken(count));
    }
}

static void node_rename(const char *from, const char *to)
{
    char old[128], new[128];

    snprintf(old, sizeof(old), "%s/infiniband/%s", dev, from);
    snprintf(new, sizeof(new), "%s/infiniband/%s", dev, to);
    assert_int_equal(0, rename(old, new));
}

/* A container that was given some of the machine's devices, or none. */
static void test_nics_container(void **state)
{
    gpuhier_text_t report = {0};

    (void) state;
    node_rename("uverbs0", "gone0");
    int count = gpuhier_nics_find(sys, dev, up, " eth0 docker0 ", found, GPUHIER_FOUND_NICS_MAX);
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, NULL, NULL));
    assert_string_equal("mlx5_10:1", taken(count));
    assert_non_null(strstr(found[1].reason, "/dev/infiniband"));
    assert_non_null(strstr(found[2].reason, "no active link"));
    assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_nics_choose(found, count, "mlx5_9", &report));
    assert_non_null(strstr(report.text, "/dev/infiniband"));
    free(report.text);

    node_rename("uverbs1", "gone1");
    node_rename("uverbs2", "gone2");
    count = gpuhier_nics_find(sys, dev, up, " eth0 docker0 ", found, GPUHIER_FOUND_NICS_MAX);
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, NULL, NULL));
    assert_string_equal("eth0", taken(count));
    node_rename("gone0", "uverbs0");
    node_rename("gone1", "uverbs1");
    node_rename("gone2", "uverbs2");
}

/* The same machine without RDMA: skip what infiniband gave. */
static int find_interfaces(const char *names)
{
    char copy[128];
    int count;
    int skip = 0;

    snprintf(copy, sizeof(copy), "%s", names);
    count = gpuhier_nics_find(sys, dev, up, copy, found, GPUHIER_FOUND_NICS_MAX);
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
    assert_int_equal(0, gpuhier_nics_find("/nonexistent", dev, up, "", found, GPUHIER_FOUND_NICS_MAX));
    /* A machine may have more of them than there is room for. Those that can be used have precedence. */
    assert_int_equal(3, gpuhier_nics_find(sys, dev, up, " eth0 ", found, 3));
    assert_int_equal(5, gpuhier_nics_find(sys, dev, up, " eth0 eth2 ", found, 5));
    assert_string_equal("mlx5_10:1", found[2].device);
    assert_string_equal("eth0", found[3].device);
    assert_string_equal("eth2", found[4].device);
}

static void test_nics_list(void **state)
{
    static const char *const wrong[] = {"nosuch", "eth0,nosuch", "eth3", "mlx5_9:2", "mlx5_9:3", "eth", "eth00"};
    gpuhier_text_t report = {0};
    int count = gpuhier_nics_find(sys, dev, up, " eth0 eth1 ", found, GPUHIER_FOUND_NICS_MAX);
    size_t i;

    (void) state;
    assert_int_equal(OMPI_SUCCESS, gpuhier_nics_choose(found, count, "eth1,mlx5_2", &report));
    assert_string_equal("mlx5_2:1 eth1", taken(count));
    assert_null(report.text);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        count = gpuhier_nics_find(sys, dev, up, " eth0 eth1 ", found, GPUHIER_FOUND_NICS_MAX);
        assert_int_equal(OMPI_ERR_NOT_FOUND, gpuhier_nics_choose(found, count, wrong[i], &report));
        assert_non_null(report.text);
        free(report.text);
        report = (gpuhier_text_t){0};
    }
}

static bool counts(int family, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const void *address = (AF_INET == family) ? (const void *) &v4 : (const void *) &v6;

    assert_int_equal(1, inet_pton(family, text, (AF_INET == family) ? (void *) &v4.sin_addr : (void *) &v6.sin6_addr));
    return gpuhier_nics_address_counts(address);
}

/* A port that is cabled but was given no address has fe80:: of its own, a board's management port 169.254. */
static void test_nics_addresses(void **state)
{
    const struct sockaddr packet = {.sa_family = AF_PACKET};

    (void) state;
    assert_true(counts(AF_INET, "10.1.0.1"));
    assert_true(counts(AF_INET, "169.253.255.255"));
    assert_true(counts(AF_INET, "169.255.0.0"));
    assert_false(counts(AF_INET, "169.254.0.0"));
    assert_false(counts(AF_INET, "169.254.255.255"));
    assert_true(counts(AF_INET6, "2001:db8::1"));
    assert_true(counts(AF_INET6, "fd00::1"));
    assert_false(counts(AF_INET6, "fe80::1"));
    assert_false(counts(AF_INET6, "febf::1"));
    assert_true(counts(AF_INET6, "fec0::1"));
    assert_false(gpuhier_nics_address_counts(&packet));
    assert_false(gpuhier_nics_address_counts(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nics_addresses),  cmocka_unit_test_setup(test_nics_rdma, make_sys),
        cmocka_unit_test(test_nics_ethernet),   cmocka_unit_test(test_nics_container),
        cmocka_unit_test(test_nics_interfaces), cmocka_unit_test_teardown(test_nics_list, remove_sys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
