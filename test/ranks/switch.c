/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls that NVSwitches reduce, where GPUs have multicast objects: which ones do, by the component's counter; that
 * their results are right, with counts that end anywhere, in place and not, blocking, nonblocking and persistent, and
 * with host memory on some ranks; and what crosses the links to the switch, by the emulator's count: (1 + 1/P) B each
 * way.
 *
 *   switch none|exact|all BYTES     which calls take the form: none; those whose result does not depend on the order
 *                                   of operands; or sums of floating-point numbers as well, which then have the same
 *                                   bits on all ranks. BYTES: from which length on
 */
#include "calls.h"
#include "flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum order { EXACT, BY_ORDER, NEVER } order_t; /* what the result of an operation depends on; not in a switch */
typedef enum wanted { WANT_NONE, WANT_EXACT, WANT_ALL } wanted_t;

static const struct kind {
    const char *type, *op;
    order_t order;
} kinds[] = {
    {"int32", "sum", EXACT},  {"uint32", "sum", EXACT}, {"int64", "sum", EXACT},    {"uint64", "sum", EXACT},
    {"int32", "max", EXACT},  {"uint32", "max", EXACT}, {"int64", "max", EXACT},    {"uint64", "max", EXACT},
    {"int32", "min", EXACT},  {"uint32", "min", EXACT}, {"int64", "min", EXACT},    {"uint64", "min", EXACT},
    {"uint8", "band", EXACT}, {"int16", "bor", EXACT},  {"int8", "bxor", EXACT},    {"uint16", "band", EXACT},
    {"uint32", "bor", EXACT}, {"int64", "bxor", EXACT}, {"float", "sum", BY_ORDER}, {"double", "sum", BY_ORDER},
    {"float", "max", NEVER},  {"double", "min", NEVER}, {"int16", "sum", NEVER},    {"int8", "max", NEVER},
    {"int32", "prod", NEVER}, {"int32", "land", NEVER}, {"2int", "minloc", NEVER},  {"c_double_complex", "sum", NEVER},
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

static wanted_t wanted;
static size_t from_bytes;

static uint64_t switch_calls(void)
{
    uint64_t calls = 0;
    (void) pvars_counter("coll_gpuhier_calls_switch", &calls);
    return calls;
}

static bool is_wanted(const struct kind *kind, size_t count)
{
    return count * value_type_find(kind->type)->extent >= from_bytes
           && ((EXACT == kind->order && WANT_NONE != wanted) || (BY_ORDER == kind->order && WANT_ALL == wanted));
}

static void expect(suite_t *suite, const struct kind *kind, size_t count, uint64_t before, uint64_t calls)
{
    const uint64_t taken = switch_calls() - before;
    if (taken != (is_wanted(kind, count) ? calls : 0)) {
        suite_fail(suite, "%s %s count %zu: %llu calls of %llu in the switch", kind->type, kind->op, count,
                   (unsigned long long) taken, (unsigned long long) calls);
    }
}

static call_t call_of(const struct kind *kind, size_t count)
{
    return (call_t){.comm = MPI_COMM_NULL,
                    .type = value_type_find(kind->type),
                    .op = value_op_find(kind->op),
                    .count = count,
                    .send_kind = BUFFER_DEVICE,
                    .recv_kind = BUFFER_DEVICE,
                    .path = PATH_ACCELERATED};
}

/* Blocking, out of place and in place, aligned and not. */
static void blocking(suite_t *suite, const struct kind *kind, size_t count)
{
    call_t call = call_of(kind, count);
    for (unsigned i = 0; i < 2; ++i) {
        const uint64_t before = switch_calls();
        call.in_place = 1 == i;
        call.send_offset = i * call.type->extent;
        call.recv_offset = (i + (unsigned) suite->rank) % 2 * call.type->extent;
        suite_call(suite, &call);
        expect(suite, kind, count, before, 1);
    }
}

/* Two nonblocking calls or persistent requests at once. */
static void in_flight(suite_t *suite, const struct kind *kind, size_t count, bool persistent)
{
    const uint64_t before = switch_calls();
    const char *what = persistent ? "persistent" : "nonblocking";
    flight_t flight[2];
    bool made = true;

    for (int i = 0; i < 2; ++i) {
        flight_make(suite, &flight[i], MPI_COMM_WORLD, kind->type, kind->op, count, BUFFER_DEVICE, BUFFER_DEVICE,
                    1 == i);
        flight_fill(suite, &flight[i]);
        if (persistent) {
            made = flight_init(suite, &flight[i]) && made;
        }
    }
    for (int i = 0; i < 2 && made; ++i) {
        if (persistent) {
            MPI_Start(&flight[i].request);
        } else {
            flight_post(suite, &flight[i]);
        }
    }
    for (int i = 0; i < 2 && made; ++i) {
        MPI_Wait(&flight[i].request, MPI_STATUS_IGNORE);
        flight_check(suite, &flight[i], what);
        if (persistent) {
            MPI_Request_free(&flight[i].request);
        }
    }
    for (int i = 0; i < 2; ++i) {
        flight_free(&flight[i]);
    }
    expect(suite, kind, count, before, made ? 2 : 0);
}

/* Every other rank passes host memory, once: the call is served, the next one is not, and then all pass GPU memory. */
static void mixed(suite_t *suite, const struct kind *kind, size_t count)
{
    call_t call = call_of(kind, count);
    const bool host = 0 != suite->rank % 2;
    const uint64_t before = switch_calls();
    MPI_Comm_dup(MPI_COMM_WORLD, &call.comm);
    suite_call(suite, &call);
    call.send_kind = host ? BUFFER_HOST : BUFFER_POOL;
    call.recv_kind = host ? BUFFER_PINNED : BUFFER_MANAGED;
    suite_call(suite, &call);
    expect(suite, kind, count, before, 2);
    call.path = PATH_SAVED;
    suite_call(suite, &call);
    expect(suite, kind, count, before, 2);
    MPI_Comm_free(&call.comm);
}

/* Bytes between a GPU and its node's switches in one call, summed over all ranks, and so over the GPUs with this number
 * on all nodes. The ranks of a node are a group. */
static void traffic(suite_t *suite, const struct kind *kind, size_t count)
{
    const call_t call = call_of(kind, count);
    const char *text = getenv("VCLUSTER_NODES");
    const unsigned nodes = NULL == text ? 1 : (unsigned) atoi(text), group = (unsigned) suite->nranks / nodes;
    const unsigned long long bytes = count * call.type->extent, wanted_bytes = nodes * (bytes + bytes / group);
    unsigned long long before[2] = {0}, after[2] = {0}, mine[2], all[2];
    char name[2][32];
    for (unsigned gpu = 0; gpu < group; ++gpu) {
        for (int round = 0; round < 2; ++round) {
            snprintf(name[0], sizeof(name[0]), "link.%u.switch", gpu);
            snprintf(name[1], sizeof(name[1]), "link.switch.%u", gpu);
            for (int way = 0; way < 2; ++way) {
                (void) buffer_emulator_count(name[way], round ? &after[way] : &before[way]);
            }
            if (0 == round) {
                suite_call(suite, &call);
                MPI_Barrier(MPI_COMM_WORLD); /* the peers' kernels have ended */
            }
        }
        for (int way = 0; way < 2; ++way) {
            mine[way] = after[way] - before[way];
        }
        MPI_Allreduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int way = 0; way < 2; ++way) {
            const unsigned long long least = is_wanted(kind, count) ? wanted_bytes : 0;
            if (all[way] < least - least / 100 || all[way] > least + least / 100) {
                suite_fail(suite, "%zu elements: %llu bytes on %s, and not %llu", count, all[way], name[way], least);
            }
        }
    }
}

