/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors that one process sends another: the one that was asked for comes, once, and leads to the same file. What
 * does not fit is refused at once, whatever else comes is closed, and so is what is not taken.
 */
#include "ompi_config.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/coll_gpuhier_fd_passing.h"

#define MANY 800
#define KEPT 256 /* descriptors that stay when they are not taken */

static uint64_t parent_word, child_word;
static int failures;

static void check(bool right, const char *what)
{
    if (!right) {
        ++failures;
        fprintf(stderr, "test_fd_passing: %s\n", what);
    }
}

static int open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    while (NULL != folder && NULL != readdir(folder)) {
        ++n;
    }
    closedir(folder);
    return n;
}

static gpuhier_fd_key_t key_of(uint64_t id)
{
    return (gpuhier_fd_key_t){.process = child_word, .base = 0x10000, .id = id};
}

/* Runs a part in a process of its own, which has a socket of its own, and waits for it. Returns its status. */
static int in_child(int (*part)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (0 == pid) {
        gpuhier_fd_passing_finalize(); /* the parent's */
        _exit(part());
    }
    check(pid == waitpid(pid, &status, 0) && WIFEXITED(status), "a process died");
    return WEXITSTATUS(status);
}

static int send_number(uint64_t id)
{
    const gpuhier_fd_key_t fd_key = key_of(id);
    int file = memfd_create("descriptor", MFD_CLOEXEC);
    const bool sent = sizeof(id) == write(file, &id, sizeof(id)) && 0 == gpuhier_fd_send(&fd_key, file, parent_word);
    close(file);
    return sent;
}

static int send_one(void)
{
    return send_number(7);
}

/* Until the socket is full. Returns the number. */
static int send_many(void)
{
    int sent = 0;
    while (sent < MANY && send_number((uint64_t) (1000 + sent))) {
        ++sent;
    }
    return sent;
}

/* What no rank sends: `bytes` of text with n descriptors. */
static void send_junk(const char *text, size_t bytes, int n)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    const int file = memfd_create("junk", MFD_CLOEXEC), files[4] = {file, file, file, file};
    const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int length =
        snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "gpuhier-%016llx", (unsigned long long) parent_word);
    char copy[64] = "";
    memcpy(copy, text, bytes);
    memset(&control, 0, sizeof(control));
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN((size_t) n * sizeof(int));
    memcpy(CMSG_DATA(&control.head), files, (size_t) n * sizeof(int));
    struct iovec data = {.iov_base = copy, .iov_len = bytes};
    struct msghdr message = {.msg_name = &name,
                             .msg_namelen = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length),
                             .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = n > 0 ? &control : NULL,
                             .msg_controllen = n > 0 ? CMSG_SPACE((size_t) n * sizeof(int)) : 0};
    if ((ssize_t) bytes != sendmsg(from, &message, 0)) {
        _exit(0);
    }
}

static int send_all_junk(void)
{
    struct {
        uint64_t magic;
        gpuhier_fd_key_t fd_key;
    } letter = {0x67707568696c6531ull, key_of(5)}, wrong = {1, key_of(5)};
    send_junk("", 0, 0);
    send_junk("short", 5, 1);
    send_junk((const char *) &letter, sizeof(letter), 0);
    send_junk((const char *) &letter, sizeof(letter), 2);
    send_junk((const char *) &letter, sizeof(letter), 4);
    send_junk((const char *) &letter, sizeof(letter) - 1, 1);
    send_junk((const char *) &wrong, sizeof(wrong), 1);
    return 1;
}

static int take(uint64_t id)
{
    const gpuhier_fd_key_t fd_key = key_of(id);
    return gpuhier_fd_take(&fd_key, parent_word);
}

/* The number in a descriptor that has come, which is closed; 0: none has. */
static uint64_t take_number(uint64_t id)
{
    uint64_t number = 0;
    const int file = take(id);
    if (file >= 0) {
        check(sizeof(number) == pread(file, &number, sizeof(number), 0), "a descriptor leads to another file");
        close(file);
    }
    return number;
}

static void run_one(void)
{
    check(0 == in_child(send_one), "a process without a socket got something");
    check(GPUHIER_FD_MISSING == take(7), "a descriptor that was never sent");
    check(1 == in_child(send_one), "nothing could be sent");
    check(GPUHIER_FD_MISSING == take(8), "another descriptor than that which was asked for");
    check(7 == take_number(7), "the descriptor has not come");
    check(GPUHIER_FD_MISSING == take(7), "it came twice");
}

static void run_many(void)
{
    const int files = open_files(), first = in_child(send_many);
    check(first > 0 && first < MANY, "the socket is never full");
    for (int i = first - 1; i >= 0; --i) {
        check((uint64_t) (1000 + i) == take_number((uint64_t) (1000 + i)), "one of many has not come");
    }
    check(files == open_files(), "descriptors are left that were taken");
    int sent = 0;
    for (int round = 0; round < MANY && sent < 3 * KEPT; ++round) {
        sent += in_child(send_many);
        check(GPUHIER_FD_MISSING == take(1), "a descriptor that was never sent"); /* makes room in the socket */
    }
    check(sent >= 3 * KEPT && files + KEPT == open_files(), "descriptors stay that no peer takes");
    gpuhier_fd_passing_finalize();
    check(files - 1 == open_files(), "a descriptor is open at the end");
    check(GPUHIER_FD_MISSING == take(1000) && files == open_files(), "the socket cannot be had again");
}

static void run_junk(void)
{
    const int files = open_files();
    check(1 == in_child(send_all_junk), "junk could not be sent");
    check(-1 == take(5), "what comes without a descriptor is not told apart");
    check(GPUHIER_FD_MISSING == take(5), "junk was taken for a descriptor");
    check(files == open_files(), "descriptors that came with junk are open");
}

int main(void)
{
    parent_word = 0x1000000000000000ull + (uint64_t) getpid();
    child_word = 0x2000000000000000ull + (uint64_t) getpid();
    run_one();
    run_many();
    run_junk();
    gpuhier_fd_passing_finalize();
    return 0 == failures ? 0 : 1;
}
