/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rails of ranks, by their place, and those of pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ompi_config.h"

#include "plan/coll_gpuhier_rails.h"
#include "plan/coll_gpuhier_schedule.h"
#include "topology_draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 16

static gpuhier_record_t world[RANKS_MAX];
static const gpuhier_record_t *world_p[RANKS_MAX];

/* A record with these devices at these distances (in rising order), device d being "nic<d>". */
static void set_nics(int rank, const int *devices, const uint8_t *distances, int count)
{
    gpuhier_record_t *record = &world[rank];
    int i;

    memset(record, 0, sizeof(*record));
    record->version = GPUHIER_FORMAT_VERSION;
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

/* The record of a rank on this GPU of a drawn machine: what topology_local() makes of it. nics: of the whole machine.
 */
static void set_drawn(hwloc_topology_t topology, const machine_t *machine, int gpu, gpuhier_found_nic_t *nics)
{
    int devices[GPUHIER_RECORD_NICS_MAX];
    uint8_t distances[GPUHIER_RECORD_NICS_MAX];
    int kept = 0;
    int wanted;
    int d;

    gpuhier_topology_distances(topology, &machine->gpu[gpu], nics, machine->nnics);
    for (wanted = 0; wanted < 256; ++wanted) {
        for (d = 0; d < machine->nnics; ++d) {
            if (nics[d].is_taken && nics[d].distance == wanted) {
                devices[kept] = d;
                distances[kept++] = nics[d].distance;
            }
        }
    }
    set_nics(gpu, devices, distances, kept);
}

/* The drawn 8x8 machine: each rank takes the NIC of its own switch. */
static void test_rails_8x8(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 1, .nics = 1};
    hwloc_topology_t topology = topology_draw(&machine);
    gpuhier_found_nic_t nics[8];
    char expected[16];
    int g;

    (void) state;
    topology_name_nics(nics, 8);
    for (g = 0; g < 8; ++g) {
        set_drawn(topology, &machine, g, nics);
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

/* Random nodes: each rank has a rail, only near ones, no rail lies idle, and equal choices are used evenly. */
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

/* -- rails of pieces ------------------------------------------------------------------------ */

static bool nobody_maps(void *arg, int rank, int other)
{
    (void) arg;
    (void) rank;
    (void) other;
    return false;
}

/* The rails of the one piece of two ranks, each a group of its own on a node of its own, with records like this. */
static void plan_of_two(const gpuhier_record_t *record, gpuhier_piece_rails_t *rails)
{
    const uint64_t nodes[2] = {0, 1};
    gpuhier_record_t records[2] = {*record, *record};
    gpuhier_hierarchy_t hierarchy;
    gpuhier_shape_t shape;

    records[1].node.boot_id[0] = 1;
    memset(&hierarchy, 0, sizeof(hierarchy));
    memset(&shape, 0, sizeof(shape));
    assert_int_equal(0, gpuhier_hierarchy_init(&hierarchy, 2, nodes, nobody_maps, NULL, 1));
    assert_int_equal(0, gpuhier_shape_init(&shape, &hierarchy));
    assert_int_equal(1, shape.npieces);
    assert_int_equal(0, gpuhier_rails_plan(&shape, records, rails));
    gpuhier_shape_fini(&shape);
    gpuhier_hierarchy_fini(&hierarchy);
}

/* The same near one device of many. */
static void plan_of_near(int nics, int near, gpuhier_piece_rails_t *rails)
{
    int devices[GPUHIER_RECORD_NICS_MAX];
    uint8_t distances[GPUHIER_RECORD_NICS_MAX];
    int i;

    for (i = 0; i < nics; ++i) {
        devices[i] = (near + i) % nics;
        distances[i] = (0 == i) ? 0 : 64;
    }
    set_nics(0, devices, distances, nics);
    plan_of_two(&world[0], rails);
}

static int taken(const gpuhier_found_nic_t *nics, int count)
{
    int found = 0;
    int i;

    for (i = 0; i < count; ++i) {
        found += nics[i].is_taken;
    }
    return found;
}

/* Eight devices near a GPU each and four near none: each GPU's rail is the device near it, and is opened under its
 * number. */
static void test_rails_storage(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 1, .nics = 1, .lone_nics = 2};
    hwloc_topology_t topology = topology_draw(&machine);
    const char *opened[GPUHIER_RAILS_MAX];
    gpuhier_piece_rails_t rails;
    gpuhier_found_nic_t nics[12];
    char near[16];
    int g;

    (void) state;
    assert_int_equal(12, machine.nnics);
    topology_name_nics(nics, 12);
    gpuhier_topology_leave_far(topology, nics, 12);
    assert_int_equal(8, taken(nics, 12));
    for (g = 4; g < 12; g += 1 + 4 * (5 == g)) {
        assert_false(nics[g].is_taken);
        assert_non_null(strstr(nics[g].reason, "nearest to no GPU"));
    }
    for (g = 0; g < 8; ++g) {
        set_drawn(topology, &machine, g, nics);
        plan_of_two(&world[g], &rails);
        assert_int_equal(8, gpuhier_rails_devices(&world[g], opened));
        snprintf(near, sizeof(near), "nic%d", (g < 4) ? g : g + 2);
        assert_string_equal(near, opened[rails.rail[0]]);
    }
    hwloc_topology_destroy(topology);
}

/* Two devices near each of eight GPUs: a rank opens those two under their numbers, which other ranks share. */
static void test_rails_shared_numbers(void **state)
{
    machine_t machine = {.packages = 2, .host_bridges = 2, .switches = 2, .gpus = 1, .nics = 2};
    hwloc_topology_t topology = topology_draw(&machine);
    const char *opened[GPUHIER_RAILS_MAX];
    gpuhier_piece_rails_t rails;
    gpuhier_found_nic_t nics[16];
    char near[16];

    (void) state;
    assert_int_equal(16, machine.nnics);
    topology_name_nics(nics, 16);
    for (int g = 0; g < 8; ++g) {
        set_drawn(topology, &machine, g, nics);
        plan_of_two(&world[g], &rails);
        assert_int_equal(8, gpuhier_rails_devices(&world[g], opened));
        for (int nic = 2 * g; nic < 2 * g + 2; ++nic) {
            snprintf(near, sizeof(near), "nic%d", nic);
            assert_string_equal(near, opened[nic % 8]);
            assert_int_equal(nic % 8, rails.rail[nic - 2 * g]);
        }
    }
    hwloc_topology_destroy(topology);
}

/* Nothing is left out where that many are near, where there are few, and where there is no GPU to be near to. */
static void test_rails_stay(void **state)
{
    machine_t machines[] = {
        {.packages = 2, .host_bridges = 1, .switches = 1, .gpus = 2, .nics = 6},
        {.packages = 2, .host_bridges = 1, .switches = 2, .gpus = 1, .nics = 1, .lone_nics = 2},
        {.packages = 1, .host_bridges = 1, .switches = 6, .gpus = 0, .nics = 1, .lone_nics = 6},
    };
    gpuhier_found_nic_t nics[12];
    size_t m;

    (void) state;
    for (m = 0; m < sizeof(machines) / sizeof(machines[0]); ++m) {
        hwloc_topology_t topology = topology_draw(&machines[m]);

        topology_name_nics(nics, machines[m].nnics);
        gpuhier_topology_leave_far(topology, nics, machines[m].nnics);
        assert_int_equal(machines[m].nnics, taken(nics, machines[m].nnics));
        hwloc_topology_destroy(topology);
    }
}

/* Devices beyond the rails that there are share them evenly: of 16, each rail gets two. */
static void test_rails_many(void **state)
{
    gpuhier_piece_rails_t rails;
    int nics;

    (void) state;
    for (nics = 1; nics <= GPUHIER_RECORD_NICS_MAX; ++nics) {
        int load[GPUHIER_RAILS_MAX] = {0};
        int used = (nics < GPUHIER_RAILS_MAX) ? nics : GPUHIER_RAILS_MAX;
        int near;
        int i;

        for (near = 0; near < nics; ++near) {
            plan_of_near(nics, near, &rails);
            assert_in_range(rails.count, 1, GPUHIER_RAILS_MAX);
            assert_in_range(rails.rail[0], 0, used - 1);
            assert_int_equal(near % used, rails.rail[0]);
            for (i = 1; i < rails.count; ++i) {
                assert_null(memchr(rails.rail, rails.rail[i], (size_t) i)); /* no rail twice */
            }
            load[rails.rail[0]]++;
        }
        for (i = 0; i < used; ++i) {
            assert_in_range(load[i], nics / used, (nics + used - 1) / used);
        }
    }
}

/*
 * Ranks with different numbers of devices: the stripes of a piece arrive at different devices of each of them, since
 * their tags are equal. The header says which device a number means.
 */
static void test_rails_uneven(void **state)
{
    const uint64_t nodes[3] = {0, 1, 2};
    int counts[3];

    (void) state;
    for (int n = 0; n < 10 * 10 * 10; ++n) {
        gpuhier_record_t records[3];
        gpuhier_hierarchy_t hierarchy;
        gpuhier_shape_t shape;
        gpuhier_piece_rails_t rails;

        for (int rank = 0; rank < 3; ++rank) {
            counts[rank] = n / (0 == rank ? 1 : 1 == rank ? 10 : 100) % 10; /* 0: whatever UCX finds, one rail */
            all_equal(1, counts[rank]);
            records[rank] = world[0];
            records[rank].node.boot_id[0] = (uint8_t) rank;
        }
        memset(&hierarchy, 0, sizeof(hierarchy));
        memset(&shape, 0, sizeof(shape));
        assert_int_equal(0, gpuhier_hierarchy_init(&hierarchy, 3, nodes, nobody_maps, NULL, 1));
        assert_int_equal(0, gpuhier_shape_init(&shape, &hierarchy));
        assert_int_equal(0, gpuhier_rails_plan(&shape, records, &rails));
        assert_in_range(rails.count, 1, GPUHIER_RAILS_MAX);
        for (int rank = 0; rank < 3; ++rank) {
            const int opened = counts[rank] < 1                   ? 1
                               : counts[rank] < GPUHIER_RAILS_MAX ? counts[rank]
                                                                  : GPUHIER_RAILS_MAX;
            unsigned seen = 0;
            for (int i = 0; i < rails.count; ++i) {
                assert_int_equal(0, seen >> (rails.rail[i] % opened) & 1u);
                seen |= 1u << (rails.rail[i] % opened);
            }
        }
        gpuhier_shape_fini(&shape);
        gpuhier_hierarchy_fini(&hierarchy);
    }
}

/* RDMA takes a device of every rank, and no other. */
static void test_wire(void **state)
{
    (void) state;
    all_equal(3, 2);
    assert_int_equal(gpuhier_rails_wire(world, 3), GPUHIER_WIRE_TCP);
    for (int r = 0; r < 3; ++r) {
        world[r].nic[0].is_rdma = world[r].nic[1].is_rdma = 1;
    }
    assert_int_equal(gpuhier_rails_wire(world, 3), GPUHIER_WIRE_RDMA);
    world[2].nic[1].is_rdma = 0;
    assert_int_equal(gpuhier_rails_wire(world, 3), GPUHIER_WIRE_TCP);
    world[2].nics = 1;
    assert_int_equal(gpuhier_rails_wire(world, 3), GPUHIER_WIRE_RDMA);
    world[0].nics = 0;
    assert_int_equal(gpuhier_rails_wire(world, 3), GPUHIER_WIRE_TCP);
}

static bool node_maps(void *arg, int rank, int other)
{
    return *(const int *) arg > 0 && rank / *(const int *) arg == other / *(const int *) arg;
}

/* Two nodes of four ranks each, in groups of so many: are the rails few, and how are they used? */
static bool are_few(const gpuhier_record_t records[8], int group, gpuhier_rails_use_t *use)
{
    const uint64_t nodes[8] = {0, 0, 0, 0, 4, 4, 4, 4};
    gpuhier_hierarchy_t hierarchy;
    gpuhier_shape_t shape;
    gpuhier_piece_rails_t rails[8];

    memset(&hierarchy, 0, sizeof(hierarchy));
    memset(&shape, 0, sizeof(shape));
    assert_int_equal(0, gpuhier_hierarchy_init(&hierarchy, 8, nodes, node_maps, &group, 8));
    assert_int_equal(0, gpuhier_shape_init(&shape, &hierarchy));
    assert_int_equal(0, gpuhier_rails_plan(&shape, records, rails));
    const bool few = gpuhier_rails_are_few(&shape, records, rails, 4, use);
    gpuhier_shape_fini(&shape);
    gpuhier_hierarchy_fini(&hierarchy);
    return few;
}

/* Rails are few if a rank has fewer devices than others, or if a node has several groups; never where ranks share no
 * rail. */
static void test_few(void **state)
{
    gpuhier_record_t records[8];
    gpuhier_rails_use_t use;
    static const int of_two_ranks[] = {0, 1, 2, 2, 2, 3, 4, 4, 4};

    (void) state;
    for (int nics = 1; nics <= 8; ++nics) {
        all_equal(8, nics);
        memcpy(records, world, sizeof(records));
        for (int rank = 4; rank < 8; ++rank) {
            records[rank].node.boot_id[0] = 1;
        }
        assert_false(are_few(records, 4, &use));
        assert_int_equal(nics, use.there);
        assert_int_equal(nics, use.fewest);
        /* Of groups of two, the first decides. Its two ranks drive the shares that two of four ranks have. */
        const bool few = are_few(records, 2, &use);
        assert_int_equal(of_two_ranks[nics], use.driven);
        assert_int_equal(4 == nics || 8 == nics, few); /* half of them */
        /* One rank with one device. */
        records[5].nics = 1;
        assert_int_equal(nics >= 2, are_few(records, 4, &use));
        assert_int_equal(1, use.driven);
        assert_int_equal(nics, use.there);
        assert_int_equal(1, use.fewest);
        assert_int_equal(1 == nics ? 0 : 5, use.fewest_rank);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rails_8x8),
        cmocka_unit_test(test_rails_equal),
        cmocka_unit_test(test_rails_shared),
        cmocka_unit_test(test_rails_random),
        cmocka_unit_test(test_rails_storage),
        cmocka_unit_test(test_rails_stay),
        cmocka_unit_test(test_rails_many),
        cmocka_unit_test(test_rails_uneven),
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_rails_shared_numbers),
    };

    /* Keeps hwloc's plugins loaded: what libpciaccess holds for the whole process looks like a leak without them. */
    static hwloc_topology_t keep;

    if (0 != hwloc_topology_init(&keep)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
