/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one hash of the component: FNV-1a, 64 bits (draft-eastlake-fnv, section 2). It finds damage and differences.
 * It does not protect against malice.
 */
#ifndef GPUHIER_HASH_H
#define GPUHIER_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of `bytes` bytes at data. */
static inline uint64_t gpuhier_hash(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif /* GPUHIER_HASH_H */
