/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends and receives over a carrier (gpuhier_net_carrier_t), in place of UCX. Owns the stream of each connection.
 *
 * How it works: a carrier has no tags of 64 bits, so a word {tag, bytes} precedes each payload, on stream 0. Words of
 * one process come in the order in which they are sent, and one receive at a time waits for the next. The payloads
 * follow on the other streams in turn, and both sides count them. A word that matches a posted receive starts the
 * receive of its payload, into the caller's buffer. Any other word is kept until its receive is posted, or until it is
 * discarded. A payload that nothing asks for is received into memory of its own, long before a later payload comes on
 * the same stream. A message of no bytes is its word alone.
 *
 * The carrier calls nothing back. Progress tests the requests that are under way, and an error of any of them marks the
 * connection as failed.
 *
 * Called by the other files of net/.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ompi/constants.h"

#define WORDS 0u /* the stream of the words */
/* Words that one call of progress takes from a connection. */
#define WORDS_AT_ONCE 16
/* A payload that nothing has asked for is received when this many later ones have been announced. */
#define LATE (GPUHIER_NET_CARRIER_STREAMS / 2)

/* A payload that is received without a caller's buffer: late, or to be thrown away. */
typedef struct unasked {
    struct unasked *next; /* of those to be thrown away */
    void *request;
    char payload[];
} unasked_t;

/* A word that no receive has matched. */
typedef struct heard {
    struct heard *next;
    uint64_t tag;
    uint64_t bytes;
    uint32_t number;    /* of its payload */
    unasked_t *unasked; /* its payload, if that was late; else NULL */
} heard_t;

/* Owned by its connection. Its memory must not go while the carrier uses it. */
struct gpuhier_net_stream {
    uint32_t rank;
    uint32_t sent, announced; /* payloads that this process has sent, and that the other one has announced */
    uint64_t word[2];         /* the next word, while hearing is not NULL */
    void *hearing;            /* the request of its receive */
    heard_t *heard;           /* in the order in which they came */
    unasked_t *discarded;
};

static uint32_t payload_stream(uint32_t number)
{
    return 1 + number % (GPUHIER_NET_CARRIER_STREAMS - 1);
}

static void listen_on(gpuhier_net_connection_t *connection)
{
    gpuhier_net_stream_t *stream = connection->stream;
    int rc = connection->net->carrier->recv(stream->rank, WORDS, stream->word, sizeof(stream->word), &stream->hearing);
    if (OMPI_SUCCESS != rc) {
        stream->hearing = NULL;
        gpuhier_net_connection_mark(connection, rc, "a receive could not be posted");
    }
}

/* Makes the stream. Returns the status of a connection that has failed. */
static int stream_get(gpuhier_net_connection_t *connection)
{
    if (GPUHIER_NET_CONNECTION_ALIVE != connection->state || NULL != connection->stream) {
        return connection->status;
    }
    gpuhier_net_carrier_address_t mine, theirs;
    memcpy(&mine, connection->net->rails[0].address, sizeof(mine));
    memcpy(&theirs, connection->addresses[0], sizeof(theirs));
    if (mine.job != theirs.job) {
        gpuhier_net_connection_mark(connection, OMPI_ERR_UNREACH, "it is of another job");
        return connection->status;
    }
    connection->stream = calloc(1, sizeof(*connection->stream));
    if (NULL == connection->stream) {
        gpuhier_net_connection_mark(connection, OMPI_ERR_OUT_OF_RESOURCE, "out of memory");
        return connection->status;
    }
    connection->stream->rank = (uint32_t) theirs.rank;
    listen_on(connection);
    return connection->status;
}

