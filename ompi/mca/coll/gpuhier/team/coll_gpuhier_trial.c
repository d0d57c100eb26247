/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the trial of mappings: patterns that kernels read from and write to neighbours' scratch. Does not own what
 * follows from it (setup_groups). An IOMMU or PCI Access Control Services can redirect the traffic between two GPUs,
 * and then the driver maps memory, copies are right, and kernels read and write other memory. So the trial is made by
 * kernels.
 *
 * Scratch of a rank during the trial, for n neighbours:
 *
 *   0                    2 half                 2 half + n bytes            2 half + 2 n bytes
 *   | stream of the rank | spot of neighbour 0, .. n-1 | landing 0, .. n-1 |
 *
 * A stream is random words that come from its rank's nonce. Each neighbour reads the first bytes of it into its
 * landing. Neighbour w writes a part of its own stream to its spot in the scratch of neighbour t, and the part depends
 * on t. So a pattern that comes from another rank, from an earlier set-up or from another place is noticed.
 *
 * Called by setup_hello and setup_node, in three steps, between which other ranks take theirs.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_trial.h"
#include "ompi/constants.h"

#define HALF_BYTES_MAX ((size_t) 32 << 10) /* eight pages of a host, which an IOMMU maps */
#define RATE_BYTES ((size_t) 1 << 20)      /* of the read that is timed ... */
#define RATE_BYTES_MIN (RATE_BYTES / 4)    /* ... and its least length: a launch must not count most */
#define RATE_ROUNDS 3                      /* the best counts, since a disturbance only makes a read slower */
#define PART_BYTES 64                      /* from a neighbour's part of a stream to the next one's */

static uint64_t word_of(uint64_t nonce, size_t index)
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

static bool matches(const uint64_t *words, size_t bytes, uint64_t nonce, size_t from)
{
    for (size_t i = 0; i < bytes / sizeof(*words); ++i) {
        if (words[i] != word_of(nonce, from / sizeof(*words) + i)) {
            return false;
        }
    }
    return bytes > 0;
}

bool gpuhier_trial_matches(const uint64_t *words, size_t bytes, uint64_t nonce)
{
    return matches(words, bytes, nonce, 0);
}

void gpuhier_trial_pattern(uint64_t *words, size_t bytes, uint64_t nonce)
{
    for (size_t i = 0; i < bytes / sizeof(*words); ++i) {
        words[i] = word_of(nonce, i);
    }
}