/* Sums whose rounding depends on the order: whatever it is, all ranks have the same bits. */
static void same_bits(suite_t *suite, size_t count)
{
    const size_t bytes = count * sizeof(float);
    float *mine = malloc(bytes), *theirs = malloc(bytes);
    buffer_t buffer;
    for (size_t i = 0; i < count; ++i) {
        mine[i] = (float) (0 == suite->rank % 3 ? 1e7 : -3e6) + 1.0f / (float) (1 + i % 97 + (size_t) suite->rank);
    }
    buffer_alloc(&buffer, BUFFER_DEVICE, bytes, 0);
    buffer_write(&buffer, mine, bytes);
    MPI_Allreduce(MPI_IN_PLACE, buffer.message, (int) count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    ++suite->calls;
    buffer_read(&buffer, mine, bytes);
    memcpy(theirs, mine, bytes);
    MPI_Bcast(theirs, (int) bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (0 != memcmp(mine, theirs, bytes)) {
        suite_fail(suite, "%zu floats: other bits than rank 0", count);
    }
    buffer_free(&buffer);
    free(mine);
    free(theirs);
}

/* A process takes part in eight objects at most. Calls on other communicators are right without one, and what is freed
 * makes room. */
static void many(suite_t *suite, const struct kind *kind, size_t count)
{
    enum { OBJECTS = 8 };
    unsigned long long live = 0, now = 0;
    call_t call = call_of(kind, count);
    MPI_Comm comm[OBJECTS + 1];
    (void) buffer_emulator_count("multicast_live", &live);
    for (int round = 0; round < 2; ++round) {
        const uint64_t before = switch_calls();
        for (int i = 0; i <= OBJECTS; ++i) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
            call.comm = comm[i];
            suite_call(suite, &call);
        }
        if (switch_calls() - before != (is_wanted(kind, count) ? OBJECTS - live : 0)) {
            suite_fail(suite, "%llu of %d communicators use the switch, with %llu objects there before",
                       (unsigned long long) (switch_calls() - before), OBJECTS + 1, live);
        }
        for (int i = 0; i <= OBJECTS; ++i) {
            MPI_Comm_free(&comm[i]);
        }
        (void) buffer_emulator_count("multicast_live", &now);
        if (now != live) {
            suite_fail(suite, "%llu multicast objects are left, and not %llu", now, live);
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"none", "exact", "all"};
    suite_t suite;
    suite_begin(&suite, "switch", &argc, &argv);
    while (3 == argc && wanted < WANT_ALL && 0 != strcmp(names[wanted], argv[1])) {
        ++wanted;
    }
    if (3 != argc || 0 != strcmp(names[wanted], argv[1]) || 0 == (from_bytes = (size_t) strtoul(argv[2], NULL, 10))) {
        fprintf(stderr, "switch: which calls take the form, and from how many bytes on, are expected\n");
        return 2;
    }
    for (size_t k = 0; k < NKINDS; ++k) {
        const size_t least = from_bytes / value_type_find(kinds[k].type)->extent;
        blocking(&suite, &kinds[k], least);
        blocking(&suite, &kinds[k], 3 * least + 1 + k); /* an end that is on no boundary */
    }
    const size_t words = from_bytes / sizeof(uint32_t);
    blocking(&suite, &kinds[0], words - 1); /* too short */
    in_flight(&suite, &kinds[0], 2 * words + 3, false);
    in_flight(&suite, &kinds[3], 20 * words + 5, true);
    mixed(&suite, &kinds[1], 2 * words + 7);
    traffic(&suite, &kinds[0], 64 * words);
    same_bits(&suite, 5 * words + 1);
    many(&suite, &kinds[0], words);
    return suite_end(&suite);
}
