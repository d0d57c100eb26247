/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the events of this process and their ring, and its ranges of NVTX. coll_gpuhier_trace_file.c writes them to the
 * file.
 */
#include "ompi_config.h"

#include <ctype.h>
#include <errno.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_trace.h"
#include "ompi/datatype/ompi_datatype.h"
#include "opal/util/proc.h"

static struct {
    gpuhier_trace_event_t *event; /* [GPUHIER_TRACE_EVENTS], or NULL */
    uint64_t count;               /* events ever put in; the next one's place is modulo the size */
    double origin;
} ring;
static bool has_ranges;
bool gpuhier_trace_on;
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

/*
 * Ranges of NVTX, which profilers such as Nsight Systems show beside the program's own: one for each call, with the
 * bytes of its message. NVTX 3 is a header of the CUDA toolkit and no library: a profiler sets NVTX_INJECTION64_PATH to
 * its own library, which the header's code loads. In a process without a profiler there are no ranges, and nothing is
 * loaded. A range that is pushed lies in those that its thread has begun; one that is started may end on any thread.
 */
#if __has_include(<nvtx3/nvToolsExt.h>)
#    include <nvtx3/nvToolsExt.h>

static nvtxDomainHandle_t domain;

static bool ranges_open(void)
{
    domain = nvtxDomainCreateA("gpuhier");
    return NULL != domain;
}

/* The range of a blocking call is pushed. */
static void range_begin(gpuhier_trace_event_t *event, const char *name)
{
    const nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                              .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                              .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                              .message.ascii = name,
                                              .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                              .payload.ullValue = event->bytes};
    if (GPUHIER_TRACE_BLOCKING == event->way) {
        (void) nvtxDomainRangePushEx(domain, &attributes);
    } else {
        event->range = nvtxDomainRangeStartEx(domain, &attributes);
    }
}

static void range_end(const gpuhier_trace_event_t *event)
{
    if (GPUHIER_TRACE_BLOCKING == event->way) {
        (void) nvtxDomainRangePop(domain);
    } else {
        nvtxDomainRangeEnd(domain, event->range);
    }
}

#else /* a toolkit without NVTX 3 */

static bool ranges_open(void)
{
    return false;
}

static void range_begin(gpuhier_trace_event_t *event, const char *name)
{
    (void) event;
    (void) name;
}

static void range_end(const gpuhier_trace_event_t *event)
{
    (void) event;
}
#endif

void gpuhier_trace_open(void)
{
    has_ranges = ranges_open();
    gpuhier_trace_on = has_ranges || NULL != gpuhier_params.trace;
    if (NULL == gpuhier_params.trace) {
        return;
    }
    ring.event = malloc(sizeof(*ring.event) * GPUHIER_TRACE_EVENTS);
    ring.count = 0;
    ring.origin = gpuhier_clock();
    if (0 == OPAL_PROC_MY_NAME.vpid) {
        FILE *file = fopen(gpuhier_params.trace, "a"); /* creates the file, or keeps its contents */
        if (NULL == file) {
            gpuhier_help("no trace", gpuhier_params.trace, strerror(errno));
        } else {
            fclose(file);
        }
    }
}

void gpuhier_trace_close(void)
{
    free(ring.event);
    ring.event = NULL;
    ring.count = 0;
    gpuhier_trace_on = false;
}

/* text: [bytes] gets the name, cut to fit. */
static void name_copy(char *text, size_t bytes, const char *name)
{
    const size_t length = strnlen(name, bytes - 1);
    memcpy(text, name, length);
    text[length] = '\0';
}

/* The name of an operation. Open MPI's header with the field for it includes a header that is not installed. */
static const char *op_name(const struct ompi_op_t *op)
{
    const struct {
        MPI_Op op;
        const char *name;
    } known[] = {{MPI_SUM, "MPI_SUM"},        {MPI_PROD, "MPI_PROD"},     {MPI_MAX, "MPI_MAX"},
                 {MPI_MIN, "MPI_MIN"},        {MPI_LAND, "MPI_LAND"},     {MPI_LOR, "MPI_LOR"},
                 {MPI_LXOR, "MPI_LXOR"},      {MPI_BAND, "MPI_BAND"},     {MPI_BOR, "MPI_BOR"},
                 {MPI_BXOR, "MPI_BXOR"},      {MPI_MAXLOC, "MPI_MAXLOC"}, {MPI_MINLOC, "MPI_MINLOC"},
                 {MPI_REPLACE, "MPI_REPLACE"}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        if (op == known[i].op) {
            return known[i].name;
        }
    }
    return NULL == op ? "none" : "the program's own";
}

