/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Why a call is left to the saved collective. There is a counter and a text for each reason; print_info and the report
 * show them.
 */
#ifndef GPUHIER_REASONS_H
#define GPUHIER_REASONS_H

/* X(name, text). The first one is that of a kind of call that has not been tried yet. */
#define GPUHIER_REASONS(X)                                                                          \
    X(not_tried, "nonblocking, and no blocking call of the kind runs on the GPUs yet")              \
    X(empty, "no elements")                                                                         \
    X(type, "no kernel for this type and operation")                                                \
    X(host_here, "host memory on this rank")                                                        \
    X(host_elsewhere, "host memory on another rank, or a rank that cannot run the call on its GPU") \
    X(declined, "a rank could not run the call on its GPU")                                         \
    X(members, "not all members have gpuhier, the same parameters and a CUDA driver")               \
    X(alone, "one rank, or an inter-communicator")                                                  \
    X(off, "coll_gpuhier_probe is 0")                                                               \
    X(set_up, "the set-up of the communicator failed")                                              \
    X(memory, "memory ran out on a rank")                                                           \
    X(end, "MPI_Finalize has begun")

#define GPUHIER_REASON_NUMBER(name, text) GPUHIER_REASON_##name,
typedef enum gpuhier_reason { GPUHIER_REASONS(GPUHIER_REASON_NUMBER) GPUHIER_REASON_COUNT } gpuhier_reason_t;
#undef GPUHIER_REASON_NUMBER

/* The text of a reason. */
static inline const char *gpuhier_reason_text(gpuhier_reason_t reason)
{
#define GPUHIER_REASON_TEXT(name, text) text,
    static const char *const texts[] = {GPUHIER_REASONS(GPUHIER_REASON_TEXT)};
#undef GPUHIER_REASON_TEXT
    return texts[reason];
}

#endif /* GPUHIER_REASONS_H */
