/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the process's identity, its UCX net, the engine's lock, and the order in
 * which things end.
 *
 * The end: an attribute on MPI_COMM_SELF has its delete callback run first thing
 * in MPI_Finalize, while all of Open MPI still works. When coll components are
 * closed it is too late: others may have left, and CUDA with them. A program that
 * has sessions and no MPI_Init has no MPI_COMM_SELF; its last MPI_Session_finalize
 * begins with a function that is registered with Open MPI instead.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_device.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "host/coll_gpuhier_locked.h"
#include "team/coll_gpuhier_process.h"
#include "engine/coll_gpuhier_queue.h"
#include "coll/coll_gpuhier_request.h"
#include "team/coll_gpuhier_team.h"
#include "base/coll_gpuhier_kept.h"
#include "ompi/attribute/attribute.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

static opal_mutex_t engine_lock = OPAL_MUTEX_STATIC_INIT;
static _Atomic unsigned wanted; /* threads that wait for the lock */
static gpuhier_net_t *net;
static unsigned net_lost; /* contexts that had been lost when it was opened */
static int keyval = MPI_KEYVAL_INVALID;
static bool ends_with_session; /* registered for it */
static gpuhier_record_t record; /* made once: finding the devices takes milliseconds */
static bool leaving; /* said to all connections of net */
static bool record_known;
static _Atomic bool ended;

void gpuhier_engine_lock(void)
{
    if (0 != opal_mutex_trylock(&engine_lock)) {
        atomic_fetch_add_explicit(&wanted, 1, memory_order_relaxed);
        opal_mutex_lock(&engine_lock);
        atomic_fetch_sub_explicit(&wanted, 1, memory_order_relaxed);
    }
}

bool gpuhier_engine_trylock(void)
{
    return 0 == atomic_load_explicit(&wanted, memory_order_relaxed) && 0 == opal_mutex_trylock(&engine_lock);
}

void gpuhier_engine_unlock(void)
{
    opal_mutex_unlock(&engine_lock);
}

bool gpuhier_process_shares_cores(void)
{
    static _Atomic int shares = -1;
    if (shares < 0) {
        /* Open MPI tells the old value only when it is told a new one; what matters is set by the end of MPI_Init. */
        const bool yields = opal_progress_set_yield_when_idle(true);
        if (!yields) {
            opal_progress_set_yield_when_idle(false);
        }
        shares = yields;
    }
    return 0 != shares;
}

/* "domain:bus:device.function", as CUDA prints it. */
static void pci_parse(const char *text, gpuhier_pci_id_t *pci_p)
{
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    if (4 == sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function)) {
        *pci_p = (gpuhier_pci_id_t){.domain = domain, .bus = (uint8_t) bus, .device = (uint8_t) device, .function = (uint8_t) function};
    }
}

static int gpu_describe(int ordinal, gpuhier_gpu_info_t *gpu_p)
{
    CUdevice device;
    CUuuid uuid;
    char pci[32] = "";
    memset(gpu_p, 0, sizeof(*gpu_p));
    int rc = gpuhier_cuda_error(gpuhier_cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetPCIBusId(pci, sizeof(pci), device), "cuDeviceGetPCIBusId");
    rc = OMPI_SUCCESS != rc ? rc
                            : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetAttribute(&gpu_p->cc_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                                                 "cuDeviceGetAttribute");
    rc = OMPI_SUCCESS != rc ? rc
                            : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetAttribute(&gpu_p->cc_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                                                 "cuDeviceGetAttribute");
    if (OMPI_SUCCESS == rc) {
        memcpy(gpu_p->uuid, &uuid, sizeof(gpu_p->uuid));
        pci_parse(pci, &gpu_p->pci);
        gpu_p->ordinal = ordinal;
    }
    return rc;
}

int gpuhier_process_record(int ordinal, gpuhier_record_t *record_p)
{
    if (record_known && ordinal == record.gpu_ordinal) {
        *record_p = record;
        return OMPI_SUCCESS;
    }
    gpuhier_gpu_info_t gpu;
    char *report = NULL;
    int rc = gpu_describe(ordinal, &gpu);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_topology_local(&gpu, gpuhier_params.devices, &record, &report);
    record_known = OMPI_SUCCESS == rc;
    if (NULL != report && (gpuhier_params.print_info || OMPI_SUCCESS != rc)) {
        opal_output(0, "coll:gpuhier: %s", report);
    }
    free(report);
    if (record_known) {
        *record_p = record;
    }
    return rc;
}

gpuhier_net_t *gpuhier_process_net(void)
{
    return net;
}

/*
 * Of itself UCX is given GPU memory only where NICs read and write it. Over tcp it would copy it to host memory, piece by piece and
 * waiting for each; what our kernels write there needs no copy.
 */
static gpuhier_net_cuda_mode_t cuda_mode(const gpuhier_record_t *mine)
{
    switch (gpuhier_params.net) {
    case GPUHIER_NET_DIRECT:
        return GPUHIER_NET_CUDA_DIRECT;
    case GPUHIER_NET_STAGED:
        return GPUHIER_NET_CUDA_STAGED;
    default:
        return GPUHIER_WIRE_RDMA == gpuhier_rails_wire(mine, 1) ? GPUHIER_NET_CUDA_AUTO : GPUHIER_NET_CUDA_STAGED;
    }
}

bool gpuhier_process_net_on_device(void)
{
    gpuhier_devices_check();
    return gpuhier_net_can_cuda(net) && net_lost == gpuhier_devices_lost();
}

