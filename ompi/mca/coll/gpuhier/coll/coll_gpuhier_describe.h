/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What gpuhier has made of a communicator, for `gpuhier_info job`: a program in the job finds the function in the
 * loaded component by its name.
 *
 * Which component serves the collectives that gpuhier can take over, on one communicator. Open MPI decides that by
 * priorities, after each component has had its say, so only the communicator tells. Inline, since gpuhier_info's
 * program in a job asks too, where gpuhier is not loaded.
 */
#ifndef GPUHIER_DESCRIBE_H
#define GPUHIER_DESCRIBE_H

#include <ctype.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_saved.h"

/* One collective. Ranks send it as bytes. */
typedef struct gpuhier_served {
    char call[24];    /* MPI_Allreduce */
    char by[24];      /* the component; empty: the communicator has no such collective */
    char below[24];   /* where gpuhier serves: the component that serves the calls that gpuhier leaves */
    int32_t priority; /* of `by`, as Open MPI counts it: at most 100 */
} gpuhier_served_t;

#define GPUHIER_SERVED_ONE(name) +1
enum { GPUHIER_SERVED_COUNT = GPUHIER_COLLECTIVES(GPUHIER_SERVED_ONE) };

/* The entry of a module in the communicator's list of modules; NULL: there is none. */
static inline const gpuhier_avail_t *gpuhier_served_maker(const struct ompi_communicator_t *comm,
                                                          const mca_coll_base_module_t *module)
{
    const gpuhier_avail_t *entry;
    OPAL_LIST_FOREACH (entry, comm->c_coll->module_list, gpuhier_avail_t) {
        if (module == entry->ac_module) {
            return entry;
        }
    }
    return NULL;
}

static inline void gpuhier_served_one(const struct ompi_communicator_t *comm, const char *name,
                                      const mca_coll_base_module_t *module, gpuhier_served_t *served_p)
{
    const gpuhier_avail_t *maker = gpuhier_served_maker(comm, module);
    *served_p = (gpuhier_served_t){.priority = NULL != maker ? maker->ac_priority : -1};
    snprintf(served_p->call, sizeof(served_p->call), "MPI_%c%s", toupper((unsigned char) *name), name + 1);
    snprintf(served_p->by, sizeof(served_p->by), "%s", NULL != maker ? maker->ac_component_name : "");
}

/* Fills in all collectives, MPI_Allreduce first, without `below`. served_p: [GPUHIER_SERVED_COUNT] */
static inline void gpuhier_served_find(const struct ompi_communicator_t *comm, gpuhier_served_t *served_p)
{
#define GPUHIER_SERVED_FIND(name) gpuhier_served_one(comm, #name, comm->c_coll->coll_##name##_module, served_p++);
    GPUHIER_COLLECTIVES(GPUHIER_SERVED_FIND)
#undef GPUHIER_SERVED_FIND
}

/* How many other collectives gpuhier serves. */
static inline int gpuhier_served_others(const struct ompi_communicator_t *comm)
{
    const gpuhier_avail_t *maker;
    int count = 0;
#define GPUHIER_SERVED_COUNT_ONE(name)                                      \
    maker = gpuhier_served_maker(comm, comm->c_coll->coll_##name##_module); \
    count += NULL != maker && 0 == strcmp("gpuhier", maker->ac_component_name) ? 1 : 0;
    GPUHIER_STAGED_COLLECTIVES(GPUHIER_SERVED_COUNT_ONE)
#undef GPUHIER_SERVED_COUNT_ONE
    return count;
}

/* Writes "MPI_Allreduce by gpuhier, else tuned; ..", and how many others gpuhier serves. Returns text. */
static inline const char *gpuhier_served_text(const gpuhier_served_t *served, int others, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < GPUHIER_SERVED_COUNT && at < room; ++i) {
        const char *sign = 0 == at ? "" : "; ";
        if ('\0' != served[i].below[0]) {
            at += (size_t) snprintf(text + at, room - at, "%s%s by %s, else %s", sign, served[i].call, served[i].by,
                                    served[i].below);
        } else if ('\0' != served[i].by[0]) {
            at += (size_t) snprintf(text + at, room - at, "%s%s by %s (priority %d)", sign, served[i].call,
                                    served[i].by, (int) served[i].priority);
        }
    }
    if (others > 0 && at < room) {
        snprintf(text + at, room - at, "; %d others by gpuhier, on the GPUs or by host copies of GPU buffers", others);
    }
    return text;
}

static inline bool gpuhier_served_by_gpuhier(const gpuhier_served_t *served)
{
    return 0 == strcmp("gpuhier", served->by);
}

/* Writes why a loaded gpuhier does not serve the collective. enable, priority: its parameters. Returns text. */
static inline const char *gpuhier_served_why_not(const gpuhier_served_t *served, bool enable, int priority, char *text,
                                                 size_t room)
{
    if (!enable || priority < 0) {
        snprintf(text, room, "%s", enable ? "coll_gpuhier_priority is below 0" : "coll_gpuhier_enable is 0");
    } else if (served->priority > priority) {
        snprintf(text, room,
                 "%s's priority %d is above gpuhier's %d: raise coll_gpuhier_priority, or leave %s out with --mca coll "
                 "^%s",
                 served->by, (int) served->priority, priority, served->by, served->by);
    } else {
        snprintf(text, room, "%s stands above it, and may pass calls on to it", served->by);
    }
    return text;
}

#define GPUHIER_DESCRIPTION_VERSION 5 /* of the struct: a program cannot read a later version than its own */
#define GPUHIER_DESCRIBED_RAILS 8
#define GPUHIER_DESCRIBED_SIZES 48

/* The description for one rank. Ranks send it as bytes. */
typedef struct gpuhier_description {
    uint32_t version, bytes;
    gpuhier_served_t served[GPUHIER_SERVED_COUNT];
    int32_t enable, priority; /* parameters */
    int32_t serves;   /* gpuhier has the communicator's MPI_Allreduce; if not, all below but the counters is 0 */
    int32_t has_team; /* a call has run on the GPUs, or could; if not, all below but the counters is 0 */
    int32_t ngroups, group, index;
    int32_t gpu;     /* CUDA's number in this process */
    int32_t on_host; /* the group works through scratch in host memory */
    int32_t reserved;
    int32_t nrails, nsizes;
    char members[64];  /* "rank 3 has other parameters": a member that keeps all from the GPUs; or empty */
    uint32_t driven;   /* rails that this rank drives, by bit; none with one group */
    char pci[16];      /* of the GPU: 0000:3b:00.0 */
    char between[128]; /* what carries data between groups, in words */
    char rail[GPUHIER_DESCRIBED_RAILS][24];
    uint64_t from[GPUHIER_DESCRIBED_SIZES];  /* bytes of the shortest message of each row */
    char path[GPUHIER_DESCRIBED_SIZES][128]; /* what messages of these lengths get, in words */
    /* Counters of this process, on all communicators. */
    uint64_t accelerated, small, staged;
    uint64_t left[GPUHIER_REASON_COUNT]; /* to Open MPI, by reason */
} gpuhier_description_t;

/* Local. Returns 0. */
typedef int gpuhier_describe_fn(MPI_Comm comm, gpuhier_description_t *description_p);
gpuhier_describe_fn gpuhier_describe;

/* Tells the report which components serve MPI_COMM_WORLD, and with print_info prints a line about any communicator on
 * its rank 0. Local. */
void gpuhier_serving_tell(struct ompi_communicator_t *comm);

#endif /* GPUHIER_DESCRIBE_H */
