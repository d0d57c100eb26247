/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The timeline.
 *
 * All processes of a run append to one file, an array of Chrome trace events: each takes the file's lock, cuts the
 * closing bracket off, adds its events and closes the array again. So the file is valid JSON at any time, even if a
 * process dies. Spans are kept in memory until the process ends or the trace is turned off.
 */
#include "sim_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cudasim.h"
#include "sim_model.h"

#define MAX_SPANS ((size_t) 1 << 18)
#define STREAM_TRACKS 1000 /* streams' tracks are numbered from here; threads' from 1 */

struct span {
    const char *name;
    uint64_t track, begin, end;
};

static const char *path;
static _Atomic bool on;
static pthread_mutex_t trace_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct span *spans;
static size_t nspans, spans_room;
static _Atomic uint64_t next_thread = 1;
static bool named, said;

int sim_trace_setup(void)
{
    const char *text = getenv("CUDASIM_TRACE");

    if (NULL == text || '\0' == text[0]) {
        return 0;
    }
    if (!sim_model.on) {
        fprintf(stderr, "cudasim: CUDASIM_TRACE needs CUDASIM_MODEL: without a model there is no time to show\n");
        return -1;
    }
    int fd = open(text, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        fprintf(stderr, "cudasim: CUDASIM_TRACE: %s: %s\n", text, strerror(errno));
        return -1;
    }
    close(fd);
    path = strdup(text); /* the program may change its environment */
    on = NULL != path;
    return on ? 0 : -1;
}

static void note(const char *name, uint64_t track, uint64_t begin, uint64_t end)
{
    pthread_mutex_lock(&trace_mutex);
    if (nspans == spans_room && spans_room < MAX_SPANS) {
        const size_t room = 0 == spans_room ? 1024 : 2 * spans_room;
        struct span *grown = realloc(spans, room * sizeof(*grown));
        if (NULL != grown) {
            spans = grown;
            spans_room = room;
        }
    }
    if (nspans < spans_room) {
        spans[nspans++] = (struct span){name, track, begin, end};
    } else if (!said) {
        said = true;
        fprintf(stderr, "cudasim: CUDASIM_TRACE: more than %zu spans; the rest is left out\n", nspans);
    }
    pthread_mutex_unlock(&trace_mutex);
}

void sim_trace_call(const char *name, uint64_t begin, uint64_t end)
{
    static _Thread_local uint64_t thread;

    if (!atomic_load_explicit(&on, memory_order_relaxed)) {
        return;
    }
    if (0 == thread) {
        thread = atomic_fetch_add(&next_thread, 1);
    }
    note(name, thread, begin, end);
}

void sim_trace_work(const char *name, uint64_t stream, uint64_t begin, uint64_t end)
{
    if (atomic_load_explicit(&on, memory_order_relaxed)) {
        note(name, STREAM_TRACKS + stream, begin, end);
    }
}

static double microseconds(uint64_t ns)
{
    return (double) ns / 1e3 / sim_model.dilation;
}

/* The process's name in the picture: its rank, where a launcher gave it one. */
static const char *rank(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");

    text = NULL == text ? getenv("PMIX_RANK") : text;
    return NULL == text || strlen(text) != strspn(text, "0123456789") ? "?" : text;
}

static void write_spans(FILE *file, bool first)
{
    /* Processes of two nodes may have the same pid. */
    const int pid = '?' == rank()[0] ? (int) getpid() : atoi(rank()) + 1;

    if (!named) {
        fprintf(file, "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %s\"}}",
                first ? "" : ",\n", pid, rank());
        first = false;
        named = true;
    }
    for (size_t i = 0; i < nspans; i++) {
        const struct span *span = &spans[i];
        fprintf(file,
                "%s{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%llu,\"ts\":%.3f,\"dur\":%.3f}",
                first ? "" : ",\n", span->name, span->track < STREAM_TRACKS ? "host" : "gpu", pid,
                (unsigned long long) span->track, microseconds(span->begin),
                microseconds(span->end > span->begin ? span->end - span->begin : 0));
        first = false;
    }
}

void sim_trace_flush(void)
{
    if (NULL == path) {
        return;
    }
    pthread_mutex_lock(&trace_mutex);
    int fd = nspans > 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    FILE *file = fd < 0 || 0 != flock(fd, LOCK_EX) ? NULL : fdopen(fd, "r+");
    if (NULL != file) {
        struct stat status;
        const bool empty = 0 != fstat(fd, &status) || status.st_size < 3;
        if (empty) {
            fputs("[\n", file);
        } else {
            fseek(file, -2, SEEK_END); /* on the line end before the bracket */
        }
        write_spans(file, empty);
        fputs("\n]", file);
        fclose(file); /* gives the lock back */
    } else if (fd >= 0) {
        close(fd);
    }
    nspans = 0;
    pthread_mutex_unlock(&trace_mutex);
}

__attribute__((visibility("default"))) void cudasim_trace(int wanted)
{
    on = NULL != path && 0 != wanted;
    if (!wanted) {
        sim_trace_flush();
    }
}
