/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what belongs to the process and not to a communicator: its records, and its connections. Where UCX has no
 * network between nodes, or has TCP only and Open MPI's point-to-point layer (PML) has a fabric, that layer is the
 * carrier of a net. The carrier posts requests and looks whether they have ended, and never waits. Open MPI's progress
 * moves the messages: threads that wait for a call run it, and so does whatever else the program does in MPI.
 *
 * Called by set-up, by the engine and at the end.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_kept.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_device.h"
#include "plan/coll_gpuhier_rails.h"
#include "team/coll_gpuhier_process.h"
#include "base/coll_gpuhier_compat.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"

const gpuhier_team_engine_t *gpuhier_team_engine;

static struct {
    gpuhier_record_t record; /* made once: finding the devices takes milliseconds */
    bool record_known;
    char *report; /* what print_info says of the record, until it has said so; else NULL */
    gpuhier_net_t *net;
    unsigned lost; /* contexts that had been lost when it was opened */
} ways[GPUHIER_WAY_COUNT];
static bool leaving;        /* all connections have been told */
static gpuhier_way_t asked; /* the last way to which this process had to fall back */
static char fall_reason[GPUHIER_WAY_COUNT][320], last_loss[320];

static int gpu_describe(int ordinal, gpuhier_gpu_info_t *gpu_p)
{
    CUdevice device;
    CUuuid uuid;
    char pci[32] = "";
    memset(gpu_p, 0, sizeof(*gpu_p));
    int rc = GPUHIER_CU(cuDeviceGet, &device, ordinal);
    rc = OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuDeviceGetUuid, &uuid, device);
    rc = OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuDeviceGetPCIBusId, pci, sizeof(pci), device);
    if (OMPI_SUCCESS == rc) {
        memcpy(gpu_p->uuid, &uuid, sizeof(gpu_p->uuid));
        unsigned part[4]; /* "domain:bus:device.function" */
        if (4 == sscanf(pci, "%x:%x:%x.%x", &part[0], &part[1], &part[2], &part[3])) {
            gpu_p->pci = (gpuhier_pci_id_t){.domain = part[0],
                                            .bus = (uint8_t) part[1],
                                            .device = (uint8_t) part[2],
                                            .function = (uint8_t) part[3]};
        }
        gpu_p->ordinal = ordinal;
        gpu_p->cc_major = gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
        gpu_p->cc_minor = gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
        gpuhier_nvlinks_find(gpu_p->uuid, &gpu_p->nvlinks);
    }
    return rc;
}

/* -- Open MPI's messages as a carrier ------------------------------------------------------- */

/*
 * The tag of stream 0; the tags of the other streams follow. All of them are in the range that Open MPI leaves to
 * HCOLL, and that its own collectives never use. Open MPI 6 has no HCOLL, and its own tags end above this range. Some
 * transports keep only 20 or 24 bits of a tag. There, too, these tags are negative, so no program uses them, and far
 * below -27, where the tags of nonblocking collectives begin and from where they fall.
 */
#define FIRST_TAG (-0x7f780000)

#ifdef MCA_COLL_BASE_TAG_HCOLL_BASE
_Static_assert(FIRST_TAG >= MCA_COLL_BASE_TAG_HCOLL_END
                   && FIRST_TAG + (int) GPUHIER_NET_CARRIER_STREAMS <= MCA_COLL_BASE_TAG_HCOLL_BASE,
               "the tags are HCOLL's");
#else
_Static_assert(FIRST_TAG + (int) GPUHIER_NET_CARRIER_STREAMS <= MCA_COLL_BASE_TAG_END,
               "the tags are below those of Open MPI's collectives");
#endif

static struct ompi_communicator_t *world(void)
{
    return &ompi_mpi_comm_world.comm;
}

static int tag_of(uint32_t stream)
{
    return FIRST_TAG + (int) stream;
}

static int carrier_send(uint32_t rank, uint32_t stream, const void *buf, size_t bytes, void **request_p)
{
    ompi_request_t *request = NULL;
    int rc = MCA_PML_CALL(
        isend(buf, bytes, MPI_BYTE, (int) rank, tag_of(stream), MCA_PML_BASE_SEND_STANDARD, world(), &request));
    *request_p = request;
    return rc;
}

static int carrier_recv(uint32_t rank, uint32_t stream, void *buf, size_t bytes, void **request_p)
{
    ompi_request_t *request = NULL;
    int rc = MCA_PML_CALL(irecv(buf, bytes, MPI_BYTE, (int) rank, tag_of(stream), world(), &request));
    *request_p = request;
    return rc;
}

