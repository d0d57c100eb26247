/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The net over a carrier (gpuhier_net_carrier_t), in one process: a made-up carrier brings what another process would
 * send. Messages that nobody receives for a long time neither change those that come meanwhile nor are changed by them,
 * although the streams of payloads come round. A carrier matches like MPI: on each stream the oldest message goes to
 * the receive that was posted first.
 */
#include "ompi_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/coll_gpuhier_net.h"
#include "ompi/constants.h"

#define TAGS 5u
#define TAG 100u
#define TAG_LATE 200u
#define TAG_LONG 300u /* longer than the buffer of its receive */
#define TAG_NEVER 400u
#define TAG_DISCARDED 500u
#define ROUNDS (2 * GPUHIER_NET_CARRIER_STREAMS + 99)
#define LONG_BYTES 64

typedef struct request {
    struct request *next;
    void *buf;
    size_t room;
    bool is_done;
} request_t;

typedef struct message {
    struct message *next;
    size_t bytes;
    char data[];
} message_t;

static message_t *arrived[GPUHIER_NET_CARRIER_STREAMS];
static request_t *posted[GPUHIER_NET_CARRIER_STREAMS];
static uint32_t sent;
static int failures;

static void fail(const char *what, uint32_t number)
{
    if (failures++ < 10) {
        fprintf(stderr, "net_carrier: %s (%" PRIu32 ")\n", what, number);
    }
}

static void fill(request_t *request, const void *data, size_t bytes)
{
    memcpy(request->buf, data, bytes < request->room ? bytes : request->room);
    request->is_done = true;
}

static int carrier_recv(uint32_t rank, uint32_t stream, void *buf, size_t bytes, void **request_p)
{
    request_t *request = calloc(1, sizeof(*request));
    request_t **end = &posted[stream];
    (void) rank;
    *request = (request_t){.buf = buf, .room = bytes};
    *request_p = request;
    message_t *message = arrived[stream];
    if (NULL != message) {
        arrived[stream] = message->next;
        fill(request, message->data, message->bytes);
        free(message);
        return OMPI_SUCCESS;
    }
    while (NULL != *end) {
        end = &(*end)->next;
    }
    *end = request;
    return OMPI_SUCCESS;
}

static int carrier_send(uint32_t rank, uint32_t stream, const void *buf, size_t bytes, void **request_p)
{
    request_t *request = calloc(1, sizeof(*request));
    (void) rank;
    (void) stream;
    (void) buf;
    (void) bytes;
    request->is_done = true;
    *request_p = request;
    return OMPI_SUCCESS;
}

static bool carrier_test(void **request_p, int *rc_p)
{
    request_t *request = *request_p;
    if (!request->is_done) {
        return false;
    }
    free(request);
    *request_p = NULL;
    *rc_p = OMPI_SUCCESS;
    return true;
}

static void carrier_cancel(void *request)
{
    ((request_t *) request)->is_done = true;
}

static void carrier_progress(void)
{
}

/* What the other process sends arrives. */
static void arrive(uint32_t stream, const void *data, size_t bytes)
{
    request_t *request = posted[stream];
    if (NULL != request) {
        posted[stream] = request->next;
        fill(request, data, bytes);
        return;
    }
    message_t *message = malloc(sizeof(*message) + bytes), **end = &arrived[stream];
    *message = (message_t){.bytes = bytes};
    memcpy(message->data, data, bytes);
    while (NULL != *end) {
        end = &(*end)->next;
    }
    *end = message;
}

static void send_one(uint64_t tag, const void *data, size_t bytes)
{
    const uint64_t word[2] = {tag, bytes};
    arrive(0, word, sizeof(word));
    arrive(1 + sent++ % (GPUHIER_NET_CARRIER_STREAMS - 1), data, bytes);
}

