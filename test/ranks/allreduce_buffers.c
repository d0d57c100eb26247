/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every kind of memory as send and receive buffer: the same on all ranks, different on each, and
 * changing from call to call, so that a communicator's mode flips back and forth; memory that is freed and allocated
 * again, and parts of one allocation. Whatever a rank passes, no rank may hang, and all must get the right result.
 *
 *   allreduce_buffers [--stock]
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

static const size_t counts[] = {3, 1021, 200003};
#define NCOUNTS ((int) (sizeof(counts) / sizeof(counts[0])))

static call_t make_call(size_t count)
{
    call_t call = {.comm = MPI_COMM_NULL,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .path = PATH_ANY};
    return call;
}

/*
 * Every pair of kinds, alike on all ranks: those of device memory on a communicator whose every call is accelerated,
 * those with host memory on one that never sees anything else.
 */
static void run_uniform(suite_t *suite)
{
    MPI_Comm comms[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    for (int i = 0; i < NCOUNTS; ++i) {
        for (int send = 0; send < BUFFER_NKINDS; ++send) {
            for (int recv = 0; recv < BUFFER_NKINDS; ++recv) {
                call_t call = make_call(counts[i]);
                if (!suite->full && 0 != (i + send + recv) % NCOUNTS) {
                    continue; /* one count for each pair */
                }
                call.send_kind = (buffer_kind_t) send;
                call.recv_kind = (buffer_kind_t) recv;
                call.in_place = send == recv && 1 == i % 2;
                const bool on_device = buffer_kind_on_device(call.send_kind) && buffer_kind_on_device(call.recv_kind);
                call.comm = comms[on_device];
                call.path = on_device ? PATH_ACCELERATED : PATH_SAVED;
                suite_call(suite, &call);
            }
        }
    }
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
}

/*
 * A communicator of its own, whose every call is on memory of one kind: with device memory, which
 * `with` is too, never anything but accelerated; with host memory, never.
 */
static void run_one_kind(suite_t *suite, buffer_kind_t kind, buffer_kind_t with)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 2 * NCOUNTS; ++i) {
        call_t call = make_call(counts[i % NCOUNTS]);
        call.comm = comm;
        call.send_kind = kind;
        call.recv_kind = i < NCOUNTS ? kind : with;
        call.in_place = i >= NCOUNTS && kind == with;
        call.path = buffer_kind_on_device(kind) ? PATH_ACCELERATED : PATH_SAVED;
        suite_call(suite, &call);
    }
    MPI_Comm_free(&comm);
}

enum { IPC_AUTO, IPC_SCRATCH, IPC_USER };

/* What coll_gpuhier_ipc says, where mappings may stay for a while; else as if nothing were mapped. */
static uint64_t mappings_stay(void)
{
    uint64_t ipc = IPC_SCRATCH, budget = 0;
    const bool known = pvars_number("coll_gpuhier_ipc", &ipc) && pvars_number("coll_gpuhier_ipc_cache_bytes", &budget);
    return known && (0 == budget || budget > 1u << 20) ? ipc : IPC_SCRATCH;
}

/* Are there others on this node, whose buffers are mapped sooner or later, and stay so? */
static bool has_mapping_peers(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    return NULL != local && atoi(local) > 1 && IPC_SCRATCH != mappings_stay();
}