/* Receives a payload into memory of its own. NULL: the connection has failed. */
static unasked_t *unasked_receive(gpuhier_net_connection_t *connection, uint32_t number, uint64_t bytes)
{
    unasked_t *unasked = malloc(sizeof(*unasked) + bytes);
    int rc = NULL == unasked ? OMPI_ERR_OUT_OF_RESOURCE
                             : connection->net->carrier->recv(connection->stream->rank, payload_stream(number),
                                                              unasked->payload, bytes, &unasked->request);
    if (OMPI_SUCCESS != rc) {
        free(unasked);
        gpuhier_net_connection_mark(connection, rc, "a message that nothing asked for could not be received");
        return NULL;
    }
    return unasked;
}

/* Receives a payload of which this process wants nothing more, so that its sender can go on. */
static void payload_discard(gpuhier_net_connection_t *connection, const heard_t *heard)
{
    gpuhier_net_stream_t *stream = connection->stream;
    unasked_t *unasked = NULL != heard->unasked || 0 == heard->bytes
                             ? heard->unasked
                             : unasked_receive(connection, heard->number, heard->bytes);
    if (NULL != unasked) {
        unasked->next = stream->discarded;
        stream->discarded = unasked;
    }
}

/* Starts to receive the payload that a word has announced, or ends the operation. */
static void payload_receive(gpuhier_net_op_t *op, const heard_t *heard)
{
    gpuhier_net_connection_t *connection = op->connection;
    const uint64_t bytes = heard->bytes;
    if (bytes > op->word[1]) {
        payload_discard(connection, heard);
        gpuhier_net_op_finish(op, OMPI_ERR_BUFFER, 0);
        return;
    }
    op->bytes = bytes;
    int rc = OMPI_SUCCESS;
    if (NULL != heard->unasked) {
        op->unasked = heard->unasked;
        op->request = heard->unasked->request;
    } else if (0 != bytes) {
        rc = connection->net->carrier->recv(connection->stream->rank, payload_stream(heard->number), op->buffer, bytes,
                                            &op->request);
    }
    if (OMPI_SUCCESS != rc) {
        gpuhier_net_connection_mark(connection, rc, "a receive could not be posted");
    }
    if (OMPI_SUCCESS != rc || 0 == bytes) {
        gpuhier_net_op_finish(op, rc, bytes);
    }
}

/* A posted receive with this tag whose message has not been announced. */
static gpuhier_net_op_t *waiting_find(gpuhier_net_op_t *list, uint64_t tag)
{
    gpuhier_net_op_t *op = list;
    while (NULL != op && !(op->is_receive && NULL == op->request && tag == op->word[0])) {
        op = op->next;
    }
    return op;
}

/* Receives payloads that nothing has asked for while LATE others came. */
static void late_receive(gpuhier_net_connection_t *connection)
{
    const gpuhier_net_stream_t *stream = connection->stream;
    for (heard_t *heard = stream->heard; NULL != heard; heard = heard->next) {
        if (0 == heard->bytes || NULL != heard->unasked) {
            continue;
        }
        if (stream->announced - heard->number < LATE) {
            return;
        }
        heard->unasked = unasked_receive(connection, heard->number, heard->bytes);
        if (NULL == heard->unasked) {
            return;
        }
    }
}

/* A word has come. */
static void hear(gpuhier_net_connection_t *connection)
{
    gpuhier_net_stream_t *stream = connection->stream;
    const uint64_t tag = stream->word[0], bytes = stream->word[1];
    const heard_t word = {.tag = tag, .bytes = bytes, .number = 0 != bytes ? stream->announced++ : 0};
    late_receive(connection);
    gpuhier_net_op_t *op = waiting_find(connection->left, tag);
    for (gpuhier_net_peer_t *peer = connection->peers; NULL != peer && NULL == op; peer = peer->next) {
        op = waiting_find(peer->ops, tag);
    }
    if (NULL != op) {
        payload_receive(op, &word);
        return;
    }
    heard_t **end = &stream->heard;
    heard_t *heard = malloc(sizeof(*heard));
    if (NULL == heard) {
        gpuhier_net_connection_mark(connection, OMPI_ERR_OUT_OF_RESOURCE, "out of memory");
        return;
    }
    *heard = word;
    while (NULL != *end) {
        end = &(*end)->next;
    }
    *end = heard;
}

