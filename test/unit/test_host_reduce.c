/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host's reductions against the scalar reference of the kernels: every operation and type, several
 * numbers of sources and counts, unpleasant values, with the result in a place of its own, in the first source,
 * and, for two sources, in the second; a single source also misaligned. The gaps of padded pairs keep what they
 * held, and nothing else is written.
 */
#include "../gpu/kernel_reference.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "gpuhier_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SOURCES = 9,
    MAX_COUNT = 131,
    MAX_ELEM = 16,
    GUARD = 64,
    POISON = 0xa5,
    BYTES = MAX_COUNT * MAX_ELEM + 2 * GUARD
};

#define NAME(op, type) "gpuhier_" #op "_" #type,
static const char *const names[] = {GPUHIER_KERNEL_LIST(NAME)};

enum { PLACE_OWN, PLACE_FIRST, PLACE_SECOND, PLACES };

static _Alignas(16) unsigned char memory[MAX_SOURCES + 1][BYTES], before[MAX_SOURCES + 1][BYTES];
static size_t first = GUARD; /* byte of every buffer where its elements begin */
static unsigned long cases, failures;

static void fill(const kernel_reference_t *reference, int nsources, size_t count, uint64_t *random)
{
    memset(memory, POISON, sizeof(memory));
    for (int s = 0; s < nsources; ++s) {
        for (size_t i = 0; i < count; ++i) {
            unsigned char *elem = memory[s] + first + i * reference->elem_bytes;
            memset(elem, s, reference->elem_bytes); /* gaps tell whose they are */
            reference->fill(elem, kernel_random(random));
        }
    }
    memcpy(before, memory, sizeof(memory));
}

static const char *wrong(const kernel_reference_t *reference, int nsources, size_t count, int to)
{
    const size_t bytes = count * reference->elem_bytes;
    for (size_t i = 0; i < count; ++i) {
        const size_t at = first + i * reference->elem_bytes;
        unsigned char expected[MAX_ELEM], right[MAX_ELEM];
        memcpy(expected, before[0] + at, reference->elem_bytes);
        for (int s = 1; s < nsources; ++s) {
            memcpy(right, before[s] + at, reference->elem_bytes);
            reference->reduce(expected, right);
            memcpy(expected, right, reference->elem_bytes);
        }
        if (!reference->equal(memory[to] + at, expected)) {
            return "wrong result";
        }
        const size_t gap = at + reference->gap_at;
        if (0 != memcmp(memory[to] + gap, before[to] + gap, reference->gap_bytes)) {
            return "wrote into a gap";
        }
    }
    memcpy(before[to] + first, memory[to] + first, bytes);
    return 0 == memcmp(memory, before, sizeof(memory)) ? NULL : "wrote what it should not";
}

static void run(int index, const kernel_reference_t *reference, int nsources, size_t count, int place, uint64_t *random)
{
    const int to = PLACE_OWN == place ? nsources : PLACE_FIRST == place ? 0 : 1;
    const void *from[MAX_SOURCES];
    fill(reference, nsources, count, random);
    for (int s = 0; s < nsources; ++s) {
        from[s] = memory[s] + first;
    }
    gpuhier_host_reduce(index, memory[to] + first, from, nsources, count);
    const char *what = wrong(reference, nsources, count, to);
    ++cases;
    if (NULL != what && ++failures <= 20) {
        printf("%s, %d sources, count %zu, place %d, %zu bytes off: %s\n", names[index], nsources, count, place,
               first - GUARD, what);
    }
}

int main(void)
{
    static const int sources[] = {1, 2, 3, 4, MAX_SOURCES};
    static const size_t counts[] = {1, 2, 3, 16, 31, MAX_COUNT};
    const int nnames = (int) (sizeof(names) / sizeof(names[0]));
    uint64_t random = 7;
    for (int index = 0; index < nnames; ++index) {
        const kernel_reference_t *reference = kernel_reference_find(names[index]);
        if (NULL == reference) {
            printf("there is no reference for %s\n", names[index]);
            return 1;
        }
        for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); ++s) {
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); ++c) {
                for (int place = 0; place < PLACES; ++place) {
                    /* The second source may be written only when nothing is read from it later. */
                    if (PLACE_SECOND != place || 2 == sources[s]) {
                        run(index, reference, sources[s], counts[c], place, &random);
                    }
                    for (first = GUARD + 1; 1 == sources[s] && first < GUARD + 4; ++first) {
                        run(index, reference, 1, counts[c], PLACE_OWN, &random);
                    }
                    first = GUARD;
                }
            }
        }
    }
    printf("%d operations and types, %lu cases, %lu failures\n", nnames, cases, failures);
    return 0 != failures;
}
