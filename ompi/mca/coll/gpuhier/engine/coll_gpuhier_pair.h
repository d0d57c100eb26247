/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A pair of messages: what a rank sends to one group and receives from another in one step.
 */
#ifndef GPUHIER_PAIR_H
#define GPUHIER_PAIR_H

#include "net/coll_gpuhier_net.h"

/* Have both messages ended? 1 if so, 0 if not, < 0 for an error. */
static inline int gpuhier_pair_done(const gpuhier_net_op_t *send, const gpuhier_net_op_t *recv)
{
    if (GPUHIER_NET_OP_ERROR == recv->state) {
        return recv->status;
    }
    if (GPUHIER_NET_OP_ERROR == send->state) {
        return send->status;
    }
    return !gpuhier_net_op_is_pending(recv) && !gpuhier_net_op_is_pending(send);
}

static inline bool gpuhier_pair_in_use(const gpuhier_net_op_t *send, const gpuhier_net_op_t *recv)
{
    return gpuhier_net_op_is_pending(send) || gpuhier_net_op_is_pending(recv);
}

#endif /* GPUHIER_PAIR_H */