/* Takes the first word that equals `tag` in the bits of `mask`. The caller frees it. */
static heard_t *heard_take(gpuhier_net_stream_t *stream, uint64_t tag, uint64_t mask)
{
    heard_t **place = &stream->heard;
    while (NULL != *place && 0 != (((*place)->tag ^ tag) & mask)) {
        place = &(*place)->next;
    }
    heard_t *heard = *place;
    if (NULL != heard) {
        *place = heard->next;
    }
    return heard;
}

static int listen_poll(gpuhier_net_connection_t *connection)
{
    gpuhier_net_stream_t *stream = connection->stream;
    int rc, words = 0;
    while (words < WORDS_AT_ONCE && NULL != stream->hearing && connection->net->carrier->test(&stream->hearing, &rc)) {
        ++words;
        if (OMPI_SUCCESS != rc) {
            gpuhier_net_connection_mark(connection, OMPI_ERR_UNREACH, "a receive failed");
            break;
        }
        hear(connection);
        if (GPUHIER_NET_CONNECTION_ALIVE == connection->state) {
            listen_on(connection);
        }
    }
    return words;
}

/* Has a request ended? Notes its error in the operation. */
static bool request_ended(gpuhier_net_op_t *op, void **request)
{
    int rc = OMPI_SUCCESS;
    if (NULL != *request && !op->net->carrier->test(request, &rc)) {
        return false;
    }
    op->status = OMPI_SUCCESS != op->status ? op->status : rc;
    return true;
}

/* Ends the operation if the carrier is done with it. Returns the number of events, 0 or 1. */
static int op_poll(gpuhier_net_op_t *op)
{
    const bool announced = request_ended(op, &op->announcement);
    if ((op->is_receive && NULL == op->request) || !request_ended(op, &op->request) || !announced) {
        return 0;
    }
    if (OMPI_SUCCESS != op->status) {
        gpuhier_net_connection_mark(op->connection, OMPI_ERR_UNREACH, "a message failed");
    } else if (NULL != op->unasked) {
        memcpy(op->buffer, ((unasked_t *) op->unasked)->payload, op->bytes);
    }
    free(op->unasked);
    op->unasked = NULL;
    gpuhier_net_op_finish(op, op->status, op->bytes);
    return 1;
}

static int ops_poll(gpuhier_net_op_t *op)
{
    int events = 0;
    while (NULL != op) {
        gpuhier_net_op_t *next = op->next; /* the end of an operation takes it off the list */
        events += op_poll(op);
        op = next;
    }
    return events;
}

static int discarded_poll(gpuhier_net_connection_t *connection)
{
    unasked_t **place = &connection->stream->discarded;
    int events = 0, rc;
    while (NULL != *place) {
        unasked_t *discarded = *place;
        if (connection->net->carrier->test(&discarded->request, &rc)) {
            *place = discarded->next;
            free(discarded);
            ++events;
        } else {
            place = &discarded->next;
        }
    }
    return events;
}

int gpuhier_net_stream_progress(gpuhier_net_t *net)
{
    int events = 0;
    for (gpuhier_net_connection_t *connection = net->connections; NULL != connection; connection = connection->next) {
        if (NULL == connection->stream) {
            continue;
        }
        events += listen_poll(connection);
        for (gpuhier_net_peer_t *peer = connection->peers; NULL != peer; peer = peer->next) {
            events += ops_poll(peer->ops);
        }
        events += ops_poll(connection->left);
        events += discarded_poll(connection);
    }
    return events;
}

