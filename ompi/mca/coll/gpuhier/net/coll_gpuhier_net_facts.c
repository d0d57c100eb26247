/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds out whether the NIC of a rail reaches GPU memory, by trying.
 *
 * UCP offers no query for that: ucp_context_query() also counts cuda_copy. UCT has one, but promises no stable
 * interface. So UCX allocates a page of host memory and one of GPU memory, in the current CUDA context, and registers
 * them with all memory domains that take them. The packed keys show which domains did (coll_gpuhier_net_gpu.h). A
 * domain of NICs has a key for host memory that is not empty. The keys of cuda_copy and tcp are empty, and gdr_copy has
 * no key for host memory.
 *
 * Called by coll_gpuhier_net.c when it opens a rail.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES 4096

/* The memory domains that have a key for a piece of this type of memory. */
static ucs_status_t domains_find(ucp_context_h context, ucs_memory_type_t type, uint64_t *domains_p)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS
                                                       | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                         .length = PIECE_BYTES,
                                         .flags = UCP_MEM_MAP_ALLOCATE,
                                         .memory_type = type};
    ucp_mem_h piece;
    ucs_status_t status = ucp_mem_map(context, &params, &piece);
    if (UCS_OK != status) {
        return status;
    }
    void *key;
    size_t bytes;
    status = ucp_rkey_pack(context, piece, &key, &bytes);
    if (UCS_OK == status) {
        status = gpuhier_net_gpu_keys(key, bytes, domains_p) ? UCS_OK : UCS_ERR_UNSUPPORTED;
        ucp_rkey_buffer_release(key);
    }
    (void) ucp_mem_unmap(context, piece);
    return status;
}

/* Does what UCX prints of the context contain this? It names each transport with its device, "rc_mlx5/mlx5_0:1". */
static bool has_transport(ucp_context_h context, const char *part)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (NULL == stream) {
        return false;
    }
    ucp_context_print_info(context, stream);
    const bool found = 0 == fclose(stream) && NULL != strstr(text, part);
    free(text);
    return found;
}

bool gpuhier_net_facts_has_device(ucp_context_h context, const char *device)
{
    char line_end[GPUHIER_NET_DEVICE_MAX + 2];
    snprintf(line_end, sizeof(line_end), "/%s\n", device);
    return has_transport(context, line_end) || !has_transport(context, " resource ");
}

void gpuhier_net_facts_find(const gpuhier_net_rail_t *rail, bool takes_cuda, gpuhier_net_gpu_facts_t *facts_p)
{
    gpuhier_net_gpu_facts_t facts = {.is_tcp = rail->is_tcp, .takes_cuda = takes_cuda};
    if (takes_cuda && !rail->is_tcp) {
        facts.is_known = UCS_OK == domains_find(rail->context, UCS_MEMORY_TYPE_HOST, &facts.nics);
    }
    if (facts.is_known && 0 != facts.nics) {
        if (UCS_OK != domains_find(rail->context, UCS_MEMORY_TYPE_CUDA, &facts.on_gpu)) {
            facts.on_gpu = 0;
        }
        facts.has_rc = has_transport(rail->context, " rc_");
    }
    *facts_p = facts;
}
