/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of libgdrapi.so.2, as far as it is emulated. Functions return 0 or an errno.
 */
#ifndef CUDASIM_GDR_ABI_H
#define CUDASIM_GDR_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct gdr *gdr_t;

typedef struct gdr_mh {
    unsigned long h;
} gdr_mh_t;

typedef struct gdr_info {
    uint64_t va;
    uint64_t mapped_size;
    uint32_t page_size;
    uint64_t tm_cycles;
    uint32_t cycles_per_ms;
    unsigned mapped : 1;
    unsigned wc_mapping : 1;
    int mapping_type; /* 0: none, 1: write-combined */
} gdr_info_t;

gdr_t gdr_open(void);
int gdr_close(gdr_t gdr);
int gdr_pin_buffer(gdr_t gdr, unsigned long address, size_t bytes, uint64_t token, uint32_t space, gdr_mh_t *handle_p);
int gdr_unpin_buffer(gdr_t gdr, gdr_mh_t handle);
int gdr_get_callback_flag(gdr_t gdr, gdr_mh_t handle, int *flag_p);
int gdr_get_info_v2(gdr_t gdr, gdr_mh_t handle, gdr_info_t *info_p);
int gdr_map(gdr_t gdr, gdr_mh_t handle, void **address_p, size_t bytes);
int gdr_unmap(gdr_t gdr, gdr_mh_t handle, void *address, size_t bytes);
int gdr_copy_to_mapping(gdr_mh_t handle, void *to, const void *from, size_t bytes);
int gdr_copy_from_mapping(gdr_mh_t handle, void *to, const void *from, size_t bytes);
void gdr_runtime_get_version(int *major_p, int *minor_p);
int gdr_driver_get_version(gdr_t gdr, int *major_p, int *minor_p);

#endif /* CUDASIM_GDR_ABI_H */
