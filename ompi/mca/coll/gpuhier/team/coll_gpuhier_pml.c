/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The carrier that Open MPI's point-to-point layer is; see the header. It posts requests and looks whether they have
 * ended, and never waits. Open MPI's progress moves the messages: threads that wait for a call run it, and so does
 * whatever else the program does in MPI.
 *
 * Called by the process's connections (process) and, through them, by net/.
 */
#include "ompi_config.h"

#include <limits.h>
#include <string.h>

#include "base/coll_gpuhier_compat.h"
#include "team/coll_gpuhier_pml.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

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

int gpuhier_pml_net_open(gpuhier_net_t **net_p, const char **error_p)
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
