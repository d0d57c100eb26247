/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what operations need of a connection, whatever carries them: the lists of those that are under way, their ends,
 * the moment at which a connection fails, and its links: the endpoints between an own rail and one of the other
 * process, which the first message between the two makes.
 *
 * Called by the other files of net/, and by UCX when an endpoint breaks.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include <stdio.h>

#include "ompi/constants.h"

void gpuhier_net_op_link(gpuhier_net_op_t *op, gpuhier_net_op_t **list)
{
    op->next = *list;
    op->prev_p = list;
    if (NULL != *list) {
        (*list)->prev_p = &op->next;
    }
    *list = op;
    op->net->pending++;
    op->net->rails[op->rail].pending++;
}

void gpuhier_net_op_unlink(gpuhier_net_op_t *op)
{
    *op->prev_p = op->next;
    if (NULL != op->next) {
        op->next->prev_p = op->prev_p;
    }
    op->next = NULL;
    op->prev_p = NULL;
    if (GPUHIER_NET_CONNECTION_REAPED == op->connection->state) {
        op->net->has_unused = true;
    }
    op->net->pending--;
    op->net->rails[op->rail].pending--;
}

void gpuhier_net_op_end(gpuhier_net_op_t *op, int code, size_t bytes)
{
    op->request = NULL;
    op->status = code;
    op->net->rails[op->rail].warm = GPUHIER_NET_WARM_ROUNDS;
    op->bytes = OMPI_SUCCESS == code ? bytes : 0;
    op->state = OMPI_SUCCESS == code ? GPUHIER_NET_OP_DONE : GPUHIER_NET_OP_ERROR;
}

void gpuhier_net_op_finish(gpuhier_net_op_t *op, int code, size_t bytes)
{
    gpuhier_net_op_unlink(op);
    if (OMPI_SUCCESS != code && GPUHIER_NET_CONNECTION_ALIVE != op->connection->state) {
        code = op->connection->status;
    }
    gpuhier_net_op_end(op, code, bytes);
}

void gpuhier_net_connection_mark(gpuhier_net_connection_t *connection, int code, const char *reason)
{
    if (GPUHIER_NET_CONNECTION_ALIVE != connection->state) {
        return;
    }
    connection->state = GPUHIER_NET_CONNECTION_FAILED;
    connection->status = code;
    gpuhier_net_t *net = connection->net;
    net->has_new_failure = true;
    for (gpuhier_net_peer_t *peer = connection->peers; NULL != peer && NULL != net->error_handler; peer = peer->next) {
        char text[GPUHIER_NET_NAME_MAX + 160];
        snprintf(text, sizeof(text), "the connection to %s is lost: %s", peer->name, reason);
        net->error_handler(net->error_arg, peer, code, text);
    }
}

/* UCX's callback for a broken endpoint, which stays until reap closes it. */
static void endpoint_failed(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    (void) endpoint;
    /* Whatever the reason, the process cannot be reached. */
    gpuhier_net_connection_mark(arg, OMPI_ERR_UNREACH, ucs_status_string(status));
}

static ucs_status_t link_connect(gpuhier_net_connection_t *connection, int mine, int theirs, gpuhier_net_link_t *link)
{
    const gpuhier_net_rail_t *rail = &connection->net->rails[mine];
    const int wanted = (rail->is_tcp && connection->is_tcp[theirs] && !connection->is_self) ? 2 : 1;
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
                                                  | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                                                  | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = connection->addresses[theirs],
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = endpoint_failed, .arg = connection}};
    /* Makes both at once: UCX joins the n-th endpoint of one side to the n-th of the other. */
    while (link->count < wanted) {
        ucs_status_t status = ucp_ep_create(rail->worker, &params, &link->endpoints[link->count]);
        if (UCS_OK != status) {
            return status;
        }
        link->count++;
    }
    return UCS_OK;
}

int gpuhier_net_link_get(gpuhier_net_connection_t *connection, int rail, gpuhier_net_link_t **link_p)
{
    const int mine = rail % connection->net->nrails;
    const int theirs = rail % connection->nrails;
    gpuhier_net_link_t *link = &connection->links[mine][theirs];
    if (NULL == connection->addresses[theirs]) {
        return OMPI_ERR_NOT_FOUND;
    }
    if (GPUHIER_NET_CONNECTION_ALIVE == connection->state && 0 == link->count) {
        ucs_status_t status = link_connect(connection, mine, theirs, link);
        if (UCS_OK != status) {
            gpuhier_net_connection_mark(connection, OMPI_ERR_UNREACH, ucs_status_string(status));
        }
    }
    if (GPUHIER_NET_CONNECTION_ALIVE != connection->state) {
        return connection->status;
    }
    *link_p = link;
    return OMPI_SUCCESS;
}
