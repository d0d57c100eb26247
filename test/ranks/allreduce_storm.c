/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A seeded random mix of blocking, nonblocking and persistent calls on several communicators that overlap, of several
 * types, operations and sizes. All ranks post the same calls; each passes buffers of its own choice, and waits, tests
 * and starts in an order of its own. Modes flip while calls are in flight.
 *
 *   allreduce_storm [--stock] [steps] [seed]
 */
#include "flight.h"
#include "overlap.h"

#include <stdio.h>
#include <stdlib.h>

#define NCOMMS (1 + OVERLAP_NKINDS)
#define NSLOTS 12
#define NPERSISTENT 3

static uint64_t shared_state, own_state;

static unsigned draw(uint64_t *state, unsigned limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned) (*state >> 33) % limit;
}

/* The same on all ranks; and a rank's own. */
static unsigned pick(unsigned limit)
{
    return draw(&shared_state, limit);
}
static unsigned pick_own(unsigned limit)
{
    return draw(&own_state, limit);
}

typedef struct slot {
    flight_t flight;
    bool active;
} slot_t;

static const char *const types[] = {"double", "int", "float_int"};
static const char *const ops[] = {"sum", "max", "minloc"};
static const size_t counts[] = {1, 9, 700, 3000, 30001};

/* What the ranks agree on. */
typedef struct choice {
    int comm, kind; /* kind: of types and ops */
    size_t count;
    bool any_buffer, in_place;
} choice_t;

static choice_t choose(void)
{
    choice_t c = {.comm = (int) pick(NCOMMS), .kind = (int) pick(3), .count = counts[pick(5)]};
    c.any_buffer = 0 == pick(6);
    c.in_place = 0 == pick(3); /* on all ranks: libnbc chooses by it */
    return c;
}

static void land(suite_t *suite, slot_t *slot)
{
    flight_check(suite, &slot->flight, "a call in a storm");
    flight_free(&slot->flight);
    slot->active = false;
}

/* Waits for one of mine, or only tests it. */
static void finish(suite_t *suite, slot_t *slot, bool wait)
{
    int done = 1;
    int error = wait ? MPI_Wait(&slot->flight.request, MPI_STATUS_IGNORE)
                     : MPI_Test(&slot->flight.request, &done, MPI_STATUS_IGNORE);
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "a call in a storm ended with %d", error);
    }
    if (done) {
        land(suite, slot);
    }
}

static slot_t *slot_find(suite_t *suite, slot_t *slots)
{
    for (int i = 0; i < NSLOTS; ++i) {
        if (!slots[i].active) {
            return &slots[i];
        }
    }
    slot_t *slot = &slots[pick_own(NSLOTS)];
    finish(suite, slot, true);
    return slot;
}

static buffer_kind_t my_kind(const choice_t *c)
{
    return c->any_buffer ? (buffer_kind_t) pick_own(BUFFER_NKINDS) : BUFFER_DEVICE;
}

static void post(suite_t *suite, slot_t *slots, const MPI_Comm *comms)
{
    const choice_t c = choose();
    slot_t *slot = slot_find(suite, slots);
    flight_make(suite, &slot->flight, comms[c.comm], types[c.kind], ops[c.kind], c.count, my_kind(&c), my_kind(&c),
                c.in_place);
    flight_post(suite, &slot->flight);
    slot->active = true;
}

static void call(suite_t *suite, const MPI_Comm *comms)
{
    const choice_t c = choose();
    call_t call = {.comm = comms[c.comm],
                   .type = value_type_find(types[c.kind]),
                   .op = value_op_find(ops[c.kind]),
                   .count = c.count,
                   .send_kind = my_kind(&c),
                   .recv_kind = my_kind(&c),
                   .in_place = c.in_place,
                   .path = PATH_ANY};
    suite_call(suite, &call);
}

/* Starts all persistent requests, from a random one on, and leaves them in flight, or ends them. */
static void persistent_turn(suite_t *suite, flight_t *flights, bool *in_flight)
{
    const int first = (int) pick_own(NPERSISTENT);
    for (int i = 0; i < NPERSISTENT; ++i) {
        flight_t *flight = &flights[(first + i) % NPERSISTENT];
        int error = *in_flight ? MPI_Wait(&flight->request, MPI_STATUS_IGNORE) : MPI_Start(&flight->request);
        if (MPI_SUCCESS != error) {
            suite_fail(suite, "a persistent call in a storm: error %d", error);
        }
        if (*in_flight) {
            flight_check(suite, flight, "a persistent call in a storm");
        }
    }
    for (int i = 0; i < NPERSISTENT && *in_flight; ++i) {
        flight_fill(suite, &flights[i]); /* in one order, as all ranks count values alike */
    }
    *in_flight = !*in_flight;
}

int main(int argc, char **argv)
{
    static slot_t slots[NSLOTS];
    flight_t persistent[NPERSISTENT];
    MPI_Comm comms[NCOMMS];
    suite_t suite;
    bool in_flight = false;

    suite_begin(&suite, "allreduce_storm", &argc, &argv);
    const int steps = argc > 1 ? atoi(argv[1]) : 300;
    shared_state = argc > 2 ? (uint64_t) atoll(argv[2]) : 1;
    own_state = shared_state + 1000 * (uint64_t) (suite.rank + 1);
    overlap_make(MPI_COMM_WORLD, comms);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -suite.rank, &comms[OVERLAP_NKINDS]); /* all, in reverse */
    for (int i = 0; i < NPERSISTENT; ++i) {
        const buffer_kind_t kind = 2 == i ? BUFFER_HOST : BUFFER_DEVICE;
        MPI_Comm comm = comms[2 == i ? OVERLAP_NKINDS : OVERLAP_ALL];
        flight_make(&suite, &persistent[i], comm, types[i % 2], ops[i % 2], counts[i + 2], kind, kind, 1 == i);
        flight_init(&suite, &persistent[i]);
    }
    for (int step = 0; step < steps; ++step) {
        const unsigned turn = pick(10);
        if (turn < 5) {
            post(&suite, slots, comms);
        } else if (turn < 8) {
            call(&suite, comms);
        } else if (turn < 9) {
            persistent_turn(&suite, persistent, &in_flight);
        }
        slot_t *slot = &slots[pick_own(NSLOTS)];
        if (slot->active) {
            finish(&suite, slot, 0 == pick_own(4));
        }
    }
    for (int i = 0; i < NSLOTS; ++i) {
        if (slots[i].active) {
            finish(&suite, &slots[i], true);
        }
    }
    if (in_flight) {
        persistent_turn(&suite, persistent, &in_flight);
    }
    for (int i = 0; i < NPERSISTENT; ++i) {
        MPI_Request_free(&persistent[i].request);
        flight_free(&persistent[i]);
    }
    overlap_free(comms);
    MPI_Comm_free(&comms[OVERLAP_NKINDS]);
    return suite_end(&suite);
}
