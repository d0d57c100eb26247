/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A team: what the engine needs to know of one communicator.
 *
 * This folder owns teams, from set-up to release: the groups of ranks, the control block that the ranks of a node share
 * (segment), the words that ranks of different groups exchange outside their calls (partners), the tags of messages,
 * and what belongs to the whole process (process: its record, its connections).
 *
 * It uses base, topology, plan, gpu and net. The engine, coll and the top of the component use it. It reaches the
 * engine only by what the engine registers (gpuhier_team_engine).
 */
#ifndef GPUHIER_TEAM_H
#define GPUHIER_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_device.h"
#include "gpu/coll_gpuhier_hostmem.h"
#include "gpu/coll_gpuhier_vmm.h"
#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_saved.h"
#include "net/coll_gpuhier_net.h"
#include "plan/coll_gpuhier_choice.h"
#include "plan/coll_gpuhier_levels.h"
#include "plan/coll_gpuhier_rails.h"
#include "plan/coll_gpuhier_schedule.h"
#include "team/coll_gpuhier_process.h"
#include "team/coll_gpuhier_segment.h"

typedef struct gpuhier_team_scratch {
    gpuhier_mapping_t *mapping; /* not pinned between calls */
    CUdeviceptr address;        /* 0: not known */
} gpuhier_team_scratch_t;

/*
 * All members make a team together: before a communicator's first accelerated call, and then its module owns the team;
 * or with a persistent request, which then owns it. The engine's lock guards what calls change.
 */
