/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ompi_config.h"

#include <string.h>

#include "team/coll_gpuhier_tried.h"
#include "ompi/communicator/communicator.h"
#include "ompi/group/group.h"
#include "ompi/proc/proc.h"

/*
 * A process's place follows from its name. A later process with the same place replaces it, and the pair is tried
 * again: more processes than places on a node cost time, and nothing else.
 */
#define PLACES 256

typedef struct place {
    opal_process_name_t name;
    gpuhier_tried_id_t mine, theirs; /* process 0: the place is free */
    double rate;
} place_t;

static place_t places[PLACES];

static place_t *place_of(opal_process_name_t name)
{
    return &places[((unsigned) name.jobid + (unsigned) name.vpid) % PLACES];
}

static opal_process_name_t name_of(struct ompi_communicator_t *comm, int rank)
{
    return ompi_group_get_proc_name(comm->c_local_group, rank);
}

static bool same_name(opal_process_name_t a, opal_process_name_t b)
{
    return a.jobid == b.jobid && a.vpid == b.vpid;
}

uint64_t gpuhier_tried_word(gpuhier_tried_id_t id)
{
    uint64_t word = (id.process ^ id.device * 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u; /* splitmix64 */
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

/* Open MPI makes no object for a process of another node before it is needed. */
static bool on_this_node(struct ompi_communicator_t *comm, int rank)
{
    const ompi_proc_t *proc = ompi_group_get_proc_ptr_raw(comm->c_local_group, rank);
    return !ompi_proc_is_sentinel((ompi_proc_t *) proc) && OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags);
}

uint64_t gpuhier_tried_sum(struct ompi_communicator_t *comm, gpuhier_tried_id_t mine, bool *all_p)
{
    uint64_t sum = gpuhier_tried_word(mine);
    *all_p = true;
    for (int rank = 0; rank < ompi_comm_size(comm); ++rank) {
        const place_t *place = place_of(name_of(comm, rank));
        if (rank == ompi_comm_rank(comm)) {
            continue;
        }
        if (0 != place->theirs.process && same_name(place->name, name_of(comm, rank))
            && 0 == memcmp(&place->mine, &mine, sizeof(mine))) {
            sum += gpuhier_tried_word(place->theirs);
        } else {
            *all_p = *all_p && !on_this_node(comm, rank);
        }
    }
    return sum;
}

void gpuhier_tried_note(struct ompi_communicator_t *comm, int rank, gpuhier_tried_id_t mine, gpuhier_tried_id_t theirs,
                        bool passed, double rate)
{
    const opal_process_name_t name = name_of(comm, rank);
    place_t *place = place_of(name);
    if (passed) {
        *place = (place_t){name, mine, theirs, rate};
    } else if (same_name(place->name, name)) {
        memset(place, 0, sizeof(*place));
    }
}

double gpuhier_tried_rate(struct ompi_communicator_t *comm, int rank)
{
    const opal_process_name_t name = name_of(comm, rank);
    const place_t *place = place_of(name);
    return same_name(place->name, name) ? place->rate : 0;
}

void gpuhier_tried_forget(void)
{
    memset(places, 0, sizeof(places));
}
