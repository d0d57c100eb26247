/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the table of what trials have shown, and the message about mappings that lie. Does not own the trials (trial),
 * nor the messages that carry the table (setup_node), nor the groups that follow from it (setup_groups).
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "team/coll_gpuhier_verdicts.h"
#include "ompi/constants.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#define RATE_UNIT 0.01 /* GB/s of a verdict's value */

enum {
    FLAG_ATTACHED = 1, /* in the first cell of a row */
    FLAG_MAPPED = 2,   /* the rank has the other's scratch mapped, and its kernels have run, now or earlier */
    FLAG_READS = 4,    /* the kernels have read what the other has written there */
    FLAG_ARRIVED = 8,  /* what the other's kernels have written has arrived in this rank's scratch */
    FLAG_PASSED = 16   /* the pair had passed both ways earlier, and the rank's kernels have not run now */
};

int gpuhier_verdicts_init(gpuhier_verdicts_t *verdicts, int nranks, int widest, const int *places)
{
    *verdicts = (gpuhier_verdicts_t){.nranks = nranks, .widest = widest, .places = places};
    verdicts->cells = calloc((size_t) nranks + 1, gpuhier_verdicts_row_bytes(verdicts));
    return NULL == verdicts->cells ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

void gpuhier_verdicts_fini(gpuhier_verdicts_t *verdicts)
{
    free(verdicts->cells);
    verdicts->cells = NULL;
}

static gpuhier_verdict_t *row_of(const gpuhier_verdicts_t *verdicts, int rank)
{
    return &verdicts->cells[(size_t) rank * (size_t) (1 + verdicts->widest)];
}

static const gpuhier_verdict_t *cell_of(const gpuhier_verdicts_t *verdicts, int rank, int other)
{
    return &row_of(verdicts, rank)[1 + verdicts->places[other]];
}

void *gpuhier_verdicts_mine(const gpuhier_verdicts_t *verdicts)
{
    return row_of(verdicts, verdicts->nranks);
}

size_t gpuhier_verdicts_row_bytes(const gpuhier_verdicts_t *verdicts)
{
    return (size_t) (1 + verdicts->widest) * sizeof(*verdicts->cells);
}

/* At least one unit, and at most what 16 bits hold, which is 655 GB/s. */
static uint16_t in_units(double rate)
{
    const double units = rate / RATE_UNIT;
    return rate <= 0.0 ? 0 : units < 1.0 ? 1 : units > UINT16_MAX ? UINT16_MAX : (uint16_t) units;
}

void gpuhier_verdicts_note(const gpuhier_verdicts_t *verdicts, const gpuhier_neighbour_t *neighbours, int n)
{
    gpuhier_verdict_t *row = row_of(verdicts, verdicts->nranks);
    row[0].flags = FLAG_ATTACHED;
    for (int k = 0; k < n; ++k) {
        const gpuhier_neighbour_t *neighbour = &neighbours[k];
        row[1 + k].value = 0 != neighbour->error ? (uint16_t) neighbour->error : in_units(neighbour->rate);
        row[1 + k].flags =
            (uint8_t) ((0 == neighbour->error ? FLAG_MAPPED : 0) | (neighbour->reads ? FLAG_READS : 0)
                       | (neighbour->arrived ? FLAG_ARRIVED : 0) | (neighbour->passed ? FLAG_PASSED : 0));
    }
}

bool gpuhier_verdicts_complete(const gpuhier_verdicts_t *verdicts)
{
    bool complete = true;
    for (int rank = 0; rank < verdicts->nranks; ++rank) {
        complete = complete && FLAG_ATTACHED == row_of(verdicts, rank)->flags;
    }
    return complete;
}

/* Do a rank's writes arrive at another rank? If the first rank remembers that they did, it has written nothing now, and
 * the other rank's answer means nothing. */
static bool arrives(const gpuhier_verdicts_t *verdicts, int rank, int other)
{
    return 0 != (cell_of(verdicts, rank, other)->flags & FLAG_PASSED)
           || 0 != (cell_of(verdicts, other, rank)->flags & FLAG_ARRIVED);
}

bool gpuhier_verdicts_reach(const gpuhier_verdicts_t *verdicts, int rank, int other)
{
    return 0 != (cell_of(verdicts, rank, other)->flags & FLAG_READS) && arrives(verdicts, rank, other);
}

unsigned gpuhier_verdicts_error(const gpuhier_verdicts_t *verdicts, int rank)
{
    const gpuhier_verdict_t *cells = row_of(verdicts, rank) + 1;
    for (int k = 0; k < verdicts->widest; ++k) {
        if (0 == (cells[k].flags & FLAG_MAPPED) && 0 != cells[k].value) {
            return cells[k].value;
        }
    }
    return 0;
}

unsigned gpuhier_verdicts_pair_error(const gpuhier_verdicts_t *verdicts, int rank, int other)
{
    const gpuhier_verdict_t *cell = cell_of(verdicts, rank, other);
    return 0 == (cell->flags & FLAG_MAPPED) ? cell->value : 0;
}

static bool lies(const gpuhier_verdicts_t *verdicts, int rank, int other)
{
    return 0 != (cell_of(verdicts, rank, other)->flags & FLAG_MAPPED) && !gpuhier_verdicts_reach(verdicts, rank, other);
}

static void lie_tell(const gpuhier_verdicts_t *verdicts, const gpuhier_record_t *records, int rank, int other,
                     int count, int npairs)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const gpuhier_pci_id_t *pci = &records[rank].gpu_pci, *other_pci = &records[other].gpu_pci;
    const bool reads = 0 != (cell_of(verdicts, rank, other)->flags & FLAG_READS);
    const bool writes = arrives(verdicts, rank, other);
    if (atomic_flag_test_and_set(&told)) {
        return;
    }
    opal_show_help("help-coll-gpuhier.txt", "lying mapping", true, opal_process_info.nodename, rank,
                   (int) records[rank].gpu_ordinal, (unsigned) pci->domain, pci->bus, pci->device, other,
                   (int) records[other].gpu_ordinal, (unsigned) other_pci->domain, other_pci->bus, other_pci->device,
                   reads    ? "writes of the first GPU's kernels do not arrive"
                   : writes ? "the first GPU's kernels read wrong data"
                            : "the first GPU's kernels read wrong data, and their writes do not arrive",
                   count, npairs);
}