typedef struct gpuhier_team {
    opal_list_item_t super; /* in the list of all teams */

    /* Constant after set-up. */
    struct ompi_communicator_t *comm;
    int rank;
    int nranks;
    uint32_t id;      /* the same on all members, and not the id of any other team of a member: it marks the messages of
                         this communicator */
    uint32_t id_base; /* while the id is chosen: the word that its candidates come from */
    enum {
        GPUHIER_ID_NONE, /* one group, which sends no messages */
        GPUHIER_ID_CHOOSING,
        GPUHIER_ID_CHOSEN
    } id_state;
    gpuhier_hierarchy_t hierarchy;
    gpuhier_shape_t shape;
    int group, index, group_size; /* of this rank */
    int ngroups;
    gpuhier_segment_t segment; /* of this node */
    int *node_index;           /* [group_size] a member's place in the segment */
    gpuhier_record_t *members; /* [group_size] */
    gpuhier_memref_t *scratch; /* [group_size] each member's first lane, kept mapped */
    bool joins_all; /* each rank has a partner in every other group, not only in those that reductions need */
    bool by_ipc;    /* peers map this rank's scratch by CUDA IPC, since descriptors do not pass between all ranks */
    gpuhier_hostmem_t hostmem; /* scratch of a group whose members cannot all map each other's, in place of that of
                                  lanes; all zero in other groups */
    uint64_t *held;            /* [nheld] processes of this node, and of partners with links: what this rank has mapped
                                  of their scratch and exchange buffers stays mapped while the team lives */
    int nheld;
    gpuhier_levels_t levels; /* of this rank's group */
    uint64_t oneshot_bytes;  /* longest message that one-shot kernels reduce, see gpuhier_choice_oneshot(); 0: there are
                                several groups, ranks share a GPU, or kernels may not wait */
    uint64_t mapped_bytes; /* longest message that the small form gets in place of one-shot kernels, since the hosts of
                              all ranks read and write GPU memory themselves */
    enum {
        GPUHIER_SWITCH_NONE,    /* no switch reduces for all groups */
        GPUHIER_SWITCH_UNTRIED, /* switches may be able to: see gpuhier_switch_make() */
        GPUHIER_SWITCH_READY
    } switch_state;                /* the same on all members; changes with a probe, as does multicast */
    uint64_t switch_from;          /* not NONE: bytes of the shortest message */
    gpuhier_multicast_t multicast; /* READY: this rank's part of its group's slice buffers in switches ... */
    int switch_buffers;            /* ... how many there are, ... */
    uint64_t switch_buffer_bytes;  /* ... and the length of each, since set-up */
    gpuhier_device_t *device;
    gpuhier_piece_rails_t *rails;          /* [pieces] */
    gpuhier_way_t way;                     /* the connections of its peers */
    bool net_on_device;                    /* UCX moves device memory of this rank */
    bool net_all_on_device;                /* of every rank; equal on all ranks */
    gpuhier_exchange_kind_t exchange_kind; /* what the exchange buffers lie in; several groups */
    uint64_t *linked; /* [nranks] how this rank exchanges pieces with each rank: over a link, the partner's process;
                         through a relay, 1 + the partner's lane; 0: by messages. NULL: by messages with all */
    bool has_relay;   /* groups of a node exchange through host memory that they share; equal on all ranks */
    gpuhier_hostmem_t relay; /* that memory; all zero on a node with one group. A rank's lane there
                                is its place on the node. The exchange takes it along when it leaves the team */

    /* Changed by calls. */
    gpuhier_limits_t limits; /* only slice_bytes_max changes: when a member has no room for a long lane, all members
                                lower it for good after the same call */
    uint64_t sequence;       /* number of the last call that began; equal on all members between calls */
    struct gpuhier_call *first,
        *last; /* calls that have not ended, in the order of their posting; the first one runs */
    struct gpuhier_team *busy_next, **busy_place; /* in the queue's list of teams that have calls */
    int context_lost;   /* not 0: this rank has lost its CUDA context; it votes against every call, and all decline */
    int failed;         /* not 0: a call failed here while data moved; every later call ends with this code */
    bool lists_mixed;   /* in the last MPI_Alltoallv of one-shot form this rank's blocks were short, and others not */
    bool reason_sought; /* of a failed call, under fault tolerance: this rank has waited for Open MPI's reason */
    gpuhier_team_scratch_t *scratch_found; /* [group_size] where each member's scratch is mapped ... */
    uint64_t scratch_epoch;                /* ... as of this gpuhier_ipc_epoch() */
    gpuhier_memref_t *long_scratch; /* [group_size] the long lane of each member that was mapped last, kept mapped */
    gpuhier_net_peer_t **peers; /* [nranks] the ranks of other groups that this rank exchanges with, else NULL; NULL for
                                   one group. A call that fails lets go of them */

    struct gpuhier_known *known; /* calls whose buffers all members have mapped, see engine/coll_gpuhier_arrival.h */

    /* Made by set-up; their owners change what they hold. All are NULL for one group, and once a call has failed. */
    struct gpuhier_partners *partners; /* the words that partners in other groups send */
    struct gpuhier_exchange *exchange;
    struct gpuhier_leaders *leaders; /* the leader's messages */
} gpuhier_team_t;

OBJ_CLASS_DECLARATION(gpuhier_team_t);

/* Keeps what this rank maps of a process mapped until the team ends. False without memory for that. The engine's lock
 * is not held. */
bool gpuhier_team_hold(gpuhier_team_t *team, uint64_t process);

/* Stops keeping the members' scratch mapped. For a team of which a member has lost its CUDA context, before set-up
 * makes a new team. */
void gpuhier_team_outlived(gpuhier_team_t *team);

/*
 * Does the CUDA context in which the team was set up still exist, and, if UCX is given GPU memory, also every other
 * context in which UCX may have worked? If not, the team declines all calls until set-up makes it anew. The engine's
 * lock is held.
 */
bool gpuhier_team_check(gpuhier_team_t *team);

/*
 * The choice of an id. All members derive the same GPUHIER_IDS candidates from one random word. claim returns the
 * candidates that no other team in this process has or may choose (bit i: candidate i). choose takes the first
 * candidate that is free on all members, and returns false when there is none. The engine's lock is held.
 */
#define GPUHIER_IDS 32
uint32_t gpuhier_team_id_claim(gpuhier_team_t *team, uint32_t base);
bool gpuhier_team_id_choose(gpuhier_team_t *team, uint32_t free_on_all);

