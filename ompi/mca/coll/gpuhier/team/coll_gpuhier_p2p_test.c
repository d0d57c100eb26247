/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the test of P2P mappings: patterns that kernels read from and write to neighbours' scratch, the table of what
 * the tests have shown, and the message about corrupt mappings. Does not own the messages that carry the table
 * (setup_node), nor what follows from it (setup_groups). An IOMMU or PCI Access Control Services can redirect the
 * traffic between two GPUs, and then the driver maps memory, copies are right, and kernels read and write other memory.
 * So kernels do the test.
 *
 * Scratch of a rank during the test, for n neighbours:
 *
 *   0                    2 half                 2 half + n bytes            2 half + 2 n bytes
 *   | stream of the rank | spot of neighbour 0, .. n-1 | landing 0, .. n-1 |
 *
 * A stream is random words that come from its rank's nonce. Each neighbour reads the first bytes of it into its
 * landing. Neighbour w writes a part of its own stream to its spot in the scratch of neighbour t, and the part depends
 * on t. So a pattern that comes from another rank, from an earlier set-up or from another place is noticed.
 *
 * Called by setup and setup_node, in three steps, between which other ranks take theirs.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_p2p_test.h"
#include "ompi/constants.h"
#include "opal/util/proc.h"

#define HALF_BYTES_MAX ((size_t) 32 << 10) /* eight pages of a host, which an IOMMU maps */
#define PART_BYTES 64                      /* from a neighbour's part of a stream to the next one's */

uint64_t gpuhier_p2p_word(uint64_t nonce, size_t index)
{
    uint64_t word = nonce + (index + 1) * 0x9e3779b97f4a7c15u; /* splitmix64 */
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

/* The three lengths follow from parameters that are equal on all ranks. */
static size_t scratch_bytes(void)
{
    return gpuhier_scratch_out(false, gpuhier_params.slices_in_flight);
}

static size_t half_bytes(void)
{
    const size_t room = scratch_bytes() / 8 / PART_BYTES * PART_BYTES;
    return room < HALF_BYTES_MAX ? room : HALF_BYTES_MAX;
}

/* Bytes of a pattern. 0 where scratch is too small for so many neighbours. */
static size_t pattern_bytes(int n)
{
    const size_t room = (scratch_bytes() - 2 * half_bytes()) / (2 * (size_t) n) / 16 * 16;
    return room < half_bytes() ? room : half_bytes();
}

static size_t spot_of(int neighbour, int n)
{
    return 2 * half_bytes() + (size_t) neighbour * pattern_bytes(n);
}

/* Where this neighbour's part of a stream begins, in bytes. */
static size_t part_of(int neighbour)
{
    return ((size_t) neighbour + 1) * PART_BYTES % half_bytes();
}

bool gpuhier_p2p_pattern_matches(const uint64_t *words, size_t bytes, uint64_t nonce, size_t from)
{
    for (size_t i = 0; i < bytes / sizeof(*words); ++i) {
        if (words[i] != gpuhier_p2p_word(nonce, from / sizeof(*words) + i)) {
            return false;
        }
    }
    return bytes > 0;
}

void gpuhier_p2p_pattern_write(uint64_t *words, size_t bytes, uint64_t nonce)
{
    for (size_t i = 0; i < bytes / sizeof(*words); ++i) {
        words[i] = gpuhier_p2p_word(nonce, i);
    }
}

static int copy(const gpuhier_lane_t *lane, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return gpuhier_stream_copy(lane->stream[GPUHIER_STAGE_IN], to, from, bytes);
}

int gpuhier_p2p_test_prepare(const gpuhier_lane_t *lane, uint64_t nonce)
{
    const size_t bytes = 2 * half_bytes();
    uint64_t *words = malloc(bytes);
    if (NULL == words) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_p2p_pattern_write(words, bytes, nonce);
    int rc = copy(lane, lane->scratch, (CUdeviceptr) (uintptr_t) words, bytes);
    free(words);
    return rc;
}

/* Maps the scratch of neighbour k, and starts both kernels. */
static void start(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbour, int k, int n, int me)
{
    const size_t bytes = pattern_bytes(n);
    if (0 == bytes) {
        neighbour->error = CUDA_ERROR_OUT_OF_MEMORY; /* what cannot be tested is not trusted */
    }
    if (0 != neighbour->error) {
        return;
    }
    gpuhier_engine_lock();
    int rc = gpuhier_map(&neighbour->scratch, true, &neighbour->mapping, &neighbour->address);
    gpuhier_engine_unlock();
    neighbour->error = OMPI_ERR_NOT_FOUND == rc ? GPUHIER_NO_DESCRIPTOR : gpuhier_cuda_error_of(rc);
    if (0 == neighbour->error) {
        gpuhier_reduce_t *kernels = &lane->device->reduce;
        CUstream stream = lane->stream[GPUHIER_STAGE_IN];
        const CUdeviceptr there = neighbour->address, here = lane->scratch;
        rc = gpuhier_reduce_copy(kernels, here + spot_of(n + k, n), there, bytes, stream);
        rc = OMPI_SUCCESS != rc
                 ? rc
                 : gpuhier_reduce_copy(kernels, there + spot_of(me, n), here + part_of(k), bytes, stream);
        neighbour->error = gpuhier_cuda_error_of(rc);
    }
}

/* Waits for all kernels, and checks what they have read. */
static int finish(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me, uint64_t *landings)
{
    const size_t bytes = pattern_bytes(n);
    int rc = copy(lane, (CUdeviceptr) (uintptr_t) landings, lane->scratch + spot_of(n, n), (size_t) n * bytes);
    for (int k = 0; k < n && OMPI_SUCCESS == rc; ++k) {
        gpuhier_neighbour_t *neighbour = &neighbours[k];
        if (k != me && 0 == neighbour->error) {
            const uint64_t *landing = &landings[(size_t) k * bytes / sizeof(*landings)];
            neighbour->reads = gpuhier_p2p_pattern_matches(landing, bytes, neighbour->nonce, 0);
        }
    }
    return rc;
}

int gpuhier_p2p_test_run(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me)
{
    neighbours[me].reads = neighbours[me].arrived = true;
    uint64_t *landings = malloc((size_t) n * pattern_bytes(n) + 1);
    if (NULL == landings) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int k = 0; k < n; ++k) {
        if (k != me) {
            start(lane, &neighbours[k], k, n, me);
        }
    }
    int rc = n > 1 ? finish(lane, neighbours, n, me, landings) : OMPI_SUCCESS;
    gpuhier_engine_lock();
    for (int k = 0; k < n; ++k) {
        gpuhier_unmap(neighbours[k].mapping);
        neighbours[k].mapping = NULL;
    }
    gpuhier_engine_unlock();
    free(landings);
    return rc;
}

