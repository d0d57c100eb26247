/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The switch of one rail, with a rate and a latency: what tc's netem does on kernels that have it.
 *
 *   vcluster_relay NS_PER_BYTE LATENCY_NS FREE PORT...
 *
 * Forwards packets between the interfaces PORT..., whose far ends are the nodes' rails. The first FREE ports
 * (the head's) are neither slowed nor delayed, whichever way a packet goes. Between two others a packet of B bytes
 *
 *   leaves the sender  as soon as the sender's packets before it have left, and takes B * NS_PER_BYTE for that;
 *   arrives            LATENCY_NS later, but B * NS_PER_BYTE after the receiver's packet before it at the earliest.
 *
 * So each port carries the rate each way, however many nodes send to it, and nothing is dropped. The kernel notes when
 * a packet came in, so that a relay which wakes up late still delivers on time if it can. The relay runs until it is
 * killed.
 */
#define _GNU_SOURCE /* ppoll */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#ifndef PACKET_IGNORE_OUTGOING
#    define PACKET_IGNORE_OUTGOING 23
#endif

enum { ROOM = 128 << 10, MAC = 6, BUFFER = 256 << 20 };

struct packet {
    struct packet *next;
    uint64_t due;
    size_t bytes; /* with the header that tells what is left to do for a segmented packet */
    unsigned char data[];
};

struct port {
    int fd;
    unsigned char mac[MAC]; /* of the one host behind it, once it has spoken */
    uint64_t sends_until, receives_until;
    struct packet *first, **end; /* to this port, in the order in which they are due */
};

static struct port *ports;
static int nports, nfree;
static double ns_per_byte;
static uint64_t latency;

static void fail(const char *what)
{
    fprintf(stderr, "vcluster_relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now); /* the clock of packets' time stamps */
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static void open_port(struct port *port, const char *name)
{
    const int yes = 1, buffer = BUFFER;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};

    port->end = &port->first;
    address.sll_ifindex = (int) if_nametoindex(name);
    port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (0 == address.sll_ifindex || port->fd < 0
        || 0 != setsockopt(port->fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof(yes))
        || 0 != setsockopt(port->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes))
        || 0 != setsockopt(port->fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof(yes))
        || 0 != bind(port->fd, (struct sockaddr *) &address, sizeof(address))) {
        fail(name);
    }
    if (0 != setsockopt(port->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer))) {
        setsockopt(port->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)); /* as much as a user may have */
    }
}

/* When the packet came in. */
static uint64_t came_at(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); NULL != part; part = CMSG_NXTHDR(message, part)) {
        if (SOL_SOCKET == part->cmsg_level && SCM_TIMESTAMPNS == part->cmsg_type) {
            struct timespec at;

            memcpy(&at, CMSG_DATA(part), sizeof(at));
            return (uint64_t) at.tv_sec * 1000000000u + (uint64_t) at.tv_nsec;
        }
    }
    return now_ns();
}

static void enqueue(struct port *from, struct port *to, uint64_t at, const unsigned char *data, size_t bytes)
{
    const uint64_t takes = (uint64_t) ((double) (bytes - sizeof(struct virtio_net_hdr)) * ns_per_byte);
    const uint64_t begin = at > from->sends_until ? at : from->sends_until;
    const uint64_t begin_there = begin + latency > to->receives_until ? begin + latency : to->receives_until;
    struct packet *packet = malloc(sizeof(*packet) + bytes);

    if (NULL == packet) {
        fail("no memory");
    }
    memcpy(packet->data, data, bytes);
    packet->bytes = bytes;
    packet->next = NULL;
    from->sends_until = begin + takes;
    to->receives_until = begin_there + takes;
    packet->due = to->receives_until;
    *to->end = packet;
    to->end = &packet->next;
}

