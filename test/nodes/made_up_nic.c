/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A NIC as the net layer sees it, on a machine that has none: functions of UCX and of the C library, replaced. Part of
 * net_gpu_test, and a library to preload into programs that load the component.
 *
 * MADE_UP_NIC in the environment says what the NIC is like:
 *
 *   gpu   it registers GPU memory, as with nvidia_peermem or dma-buf
 *   host  it registers host memory only
 *   dc    as gpu, but without the transport rc
 *   near  as gpu, and a UCX without CUDA reads and writes emulated GPU memory as the host memory that it is. So no
 *         copies are charged under a model, as with GPUDirect RDMA.
 *
 * The component takes its rails for RDMA ports then, while UCX goes on by tcp, and moves GPU memory by cuda_copy.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

/* The NIC's memory domain: UCX itself has fewer. */
#define DOMAIN 40

#define NEXT(name) ((__typeof__(name) *) dlsym(RTLD_NEXT, #name))

static bool nic_is(const char *kind)
{
    const char *is = getenv("MADE_UP_NIC");
    return NULL != is && (NULL == kind || 0 == strcmp(is, kind));
}

static bool is_component(const void *caller)
{
    Dl_info info;
    return 0 != dladdr(caller, &info) && NULL != info.dli_fname && NULL != strstr(info.dli_fname, "mca_coll_gpuhier");
}

/* Where UCX finds what has this address. */
static void *near(const void *address)
{
    static void *(*view)(void *);
    void *driver = NULL == view ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;

    if (NULL == view) {
        *(void **) &view = NULL == driver ? NULL : dlsym(driver, "cudasim_view");
    }
    return NULL == view || !nic_is("near") ? (void *) (uintptr_t) address : view((void *) (uintptr_t) address);
}

/* Adds the NIC's key to those that UCX packs. */
ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h piece, void **key_p, size_t *bytes_p)
{
    static const uint8_t added[9] = {8, 1, 2, 3, 4, 5, 6, 7, 8};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};
    const ucs_status_t status = NEXT(ucp_rkey_pack)(context, piece, key_p, bytes_p);
    if (UCS_OK != status || !nic_is(NULL) || UCS_OK != ucp_mem_query(piece, &attr)
        || (UCS_MEMORY_TYPE_HOST != attr.mem_type && nic_is("host"))) {
        return status;
    }
    uint64_t domains;
    uint8_t *key = malloc(*bytes_p + sizeof(added));
    if (NULL == key) {
        abort();
    }
    memcpy(key, *key_p, *bytes_p);
    memcpy(key + *bytes_p, added, sizeof(added));
    memcpy(&domains, key, sizeof(domains));
    domains |= UINT64_C(1) << DOMAIN;
    memcpy(key, &domains, sizeof(domains));
    free(*key_p);
    *key_p = key;
    *bytes_p += sizeof(added);
    return status;
}

void ucp_context_print_info(const ucp_context_h context, FILE *stream)
{
    NEXT(ucp_context_print_info)(context, stream);
    if (nic_is(NULL)) {
        fprintf(stream, "#      resource 9  :  md %d dev 9  flags -- %s_mlx5/mlx5_0:1\n", DOMAIN,
                nic_is("dc") ? "dc" : "rc");
    }
}

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attr)
{
    const ucs_status_t status = NEXT(ucp_context_query)(context, attr);
    if (UCS_OK == status && nic_is("near") && 0 != (attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)) {
        attr->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    }
    return status;
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *piece_p)
{
    ucp_mem_map_params_t changed = *params;
    changed.memory_type = nic_is("near") ? UCS_MEMORY_TYPE_HOST : params->memory_type;
    return NEXT(ucp_mem_map)(context, &changed, piece_p);
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h endpoint, const void *buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param)
{
    ucp_request_param_t changed = *param;
    changed.memory_type = nic_is("near") ? UCS_MEMORY_TYPE_HOST : param->memory_type;
    return NEXT(ucp_tag_send_nbx)(endpoint, near(buffer), count, tag, &changed);
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t mask,
                                  const ucp_request_param_t *param)
{
    ucp_request_param_t changed = *param;
    changed.memory_type = nic_is("near") ? UCS_MEMORY_TYPE_HOST : param->memory_type;
    return NEXT(ucp_tag_recv_nbx)(worker, near(buffer), count, tag, mask, &changed);
}

/* The component's rails are no network interfaces ... */
unsigned if_nametoindex(const char *name)
{
    return nic_is(NULL) && is_component(__builtin_return_address(0)) ? 0 : NEXT(if_nametoindex)(name);
}

/* ... but ports in /sys/class/infiniband. */
int access(const char *path, int mode)
{
    const bool made_up = nic_is(NULL) && NULL != strstr(path, "/infiniband/");
    return made_up && is_component(__builtin_return_address(0)) ? 0 : NEXT(access)(path, mode);
}