/* Local. NULL is ignored. */
void gpuhier_team_destroy(gpuhier_team_t *team);

/* Lets go of the team's connections and CUDA events while UCX and CUDA still work. It serves no more calls then. */
void gpuhier_team_release(gpuhier_team_t *team);

/* The first team of the process, for NULL, or the next one; NULL after the last. The engine's lock is held. */
gpuhier_team_t *gpuhier_teams_next(const gpuhier_team_t *team);

/* What the choice of a form depends on, for an all-reduce that NVSwitches might reduce; bytes are to be filled in. */
static inline gpuhier_facts_t gpuhier_team_facts(const gpuhier_team_t *team)
{
    return (gpuhier_facts_t){.is_all_to_all = true,
                             .is_blocking = true,
                             .small_bytes = gpuhier_params.small_bytes,
                             .mapped_bytes = team->mapped_bytes,
                             .oneshot_bytes = team->oneshot_bytes,
                             .switch_bytes = GPUHIER_SWITCH_NONE == team->switch_state ? 0 : team->switch_from};
}

/* What carries pieces between groups, in words; "nothing" for one group. */
const char *gpuhier_team_between(const gpuhier_team_t *team);

/* The same for groups that share a node, where there are several nodes; NULL: as between nodes. */
const char *gpuhier_team_between_on_node(const gpuhier_team_t *team);

/* Does the process of a member of this rank's group live? Makes system calls: too slow for every poll. */
bool gpuhier_team_member_lives(const gpuhier_team_t *team, int index);

/* The communicator rank of a dead member of this rank's group, -1 while all live. As slow. */
int gpuhier_team_find_dead(const gpuhier_team_t *team);

/* Set-up (coll_gpuhier_setup.c): how the members of a communicator make a team. */

/* A set-up that has its memory. Each rank has one before it says that it can take part. */
typedef struct gpuhier_setup gpuhier_setup_t;

/* Local. joins_all: see gpuhier_team_t. Returns NULL when memory ran out. */
gpuhier_setup_t *gpuhier_setup_prepare(struct ompi_communicator_t *comm, bool joins_all);

/* Frees a set-up that does not take place; NULL is ignored. */
void gpuhier_setup_drop(gpuhier_setup_t *setup);

/*
 * Sets up a team, and frees the set-up: collective over the communicator, through its saved
 * collectives. buffer: a device buffer of this call, which gives the context.
 * Every member returns the same outcome: OMPI_SUCCESS, or a code when any of
 * them failed (each has said why). Outcomes differ only where saved->failure is set.
 */
int gpuhier_team_create(gpuhier_setup_t *setup, gpuhier_saved_t *saved, const gpuhier_buffer_t *buffer,
                        gpuhier_team_t **team_p);

/*
 * -- coll_gpuhier_switch.c ---------------------------------------------------------------------
 *
 * A team's memory for reductions in NVSwitches: slice buffers with multicast addresses, one set for each group.
 *
 *   | slice buffer 0, 1 .. S-1 |    in the copy of every member; input and output of a slice
 *
 * Element i of a buffer is reduced and written in all copies by its shard's owner only.
 */

/* Should switches reduce a call of this kernel (coll_gpuhier_reduce.h) and length, if the team has the memory? Equal on
 * all ranks. */
bool gpuhier_switch_suits(const gpuhier_team_t *team, int kernel, uint64_t bytes);

/*
 * Makes the memory, if the team is one that may have it and has not tried. Collective: all ranks of the communicator
 * call it at the same place, and know that all do. Afterwards all have it, or none, unless
 * saved->failure is set.
 */
void gpuhier_switch_make(gpuhier_team_t *team, gpuhier_saved_t *saved);

/* Where a slice buffer begins, in bytes from the start of a copy. */
static inline uint64_t gpuhier_switch_place(const gpuhier_team_t *team, int buffer)
{
    return (uint64_t) buffer * team->switch_buffer_bytes;
}

#endif /* GPUHIER_TEAM_H */