/* Is it so on all ranks? */
static bool on_all(bool mine)
{
    int one = mine, all = 0;
    MPI_Reduce(&one, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return 0 != all;
}

/*
 * Memory that is freed and allocated again at the same address: what a peer has mapped of the old one must not be
 * taken for the new one. Later rounds are long enough for a buffer to be mapped with ipc=auto. More rounds follow where
 * peers let go of their mappings late, as on a busy machine, since the emulator then gives another address.
 */
static void run_reallocated(suite_t *suite)
{
    const size_t count = 200003, bytes = count * sizeof(double);
    value_case_t c = {value_type_find("double"), value_op_find("sum"), suite->nranks, 0, false, false};
    double *host = malloc(bytes);
    char *last = NULL;
    const bool wanted = PATH_ACCELERATED == suite->default_path && IPC_USER != mappings_stay();
    unsigned same = 0;

    for (int round = 0; round < 6 || (wanted && round < 60 && !on_all(same > 0)); ++round) {
        buffer_t buffer;
        buffer_alloc(&buffer, BUFFER_DEVICE, bytes + (size_t) (round % 2) * 4096, 0);
        same += last == buffer.base;
        last = buffer.base;
        for (int i = 0; i < (round < 3 ? 2 : 6); ++i) {
            size_t first_wrong = 0;
            pvars_t before;
            c.salt = ++suite->salt;
            value_fill(&c, suite->rank, 0, count, host);
            buffer_write(&buffer, host, bytes);
            pvars_read(&before);
            ++suite->calls;
            if (MPI_SUCCESS
                != MPI_Allreduce(MPI_IN_PLACE, buffer.message, (int) count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) {
                suite_fail(suite, "memory allocated again, round %d: an error", round);
            }
            suite_check_paths(suite, "memory allocated again", &before, 1, 0);
            buffer_read(&buffer, host, bytes);
            if (0 != value_check(&c, 0, count, host, &first_wrong)) {
                suite_fail(suite, "memory allocated again, round %d, call %d: wrong from element %zu on", round, i,
                           first_wrong);
            }
        }
        buffer_free(&buffer);
    }
    /* While peers keep mappings of what is freed the emulator gives another address, where a driver may give the same.
     */
    if (0 == same && wanted) {
        suite_fail(suite, "no allocation came to lie where the one before had been: this checks nothing");
    }
    free(host);
}

/* Parts of one allocation. */
enum { PARTS = 16, PART = 30011, APART = 40009, PART_ROUNDS = 3 };
_Static_assert(PARTS * sizeof(double) * APART > 4 << 20, "the last parts lie far from the start");

typedef struct parts {
    value_case_t values;
    buffer_t send, recv;
    double *input, *wanted, *got; /* images of all parts */
} parts_t;

/* One part to another. The whole receive buffer is compared: what belongs to other parts, or to none, keeps its value.
 */
static void part_call(suite_t *suite, parts_t *p, size_t from, size_t to)
{
    const size_t bytes = PARTS * APART * sizeof(double);
    const double *in = (double *) (void *) p->send.message + from * APART;
    double *out = (double *) (void *) p->recv.message + to * APART;
    size_t first_wrong = 0;
    pvars_t before;

    p->values.salt = ++suite->salt;
    value_fill(&p->values, suite->rank, 0, PART, p->input + from * APART);
    buffer_write(&p->send, p->input, bytes);
    pvars_read(&before);
    ++suite->calls;
    if (MPI_SUCCESS != MPI_Allreduce(in, out, PART, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) {
        suite_fail(suite, "part %zu to part %zu: an error", from, to);
    }
    suite_check_paths(suite, "parts of one allocation", &before, 1, 0);
    buffer_read(&p->recv, p->got, bytes);
    if (0 != value_check(&p->values, 0, PART, p->got + to * APART, &first_wrong)) {
        suite_fail(suite, "part %zu to part %zu: wrong from element %zu on", from, to, first_wrong);
    }
    memcpy(p->wanted + to * APART, p->got + to * APART, PART * sizeof(double));
    if (0 != memcmp(p->wanted, p->got, bytes)) {
        suite_fail(suite, "part %zu to part %zu: another part was written", from, to);
    }
    buffer_read(&p->send, p->got, bytes);
    if (0 != memcmp(p->input, p->got, bytes)) {
        suite_fail(suite, "part %zu to part %zu: the send buffer was changed", from, to);
    }
}

/*
 * Messages that are parts of one allocation, other ones in each call and on each rank. Peers map the allocation when
 * they first need any part of it, with ipc=auto after some calls, and then find every part in it.
 */
static void run_parts(suite_t *suite)
{
    const size_t bytes = PARTS * APART * sizeof(double);
    parts_t p = {.values = {value_type_find("double"), value_op_find("sum"), suite->nranks, 0, false, false}};
    unsigned long long opens[PART_ROUNDS + 1] = {0};
    bool is_emulated = true;

    p.input = calloc(1, bytes);
    p.wanted = malloc(bytes);
    p.got = malloc(bytes);
    buffer_alloc(&p.send, BUFFER_DEVICE, bytes, 0);
    buffer_alloc(&p.recv, BUFFER_DEVICE, bytes, 0);
    buffer_read(&p.recv, p.wanted, bytes);
    for (int round = 0; round < PART_ROUNDS; ++round) {
        is_emulated = buffer_emulator_count("ipc_opens", &opens[round]);
        for (size_t i = 0; i < PARTS; ++i) {
            const size_t from = (i * 5 + (size_t) suite->rank) % PARTS,
                         to = (PARTS - 1 - i + (size_t) suite->rank * 3) % PARTS;
            part_call(suite, &p, from, to);
        }
    }
    is_emulated = is_emulated && buffer_emulator_count("ipc_opens", &opens[PART_ROUNDS]);
    if (is_emulated && PATH_ACCELERATED == suite->default_path && has_mapping_peers()) {
        if (opens[0] == opens[PART_ROUNDS] && NULL == getenv("GPUHIER_EXPECT_ONESHOT")) {
            suite_fail(suite, "no peer's allocation was ever mapped: this checks nothing");
        }
        if (opens[PART_ROUNDS - 1] != opens[PART_ROUNDS]) {
            suite_fail(suite, "allocations that were mapped were mapped again for other parts");
        }
    }
    if (0 != buffer_check_guards(&p.send) || 0 != buffer_check_guards(&p.recv)) {
        suite_fail(suite, "bytes around the parts of an allocation were overwritten");
    }
    buffer_free(&p.send);
    buffer_free(&p.recv);
    free(p.input);
    free(p.wanted);
    free(p.got);
}

/* Every pair of kinds with a type that has no kernel. */
static void run_staged(suite_t *suite)
{
    for (int send = 0; send < BUFFER_NKINDS; ++send) {
        for (int recv = 0; recv < BUFFER_NKINDS; ++recv) {
            call_t call = make_call(1021);
            call.type = value_type_find("long_double");
            call.send_kind = (buffer_kind_t) send;
            call.recv_kind = (buffer_kind_t) recv;
            call.send_offset = (size_t) (send % 3) * sizeof(long double);
            call.in_place = send == recv;
            call.path = PATH_SAVED;
            suite_call(suite, &call);
        }
    }
}

/* Kinds of its own on each rank: the first `nkinds` of those that `kinds` lists. */
static void kinds_of_rank(call_t *call, const buffer_kind_t *kinds, int nkinds, int rank, int turn, int i)
{
    call->send_kind = kinds[(rank + turn) % nkinds];
    call->recv_kind = kinds[(rank * 2 + turn + i) % nkinds];
}

/* Other kinds on each rank, on communicators that have not seen the counts before: so the path is known. */
static void run_mixed(suite_t *suite)
{
    static const buffer_kind_t kinds[BUFFER_NKINDS] = {BUFFER_DEVICE, BUFFER_MANAGED, BUFFER_POOL,   BUFFER_CHUNKS,
                                                       BUFFER_OTHER,  BUFFER_HOST,    BUFFER_PINNED, BUFFER_REGISTERED};
    enum { ON_DEVICE = 5 };
    for (int turn = 0; turn < BUFFER_NKINDS; ++turn) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        call_t first = make_call(3); /* it chooses the GPU, from which others' pools are out of reach */
        first.comm = comm;
        suite_call(suite, &first);
        for (int i = 0; i < NCOUNTS; ++i) {
            call_t call = make_call(counts[i]);
            call.comm = comm;
            call.path = PATH_ACCELERATED;
            kinds_of_rank(&call, kinds, ON_DEVICE, suite->rank, turn, i);
            suite_call(suite, &call);
            /* One rank alone has host memory: that is the last accelerated call. Then another one alone. */
            call.send_kind = call.recv_kind = turn % suite->nranks == suite->rank ? BUFFER_HOST : BUFFER_DEVICE;
            suite_call(suite, &call);
            call.send_kind = call.recv_kind = (turn + 1) % suite->nranks == suite->rank ? BUFFER_HOST : BUFFER_DEVICE;
            call.path = PATH_SAVED;
            suite_call(suite, &call);
            /* None has, now and then in place: the second call since, which a probe precedes. */
            call.send_kind = call.recv_kind = BUFFER_DEVICE;
            call.in_place = 0 == turn % 2;
            call.path = PATH_ACCELERATED;
            suite_call(suite, &call);
            call.in_place = false;
            kinds_of_rank(&call, kinds, BUFFER_NKINDS, suite->rank, turn, i);
            suite_call(suite, &call);
        }
        MPI_Comm_free(&comm);
    }
}

/* One key, many calls: runs of device memory, of host memory, and of both at once. */
static void run_flips(suite_t *suite)
{
    for (int i = 0; i < 150; ++i) {
        call_t call = make_call(65);
        int phase = (i / 10) % 3;
        bool host = 1 == phase || (2 == phase && i % suite->nranks == suite->rank);
        call.op = value_op_find("min");
        call.send_kind = call.recv_kind = host ? BUFFER_HOST : BUFFER_DEVICE;
        suite_call(suite, &call);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "allreduce_buffers", &argc, &argv);
    for (int kind = 0; kind < BUFFER_NKINDS; ++kind) {
        run_one_kind(&suite, (buffer_kind_t) kind, (buffer_kind_t) kind);
        if (buffer_kind_on_device((buffer_kind_t) kind)) {
            run_one_kind(&suite, (buffer_kind_t) kind, BUFFER_DEVICE);
        }
    }
    run_reallocated(&suite);
    run_parts(&suite);
    run_uniform(&suite);
    run_staged(&suite);
    run_mixed(&suite);
    run_flips(&suite);
    return suite_end(&suite);
}