static bool carrier_test(void **request_p, int *rc_p)
{
    ompi_request_t *request = *request_p;
    if (!REQUEST_COMPLETE(request)) {
        return false;
    }
    *rc_p = 0 != request->req_status._cancelled            ? OMPI_ERR_INTERUPTED
            : MPI_SUCCESS == request->req_status.MPI_ERROR ? OMPI_SUCCESS
                                                           : OMPI_ERR_UNREACH;
    (void) ompi_request_free(&request);
    *request_p = NULL;
    return true;
}

static void carrier_cancel(void *request)
{
    (void) ompi_request_cancel(request);
}

static void carrier_progress(void)
{
    (void) opal_progress();
}

/*
 * Opens a net whose messages travel on MPI_COMM_WORLD, because that lives as long as the net and no late message can
 * reach another communicator. Returns OMPI_ERR_NOT_SUPPORTED in a program without MPI_COMM_WORLD. *error_p becomes one
 * line that says what is wrong, or "".
 */
static int pml_net_open(gpuhier_net_t **net_p, const char **error_p)
{
    static const gpuhier_net_carrier_t carrier = {.send = carrier_send,
                                                  .recv = carrier_recv,
                                                  .test = carrier_test,
                                                  .cancel = carrier_cancel,
                                                  .progress = carrier_progress};
    *error_p = "";
    if (!gpuhier_comm_self_lives()) {
        *error_p = "a program that has only sessions has no MPI_COMM_WORLD";
        return OMPI_ERR_NOT_SUPPORTED;
    }
    if (gpuhier_faults_are_told()) {
        *error_p = "with fault tolerance on, it drops such messages once a process has died";
        return OMPI_ERR_NOT_SUPPORTED;
    }
    const opal_process_name_t *me = &ompi_proc_local()->super.proc_name;
    return gpuhier_net_open_carrier(&carrier, me->jobid, (uint32_t) ompi_comm_rank(world()), net_p);
}

bool gpuhier_pml_has_fabric(void)
{
    return gpuhier_comm_self_lives() && !gpuhier_faults_are_told()
           && 0 == strcmp("cm", mca_pml_base_selected_component.pmlm_version.mca_component_name);
}

/* -- ways ---------------------------------------------------------------------------------- */

gpuhier_way_t gpuhier_process_way(void)
{
    return asked;
}

void gpuhier_process_fall(gpuhier_way_t to, const char *reason)
{
    if (asked < to) {
        snprintf(fall_reason[to], sizeof(fall_reason[to]), "%s", NULL != reason ? reason : last_loss);
        asked = to;
    }
}

void gpuhier_process_fall_tell(gpuhier_way_t to)
{
    gpuhier_help(GPUHIER_WAY_TCP == to ? "no RDMA" : "no network", ompi_process_info.nodename,
                 '\0' == fall_reason[to][0] ? "a connection took too long" : fall_reason[to]);
}

void gpuhier_process_no_way_tell(const char *reason)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *fall = fall_reason['\0' == fall_reason[GPUHIER_WAY_MPI][0] ? GPUHIER_WAY_TCP : GPUHIER_WAY_MPI];
    if (!atomic_flag_test_and_set(&told)) {
        gpuhier_help("no way", ompi_process_info.nodename, '\0' == fall[0] ? "another rank has none" : fall,
                     NULL != reason ? reason : last_loss);
    }
}

void gpuhier_process_record_tell(gpuhier_way_t way)
{
    if (NULL != ways[way].report) {
        opal_output(0, "coll:gpuhier: %s", ways[way].report);
    }
    free(ways[way].report);
    ways[way].report = NULL;
}

int gpuhier_process_record(int ordinal, gpuhier_way_t way, gpuhier_record_t *record_p)
{
    gpuhier_record_t *record = &ways[way].record;
    if (ways[way].record_known && ordinal == record->gpu_ordinal) {
        *record_p = *record;
        return OMPI_SUCCESS;
    }
    gpuhier_gpu_info_t gpu;
    char **report = &ways[way].report;
    free(*report);
    *report = NULL;
    int rc = gpu_describe(ordinal, &gpu);
    if (OMPI_SUCCESS == rc) {
        static const gpuhier_devices_t devices[GPUHIER_WAY_COUNT] = {[GPUHIER_WAY_BEST] = GPUHIER_DEVICES_ALL,
                                                                     [GPUHIER_WAY_TCP] = GPUHIER_DEVICES_TCP,
                                                                     [GPUHIER_WAY_MPI] = GPUHIER_DEVICES_NONE};
        rc = gpuhier_topology_local(&gpu, devices[way], gpuhier_params.devices, record, report);
    }
    ways[way].record_known = OMPI_SUCCESS == rc;
    if (OMPI_SUCCESS == rc) {
        *record_p = *record;
    } else {
        gpuhier_process_record_tell(way);
    }
    return rc;
}

