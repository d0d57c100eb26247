/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the file of the trace: Chrome's trace format, which Perfetto and chrome://tracing read. Rank 0 takes the other
 * ranks' events one rank after the other, so it never has more of them in memory than one rank's.
 *
 * The nodes' clocks differ. Before a rank sends, rank 0 asks it for its clock several times, and uses the answer that
 * came fastest: the other clock was read in the middle of that round trip, give or take half of it. A smaller
 * difference counts as none. The kernel keeps the rates of clocks equal where nodes run NTP or PTP, so one difference
 * serves all events.
 *
 * In the file, a rank is a process. Calls that overlap in time stand on lines of their own.
 */
#include "ompi_config.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <unistd.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_trace.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#define TAG MCA_COLL_BASE_TAG_EXSCAN /* of blocking collectives, none of which runs when MPI_Finalize begins */
#define PATIENCE 60.0                /* seconds for one message; all ranks are there */
#define TURN 2.0                     /* seconds for all that a rank sends, and for writing it; far less is usual */
#define ASKS 10                      /* questions for a rank's clock */
#define LINES 64                     /* lines of a rank; more calls than that at once share the last one */
#define LINE_STEP 10                 /* thread numbers of a line: one for its calls, then one for each stage */

/* What a rank says before its events. */
typedef struct head {
    char host[64];
    int32_t pid;
    uint32_t reserved;
    uint64_t events, dropped;
} head_t;

/* A rank's part of the file. */
typedef struct part {
    int rank;
    head_t head;
    double ahead;  /* seconds: its clock less rank 0's */
    double unsure; /* seconds: how far `ahead` may be wrong */
} part_t;

/* Sends or receives. Returns false if that failed, or took longer than `patience`. The data must then stay in place,
 * since Open MPI may still use them. */
static bool message_within(double patience, bool send, void *data, size_t bytes, int peer)
{
    ompi_request_t *request = NULL;
    const double begin = gpuhier_clock();
    int rc = send ? MCA_PML_CALL(
                 isend(data, bytes, MPI_BYTE, peer, TAG, MCA_PML_BASE_SEND_STANDARD, MPI_COMM_WORLD, &request))
                  : MCA_PML_CALL(irecv(data, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request));
    if (OMPI_SUCCESS != rc) {
        return false;
    }
    while (!REQUEST_COMPLETE(request)) {
        if (gpuhier_clock() - begin > patience) {
            return false;
        }
        opal_progress();
    }
    rc = request->req_status.MPI_ERROR;
    (void) ompi_request_free(&request);
    return MPI_SUCCESS == rc;
}

static bool message(bool send, void *data, size_t bytes, int peer)
{
    return message_within(PATIENCE, send, data, bytes, peer);
}

static head_t head_make(const gpuhier_trace_kept_t *kept)
{
    head_t head = {.pid = (int32_t) getpid(), .events = kept->events, .dropped = kept->dropped};
    (void) gethostname(head.host, sizeof(head.host) - 1);
    return head;
}

/* A rank other than 0. What it sends lives as long as the process, in case a message fails. Its wait for the first
 * question is longer, since rank 0 asks all lower ranks first. A question that is NaN says that none follows. */
static void part_send(const gpuhier_trace_kept_t *kept, int rank)
{
    static double asked, answer;
    static head_t head;
    head = head_make(kept);
    bool ok = true;
    for (int i = 0; i < ASKS && ok; ++i) {
        ok = message_within(PATIENCE + (0 == i ? TURN * rank : 0), false, &asked, sizeof(asked), 0) && !isnan(asked);
        answer = gpuhier_clock();
        ok = ok && message(true, &answer, sizeof(answer), 0);
    }
    ok = ok && message(true, &head, sizeof(head), 0);
    if (ok && kept->events > 0) {
        (void) message(true, kept->event, kept->events * sizeof(*kept->event), 0);
    }
}

/* Rank 0: tells the ranks from this one on that it asks them nothing. */
static void rest_dismiss(int rank, int nranks)
{
    static double none = NAN;
    for (; rank < nranks; ++rank) {
        (void) message_within(1.0, true, &none, sizeof(none), rank);
    }
}

/* Rank 0: asks a rank for its clock, then receives its events. events: room for a rank's ring. */
static bool part_receive(part_t *part, gpuhier_trace_event_t *events)
{
    static double asked, answer;
    static head_t head;
    double shortest = INFINITY;
    for (int i = 0; i < ASKS; ++i) {
        asked = gpuhier_clock();
        if (!message(true, &asked, sizeof(asked), part->rank) || !message(false, &answer, sizeof(answer), part->rank)) {
            return false;
        }
        const double now = gpuhier_clock(), way = now - asked;
        if (way < shortest) {
            shortest = way;
            part->ahead = answer - (asked + now) / 2;
            part->unsure = way / 2;
        }
    }
    part->ahead = fabs(part->ahead) <= part->unsure ? 0 : part->ahead;
    if (!message(false, &head, sizeof(head), part->rank) || head.events > GPUHIER_TRACE_EVENTS) {
        return false;
    }
    part->head = head;
    part->head.host[sizeof(head.host) - 1] = '\0';
    return 0 == head.events || message(false, events, head.events * sizeof(*events), part->rank);
}

