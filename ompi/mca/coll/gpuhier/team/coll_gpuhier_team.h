/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A team: the engine's side of one communicator. Groups, the control block of
 * this node, the lanes' device, and the connections to other groups.
 */
#ifndef GPUHIER_TEAM_H
#define GPUHIER_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_device.h"
#include "base/coll_gpuhier_saved.h"
#include "net/coll_gpuhier_net.h"
#include "plan/coll_gpuhier_rails.h"
#include "plan/coll_gpuhier_schedule.h"
#include "team/coll_gpuhier_segment.h"

/*
 * Made by all members together: before a communicator's first accelerated call, and then
 * owned by its module; or with a persistent request, and then owned by that. All but sequence, the queue, context_lost,
 * failed, reason_sought, limits.slice_bytes_max, long_scratch and the exchange's state is constant then.
 */
typedef struct gpuhier_team {
    opal_list_item_t super; /* in the list of all teams */
    struct ompi_communicator_t *comm;
    int rank;
    int nranks;
    uint32_t id; /* the same on all members, and no other team's of any of them: tells this communicator's messages from
                    others' */
    uint32_t id_base; /* while the id is chosen: what the candidates come from */
    enum {
        GPUHIER_ID_NONE,
        GPUHIER_ID_CHOOSING,
        GPUHIER_ID_CHOSEN
    } id_state;        /* NONE: of one group, which sends no messages */
    uint64_t sequence; /* number of the last call that began; equal on all members between calls */
    struct gpuhier_call *first,
        *last; /* calls that have not ended, in the order in which they were posted; the first one runs */
    struct gpuhier_team *busy_next, **busy_place; /* in the queue's list while there are any */
    int context_lost;   /* not 0: this rank has lost its CUDA context; it votes against every call, and all decline */
    bool reason_sought; /* for a call that failed here: under fault tolerance, whether Open MPI knows why */
    int failed;         /* not 0: a call failed here while data moved; every later call ends with this code */

    gpuhier_hierarchy_t hierarchy;
    gpuhier_shape_t shape;
    gpuhier_limits_t limits; /* slice_bytes_max: lowered for good, by all members after the same call, when one had no
                                room for a long lane */
    int group, index, group_size; /* mine */
    int ngroups;

    gpuhier_segment_t segment; /* of my node */
    int *node_index;           /* [group_size] a member's place in the segment */
    gpuhier_record_t *members; /* [group_size] */
    gpuhier_memref_t *scratch; /* [group_size] each member's first lane, kept mapped */
    gpuhier_memref_t
        *long_scratch; /* [group_size] the long lane of each member that was mapped last, kept mapped, too */

    uint64_t *held; /* [nheld] processes of my node, whose scratch stays mapped as long as the team lives */
    int nheld;

    gpuhier_device_t *device;

    gpuhier_net_peer_t *
        *peers; /* [nranks] the ranks of other groups that I exchange with, else NULL; NULL for one group */
    gpuhier_piece_rails_t *rails;      /* [pieces] */
    bool net_on_device;                /* UCX takes device memory */
    struct gpuhier_partners *partners; /* the words that partners in other groups send; NULL for one group */
    struct gpuhier_exchange *exchange; /* NULL for one group, and before the first call */
    struct gpuhier_small_exchange
        *small_exchange; /* of the small form; NULL but for the leader of one of several groups */
} gpuhier_team_t;

OBJ_CLASS_DECLARATION(gpuhier_team_t);

/* A member lost its CUDA context, and the team is about to be made anew: none of the members' scratch is worth keeping
 * mapped. */
void gpuhier_team_outlived(gpuhier_team_t *team);

/*
 * Is the CUDA context still there that the team was set up in, and, if UCX is given GPU memory, all others that UCX may
 * have worked in? Else the team is of no use any more, until it is made anew. Under the engine's lock.
 */
bool gpuhier_team_check(gpuhier_team_t *team);

/*
 * The choice of an id, of GPUHIER_IDS candidates that follow from a random word, the same on all members. claim says
 * which of them no other team in this process has or may be about to have (bit i: candidate i); choose takes the first
 * of those that all members have free, and is false when there is none. Both under the engine's lock.
 */
#define GPUHIER_IDS 32
uint32_t gpuhier_team_id_claim(gpuhier_team_t *team, uint32_t base);
bool gpuhier_team_id_choose(gpuhier_team_t *team, uint32_t free_on_all);

/* Local. NULL is ignored. */
void gpuhier_team_destroy(gpuhier_team_t *team);

/* Lets go of its connections and its CUDA events, while UCX and CUDA still work. It serves no more calls then. */
void gpuhier_team_release(gpuhier_team_t *team);

/* The first team of the process, for NULL, or the next one; NULL after the last. The engine's lock is held. */
gpuhier_team_t *gpuhier_teams_next(const gpuhier_team_t *team);

/* This rank's slot, or a group member's, for the team's current call. */
static inline gpuhier_slot_t *gpuhier_team_slot(const gpuhier_team_t *team, int index, uint64_t sequence)
{
    return gpuhier_segment_slot(&team->segment, team->node_index[index], sequence);
}

/* The communicator rank of a dead member of my group, -1 while all live. Looks into /proc: not for every poll. */
int gpuhier_team_find_dead(const gpuhier_team_t *team);

#endif /* GPUHIER_TEAM_H */