gpuhier_net_t *gpuhier_process_net(gpuhier_way_t way)
{
    return ways[way].net;
}

int gpuhier_process_net_progress(void)
{
    int events = 0;
    for (int way = 0; way < GPUHIER_WAY_COUNT; ++way) {
        events += NULL != ways[way].net ? gpuhier_net_progress(ways[way].net) : 0;
    }
    return events;
}

bool gpuhier_process_has_net(void)
{
    bool any = false;
    for (int way = 0; way < GPUHIER_WAY_COUNT; ++way) {
        any = any || NULL != ways[way].net;
    }
    return any;
}

bool gpuhier_process_net_on_device(gpuhier_way_t way)
{
    gpuhier_devices_check();
    return ways[way].lost == gpuhier_devices_lost();
}

gpuhier_net_gpu_t gpuhier_process_net_gpu(gpuhier_way_t way, const gpuhier_device_t *device)
{
    const gpuhier_net_gpu_t answer = gpuhier_net_gpu(ways[way].net);
    if (!gpuhier_net_gpu_is_yes(answer)) {
        return answer;
    }
    if (!gpuhier_process_net_on_device(way)) {
        return GPUHIER_NET_GPU_LOST;
    }
    return GPUHIER_FLUSH_IMPOSSIBLE == device->flush ? GPUHIER_NET_GPU_NO_FLUSH : answer;
}

static void net_failed(void *arg, gpuhier_net_peer_t *peer, int code, const char *text)
{
    (void) arg;
    (void) peer;
    snprintf(last_loss, sizeof(last_loss), "%s", text);
    opal_output_verbose(5, gpuhier_output(), "coll:gpuhier: %s (%d)", text, code);
}

void gpuhier_process_leave_begin(void)
{
    if (!leaving) {
        leaving = true;
        /* Sessions end at different times, and a process that shares no communicator may live on. */
        const bool all_leave = gpuhier_end_is_finalizing();
        for (int way = 0; way < GPUHIER_WAY_COUNT; ++way) {
            if (NULL != ways[way].net) {
                gpuhier_net_leave(ways[way].net, all_leave);
            }
        }
    }
}

int gpuhier_process_net_open(const gpuhier_record_t *mine, gpuhier_way_t way, unsigned rails, const char **error_p)
{
    gpuhier_net_t *net = ways[way].net;
    const char *devices[GPUHIER_RAILS_MAX];
    int nrails = gpuhier_rails_devices(mine, devices);
    gpuhier_devices_check();
    const unsigned lost = gpuhier_devices_lost();
    if (NULL != net) {
        return gpuhier_net_open_rails(net, rails, error_p);
    }
    const int rc = GPUHIER_WAY_MPI == way ? pml_net_open(&net, error_p)
                                          : gpuhier_net_open(devices, nrails, rails,
                                                             (gpuhier_net_mode_t) gpuhier_params.net, &net, error_p);
    if (OMPI_SUCCESS == rc) {
        if (!gpuhier_process_has_net()) {
            (void) opal_progress_register_lp(
                gpuhier_team_engine->net_progress); /* if that fails, calls still drive the net */
        }
        ways[way].net = net;
        ways[way].lost = lost;
        gpuhier_net_set_error_handler(net, net_failed, NULL);
    }
    return rc;
}

#define LEAVE_PAUSE_NS 20000

void gpuhier_process_leave(void)
{
    const struct timespec pause = {.tv_nsec = LEAVE_PAUSE_NS};
    bool left = !gpuhier_process_has_net();
    if (!left) {
        gpuhier_engine_lock();
        gpuhier_process_leave_begin();
        gpuhier_engine_unlock();
    }
    while (!left) {
        gpuhier_engine_lock();
        int events = gpuhier_process_net_progress();
        gpuhier_kept_poll_at_times();
        left = true;
        for (int way = 0; way < GPUHIER_WAY_COUNT; ++way) {
            left = left && (NULL == ways[way].net || gpuhier_net_has_left(ways[way].net));
        }
        gpuhier_engine_unlock();
        opal_progress();
        if (0 == events) {
            nanosleep(&pause, NULL);
        }
    }
}

void gpuhier_process_close(void)
{
    (void) opal_progress_unregister(gpuhier_team_engine->net_progress);
    for (int way = 0; way < GPUHIER_WAY_COUNT; ++way) {
        gpuhier_net_close(ways[way].net);
        free(ways[way].report);
    }
    memset(ways, 0, sizeof(ways));
    leaving = false;
    asked = GPUHIER_WAY_BEST;
    memset(fall_reason, 0, sizeof(fall_reason));
    last_loss[0] = '\0';
}