void gpuhier_trace_begin(gpuhier_trace_event_t *event, gpuhier_trace_way_t way, const char *name,
                         const struct ompi_communicator_t *comm, const struct ompi_datatype_t *dtype,
                         const struct ompi_op_t *op, size_t count)
{
    memset(event, 0, sizeof(*event)); /* ranks send the padding, too */
    event->begin = gpuhier_clock();
    event->way = (uint8_t) way;
    event->count = count;
    event->bytes = count * dtype->super.size;
    event->marks = 1; /* the first phase begins with the call */
    if (GPUHIER_TRACE_NONBLOCKING == way) {
        snprintf(event->name, sizeof(event->name), "MPI_I%c%s", tolower((unsigned char) name[4]), name + 5);
    } else {
        snprintf(event->name, sizeof(event->name), "%s%s", name, GPUHIER_TRACE_PERSISTENT == way ? "_init" : "");
    }
    name_copy(event->type, sizeof(event->type), dtype->name);
    name_copy(event->op, sizeof(event->op), op_name(op));
    name_copy(event->comm, sizeof(event->comm), comm->c_name);
    if (has_ranges && GPUHIER_TRACE_PERSISTENT != way) {
        range_begin(event, event->name);
    }
}

void gpuhier_trace_again(gpuhier_trace_event_t *event)
{
    event->begin = gpuhier_clock();
    event->marks = 1;
    memset(event->stage, 0, sizeof(event->stage));
    if (has_ranges) {
        char text[48];
        snprintf(text, sizeof(text), "MPI_Start of %s", event->name);
        range_begin(event, text);
    }
}

void gpuhier_trace_phase(gpuhier_trace_event_t *event, gpuhier_trace_phase_t phase)
{
    if (event->phase[event->marks - 1] != phase && event->marks < GPUHIER_TRACE_MARKS) {
        event->phase[event->marks] = (uint8_t) phase;
        event->since[event->marks++] = (float) (gpuhier_clock() - event->begin);
    }
}

void gpuhier_trace_stage(gpuhier_trace_event_t *event, int stage, uint64_t begun, uint64_t done, uint64_t of)
{
    float *span = event->stage[stage];
    if (begun > 0 && 0 == span[0]) {
        span[0] = (float) (gpuhier_clock() - event->begin);
    }
    if (of > 0 && done == of && 0 == span[1]) {
        span[1] = (float) (gpuhier_clock() - event->begin);
    }
}

void gpuhier_trace_end(gpuhier_trace_event_t *event)
{
    event->end = gpuhier_clock();
    if (has_ranges) {
        range_end(event);
    }
    if (NULL == gpuhier_params.trace) {
        return;
    }
    opal_mutex_lock(&lock);
    if (NULL != ring.event) {
        ring.event[ring.count % GPUHIER_TRACE_EVENTS] = *event;
    }
    ++ring.count;
    opal_mutex_unlock(&lock);
}

void gpuhier_trace_end_left(gpuhier_trace_event_t *event, gpuhier_reason_t reason)
{
    event->reason = (uint8_t) reason;
    event->path = event->is_staged ? GPUHIER_TRACE_PATH_STAGED : GPUHIER_TRACE_PATH_SAVED;
    gpuhier_trace_end(event);
}

gpuhier_trace_kept_t gpuhier_trace_kept(void)
{
    opal_mutex_lock(&lock);
    const uint64_t room = NULL == ring.event ? 0 : GPUHIER_TRACE_EVENTS;
    gpuhier_trace_kept_t kept = {.event = ring.event, .events = ring.count < room ? ring.count : room};
    kept.dropped = ring.count - kept.events;
    kept.origin = ring.origin;
    opal_mutex_unlock(&lock);
    return kept;
}
