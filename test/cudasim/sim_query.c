/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Queries: whether work is done, as the host can know it.
 *
 * Owns what CUDASIM_LEGACY_QUERY says. Does not own the work (sim_engine.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_engine.h"
#include "sim_model.h"

static bool wide_query; /* a query of the legacy default stream looks at the blocking streams as well */

int sim_query_setup(void)
{
    const char *text = getenv("CUDASIM_LEGACY_QUERY");

    wide_query = NULL != text && 0 == strcmp(text, "blocking");
    if (NULL != text && '\0' != text[0] && !wide_query && 0 != strcmp(text, "alone")) {
        fprintf(stderr, "cudasim: CUDASIM_LEGACY_QUERY is '%s'; alone or blocking is expected\n", text);
        return -1;
    }
    return 0;
}

/* Is the work done, and does the host know? */
static bool is_known(CUstream stream, uint64_t seq)
{
    return sim_stream_done(stream, seq)
           && (!sim_model.on || 0 == seq || sim_model_is_visible(sim_stream_end(stream, seq)));
}

bool sim_stream_poll(CUstream stream, uint64_t seq)
{
    return is_known(stream, seq) || sim_stream_ask(stream, seq);
}

bool sim_stream_query(CUstream stream)
{
    uint64_t seq;

    sim_engine_lock();
    seq = stream->submitted;
    sim_engine_unlock();
    return sim_stream_poll(stream, seq);
}

/* A blocking stream of the context with work under way, and its last piece. */
static CUstream busy_blocking(CUcontext ctx, uint64_t *seq_p)
{
    CUstream stream;

    sim_engine_lock();
    for (stream = ctx->streams; NULL != stream; stream = stream->next) {
        *seq_p = stream->submitted;
        if (stream->blocking && stream != ctx->legacy && !is_known(stream, *seq_p)) {
            break;
        }
    }
    sim_engine_unlock();
    return stream;
}

bool sim_stream_query_all(CUstream legacy)
{
    uint64_t seq;
    CUstream stream;

    while (wide_query && NULL != (stream = busy_blocking(legacy->ctx, &seq))) {
        if (!sim_stream_poll(stream, seq)) {
            return false;
        }
    }
    return sim_stream_query(legacy);
}