static void wait_for(gpuhier_net_t *net, const gpuhier_net_op_t *op, uint32_t number)
{
    for (int i = 0; i < 100 && gpuhier_net_op_is_pending(op); ++i) {
        (void) gpuhier_net_progress(net);
    }
    if (gpuhier_net_op_is_pending(op)) {
        fail("a message did not come", number);
        exit(1);
    }
}

/* Each round's message, received before it comes or after. */
static void rounds_run(gpuhier_net_t *net, gpuhier_net_peer_t *peer)
{
    for (uint32_t i = 0; i < ROUNDS; ++i) {
        const uint64_t tag = TAG + i % TAGS, value = 1000003ull * i;
        uint64_t got = 0;
        gpuhier_net_op_t op;
        if (0 == i % 2) {
            send_one(tag, &value, sizeof(value));
            (void) gpuhier_net_progress(net);
        }
        if (OMPI_SUCCESS != gpuhier_net_recv(peer, 0, tag, &got, sizeof(got), false, &op)) {
            fail("a receive was refused", i);
        }
        if (1 == i % 2) {
            send_one(tag, &value, sizeof(value));
        }
        wait_for(net, &op, i);
        if (GPUHIER_NET_OP_DONE != op.state || sizeof(value) != op.bytes || value != got) {
            fail("a message is wrong", i);
        }
    }
}

int main(void)
{
    static const gpuhier_net_carrier_t carrier = {.send = carrier_send,
                                                  .recv = carrier_recv,
                                                  .test = carrier_test,
                                                  .cancel = carrier_cancel,
                                                  .progress = carrier_progress};
    gpuhier_net_t *net, *other;
    gpuhier_net_peer_t *peer;
    gpuhier_net_op_t op;
    void *blob;
    size_t blob_bytes;
    char text[LONG_BYTES], longer[LONG_BYTES], late[] = "a late one", got[sizeof(late)] = "";

    memset(longer, 'x', sizeof(longer));
    if (OMPI_SUCCESS != gpuhier_net_open_carrier(&carrier, 1, 0, &net)
        || OMPI_SUCCESS != gpuhier_net_open_carrier(&carrier, 1, 1, &other)
        || OMPI_SUCCESS != gpuhier_net_address(other, &blob, &blob_bytes)
        || OMPI_SUCCESS != gpuhier_net_peer_create(net, blob, blob_bytes, "the other", &peer)) {
        fail("no net", 0);
        return 1;
    }
    free(blob);
    (void) gpuhier_net_recv(peer, 0, TAG, text, sizeof(text), false, &op); /* from then on it listens */
    send_one(TAG, late, sizeof(late));
    wait_for(net, &op, 0);

    send_one(TAG_LATE, late, sizeof(late));
    send_one(TAG_LONG, longer, sizeof(longer));
    send_one(TAG_NEVER, longer, sizeof(longer));
    send_one(TAG_DISCARDED, longer, sizeof(longer));
    rounds_run(net, peer);
    (void) gpuhier_net_recv(peer, 0, TAG_LATE, got, sizeof(got), false, &op);
    wait_for(net, &op, TAG_LATE);
    if (GPUHIER_NET_OP_DONE != op.state || sizeof(late) != op.bytes || 0 != memcmp(got, late, sizeof(late))) {
        fail("the late message is wrong", TAG_LATE);
    }
    (void) gpuhier_net_recv(peer, 0, TAG_LONG, got, sizeof(got), false, &op);
    wait_for(net, &op, TAG_LONG);
    if (OMPI_ERR_BUFFER != op.status) {
        fail("a message longer than its buffer is no error", TAG_LONG);
    }
    if (1 != gpuhier_net_discard(net, TAG_DISCARDED, UINT64_MAX)) {
        fail("the message to be thrown away is not there", TAG_DISCARDED);
    }
    rounds_run(net, peer);
    gpuhier_net_close(net);
    gpuhier_net_close(other);
    printf("net_carrier: %" PRIu32 " messages, %d failures\n", sent, failures);
    return 0 == failures ? 0 : 1;
}
