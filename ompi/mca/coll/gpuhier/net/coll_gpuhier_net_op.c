/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends and receives, and the one place where a status of UCX becomes a code of Open MPI.
 *
 * How it works: an operation is one tag-matched request of UCX. While it is pending it is on its peer's list, so that a
 * failure of the peer finds it. UCX's callback takes it off the list, frees the request, and writes the state last. UCX
 * ends the sends of a failed endpoint itself. A posted receive belongs to no endpoint: it is cancelled when its peer is
 * reaped.
 *
 * Called by team/ and engine/ through coll_gpuhier_net.h.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include "ompi/constants.h"

int gpuhier_net_code(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return OMPI_SUCCESS;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
    case UCS_ERR_SHMEM_SEGMENT:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_OUT_OF_RANGE:
        return OMPI_ERR_BAD_PARAM;
    case UCS_ERR_MESSAGE_TRUNCATED:
    case UCS_ERR_BUFFER_TOO_SMALL:
        return OMPI_ERR_BUFFER;
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_NO_ELEM:
        return OMPI_ERR_NOT_FOUND;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
        return OMPI_ERR_NOT_SUPPORTED;
    case UCS_ERR_CANCELED:
        return OMPI_ERR_INTERUPTED;
    case UCS_ERR_TIMED_OUT:
        return OMPI_ERR_TIMEOUT;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
        return OMPI_ERR_UNREACH;
    default:
        return (UCS_IS_LINK_ERROR(status) || UCS_IS_ENDPOINT_ERROR(status)) ? OMPI_ERR_UNREACH : OMPI_ERROR;
    }
}

static void send_done(void *request, ucs_status_t status, void *user_data)
{
    gpuhier_net_op_t *op = user_data;
    gpuhier_net_op_finish(op, gpuhier_net_code(status), op->bytes);
    ucp_request_free(request);
}

static void receive_done(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    gpuhier_net_op_finish(user_data, gpuhier_net_code(status), (UCS_OK == status) ? info->length : 0);
    ucp_request_free(request);
}

/* Fills in a pending operation. Returns why it cannot be made, or OMPI_SUCCESS. */
static int op_start(gpuhier_net_op_t *op, gpuhier_net_peer_t *peer, int rail, bool is_receive, const void *buf,
                    size_t bytes, bool is_cuda)
{
    gpuhier_net_t *net = peer->connection->net;
    *op = (gpuhier_net_op_t){.state = GPUHIER_NET_OP_PENDING,
                             .bytes = bytes,
                             .net = net,
                             .connection = peer->connection,
                             .rail = (rail < 0 ? 0 : rail) % net->nrails,
                             .is_receive = is_receive};
    if (rail < 0 || (NULL == buf && 0 != bytes)) {
        return OMPI_ERR_BAD_PARAM;
    }
    const gpuhier_net_rail_t *mine = &net->rails[op->rail];
    if (!gpuhier_net_rail_is_open(mine)) {
        return OMPI_ERR_NOT_FOUND;
    }
    return is_cuda && !gpuhier_net_gpu_is_yes(mine->gpu) ? OMPI_ERR_NOT_SUPPORTED : OMPI_SUCCESS;
}

static int op_refuse(gpuhier_net_op_t *op, int code)
{
    gpuhier_net_op_end(op, code, 0);
    return code;
}

static ucp_request_param_t param_common(gpuhier_net_op_t *op, bool is_cuda)
{
    /* Tells UCX the type of memory: its own detection asks the driver about each new address. */
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA
                                                 | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .user_data = op,
                                 .memory_type = is_cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST};
}

int gpuhier_net_send(gpuhier_net_peer_t *peer, int rail, uint64_t tag, const void *buf, size_t bytes, bool is_cuda,
                     gpuhier_net_op_t *op)
{
    int rc = op_start(op, peer, rail, false, buf, bytes, is_cuda);
    gpuhier_net_link_t *link = NULL;
    if (OMPI_SUCCESS == rc && NULL != op->net->carrier) {
        rc = gpuhier_net_stream_send(peer, tag, buf, bytes, op);
        return OMPI_SUCCESS == rc ? rc : op_refuse(op, rc);
    }
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_net_link_get(peer->connection, rail, &link);
    }
    if (OMPI_SUCCESS != rc) {
        return op_refuse(op, rc);
    }
    ucp_request_param_t param = param_common(op, is_cuda);
    param.cb.send = send_done;
    gpuhier_net_op_link(op, &peer->ops);
    ucs_status_ptr_t result =
        ucp_tag_send_nbx(link->endpoints[(1 == link->count) ? 0 : peer->connection->sends_on], buf, bytes, tag, &param);
    if (!UCS_PTR_IS_PTR(result)) {
        gpuhier_net_op_finish(op, gpuhier_net_code(UCS_PTR_STATUS(result)), bytes);
        return op->status;
    }
    op->request = result;
    return OMPI_SUCCESS;
}