/* A text as JSON has it. */
static void text_write(FILE *file, const char *text)
{
    fputc('"', file);
    for (; '\0' != *text; ++text) {
        const unsigned char c = (unsigned char) *text;
        if ('"' == c || '\\' == c) {
            fprintf(file, "\\%c", c);
        } else if (c < 0x20 || c > 0x7e) {
            fprintf(file, "\\u%04x", c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

static void meta_write(FILE *file, const char *what, int rank, int thread, const char *name)
{
    fprintf(file, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, rank, thread);
    text_write(file, name);
    fprintf(file, "}}");
}

/* A span of time within the event. */
static void span_write(FILE *file, const char *name, const char *kind, int rank, int thread, double begin, double end)
{
    fprintf(file, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}",
            name, kind, rank, thread, 1e6 * begin, 1e6 * (end > begin ? end - begin : 0));
}

static const char *const stages[GPUHIER_TRACE_STAGES] = {
    "input",    "reduce-scatter",      "reduce-scatter, level 1", "reduce-scatter, level 2",
    "exchange", "all-gather, level 2", "all-gather, level 1",     "all-gather",
    "output"};

static void event_write(FILE *file, const gpuhier_trace_event_t *event, int rank, int line, double begin)
{
#define TEXT(name, text) text,
    static const char *const paths[] = {GPUHIER_TRACE_PATHS(TEXT)}, *const phases[] = {GPUHIER_TRACE_PHASES(TEXT)};
#undef TEXT
    static const char *const ways[] = {"blocking", "nonblocking", "persistent"};
    const double end = begin + (event->end - event->begin);
    const int thread = line * LINE_STEP;
    fprintf(
        file,
        ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"call\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{"
        "\"path\":\"%s\"",
        event->name, rank, thread, 1e6 * begin, 1e6 * (end - begin), paths[event->path]);
    if (event->path >= GPUHIER_TRACE_PATH_STAGED) {
        fprintf(file, ",\"reason\":");
        text_write(file, gpuhier_reason_text((gpuhier_reason_t) event->reason));
    }
    fprintf(file, ",\"way\":\"%s\",\"count\":%llu,\"bytes\":%llu,\"type\":", ways[event->way],
            (unsigned long long) event->count, (unsigned long long) event->bytes);
    text_write(file, event->type);
    fprintf(file, ",\"op\":");
    text_write(file, event->op);
    fprintf(file, ",\"comm\":");
    text_write(file, event->comm);
    fprintf(file, "%s}}", event->is_posted_only ? ",\"end\":\"not seen: the request is Open MPI's own\"" : "");
    for (int i = 0; i < event->marks; ++i) {
        const double until = i + 1 < event->marks ? begin + (double) event->since[i + 1] : end;
        span_write(file, phases[event->phase[i]], "phase", rank, thread, begin + (double) event->since[i],
                   until < end ? until : end);
    }
    for (int s = 0; s < GPUHIER_TRACE_STAGES; ++s) {
        if (event->stage[s][0] > 0) {
            span_write(file, stages[s], "stage", rank, thread + 1 + s, begin + (double) event->stage[s][0],
                       event->stage[s][1] > 0 ? begin + (double) event->stage[s][1] : end);
        }
    }
}

static int earlier(const void *a, const void *b)
{
    const double x = ((const gpuhier_trace_event_t *) a)->begin, y = ((const gpuhier_trace_event_t *) b)->begin;
    return x < y ? -1 : x > y;
}

/* Writes a rank's events. They are sorted here: calls enter the ring when they end. */
static void part_write(FILE *file, const part_t *part, gpuhier_trace_event_t *events, double origin)
{
    double busy_until[LINES];
    bool has_stages[LINES] = {false};
    int lines = 0;
    char name[128];
    qsort(events, (size_t) part->head.events, sizeof(*events), earlier);
    for (uint64_t i = 0; i < part->head.events; ++i) {
        int line = 0;
        while (line < lines && line < LINES - 1 && busy_until[line] > events[i].begin) {
            ++line;
        }
        lines = line < lines ? lines : line + 1;
        busy_until[line] = events[i].end;
        for (int s = 0; s < GPUHIER_TRACE_STAGES; ++s) {
            has_stages[line] = has_stages[line] || events[i].stage[s][0] > 0;
        }
        event_write(file, &events[i], part->rank, line, events[i].begin - part->ahead - origin);
    }
    snprintf(name, sizeof(name), "rank %d on %s, pid %d", part->rank, part->head.host, (int) part->head.pid);
    meta_write(file, "process_name", part->rank, 0, name);
    fprintf(file, ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
            part->rank, part->rank);
    for (int line = 0; line < lines; ++line) {
        meta_write(file, "thread_name", part->rank, line * LINE_STEP, "calls");
        for (int s = 0; s < GPUHIER_TRACE_STAGES && has_stages[line]; ++s) {
            meta_write(file, "thread_name", part->rank, line * LINE_STEP + 1 + s, stages[s]);
        }
    }
}

/* Opens the job's file. A job that another job has spawned has a file with a name of its own. */
static FILE *file_open(char *name, size_t bytes)
{
    MPI_Comm parent = MPI_COMM_NULL;
    (void) PMPI_Comm_get_parent(&parent);
    if (MPI_COMM_NULL == parent) {
        snprintf(name, bytes, "%s", gpuhier_params.trace);
    } else {
        snprintf(name, bytes, "%s.%u", gpuhier_params.trace, (unsigned) OPAL_PROC_MY_NAME.jobid);
    }
    return fopen(name, "w");
}

/* Rank 0. */
static bool file_write(FILE *file, const gpuhier_trace_kept_t *kept, int nranks)
{
    gpuhier_trace_event_t *events = malloc(sizeof(*events) * GPUHIER_TRACE_EVENTS);
    part_t *parts = calloc((size_t) nranks, sizeof(*parts));
    bool ok = NULL != events && NULL != parts;
    if (!ok) {
        rest_dismiss(1, nranks);
    }
    fprintf(file,
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"args\":{}}");
    for (int rank = 0; rank < nranks && ok; ++rank) {
        part_t *part = &parts[rank];
        part->rank = rank;
        if (0 == rank) {
            part->head = head_make(kept);
            for (uint64_t i = 0; i < kept->events; ++i) {
                events[i] = kept->event[i];
            }
        } else if (!part_receive(part, events)) {
            opal_output(0, "coll:gpuhier: rank %d did not send its events: the trace ends before it", rank);
            rest_dismiss(rank + 1, nranks);
            nranks = rank;
            events = NULL; /* Open MPI may still write there */
            break;
        }
        part_write(file, part, events, kept->origin);
    }
    fprintf(file, "\n],\n\"otherData\":{\"ranks\":[");
    for (int rank = 0; rank < nranks && ok; ++rank) {
        const part_t *part = &parts[rank];
        fprintf(file, "%s\n{\"rank\":%d,\"host\":", 0 == rank ? "" : ",", rank);
        text_write(file, part->head.host);
        fprintf(file, ",\"events\":%llu,\"dropped\":%llu,\"clock_ahead_us\":%.3f,\"clock_unsure_us\":%.3f}",
                (unsigned long long) part->head.events, (unsigned long long) part->head.dropped, 1e6 * part->ahead,
                1e6 * part->unsure);
    }
    fprintf(file, "\n]}}\n");
    free(events);
    free(parts);
    return ok;
}

void gpuhier_trace_write(bool all)
{
    const gpuhier_trace_kept_t kept = gpuhier_trace_kept();
    const int rank = ompi_comm_rank(MPI_COMM_WORLD);
    if (0 != rank) {
        if (all) {
            part_send(&kept, rank);
        }
        return;
    }
    char name[4096];
    FILE *file = file_open(name, sizeof(name));
    const int problem = errno;
    FILE *sink = NULL != file ? file : fopen("/dev/null", "w"); /* the other ranks send in any case */
    if (!all && ompi_comm_size(MPI_COMM_WORLD) > 1) {
        opal_output(0, "coll:gpuhier: the trace has rank 0's calls only: not all ranks have gpuhier, the same "
                       "parameters and a CUDA driver");
    }
    const int nranks = all ? ompi_comm_size(MPI_COMM_WORLD) : 1;
    if (NULL == sink) {
        rest_dismiss(1, nranks);
    }
    const locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t) 0); /* JSON has a point, whatever the program's has */
    const locale_t before = uselocale(c);
    bool ok = NULL != sink && file_write(sink, &kept, nranks);
    (void) uselocale(before);
    if ((locale_t) 0 != c) {
        freelocale(c);
    }
    ok = NULL != sink && 0 == ferror(sink) && ok;
    ok = NULL != sink && 0 == fclose(sink) && ok;
    if (NULL == file || !ok) {
        gpuhier_help("no trace", name, NULL == file ? strerror(problem) : "could not write");
    }
}
