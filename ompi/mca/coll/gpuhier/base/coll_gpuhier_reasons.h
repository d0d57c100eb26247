/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Why a call is left to the saved collective. There is a counter and a text for each reason; print_info and the report
 * show them.
 */
#ifndef GPUHIER_REASONS_H
#define GPUHIER_REASONS_H

/*
 * X(name, text, remedy). The first reason is that of a kind of call that has not been tried yet. The warning about
 * calls that are staged again and again prints the remedy. NULL: there is no remedy, or the user wants it so; then
 * there is no warning.
 */
#define GPUHIER_REASONS(X)                                                                                 \
    X(not_tried, "nonblocking, and no blocking call or barrier has asked the ranks since the first",       \
      "Make one blocking MPI_Allreduce of this type, operation and length on the communicator first, or "  \
      "call MPI_Barrier on it after the first MPI_Iallreduce.")                                            \
    X(empty, "no elements", NULL)                                                                          \
    X(type, "no kernel for this type and operation",                                                       \
      "Use a type and an operation that docs/types.md lists, for example the elements of a derived type.") \
    X(host_here, "host memory on this rank", "Pass GPU memory in both buffers, on all ranks.")             \
    X(host_elsewhere, "host memory on another rank, or a rank that cannot run the call on its GPU",        \
      "Pass GPU memory in both buffers, on all ranks, and see that all ranks have a GPU.")                 \
    X(declined, "a rank could not run the call on its GPU",                                                \
      "Look at the ranks' output with --mca coll_base_verbose 5; GPU memory may be short.")                \
    X(members, "not all members have gpuhier, the same parameters and a CUDA driver",                      \
      "Install the same gpuhier on all nodes, set the same parameters, give all ranks a GPU.")             \
    X(alone, "one rank, or an inter-communicator", NULL)                                                   \
    X(off, "coll_gpuhier_probe is 0", NULL)                                                                \
    X(set_up, "the set-up of the communicator failed",                                                     \
      "Run with --mca coll_base_verbose 5 to see why, and \"gpuhier_info doctor\" on the nodes.")          \
    X(memory, "memory ran out on a rank", "Let the program use less host memory.")                         \
    X(collective, "a collective that does not run on the GPUs", NULL)                                      \
    X(end, "MPI_Finalize has begun", NULL)

#define GPUHIER_REASON_NUMBER(name, text, remedy) GPUHIER_REASON_##name,
typedef enum gpuhier_reason { GPUHIER_REASONS(GPUHIER_REASON_NUMBER) GPUHIER_REASON_COUNT } gpuhier_reason_t;
#undef GPUHIER_REASON_NUMBER

/* The text of a reason. */
static inline const char *gpuhier_reason_text(gpuhier_reason_t reason)
{
#define GPUHIER_REASON_TEXT(name, text, remedy) text,
    static const char *const texts[] = {GPUHIER_REASONS(GPUHIER_REASON_TEXT)};
#undef GPUHIER_REASON_TEXT
    return texts[reason];
}

/* What the user can do about a reason; may be NULL. */
static inline const char *gpuhier_reason_remedy(gpuhier_reason_t reason)
{
#define GPUHIER_REASON_REMEDY(name, text, remedy) remedy,
    static const char *const remedies[] = {GPUHIER_REASONS(GPUHIER_REASON_REMEDY)};
#undef GPUHIER_REASON_REMEDY
    return remedies[reason];
}

#endif /* GPUHIER_REASONS_H */
