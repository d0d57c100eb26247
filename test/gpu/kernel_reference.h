/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernels should compute, written down a second time: plain scalar C, one element at a
 * time, with the semantics of MPI_Reduce_local. Shares no code with the kernels. Used by the tests
 * of the twin (no MPI, no GPU), of the table of types (MPI) and of the kernels on a GPU.
 */
#ifndef KERNEL_REFERENCE_H
#define KERNEL_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kernel_reference {
    const char *name;  /* the kernel's */
    size_t elem_bytes; /* extent */
    size_t gap_at;     /* the padding inside an element: where, */
    size_t gap_bytes;  /* and how long; 0 for none */
    /* *right = *left op *right, as MPI_Reduce_local(left, right) leaves it; padding is not touched. */
    void (*reduce)(const void *left, void *right);
    /* One element from a random word, the unpleasant values (NaN, infinity, -0, extremes) among them. */
    void (*fill)(void *elem, uint64_t random);
    /* Same bits in every field; any NaN equals any other. */
    bool (*equal)(const void *a, const void *b);
} kernel_reference_t;

extern const kernel_reference_t kernel_references[];
extern const size_t kernel_reference_count;

/* NULL when the name is unknown. */
const kernel_reference_t *kernel_reference_find(const char *name);

/* The next word of a random sequence (splitmix64); the state is the caller's. */
uint64_t kernel_random(uint64_t *state);

#endif /* KERNEL_REFERENCE_H */