int gpuhier_p2p_test_inspect(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me)
{
    const size_t bytes = pattern_bytes(n);
    if (n < 2) {
        return OMPI_SUCCESS;
    }
    uint64_t *spots = malloc((size_t) n * bytes + 1);
    if (NULL == spots) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int rc = copy(lane, (CUdeviceptr) (uintptr_t) spots, lane->scratch + spot_of(0, n), (size_t) n * bytes);
    for (int k = 0; k < n && OMPI_SUCCESS == rc; ++k) {
        if (k != me) {
            const uint64_t *spot = &spots[(size_t) k * bytes / sizeof(*spots)];
            neighbours[k].arrived = gpuhier_p2p_pattern_matches(spot, bytes, neighbours[k].nonce, part_of(me));
        }
    }
    free(spots);
    return rc;
}

enum {
    FLAG_ATTACHED = 1, /* in the first cell of a row */
    FLAG_MAPPED = 2,   /* the rank has the other's scratch mapped, and its kernels have run */
    FLAG_READS = 4,    /* the kernels have read what the other has written there */
    FLAG_ARRIVED = 8   /* what the other's kernels have written has arrived in this rank's scratch */
};

int gpuhier_p2p_table_init(gpuhier_p2p_table_t *table, int nranks, int widest, const int *places)
{
    *table = (gpuhier_p2p_table_t){.nranks = nranks, .widest = widest, .places = places};
    table->cells = calloc((size_t) nranks + 1, gpuhier_p2p_table_row_bytes(table));
    return NULL == table->cells ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

static gpuhier_p2p_cell_t *row_of(const gpuhier_p2p_table_t *table, int rank)
{
    return &table->cells[(size_t) rank * (size_t) (1 + table->widest)];
}

static const gpuhier_p2p_cell_t *cell_of(const gpuhier_p2p_table_t *table, int rank, int other)
{
    return &row_of(table, rank)[1 + table->places[other]];
}

void *gpuhier_p2p_table_mine(const gpuhier_p2p_table_t *table)
{
    return row_of(table, table->nranks);
}

size_t gpuhier_p2p_table_row_bytes(const gpuhier_p2p_table_t *table)
{
    return (size_t) (1 + table->widest) * sizeof(*table->cells);
}

void gpuhier_p2p_table_note(const gpuhier_p2p_table_t *table, const gpuhier_neighbour_t *neighbours, int n)
{
    gpuhier_p2p_cell_t *row = row_of(table, table->nranks);
    row[0].flags = FLAG_ATTACHED;
    for (int k = 0; k < n; ++k) {
        const gpuhier_neighbour_t *neighbour = &neighbours[k];
        row[1 + k].error = (uint16_t) neighbour->error;
        row[1 + k].flags = (uint8_t) ((0 == neighbour->error ? FLAG_MAPPED : 0) | (neighbour->reads ? FLAG_READS : 0)
                                      | (neighbour->arrived ? FLAG_ARRIVED : 0));
    }
}

bool gpuhier_p2p_table_complete(const gpuhier_p2p_table_t *table)
{
    bool complete = true;
    for (int rank = 0; rank < table->nranks; ++rank) {
        complete = complete && FLAG_ATTACHED == row_of(table, rank)->flags;
    }
    return complete;
}

/* Do a rank's writes arrive at another rank? */
static bool arrives(const gpuhier_p2p_table_t *table, int rank, int other)
{
    return 0 != (cell_of(table, other, rank)->flags & FLAG_ARRIVED);
}

bool gpuhier_p2p_reach(const gpuhier_p2p_table_t *table, int rank, int other)
{
    return 0 != (cell_of(table, rank, other)->flags & FLAG_READS) && arrives(table, rank, other);
}

unsigned gpuhier_p2p_error(const gpuhier_p2p_table_t *table, int rank)
{
    const gpuhier_p2p_cell_t *cells = row_of(table, rank) + 1;
    for (int k = 0; k < table->widest; ++k) {
        if (0 != cells[k].error) {
            return cells[k].error;
        }
    }
    return 0;
}

unsigned gpuhier_p2p_pair_error(const gpuhier_p2p_table_t *table, int rank, int other)
{
    return cell_of(table, rank, other)->error;
}

static void corrupt_tell(const gpuhier_p2p_table_t *table, const gpuhier_record_t *records, int rank, int other,
                         int count, int npairs)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const gpuhier_pci_id_t *pci = &records[rank].gpu_pci, *other_pci = &records[other].gpu_pci;
    const bool reads = 0 != (cell_of(table, rank, other)->flags & FLAG_READS);
    const bool writes = arrives(table, rank, other);
    if (atomic_flag_test_and_set(&told)) {
        return;
    }
    gpuhier_help("corrupt P2P mapping", opal_process_info.nodename, rank, (int) records[rank].gpu_ordinal,
                 (unsigned) pci->domain, pci->bus, pci->device, other, (int) records[other].gpu_ordinal,
                 (unsigned) other_pci->domain, other_pci->bus, other_pci->device,
                 reads    ? "writes of the first GPU's kernels do not arrive"
                 : writes ? "the first GPU's kernels read wrong data"
                          : "the first GPU's kernels read wrong data, and their writes do not arrive",
                 count, npairs);
}

void gpuhier_p2p_corrupt_tell(const gpuhier_p2p_table_t *table, const gpuhier_record_t *records, const int *local,
                              int nlocal, int rank)
{
    const int npairs = nlocal * nlocal;
    int first = 0, count = 0;
    for (int i = 0; i < npairs; ++i) {
        const int from = local[i / nlocal], to = local[i % nlocal];
        if (0 != (cell_of(table, from, to)->flags & FLAG_MAPPED) && !gpuhier_p2p_reach(table, from, to)) {
            first = 0 == count++ ? i : first;
        }
    }
    if (count > 0 && rank == local[first / nlocal]) {
        corrupt_tell(table, records, rank, local[first % nlocal], count, npairs - nlocal);
    }
}
