/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the process's identity, its UCX net, the engine's lock, and the order in
 * which things end.
 *
 * The end: an attribute on MPI_COMM_SELF has its delete callback run first thing
 * in MPI_Finalize, while all of Open MPI still works. When coll components are
 * closed it is too late: others may have left, and CUDA with them.
 */
#include "ompi_config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll_gpuhier_component.h"
#include "coll_gpuhier_device.h"
#include "coll_gpuhier_ipc_cache.h"
#include "coll_gpuhier_process.h"
#include "coll_gpuhier_team.h"
#include "ompi/attribute/attribute.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

static opal_mutex_t engine_lock = OPAL_MUTEX_STATIC_INIT;
static gpuhier_net_t *net;
static uint64_t counted[GPUHIER_RAILS_MAX]; /* bytes already in the counters */
static int keyval = MPI_KEYVAL_INVALID;

void gpuhier_engine_lock(void)
{
    opal_mutex_lock(&engine_lock);
}

void gpuhier_engine_unlock(void)
{
    opal_mutex_unlock(&engine_lock);
}

/*
 * Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and brackets, so counting starts at its end. 0:
 * unknown. A process that has ended but was not waited for yet gets a time that no process has.
 */
static uint64_t start_time_of(int64_t pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long) pid);
    FILE *file = fopen(path, "re");
    if (NULL == file) {
        return 0;
    }
    size_t length = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *at = strrchr(line, ')');
    if (NULL != at && (0 == strncmp(at, ") Z", 3) || 0 == strncmp(at, ") X", 3))) {
        return UINT64_MAX;
    }
    for (int field = 2; NULL != at && field < 22; ++field) {
        at = strchr(at + 1, ' ');
    }
    return NULL == at ? 0 : strtoull(at + 1, NULL, 10);
}

bool gpuhier_process_lives(int64_t pid, uint64_t start_time)
{
    if (0 != kill((pid_t) pid, 0) && ESRCH == errno) {
        return false;
    }
    uint64_t now = start_time_of(pid);
    return 0 == now || 0 == start_time || now == start_time;
}

gpuhier_net_t *gpuhier_process_net(void)
{
    return net;
}

static gpuhier_net_cuda_mode_t cuda_mode(void)
{
    switch (gpuhier_params.net) {
    case GPUHIER_NET_DIRECT:
        return GPUHIER_NET_CUDA_DIRECT;
    case GPUHIER_NET_STAGED:
        return GPUHIER_NET_CUDA_STAGED;
    default:
        return GPUHIER_NET_CUDA_AUTO;
    }
}

int gpuhier_process_net_open(const char *const *rails, int nrails)
{
    if (NULL != net) {
        return OMPI_SUCCESS;
    }
    const char *reason = NULL;
    int rc = gpuhier_net_open(rails, nrails, cuda_mode(), &net, &reason);
    if (OMPI_SUCCESS != rc) {
        net = NULL;
        opal_show_help("help-coll-gpuhier.txt", "no network", true, ompi_process_info.nodename, NULL != reason ? reason : "unknown");
    }
    return rc;
}

void gpuhier_process_net_count(void)
{
    for (int rail = 0; NULL != net && rail < gpuhier_net_rails(net) && rail < GPUHIER_RAILS_MAX; ++rail) {
        uint64_t sent = gpuhier_net_bytes_sent(net, rail);
        gpuhier_count(&gpuhier_counters.net_bytes_sent[rail], sent - counted[rail]);
        counted[rail] = sent;
    }
}

static int finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm;
    (void) key;
    (void) value;
    (void) extra;
    gpuhier_engine_lock();
    gpuhier_teams_quiesce();
    gpuhier_net_close(net);
    net = NULL;
    gpuhier_ipc_finalize();
    gpuhier_device_finalize();
    gpuhier_engine_unlock();
    return MPI_SUCCESS;
}

int gpuhier_process_finalize_register(void)
{
    if (MPI_KEYVAL_INVALID != keyval) {
        return OMPI_SUCCESS;
    }
    int rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &keyval, NULL);
    return MPI_SUCCESS == rc && MPI_SUCCESS == MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval) ? OMPI_SUCCESS : OMPI_ERROR;
}
