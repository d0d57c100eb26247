/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The test of P2P mappings at set-up: do this rank's kernels reach its neighbours' scratch, and theirs this rank's? And
 * the table of what the tests of all ranks have shown, which set-up gathers.
 */
#ifndef GPUHIER_P2P_TEST_H
#define GPUHIER_P2P_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_device.h"
#include "topology/coll_gpuhier_topology.h"

#define GPUHIER_NO_DESCRIPTOR UINT16_MAX /* none of CUDA's errors: the neighbour's descriptor has not come */

/* A rank of this node. The set-up owns an array of all of them, this rank included, in the same order on all ranks. */
typedef struct gpuhier_neighbour {
    gpuhier_memref_t scratch;
    uint64_t nonce;             /* random, for one set-up: what the rank's patterns come from */
    gpuhier_mapping_t *mapping; /* of scratch, while the test runs */
    CUdeviceptr address;        /* where scratch is mapped */
    unsigned error;             /* CUDA's, or GPUHIER_NO_DESCRIPTOR, of the mapping or of work on it; 0: none */
    bool reads;                 /* this rank's kernels read what the neighbour wrote */
    bool arrived;               /* what the neighbour's kernels wrote arrived in this rank's scratch */
    bool send, receive;         /* before the test, descriptors of scratch: what is left to do with the neighbour */
} gpuhier_neighbour_t;

/*
 * The steps, in this order. The context is current, and the engine's lock is not held. lane: of kind SLICES, lent for
 * the whole test. They return an Open MPI code.
 *
 * prepare: writes this rank's own pattern into its scratch. Neighbours read it, so it ends before they know the nonce.
 * run: maps each neighbour's scratch, reads there and writes there by kernels, and fills in `error` and `reads`. One
 * that cannot be mapped, or has an `error` already, is no error of the step. me: this rank's place among the n
 * neighbours.
 * inspect: when all neighbours have run, looks for what they have written here, and fills in `arrived`.
 */
int gpuhier_p2p_test_prepare(const gpuhier_lane_t *lane, uint64_t nonce);
int gpuhier_p2p_test_run(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me);
int gpuhier_p2p_test_inspect(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me);

/* Random words that come from a nonce: the first is one of them, the second writes them, and the third checks for them.
 * bytes: > 0, of whole words. from: bytes before the first word to check for. */
uint64_t gpuhier_p2p_word(uint64_t nonce, size_t index);
void gpuhier_p2p_pattern_write(uint64_t *words, size_t bytes, uint64_t nonce);
bool gpuhier_p2p_pattern_matches(const uint64_t *words, size_t bytes, uint64_t nonce, size_t from);

/* What one rank has found about one rank of its node. Ranks exchange cells. */
typedef struct gpuhier_p2p_cell {
    uint16_t error; /* as the neighbour's */
    uint8_t flags;
    uint8_t reserved;
} gpuhier_p2p_cell_t;

_Static_assert(4 == sizeof(gpuhier_p2p_cell_t), "a cell is exchanged between processes");

/* Owned by the set-up. There is a row for each rank, and all rows are of one length. The first cell says whether the
 * rank has attached its node's control block. A cell for each rank of its node follows, by the place there. */
typedef struct gpuhier_p2p_table {
    int nranks;
    int widest;                /* ranks on the fullest node */
    const int *places;         /* [nranks] the set-up's */
    gpuhier_p2p_cell_t *cells; /* [nranks + 1][1 + widest]; the last row is for this rank to send from */
} gpuhier_p2p_table_t;

/* Returns an Open MPI code. The set-up frees `cells`. */
int gpuhier_p2p_table_init(gpuhier_p2p_table_t *table, int nranks, int widest, const int *places);

/* The row to send, and its length. It says that this rank has failed until its n neighbours are noted. */
void *gpuhier_p2p_table_mine(const gpuhier_p2p_table_t *table);
size_t gpuhier_p2p_table_row_bytes(const gpuhier_p2p_table_t *table);
void gpuhier_p2p_table_note(const gpuhier_p2p_table_t *table, const gpuhier_neighbour_t *neighbours, int n);

/* This and the functions below need all rows. Has no rank failed? */
bool gpuhier_p2p_table_complete(const gpuhier_p2p_table_t *table);

/* Do kernels of a rank read and write memory of another rank of its node, as both have seen? */
bool gpuhier_p2p_reach(const gpuhier_p2p_table_t *table, int rank, int other);

/* The error of the first neighbour that the rank could not map. 0: there is none. */
unsigned gpuhier_p2p_error(const gpuhier_p2p_table_t *table, int rank);

/* The error with which a rank failed to map another rank of its node. 0: it did not. */
unsigned gpuhier_p2p_pair_error(const gpuhier_p2p_table_t *table, int rank, int other);

/*
 * Tells the user, once a process, of corrupt P2P mappings among the ranks of this node: they were opened, but kernels
 * read or write other memory by them. The first rank that has one says so. records: [nranks]; local: this node's ranks,
 * rising.
 */
void gpuhier_p2p_corrupt_tell(const gpuhier_p2p_table_t *table, const gpuhier_record_t *records, const int *local,
                              int nlocal, int rank);

#endif /* GPUHIER_P2P_TEST_H */