int gpuhier_net_recv(gpuhier_net_peer_t *peer, int rail, uint64_t tag, void *buf, size_t bytes, bool is_cuda,
                     gpuhier_net_op_t *op)
{
    int rc = op_start(op, peer, rail, true, buf, bytes, is_cuda);
    gpuhier_net_link_t *link;
    if (OMPI_SUCCESS == rc && NULL != op->net->carrier) {
        return gpuhier_net_stream_recv(peer, tag, buf, bytes, op);
    }
    /* Connects although it sends nothing: a process that only receives must notice the death, too. */
    if (OMPI_SUCCESS == rc && OMPI_ERR_NOT_FOUND == gpuhier_net_link_get(peer->connection, rail, &link)) {
        rc = OMPI_ERR_NOT_FOUND;
    }
    if (OMPI_SUCCESS != rc) {
        return op_refuse(op, rc);
    }
    ucp_request_param_t param = param_common(op, is_cuda);
    /*
     * UCX 1.13 does not tell the length of a receive that completes at once. With this flag UCX always calls the
     * callback, possibly before ucp_tag_recv_nbx() returns.
     */
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = receive_done;
    gpuhier_net_op_link(op, &peer->ops);
    ucs_status_ptr_t result = ucp_tag_recv_nbx(op->net->rails[op->rail].worker, buf, bytes, tag, UINT64_MAX, &param);
    if (UCS_PTR_IS_ERR(result)) {
        gpuhier_net_op_finish(op, gpuhier_net_code(UCS_PTR_STATUS(result)), 0);
    }
    if (GPUHIER_NET_OP_PENDING != op->state) {
        return op->status;
    }
    op->request = result;
    if (GPUHIER_NET_CONNECTION_ALIVE != peer->connection->state) {
        /*
         * The receive was posted all the same, because the peer may have sent the message before it left. A message
         * that is not here now does not come.
         */
        gpuhier_net_cancel(op);
    }
    return op->status;
}

void gpuhier_net_cancel(gpuhier_net_op_t *op)
{
    if (GPUHIER_NET_OP_PENDING == op->state && op->is_receive && NULL != op->net->carrier) {
        gpuhier_net_stream_cancel(op);
    } else if (GPUHIER_NET_OP_PENDING == op->state && op->is_receive) {
        ucp_request_cancel(op->net->rails[op->rail].worker, op->request);
    }
}

static void discarded(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void) status;
    (void) info;
    (void) user_data;
    ucp_request_free(request);
}

int gpuhier_net_discard(gpuhier_net_t *net, uint64_t tag, uint64_t mask)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE
                                                       | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv = discarded,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    int count = NULL != net->carrier ? gpuhier_net_stream_discard(net, tag, mask) : 0;
    for (int rail = 0; rail < net->nrails && NULL == net->carrier; ++rail) {
        if (!gpuhier_net_rail_is_open(&net->rails[rail])) {
            continue;
        }
        ucp_worker_h worker = net->rails[rail].worker;
        ucp_tag_recv_info_t info;
        ucp_tag_message_h message;
        /* A receive of no bytes completes the send, whatever its length. */
        while (NULL != (message = ucp_tag_probe_nb(worker, tag, mask, 1, &info))) {
            (void) ucp_tag_msg_recv_nbx(worker, NULL, 0, message, &param);
            net->rails[rail].warm = GPUHIER_NET_WARM_ROUNDS;
            count++;
        }
    }
    return count;
}

void gpuhier_net_ops_cancel(gpuhier_net_op_t *list)
{
    gpuhier_net_op_t *op = list;
    while (NULL != op) {
        /* Cancelling takes the operation off the list. */
        gpuhier_net_op_t *next = op->next;
        gpuhier_net_cancel(op);
        op = next;
    }
}
