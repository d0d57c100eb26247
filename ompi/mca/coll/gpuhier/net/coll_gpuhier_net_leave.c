/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Leaving in peace. When a process closes its endpoints, the other side sees a
 * broken connection, whether it still waits for something or not; and what the
 * last sends left in buffers and sockets may come after that news, on another
 * rail or on a double link's other endpoint. So nobody closes before those at
 * the other ends of its connections need nothing more.
 *
 * How it works: a process that leaves has ended all its calls. It says so to
 * each living connection with an empty message, and waits for the same word from
 * there, or for the connection's failure. A word is told from others by its
 * sender, of whose address blob the tag has a digest.
 *
 * Called at MPI_Finalize, before close.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include "ompi/constants.h"

/*
 * How long the other's word is waited for. MPI_Finalize is collective over all who are connected, so the word comes,
 * however late the other is in its last call; or it dies, and the connection fails. At the end of a session another one
 * may keep it. With nothing in common any more it may have been disconnected, and live on, and whoever was torn out of
 * a call need not be told.
 */
#define LEAVE_FINALIZE_MS UINT64_MAX
#define LEAVE_MS 30000
#define LEAVE_STRANGER_MS 1000

static uint64_t leave_ms(const gpuhier_net_connection_t *connection, bool all_leave)
{
    const bool is_peer = NULL != connection->peers;
    if (all_leave && !connection->is_abandoned && (is_peer || connection->is_bound)) {
        return LEAVE_FINALIZE_MS;
    }
    return is_peer ? LEAVE_MS : LEAVE_STRANGER_MS;
}

void gpuhier_net_leave(gpuhier_net_t *net, bool all_leave)
{
    gpuhier_net_connection_t *connection;

    net->left_at = gpuhier_clock_ms();
    for (connection = net->connections; NULL != connection; connection = connection->next) {
        if (GPUHIER_NET_CONNECTION_ALIVE != connection->state || connection->is_self) {
            continue;
        }
        connection->leave_ms = leave_ms(connection, all_leave);
        const char *name = NULL != connection->peers ? connection->peers->name : "a former peer";
        if (OMPI_SUCCESS
            != gpuhier_net_peer_create(net, connection->blob, connection->blob_bytes, name, &connection->leaving)) {
            continue; /* no memory: leaves without a word */
        }
        int rc =
            gpuhier_net_recv(connection->leaving, 0, gpuhier_net_leave_tag(gpuhier_net_blob_digest(connection->blob)),
                             NULL, 0, false, &connection->leave_recv);
        rc = OMPI_SUCCESS != rc
                 ? rc
                 : gpuhier_net_send(connection->leaving, 0, gpuhier_net_leave_tag(gpuhier_net_blob_digest(net->blob)),
                                    NULL, 0, false, &connection->leave_send);
        if (OMPI_SUCCESS != rc) {
            gpuhier_net_cancel(&connection->leave_recv); /* else both could wait for each other's word for ever */
        }
    }
}

bool gpuhier_net_has_left(const gpuhier_net_t *net)
{
    const gpuhier_net_connection_t *connection;
    const uint64_t waited = gpuhier_clock_ms() - net->left_at;

    for (connection = net->connections; NULL != connection; connection = connection->next) {
        if (gpuhier_net_op_is_pending(&connection->leave_recv) && waited < connection->leave_ms) {
            return false;
        }
    }
    return true;
}
