/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Leaving in peace. When a process closes its endpoints, the other side sees a broken connection, even if it still
 * waits for a message. The last messages may lie in buffers and sockets, and come after that news: on another rail, or
 * on the other endpoint of a double link. So a process closes only when the processes at the other ends of its
 * connections need nothing more.
 *
 * How it works: a process that leaves has ended all its calls. It says so to each living connection with an empty
 * message, its word, and waits for the word of the other process, or for the failure of the connection. The tag of a
 * word holds a digest of its sender's address.
 *
 * Called by team/ at MPI_Finalize and at the end of a session, before close.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include "ompi/constants.h"

/*
 * How long a process waits for the word of another one, in milliseconds. MPI_Finalize is collective over all connected
 * processes, so the word comes, however late the other is in its last call; or the other dies, and the connection
 * fails. At the end of a session the other process may keep its own session, and send no word. A process that has no
 * peer here may have been disconnected, and live on without a word. So may one whose peer was abandoned.
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
    net->left_at = gpuhier_clock_ms();
    for (gpuhier_net_connection_t *connection = net->connections; NULL != connection; connection = connection->next) {
        if (GPUHIER_NET_CONNECTION_ALIVE != connection->state || connection->is_self) {
            continue;
        }
        connection->leave_ms = leave_ms(connection, all_leave);
        const char *name = NULL != connection->peers ? connection->peers->name : "a former peer";
        if (OMPI_SUCCESS
            != gpuhier_net_peer_create(net, connection->blob, connection->blob_bytes, name, &connection->leaving)) {
            continue; /* without memory it leaves without a word */
        }
        int rc = gpuhier_net_recv(connection->leaving, 0, gpuhier_net_leave_tag(connection->process), NULL, 0, false,
                                  &connection->leave_recv);
        rc = OMPI_SUCCESS != rc
                 ? rc
                 : gpuhier_net_send(connection->leaving, 0, gpuhier_net_leave_tag(gpuhier_net_process(net)), NULL, 0,
                                    false, &connection->leave_send);
        if (OMPI_SUCCESS != rc) {
            gpuhier_net_cancel(&connection->leave_recv); /* or both processes could wait for each other for ever */
        }
    }
}

bool gpuhier_net_has_left(const gpuhier_net_t *net)
{
    const uint64_t waited = gpuhier_clock_ms() - net->left_at;
    for (const gpuhier_net_connection_t *connection = net->connections; NULL != connection;
         connection = connection->next) {
        if (gpuhier_net_op_is_pending(&connection->leave_recv) && waited < connection->leave_ms) {
            return false;
        }
    }
    return true;
}