/* Copies on a stream of the lane, and so does not wait for other work of the program. */
static int copy(const gpuhier_lane_t *lane, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUstream stream = lane->stream[GPUHIER_STAGE_IN];
    int rc = gpuhier_cuda_error(gpuhier_cu.cuMemcpyAsync(to, from, bytes, stream), "cuMemcpyAsync of a pattern");
    return OMPI_SUCCESS != rc ? rc : gpuhier_cuda_error(gpuhier_cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

int gpuhier_trial_prepare(const gpuhier_lane_t *lane, uint64_t nonce)
{
    const size_t bytes = 2 * half_bytes();
    uint64_t *words = malloc(bytes);
    if (NULL == words) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_trial_pattern(words, bytes, nonce);
    int rc = copy(lane, lane->scratch, (CUdeviceptr) (uintptr_t) words, bytes);
    free(words);
    return rc;
}

/* One kernel that moves a pattern. */
static int move(const gpuhier_lane_t *lane, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    gpuhier_kernel_args_t args = {.count = bytes, .nsrc = 1, .ndst = 1};
    args.src[0] = from;
    args.dst[0] = to;
    return gpuhier_reduce_copy(&lane->device->reduce, &args, lane->stream[GPUHIER_STAGE_IN]);
}

static unsigned error_now(void)
{
    const CUresult last = gpuhier_cuda_last_error();
    return CUDA_SUCCESS == last ? CUDA_ERROR_UNKNOWN : (unsigned) last;
}

/* Is there a neighbour that kernels are to try? */
static bool tries(const gpuhier_neighbour_t *neighbours, int n, int me)
{
    for (int k = 0; k < n; ++k) {
        if (k != me && !neighbours[k].passed) {
            return true;
        }
    }
    return false;
}

static void map(gpuhier_neighbour_t *neighbour)
{
    if (0 != neighbour->error) {
        return;
    }
    gpuhier_engine_lock();
    int rc = gpuhier_map(&neighbour->scratch, true, &neighbour->mapping, &neighbour->address);
    gpuhier_engine_unlock();
    neighbour->error = OMPI_ERR_NOT_FOUND == rc ? GPUHIER_NO_DESCRIPTOR : OMPI_SUCCESS != rc ? error_now() : 0;
}

/* Maps the scratch of neighbour k, and starts both kernels. */
static void start(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbour, int k, int n, int me)
{
    const size_t bytes = pattern_bytes(n);
    if (0 == bytes) {
        neighbour->error = CUDA_ERROR_OUT_OF_MEMORY; /* what cannot be tried is not trusted */
        return;
    }
    map(neighbour);
    if (0 == neighbour->error) {
        int rc = move(lane, lane->scratch + spot_of(n + k, n), neighbour->address, bytes);
        rc = OMPI_SUCCESS != rc ? rc
                                : move(lane, neighbour->address + spot_of(me, n), lane->scratch + part_of(k), bytes);
        neighbour->error = OMPI_SUCCESS != rc ? error_now() : 0;
    }
}

/* Times longer reads of the neighbour's scratch, whatever lies there, into memory that no pattern needs. The best
 * counts. An error of a launch leaves the rate as it is. */
static int time_reads(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbour, int n)
{
    const size_t at = spot_of(2 * n, n), room = scratch_bytes() - at;
    const size_t bytes = room < RATE_BYTES ? room : RATE_BYTES;
    int rc = OMPI_SUCCESS;
    for (int round = 0; round < RATE_ROUNDS && bytes >= RATE_BYTES_MIN && OMPI_SUCCESS == rc; ++round) {
        const double begin = gpuhier_clock();
        if (OMPI_SUCCESS == move(lane, lane->scratch + at, neighbour->address, bytes)) {
            rc = gpuhier_cuda_error(gpuhier_cu.cuStreamSynchronize(lane->stream[GPUHIER_STAGE_IN]),
                                    "cuStreamSynchronize");
            const double rate = 1e-9 * (double) bytes / (gpuhier_clock() - begin);
            neighbour->rate = rate > neighbour->rate ? rate : neighbour->rate;
        }
    }
    return rc;
}

/* Waits for all kernels, checks what they have read, and times reads from the neighbours whose data was right. */
static int finish(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me, uint64_t *landings)
{
    const size_t bytes = pattern_bytes(n);
    int rc = copy(lane, (CUdeviceptr) (uintptr_t) landings, lane->scratch + spot_of(n, n), (size_t) n * bytes);
    for (int k = 0; k < n && OMPI_SUCCESS == rc; ++k) {
        gpuhier_neighbour_t *neighbour = &neighbours[k];
        if (k != me && !neighbour->passed && 0 == neighbour->error) {
            const uint64_t *landing = &landings[(size_t) k * bytes / sizeof(*landings)];
            neighbour->reads = matches(landing, bytes, neighbour->nonce, 0);
            rc = neighbour->reads ? time_reads(lane, neighbour, n) : rc;
        }
    }
    return rc;
}

int gpuhier_trial_run(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me)
{
    neighbours[me].reads = neighbours[me].arrived = true;
    uint64_t *landings = malloc((size_t) n * pattern_bytes(n) + 1);
    if (NULL == landings) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int k = 0; k < n; ++k) {
        if (k != me && neighbours[k].passed) {
            map(&neighbours[k]);
            neighbours[k].reads = 0 == neighbours[k].error;
            neighbours[k].arrived = true; /* as found earlier; `error` says if the mapping fails now */
        } else if (k != me) {
            start(lane, &neighbours[k], k, n, me);
        }
    }
    int rc = tries(neighbours, n, me) ? finish(lane, neighbours, n, me, landings) : OMPI_SUCCESS;
    gpuhier_engine_lock();
    for (int k = 0; k < n; ++k) {
        gpuhier_unmap(neighbours[k].mapping);
        neighbours[k].mapping = NULL;
    }
    gpuhier_engine_unlock();
    free(landings);
    return rc;
}

int gpuhier_trial_inspect(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me)
{
    const size_t bytes = pattern_bytes(n);
    if (!tries(neighbours, n, me)) {
        return OMPI_SUCCESS;
    }
    uint64_t *spots = malloc((size_t) n * bytes + 1);
    if (NULL == spots) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int rc = copy(lane, (CUdeviceptr) (uintptr_t) spots, lane->scratch + spot_of(0, n), (size_t) n * bytes);
    for (int k = 0; k < n && OMPI_SUCCESS == rc; ++k) {
        if (k != me && !neighbours[k].passed) {
            const uint64_t *spot = &spots[(size_t) k * bytes / sizeof(*spots)];
            neighbours[k].arrived = matches(spot, bytes, neighbours[k].nonce, part_of(me));
        }
    }
    free(spots);
    return rc;
}