int gpuhier_net_stream_send(gpuhier_net_peer_t *peer, uint64_t tag, const void *buf, size_t bytes, gpuhier_net_op_t *op)
{
    gpuhier_net_connection_t *connection = peer->connection;
    const gpuhier_net_carrier_t *carrier = connection->net->carrier;
    int rc = stream_get(connection);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    gpuhier_net_stream_t *stream = connection->stream;
    op->word[0] = tag;
    op->word[1] = bytes;
    rc = carrier->send(stream->rank, WORDS, op->word, sizeof(op->word), &op->announcement);
    if (OMPI_SUCCESS != rc) {
        op->announcement = NULL;
        gpuhier_net_connection_mark(connection, OMPI_ERR_UNREACH, "a message could not be sent");
        return connection->status;
    }
    gpuhier_net_op_link(op, &peer->ops);
    if (0 != bytes) {
        op->status = carrier->send(stream->rank, payload_stream(stream->sent++), buf, bytes, &op->request);
        op->request = OMPI_SUCCESS == op->status ? op->request : NULL; /* NULL: the other process waits in vain */
    }
    (void) op_poll(op);
    return OMPI_SUCCESS;
}

int gpuhier_net_stream_recv(gpuhier_net_peer_t *peer, uint64_t tag, void *buf, size_t bytes, gpuhier_net_op_t *op)
{
    gpuhier_net_connection_t *connection = peer->connection;
    int rc = stream_get(connection);
    op->buffer = buf;
    op->word[0] = tag;
    op->word[1] = bytes;
    gpuhier_net_op_link(op, &peer->ops);
    /* On a failed connection too: the other process may have sent the message before it left. */
    heard_t *heard = NULL != connection->stream ? heard_take(connection->stream, tag, UINT64_MAX) : NULL;
    if (NULL != heard) {
        payload_receive(op, heard);
        free(heard);
    } else if (OMPI_SUCCESS != rc) {
        gpuhier_net_op_finish(op, rc, 0);
    }
    return GPUHIER_NET_OP_ERROR == op->state ? op->status : OMPI_SUCCESS;
}

void gpuhier_net_stream_cancel(gpuhier_net_op_t *op)
{
    if (NULL == op->request) {
        gpuhier_net_op_finish(op, OMPI_ERR_INTERUPTED, 0);
    }
}

int gpuhier_net_stream_discard(gpuhier_net_t *net, uint64_t tag, uint64_t mask)
{
    int count = 0;
    for (gpuhier_net_connection_t *connection = net->connections; NULL != connection; connection = connection->next) {
        heard_t *heard;
        while (NULL != connection->stream && NULL != (heard = heard_take(connection->stream, tag & mask, mask))) {
            payload_discard(connection, heard);
            free(heard);
            ++count;
        }
    }
    return count;
}

void gpuhier_net_stream_close(gpuhier_net_connection_t *connection)
{
    gpuhier_net_stream_t *stream = connection->stream;
    int rc;
    if (NULL != stream && NULL != stream->hearing) {
        connection->net->carrier->cancel(stream->hearing);
        (void) connection->net->carrier->test(&stream->hearing, &rc);
    }
    for (heard_t *heard = NULL != stream ? stream->heard : NULL; NULL != heard; heard = heard->next) {
        if (NULL != heard->unasked) {
            payload_discard(connection, heard);
            heard->unasked = NULL;
        }
    }
}

bool gpuhier_net_stream_is_used(const gpuhier_net_connection_t *connection)
{
    const gpuhier_net_stream_t *stream = connection->stream;
    return NULL != stream && (NULL != stream->hearing || NULL != stream->discarded);
}

void gpuhier_net_stream_free(gpuhier_net_connection_t *connection)
{
    gpuhier_net_stream_t *stream = connection->stream;
    if (NULL == stream || gpuhier_net_stream_is_used(connection)) {
        return; /* the carrier may still write there */
    }
    while (NULL != stream->heard) {
        heard_t *heard = stream->heard;
        stream->heard = heard->next;
        free(heard);
    }
    free(stream);
    connection->stream = NULL;
}