/* Forwards a packet to one port. A packet that floods is handed over once for each port. */
static void hand_over(struct port *from, struct port *to, uint64_t at, const unsigned char *data, size_t bytes)
{
    if (from - ports < nfree || to - ports < nfree) {
        send(to->fd, data, bytes, 0); /* the sender sends lost packets again */
    } else {
        enqueue(from, to, at, data, bytes);
    }
}

static void forward(struct port *from, uint64_t at, const unsigned char *data, size_t bytes)
{
    const unsigned char *frame = data + sizeof(struct virtio_net_hdr);
    struct port *to = NULL;

    if (bytes < sizeof(struct virtio_net_hdr) + sizeof(struct ether_header)) {
        return;
    }
    memcpy(from->mac, frame + MAC, MAC);
    for (int i = 0; i < nports && NULL == to; i++) {
        to = 0 == memcmp(frame, ports[i].mac, MAC) ? &ports[i] : NULL;
    }
    for (int i = 0; i < nports; i++) {
        if (&ports[i] != from && (NULL == to || &ports[i] == to)) {
            hand_over(from, &ports[i], at, data, bytes);
        }
    }
}

static void receive(struct port *from)
{
    static unsigned char data[ROOM];
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(struct timespec))];
    } control;

    for (int i = 0; i < 64; i++) {
        struct iovec place = {.iov_base = data, .iov_len = sizeof(data)};
        struct msghdr message = {
            .msg_iov = &place, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        const ssize_t bytes = recvmsg(from->fd, &message, MSG_DONTWAIT);

        if (bytes < 0) {
            return; /* nothing more, or the interface is going */
        }
        forward(from, came_at(&message), data, (size_t) bytes);
    }
}

/* Delivers what is due. Returns when the next packet will be, or UINT64_MAX. */
static uint64_t deliver(struct port *to, uint64_t now)
{
    while (NULL != to->first && to->first->due <= now) {
        struct packet *packet = to->first;

        if (send(to->fd, packet->data, packet->bytes, 0) < 0 && ENOBUFS == errno) {
            return now; /* again in the next round */
        }
        to->first = packet->next;
        to->end = NULL == to->first ? &to->first : to->end;
        free(packet);
    }
    return NULL == to->first ? UINT64_MAX : to->first->due;
}

int main(int argc, char **argv)
{
    const struct sched_param urgent = {.sched_priority = 1};

    nports = argc - 4;
    if (nports < 1) {
        fprintf(stderr, "usage: vcluster_relay NS_PER_BYTE LATENCY_NS FREE PORT...\n");
        return 2;
    }
    ns_per_byte = strtod(argv[1], NULL);
    latency = strtoull(argv[2], NULL, 10);
    nfree = atoi(argv[3]);
    ports = calloc((size_t) nports, sizeof(*ports));
    struct pollfd *polled = calloc((size_t) nports, sizeof(*polled));
    if (NULL == ports || NULL == polled) {
        fail("no memory");
    }
    for (int i = 0; i < nports; i++) {
        open_port(&ports[i], argv[4 + i]);
        polled[i] = (struct pollfd){.fd = ports[i].fd, .events = POLLIN};
    }
    sched_setscheduler(0, SCHED_RR, &urgent); /* where it may; else it wakes up later on a busy machine */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t next = UINT64_MAX;
        struct timespec wait;

        for (int i = 0; i < nports; i++) {
            const uint64_t due = deliver(&ports[i], now_ns());
            next = due < next ? due : next;
        }
        const uint64_t now = now_ns(), left = next > now ? next - now : 0;
        wait = (struct timespec){.tv_sec = (time_t) (left / 1000000000u), .tv_nsec = (long) (left % 1000000000u)};
        if (ppoll(polled, (nfds_t) nports, UINT64_MAX == next ? NULL : &wait, NULL) < 0 && EINTR != errno) {
            fail("ppoll");
        }
        for (int i = 0; i < nports; i++) {
            if (0 != polled[i].revents) {
                receive(&ports[i]);
            }
        }
    }
}
