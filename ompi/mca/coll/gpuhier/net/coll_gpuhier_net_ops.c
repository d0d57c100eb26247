/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the lists of operations that are under way, and the end of an operation, whatever carries it.
 *
 * Called by the other files of net/.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

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
    if (OMPI_SUCCESS != code) {
        op->bytes = 0;
        op->state = GPUHIER_NET_OP_ERROR;
        return;
    }
    op->bytes = bytes;
    op->state = GPUHIER_NET_OP_DONE;
}

void gpuhier_net_op_finish(gpuhier_net_op_t *op, int code, size_t bytes)
{
    gpuhier_net_op_unlink(op);
    if (OMPI_SUCCESS != code && GPUHIER_NET_CONNECTION_ALIVE != op->connection->state) {
        code = op->connection->status;
    }
    gpuhier_net_op_end(op, code, bytes);
}

void gpuhier_net_ops_move(gpuhier_net_op_t **from, gpuhier_net_op_t **to)
{
    gpuhier_net_op_t *first = *from;
    if (NULL == first) {
        return;
    }
    while (NULL != *to) {
        to = &(*to)->next;
    }
    *to = first;
    first->prev_p = to;
    *from = NULL;
}

void gpuhier_net_ops_abandon(gpuhier_net_op_t **list, int code)
{
    while (NULL != *list) {
        gpuhier_net_op_t *op = *list;
        gpuhier_net_op_unlink(op);
        gpuhier_net_op_end(op, code, 0);
    }
}
