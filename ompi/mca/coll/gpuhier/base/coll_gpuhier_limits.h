/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What all that ranks tell one another has in common: its version, its hash, and limits.
 */
#ifndef GPUHIER_LIMITS_H
#define GPUHIER_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The version of everything that ranks tell one another: the value in the modex, the record, the address blob, the
 * control block and the messages. Raise it with any change that keeps two builds from working together. Ranks compare
 * it before their first message; the formats carry it to find damage.
 */
#define GPUHIER_FORMAT_VERSION 24

#define GPUHIER_RAILS_MAX 8    /* rails of one rank */
#define GPUHIER_GROUP_MAX 64   /* ranks of a group; a larger clique is split */
#define GPUHIER_UNIT_BYTES 128 /* alignment of cut points: a cache line of a GPU, which also suits any vector load */
#define GPUHIER_SLICE_BYTES_MIN (GPUHIER_GROUP_MAX * GPUHIER_UNIT_BYTES) /* of a slice: a unit of each rank's block */

/* The hash of `bytes` bytes at data: FNV-1a, 64 bits (draft-eastlake-fnv, section 2). It finds damage and differences.
 * It does not protect against malice. */
static inline uint64_t gpuhier_hash(const void *data, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *) data; /* also C++ */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif /* GPUHIER_LIMITS_H */
