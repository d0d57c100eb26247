/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of a set-up, and what its files do for each other. Only they include it.
 *
 *   setup         the order of the steps, and the first one; memory; beginning anew; what is said of a new team
 *   setup_node    the ranks of a node: descriptors of scratch, control block, P2P test
 *   setup_groups  the groups that follow from the P2P tests, their id, scratch in host memory
 *   setup_net     between groups: devices, addresses, connections, the fall to another way
 *   setup_links   whether partners map each other's memory, and the trial of that; the relay
 *
 * They stand on parts that know nothing of set-up: p2p_test, partners, process.
 */
#ifndef GPUHIER_SETUP_INTERNAL_H
#define GPUHIER_SETUP_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "team/coll_gpuhier_process.h"
#include "team/coll_gpuhier_team.h"
#include "team/coll_gpuhier_p2p_test.h"

/* What each rank tells all others at set-up, in plain bytes: gpuhier_agree() has found that all run the same build. */
typedef struct gpuhier_setup_hello {
    uint64_t segment_word; /* names the control block, if this rank makes it */
    uint32_t team_id;      /* random; the team's id comes from that of rank 0 */
    uint8_t way;           /* gpuhier_way_t of the record */
    uint8_t asked;         /* the last way to which this rank had to fall back */
    uint16_t can;          /* GPUHIER_CAN_* */
    gpuhier_memref_t scratch;
    uint64_t nonce; /* of the patterns in scratch, see gpuhier_p2p_test_prepare() */
    gpuhier_record_t record;
} gpuhier_setup_hello_t;

/* What a rank can do, as bits. */
#define GPUHIER_CAN_LINK 1u     /* partners may map memory of the rank: coll_gpuhier_net does not ask for host memory */
#define GPUHIER_CAN_FABRIC 2u   /* its driver knows fabric handles */
#define GPUHIER_CAN_HOST_MAP 4u /* the host reads and writes memory of its GPU */
#define GPUHIER_CAN_WAIT 8u     /* kernels on its GPU may wait for peers */
#define GPUHIER_CAN_MULTICAST 16u /* it may take part in a multicast object */

/* What a rank tells all others of the memory that its partners are to map. */
typedef struct gpuhier_setup_link {
    gpuhier_memref_t ref; /* of a shard buffer, with a pattern */
    int32_t error;        /* CUDA's: there is no such memory */
    int32_t reserved;
} gpuhier_setup_link_t;

/* What a rank tells all others when it knows the groups; all zero after a failure. */
typedef struct gpuhier_setup_word {
    uint32_t ids; /* candidates that are free, see gpuhier_team_id_claim(); with one group not 0 */
    int32_t address_bytes;
    int32_t gpu;    /* gpuhier_net_gpu_t: whether its messages between groups may lie in GPU memory */
    int32_t no_net; /* 1: the failure is that UCX did not open the rank's network devices */
    int32_t reserved;
} gpuhier_setup_word_t;

/* Owned by the path until set-up begins; freed when it ends. Each part names the file that fills it in. */
struct gpuhier_setup {
    gpuhier_team_t *team;
    gpuhier_saved_t *saved;
    struct ompi_communicator_t *comm;

    /* hello */
    gpuhier_lane_t *lane;         /* lent by the device, for its scratch */
    gpuhier_setup_hello_t *hello; /* [nranks] */
    gpuhier_record_t *records;    /* [nranks] */

    /* node */
    uint64_t *nodes;                 /* [nranks] lowest rank of the rank's node */
    int *places;                     /* [nranks] place of the rank among those of its node */
    int *local;                      /* [nlocal] ranks of this node, rising */
    int nlocal, widest;              /* widest: ranks on the fullest node */
    gpuhier_neighbour_t *neighbours; /* [nlocal] for the P2P test */
    gpuhier_p2p_table_t p2p;         /* what came of the tests of all ranks */

    /* groups */
    gpuhier_setup_word_t *words; /* [nranks] */
    bool has_host;               /* there is such a node, see is_host */
    bool *is_host;               /* [nranks] by the number of a node: its ranks work through scratch in host memory */

    /* net */
    bool *partners;         /* [nranks] ranks of other groups that this rank exchanges messages with; several groups */
    void *address;          /* of this rank's UCX; the same */
    gpuhier_net_gpu_t gpu;  /* the answer that decides where messages between groups lie ... */
    int gpu_rank;           /* ... and the rank that gave it */
    bool has_rdma;          /* a rank has RDMA ports */
    gpuhier_way_t next_way; /* the way with which all ranks begin anew ... */
    bool is_to_fall;        /* ... after a failure that makes them do so */
    bool is_to_use_ipc;     /* ... which is that a rank could not map memory by a descriptor */