static void net_failed(void *arg, gpuhier_net_peer_t *peer, int code, const char *text)
{
    (void) arg;
    (void) peer;
    opal_output_verbose(5, gpuhier_output(), "coll:gpuhier: %s (%d)", text, code);
}

/* In MPI_Finalize; a session may come after it. */
static bool finalizing(void)
{
    const int state = ompi_mpi_state;
    return state >= OMPI_MPI_STATE_FINALIZE_STARTED && state < OMPI_MPI_STATE_FINALIZE_COMPLETED;
}

/* The lock is held. */
static void leave_begin(void)
{
    if (!leaving) {
        leaving = true;
        gpuhier_net_leave(net, finalizing()); /* not all end their session at a time, and who shares no communicator may live on */
    }
}

/*
 * UCX may still have the end of what a call sent when the call has returned: a socket was full, or an answer waits its turn.
 * Then whoever is inside MPI sees to it, in between two calls as well, and while other calls are under way that do not need UCX
 * at the time. The notices of partners arrive so, too. Only where UCX moves GPU memory, it is left to the calls for which it does: they drive
 * it with the context that it needs, since its copies fail without one, or are made in another. In MPI_Finalize a program's callback on MPI_COMM_SELF may come before ours and wait for a
 * rank that waits for our word in its own: so the word is said here.
 */
static int net_progress(void)
{
    int events = 0;
    bool pending = true;
    if (gpuhier_engine_trylock()) {
        if (NULL != net && !gpuhier_queue_wants_context()) {
            if (finalizing() && !gpuhier_queue_is_busy()) {
                leave_begin();
            }
            events = gpuhier_net_progress(net);
            gpuhier_kept_poll_at_times();
        }
        pending = gpuhier_queue_is_pending();
        gpuhier_engine_unlock();
    }
    if (pending) {
        gpuhier_queue_rest(events > 0);
    }
    return events;
}

int gpuhier_process_net_open(const gpuhier_record_t *mine)
{
    if (NULL != net) {
        return OMPI_SUCCESS;
    }
    gpuhier_devices_check();
    net_lost = gpuhier_devices_lost();
    const char *reason = NULL;
    const char *devices[GPUHIER_RAILS_MAX];
    int nrails = gpuhier_rails_devices(mine, devices);
    int rc = gpuhier_net_open(devices, nrails, cuda_mode(mine), &net, &reason);
    if (OMPI_SUCCESS != rc) {
        net = NULL;
        opal_show_help("help-coll-gpuhier.txt", "no network", true, ompi_process_info.nodename, NULL != reason ? reason : "unknown");
    } else {
        gpuhier_net_set_error_handler(net, net_failed, NULL);
        (void) opal_progress_register_lp(net_progress); /* should it fail: calls drive the net in any case */
    }
    return rc;
}

#define LEAVE_PAUSE_NS 20000

/* Others may still be in their last call with me, in need of Open MPI's progress here as well. */
static void leave(void)
{
    const struct timespec pause = {.tv_nsec = LEAVE_PAUSE_NS};
    bool left = NULL == net;
    if (!left) {
        gpuhier_engine_lock();
        leave_begin();
        gpuhier_engine_unlock();
    }
    while (!left) {
        gpuhier_engine_lock();
        int events = gpuhier_net_progress(net);
        gpuhier_kept_poll_at_times();
        left = gpuhier_net_has_left(net);
        gpuhier_engine_unlock();
        opal_progress();
        if (0 == events) {
            nanosleep(&pause, NULL);
        }
    }
}

bool gpuhier_process_ended(void)
{
    return finalizing() || atomic_load_explicit(&ended, memory_order_relaxed);
}

static void end(void *unused)
{
    gpuhier_call_t *calls = NULL;
    (void) unused;
    if (atomic_load_explicit(&ended, memory_order_relaxed)) {
        return; /* sessions first, then MPI_Init: both ends come */
    }
    leave();
    (void) opal_progress_unregister(net_progress);
    gpuhier_engine_lock();
    atomic_store_explicit(&ended, true, memory_order_relaxed);
    gpuhier_devices_check();
    gpuhier_teams_quiesce(&calls);
    gpuhier_requests_quiesce();
    gpuhier_net_close(net);
    net = NULL;
    leaving = false;
    gpuhier_kept_finalize();
    record_known = false;
    gpuhier_ipc_finalize();
    gpuhier_device_finalize();
    gpuhier_locked_finalize();
    gpuhier_engine_unlock();
    gpuhier_queue_tell(calls);
}

static int finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm;
    (void) key;
    (void) value;
    end(extra);
    return MPI_SUCCESS;
}

void gpuhier_process_open(void)
{
    keyval = MPI_KEYVAL_INVALID;
    ends_with_session = false;
    atomic_store_explicit(&ended, false, memory_order_relaxed);
}

int gpuhier_process_finalize_register(void)
{
    static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT; /* not the engine's: staging has none */
    int rc = MPI_SUCCESS;
    opal_mutex_lock(&lock);
    if (!gpuhier_comm_self_lives()) {
        if (!ends_with_session) {
            gpuhier_at_last_session_end(end);
            ends_with_session = true;
        }
    } else if (MPI_KEYVAL_INVALID == keyval) {
        rc = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &keyval, NULL);
        rc = MPI_SUCCESS != rc ? rc : PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval);
    }
    opal_mutex_unlock(&lock);
    return MPI_SUCCESS == rc ? OMPI_SUCCESS : OMPI_ERROR;
}
