/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The timeline (CUDASIM_TRACE): driver calls and work on streams, for Perfetto.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdint.h>

/* Reads CUDASIM_TRACE. Returns 0, or -1 after a message. */
int sim_trace_setup(void);

/* Notes a span, in real ns: a call of this thread, or work of a stream. The names must stay. */
void sim_trace_call(const char *name, uint64_t begin, uint64_t end);
void sim_trace_work(const char *name, uint64_t stream, uint64_t begin, uint64_t end);

/* Appends what was noted to the file, which is valid JSON after each call. */
void sim_trace_flush(void);

#endif /* SIM_TRACE_H */