void gpuhier_verdicts_tell(const gpuhier_verdicts_t *verdicts, const gpuhier_record_t *records, const int *local,
                           int nlocal, int rank)
{
    const int npairs = nlocal * nlocal;
    int first = 0, count = 0;
    for (int i = 0; i < npairs; ++i) {
        if (lies(verdicts, local[i / nlocal], local[i % nlocal])) {
            first = 0 == count++ ? i : first;
        }
    }
    if (count > 0 && rank == local[first / nlocal]) {
        lie_tell(verdicts, records, rank, local[first % nlocal], count, npairs - nlocal);
    }
}

static int compare_values(const void *a, const void *b)
{
    return (int) *(const uint16_t *) a - (int) *(const uint16_t *) b;
}

void gpuhier_verdicts_print(const gpuhier_verdicts_t *verdicts, const int *local, int nlocal)
{
    uint16_t *values = malloc(sizeof(*values) * (size_t) nlocal * (size_t) nlocal);
    int count = 0, reader = 0, owner = 0;
    uint16_t slowest = UINT16_MAX;
    for (int i = 0; i < nlocal * nlocal && NULL != values; ++i) {
        const gpuhier_verdict_t *cell = cell_of(verdicts, local[i / nlocal], local[i % nlocal]);
        if (0 == (cell->flags & FLAG_MAPPED) || 0 == cell->value) {
            continue;
        }
        values[count++] = cell->value;
        if (cell->value < slowest) {
            slowest = cell->value;
            reader = local[i / nlocal];
            owner = local[i % nlocal];
        }
    }
    if (count > 0) {
        qsort(values, (size_t) count, sizeof(*values), compare_values);
        opal_output(0,
                    "coll:gpuhier:   kernels on this node read a neighbour's memory at %.2f to %.2f GB/s, median %.2f, "
                    "slowest rank %d that of rank %d",
                    RATE_UNIT * slowest, RATE_UNIT * values[count - 1], RATE_UNIT * values[count / 2], reader, owner);
    }
    free(values);
}
