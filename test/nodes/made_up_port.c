/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Active RDMA ports on a machine that has none: a library to preload into programs that load the component. It shows
 * files of the folder MADE_UP_FILES in place of those of RDMA devices in /sys and /dev ("as port" makes them for one
 * port, rdmap0s6:1, and test/bench/model.py for one on each rail). MADE_UP_PORT in the environment says what UCX does
 * with a port:
 *
 *   unknown    it has no transport for it, as for EFA: this is what UCX itself does here
 *   works      it sends by it; in truth by the interface of the device's name, and for rdmap0s6 by rail0
 *   no-worker  it fails to make a worker for it
 *   no-net     it fails to make a worker for any device
 *   deaf       it opens the port, but reaches nothing by it
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define NEXT(name) ((__typeof__(name) *) dlsym(RTLD_NEXT, #name))

/* The context that is made for the port of this name is the next one. */
static bool port_is_next;
static char port_name[64];
static ucp_context_h port_context;

static bool port_is(const char *kind)
{
    const char *is = getenv("MADE_UP_PORT");
    return NULL != is && 0 == strcmp(is, kind);
}

/* The path of the made-up file, in buffer, or path itself. */
static const char *shown(const char *path, char buffer[PATH_MAX])
{
    const char *files = getenv("MADE_UP_FILES");
    if (NULL == files
        || (0 != strncmp(path, "/sys/class/infiniband", 21) && 0 != strncmp(path, "/dev/infiniband", 15))) {
        return path;
    }
    return snprintf(buffer, PATH_MAX, "%s%s", files, path) < PATH_MAX ? buffer : path;
}

DIR *opendir(const char *path)
{
    char buffer[PATH_MAX];
    return NEXT(opendir)(shown(path, buffer));
}

FILE *fopen(const char *path, const char *mode)
{
    char buffer[PATH_MAX];
    return NEXT(fopen)(shown(path, buffer), mode);
}

int access(const char *path, int mode)
{
    char buffer[PATH_MAX];
    return NEXT(access)(shown(path, buffer), mode);
}

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value)
{
    char interface[sizeof(port_name)];
    if (0 == strcmp(name, "NET_DEVICES")) {
        const size_t length = strcspn(value, ":");
        port_is_next = ':' == value[length] && strlen(value) < sizeof(port_name);
        if (port_is_next) {
            strcpy(port_name, value);
            snprintf(interface, sizeof(interface), "%.*s", (int) length, value);
            value = !port_is("works") ? value : 0 == strcmp(interface, "rdmap0s6") ? "rail0" : interface;
        }
    }
    return NEXT(ucp_config_modify)(config, name, value);
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
                              ucp_context_h *context_p)
{
    const ucs_status_t status = NEXT(ucp_init_version)(major, minor, params, config, context_p);
    if (UCS_OK == status && port_is_next) {
        port_context = *context_p;
        port_is_next = false;
    }
    return status;
}

void ucp_context_print_info(const ucp_context_h context, FILE *stream)
{
    NEXT(ucp_context_print_info)(context, stream);
    if (context == port_context && !port_is("unknown")) {
        fprintf(stream, "#            resource 9  :  md 9  dev 9  flags -- ud_verbs/%s\n", port_name);
    }
}

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker_p)
{
    const bool fails = port_is("no-net") || (port_is("no-worker") && context == port_context);
    Dl_info info;
    if (fails && 0 != dladdr(__builtin_return_address(0), &info)
        && NULL != strstr(info.dli_fname, "mca_coll_gpuhier")) {
        return UCS_ERR_IO_ERROR;
    }
    return NEXT(ucp_worker_create)(context, params, worker_p);
}
