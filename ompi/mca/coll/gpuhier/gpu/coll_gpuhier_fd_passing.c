/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the socket by which descriptors come and go, and those that have come and were not taken yet. Does not know what
 * they are. Called by the cache of mappings.
 *
 * A descriptor keeps memory alive, so the list is short, and none stays on it for long. If a peer asks for a descriptor
 * that was closed, it says so in its record and is sent another one.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_clock.h"
#include "gpu/coll_gpuhier_fd_passing.h"
#include "ompi/constants.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ARRIVED_MAX 256    /* descriptors that were not taken */
#define ARRIVED_SECONDS 60 /* how long they stay */
#define LETTERS_MAX 128    /* read at a time */
#define LETTER_MAGIC 0x67707568696c6531ull

/* What comes with a descriptor. */
typedef struct letter {
    uint64_t magic;
    gpuhier_fd_key_t fd_key;
} letter_t;

typedef union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
} control_t;

typedef struct arrived {
    gpuhier_fd_key_t fd_key;
    int file; /* -1: the sender has none, or this process may open no more */
    double time;
} arrived_t;

static arrived_t arrived[ARRIVED_MAX]; /* the oldest first */
static int narrived;
static int the_socket = -1;
static bool refused; /* the system gives no socket */
static uint64_t process_word;

uint64_t gpuhier_process_word(void)
{
    while (0 == process_word) {
        if (sizeof(process_word) != getrandom(&process_word, sizeof(process_word), 0)) {
            process_word = 0;
        }
    }
    return process_word;
}

/* The name of a process's socket. Returns its length. */
static socklen_t name_of(uint64_t process, struct sockaddr_un *name)
{
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    const int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "gpuhier-%016" PRIx64, process);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length);
}

bool gpuhier_fd_passing_open(uint64_t me)
{
    if (the_socket >= 0 || refused) {
        return !refused;
    }
    struct sockaddr_un name;
    const socklen_t length = name_of(me, &name);
    const int yes = 1;
    the_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    refused = the_socket < 0 || 0 != setsockopt(the_socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes))
              || 0 != bind(the_socket, (struct sockaddr *) &name, length);
    if (refused && the_socket >= 0) {
        close(the_socket);
        the_socket = -1;
    }
    return !refused;
}

static void arrived_drop(int i)
{
    --narrived;
    memmove(&arrived[i], &arrived[i + 1], sizeof(arrived[0]) * (size_t) (narrived - i));
}

static void arrived_close(int i)
{
    if (arrived[i].file >= 0) {
        close(arrived[i].file);
    }
    arrived_drop(i);
}

static void arrived_add(const gpuhier_fd_key_t *fd_key, int file)
{
    if (ARRIVED_MAX == narrived) {
        arrived_close(0);
    }
    arrived[narrived++] = (arrived_t){.fd_key = *fd_key, .file = file, .time = gpuhier_clock_coarse()};
}

/* The descriptor in a message; -1: it has none, or several, which are closed. *trusted_p: it comes from a process of
 * the same user, and has at most one. */
static int descriptor_of(struct msghdr *message, bool *trusted_p)
{
    int file = -1, files = 0;
    bool trusted = false;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); NULL != part; part = CMSG_NXTHDR(message, part)) {
        if (SOL_SOCKET == part->cmsg_level && SCM_CREDENTIALS == part->cmsg_type) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(part), sizeof(who));
            trusted = getuid() == who.uid;
        } else if (SOL_SOCKET == part->cmsg_level && SCM_RIGHTS == part->cmsg_type) {
            const size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < n; ++i) {
                if (0 < files++) {
                    close(file);
                }
                memcpy(&file, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            }
        }
    }
    *trusted_p = trusted && files <= 1;
    if (files > 0 && !*trusted_p) {
        close(file);
        file = -1;
    }
    return file;
}

/* Receives one message. Returns false when there is none. */
static bool receive(void)
{
    letter_t letter;
    control_t control;
    struct iovec data = {.iov_base = &letter, .iov_len = sizeof(letter)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    const ssize_t bytes = recvmsg(the_socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0) {
        return EINTR == errno;
    }
    bool trusted;
    const int file = descriptor_of(&message, &trusted);
    if (trusted && (ssize_t) sizeof(letter) == bytes && LETTER_MAGIC == letter.magic) {
        arrived_add(&letter.fd_key, file);
    } else if (file >= 0) {
        close(file);
    }
    return true;
}

static void receive_all(void)
{
    for (int i = 0; i < LETTERS_MAX && receive(); ++i) {
    }
    while (narrived > 0 && arrived[0].time + ARRIVED_SECONDS < gpuhier_clock_coarse()) {
        arrived_close(0);
    }
}

int gpuhier_fd_send(const gpuhier_fd_key_t *fd_key, int file, uint64_t to)
{
    if (!gpuhier_fd_passing_open(fd_key->process)) {
        return OMPI_ERR_UNREACH;
    }
    struct sockaddr_un name;
    letter_t letter = {.magic = LETTER_MAGIC, .fd_key = *fd_key};
    control_t control;
    memset(&control, 0, sizeof(control));
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(file));
    memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
    struct iovec data = {.iov_base = &letter, .iov_len = sizeof(letter)};
    const struct msghdr message = {.msg_name = &name,
                                   .msg_namelen = name_of(to, &name),
                                   .msg_iov = &data,
                                   .msg_iovlen = 1,
                                   .msg_control = file >= 0 ? &control : NULL,
                                   .msg_controllen = file >= 0 ? CMSG_SPACE(sizeof(file)) : 0};
    ssize_t bytes;
    do {
        bytes = sendmsg(the_socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (bytes < 0 && EINTR == errno);
    if ((ssize_t) sizeof(letter) == bytes) {
        return OMPI_SUCCESS;
    }
    /* ETOOMANYREFS: the user's processes have sent each other as many descriptors as they may, and not taken them. */
    const bool is_busy = EAGAIN == errno || ETOOMANYREFS == errno;
    if (is_busy) {
        receive_all(); /* the peer may be waiting for room here */
    }
    return is_busy ? OMPI_ERR_RESOURCE_BUSY : OMPI_ERR_UNREACH;
}

/* Place in the list, of the latest one; -1: it is not there. */
static int arrived_find(const gpuhier_fd_key_t *fd_key)
{
    int i = narrived - 1;
    while (i >= 0 && 0 != memcmp(fd_key, &arrived[i].fd_key, sizeof(*fd_key))) {
        --i;
    }
    return i;
}

int gpuhier_fd_take(const gpuhier_fd_key_t *fd_key, uint64_t me)
{
    if (!gpuhier_fd_passing_open(me)) {
        return GPUHIER_FD_MISSING;
    }
    int i = arrived_find(fd_key);
    if (i < 0) {
        receive_all();
        i = arrived_find(fd_key);
    }
    const int file = i < 0 ? GPUHIER_FD_MISSING : arrived[i].file;
    if (i >= 0) {
        arrived_drop(i);
    }
    return file;
}

void gpuhier_fd_passing_wait(int milliseconds)
{
    struct pollfd wanted = {.fd = the_socket, .events = POLLIN};
    (void) poll(&wanted, 1, milliseconds);
}

void gpuhier_fd_passing_finalize(void)
{
    if (the_socket >= 0) {
        receive_all();
        close(the_socket);
        the_socket = -1;
    }
    while (narrived > 0) {
        arrived_close(narrived - 1);
    }
    refused = false;
}