    /* links */
    gpuhier_setup_link_t *links; /* [nranks] */
    char no_links[160];          /* why the trial of links failed; "": it did not, or there was none */
};

/* What all ranks can do. */
static inline unsigned gpuhier_setup_all_can(const gpuhier_setup_t *setup)
{
    unsigned all = UINT_MAX;
    for (int rank = 0; rank < setup->team->nranks; ++rank) {
        all &= setup->hello[rank].can;
    }
    return all;
}

static inline bool gpuhier_setup_vote(const gpuhier_setup_t *setup, bool mine)
{
    return gpuhier_saved_vote(setup->saved, setup->comm, mine);
}

static inline int gpuhier_setup_gather(const gpuhier_setup_t *setup, const void *mine, void *all, size_t bytes)
{
    return gpuhier_saved_gather(setup->saved, setup->comm, mine, all, bytes);
}

/*
 * The steps, which the head of coll_gpuhier_setup.c describes. All ranks take each step, host_lanes if `has_host` and
 * the last two if there are several groups. rc: the outcome of this rank's earlier steps; a rank that has failed only
 * votes. They return an Open MPI code, which in node may differ between ranks. The others succeed on all ranks or on
 * none; links also if there are neither links nor a relay.
 */
int gpuhier_setup_node(gpuhier_setup_t *setup, int rc);
int gpuhier_setup_groups(gpuhier_setup_t *setup, int rc);

/* Has this process failed so often that it does not try descriptors again? */
bool gpuhier_setup_files_given_up(void);

/* The last step, when the wire between the groups is known: decides from which length on NVSwitches reduce, and lays
 * out their memory.
 * The size of the smallest group counts. */
void gpuhier_setup_switches(gpuhier_setup_t *setup);
int gpuhier_setup_host_lanes(gpuhier_setup_t *setup);
int gpuhier_setup_net_connect(gpuhier_setup_t *setup);
int gpuhier_setup_links(gpuhier_setup_t *setup);

/* Makes the exchange buffers that calls surely need, since a call that makes them may wait for the whole GPU. The
 * engine's lock is held. Returns an Open MPI code. */
int gpuhier_setup_exchange_buffers(const gpuhier_setup_t *setup);

/* The net's parts of other steps, all of them local. */

/* When the hellos are there: looks at the records and ways of all ranks. Fails where ways differ: then all ranks begin
 * anew with the last of them. */
int gpuhier_setup_net_ways(gpuhier_setup_t *setup);

/* The record of this rank, by the team's way. The way becomes GPUHIER_WAY_MPI, which needs no device, if there is no
 * device that the rank may use, or if UCX has TCP only and Open MPI has a fabric. The engine's lock is held. */
int gpuhier_setup_net_record(gpuhier_team_t *team, gpuhier_record_t *record_p);

/* When the groups are made and there are several: opens the rails. Fills in this rank's word: the ids that are free
 * here, the length of its address. */
int gpuhier_setup_net_open(gpuhier_setup_t *setup, gpuhier_setup_word_t *mine);

/* Are all ranks on one node? The same on all ranks. */
static inline bool gpuhier_setup_is_one_node(const gpuhier_setup_t *setup)
{
    return setup->nlocal == setup->team->nranks;
}

/* When it is known what UCX takes: will links be tried? The same on all ranks. */
bool gpuhier_setup_links_wanted(const gpuhier_setup_t *setup);

/* Host memory that ranks of a node share, since they cannot map each other's GPU memory: what a rank makes. */
typedef struct gpuhier_hostlanes {
    bool mine;                  /* false: this rank has no such memory, and only votes */
    gpuhier_hostmem_t *hostmem; /* of the team */
    gpuhier_hostmem_size_t size;
    int index;                  /* of this rank's lane */
    uint64_t word;              /* a random one that the ranks of the memory share */
    const gpuhier_lane_t *lane; /* of GPU memory, without work */
    const char *topic;          /* of the help text for a rank whose own part fails */
} gpuhier_hostlanes_t;

/*
 * Makes the memory. Collective over the communicator. Returns the same outcome on all ranks; a rank whose own part
 * failed has said why, and no rank has such memory then. The context is current.
 */
int gpuhier_setup_hostlanes_make(const gpuhier_setup_t *setup, const gpuhier_hostlanes_t *lanes);

#endif /* GPUHIER_SETUP_INTERNAL_H */
