/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated libgdrapi.so.2, GDRCopy's library.
 *
 * Owns the exported names; what they do is in sim_gdr.c of the emulated driver, which knows the memory. A failure that
 * CUDASIM_FAIL asks for is returned as an errno.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "gdr_abi.h"
#include "sim_driver.h"
#include "sim_gdr.h"

#define SIM_EXPORT __attribute__((visibility("default")))

struct gdr {
    int unused;
};

#define FAIL_AS_ASKED()                      \
    do {                                     \
        int error = cudasim_fault(__func__); \
        if (0 != error) {                    \
            return error;                    \
        }                                    \
    } while (0)

SIM_EXPORT gdr_t gdr_open(void)
{
    return 0 != cudasim_fault(__func__) || 0 != cudasim_gdr_open() ? NULL : calloc(1, sizeof(struct gdr));
}

SIM_EXPORT int gdr_close(gdr_t gdr)
{
    free(gdr);
    return 0;
}

SIM_EXPORT int gdr_pin_buffer(gdr_t gdr, unsigned long address, size_t bytes, uint64_t token, uint32_t space,
                              gdr_mh_t *handle_p)
{
    void *pin;

    (void) token;
    (void) space;
    FAIL_AS_ASKED();
    if (NULL == gdr || NULL == handle_p) {
        return EINVAL;
    }
    const int error = cudasim_gdr_pin(address, bytes, &pin);
    handle_p->h = (unsigned long) pin;
    return error;
}

SIM_EXPORT int gdr_unpin_buffer(gdr_t gdr, gdr_mh_t handle)
{
    FAIL_AS_ASKED();
    return NULL == gdr ? EINVAL : cudasim_gdr_unpin((void *) handle.h);
}

SIM_EXPORT int gdr_get_callback_flag(gdr_t gdr, gdr_mh_t handle, int *flag_p)
{
    uint64_t address;
    size_t bytes;
    bool mapped, freed;

    (void) gdr;
    FAIL_AS_ASKED();
    cudasim_gdr_info((void *) handle.h, &address, &bytes, &mapped, &freed);
    *flag_p = freed;
    return 0;
}

SIM_EXPORT int gdr_get_info_v2(gdr_t gdr, gdr_mh_t handle, gdr_info_t *info_p)
{
    uint64_t address;
    size_t bytes;
    bool mapped, freed;

    (void) gdr;
    FAIL_AS_ASKED();
    cudasim_gdr_info((void *) handle.h, &address, &bytes, &mapped, &freed);
    *info_p = (gdr_info_t){.va = address,
                           .mapped_size = bytes,
                           .page_size = (uint32_t) SIM_GDR_PAGE,
                           .mapped = mapped,
                           .wc_mapping = mapped,
                           .mapping_type = mapped};
    return 0;
}

SIM_EXPORT int gdr_map(gdr_t gdr, gdr_mh_t handle, void **address_p, size_t bytes)
{
    (void) gdr;
    FAIL_AS_ASKED();
    return cudasim_gdr_map((void *) handle.h, bytes, address_p);
}

SIM_EXPORT int gdr_unmap(gdr_t gdr, gdr_mh_t handle, void *address, size_t bytes)
{
    (void) gdr;
    FAIL_AS_ASKED();
    return cudasim_gdr_unmap((void *) handle.h, address, bytes);
}

SIM_EXPORT int gdr_copy_to_mapping(gdr_mh_t handle, void *to, const void *from, size_t bytes)
{
    FAIL_AS_ASKED();
    return cudasim_gdr_copy((void *) handle.h, to, from, bytes, true);
}

SIM_EXPORT int gdr_copy_from_mapping(gdr_mh_t handle, void *to, const void *from, size_t bytes)
{
    FAIL_AS_ASKED();
    return cudasim_gdr_copy((void *) handle.h, to, from, bytes, false);
}

SIM_EXPORT void gdr_runtime_get_version(int *major_p, int *minor_p)
{
    *major_p = 2;
    *minor_p = 5;
}

SIM_EXPORT int gdr_driver_get_version(gdr_t gdr, int *major_p, int *minor_p)
{
    (void) gdr;
    gdr_runtime_get_version(major_p, minor_p);
    return 0;
}
