/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives whose blocks one kernel moves: MPI_Alltoall, MPI_Alltoallv and MPI_Allgatherv, in bytes. Lengths are odd,
 * none, or very unlike; places are at any alignment, leave holes, and are not in the order of ranks. Calls are
 * blocking, and nonblocking ones on several communicators at a time, which ranks post in orders of their own. Results
 * are compared with what this program writes itself, holes included. The emulator's counter tells how many kernels a
 * call has launched.
 *
 *   moves [MOST]
 *
 * GPUHIER_EXPECT_ONESHOT: the bytes of the longest block that kernels which wait for each other move; such calls, and
 * no others, must take them. MOST: kernels that a rank may launch in a call on buffers that peers have mapped; with
 * more than one, which ranks of several groups need, only in the call in which all blocks are longer. Without it
 * launches are not counted.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "pvars.h"

enum { RANKS_MAX = 16, WARM = 6, ROUNDS = 3, HOLE = 0x5a };

typedef enum pattern { ODD, SOME, UNLIKE, ONE, LONG, EQUAL, GATHERED, PATTERNS } pattern_t;
static const char *const names[PATTERNS] = {"MPI_Alltoallv, odd",        "MPI_Alltoallv, some none",
                                            "MPI_Alltoallv, unlike",     "MPI_Alltoallv, one block",
                                            "MPI_Alltoallv, all longer", "MPI_Alltoall",
                                            "MPI_Allgatherv, some none"};

/* A call on buffers and a communicator of its own. */
typedef struct job {
    pattern_t pattern;
    MPI_Comm comm;
    int given[RANKS_MAX], taken[RANKS_MAX], from[RANKS_MAX], to[RANKS_MAX]; /* lengths, and where blocks begin */
    buffer_t in, out;
    size_t in_bytes, out_bytes;
    unsigned char *image, *wanted;
    MPI_Request request;
} job_t;

static int length(pattern_t pattern, int nranks, int from, int to)
{
    switch (pattern) {
    case ODD:
        return 2 * ((from * 37 + to * 113) % 997) + 1;
    case SOME:
        return 0 == (from + 2 * to) % 3 ? 0 : 4097 + from + 3 * to;
    case UNLIKE:
        return 1 == from && 0 == to % 2 ? 300001 : 1 + (from + to) % 16;
    case ONE:
        return 0 == from && nranks - 1 == to ? 1 : 0;
    case LONG:
        return 65537 + 2 * from + to;
    case EQUAL:
        return 100003;
    default:
        return 0 == from % 3 ? 0 : 40001 + 2 * from;
    }
}

static unsigned char value(int from, int to, int i, unsigned salt)
{
    return (unsigned char) (((unsigned) (from * 31 + to) * 2246822519u + (unsigned) i * 2654435761u + salt * 40503u)
                            >> 20);
}

/* Blocks lie in the reverse order of ranks, unless all are equal. Returns the bytes up to the end of the last. */
static size_t places(const job_t *job, const suite_t *suite, const int *lengths, int *begin)
{
    int at = 0;
    for (int k = 0; k < suite->nranks; ++k) {
        const int i = EQUAL == job->pattern ? k : suite->nranks - 1 - k;
        at += EQUAL == job->pattern ? 0 : 1 + (5 * i + 3 * suite->rank) % 19;
        begin[i] = at;
        at += lengths[i];
    }
    return (size_t) at;
}

static void job_make(job_t *job, const suite_t *suite, pattern_t pattern, MPI_Comm comm)
{
    job->pattern = pattern;
    job->comm = comm;
    for (int i = 0; i < suite->nranks; ++i) {
        job->given[i] = length(pattern, suite->nranks, suite->rank, i);
        job->taken[i] = length(pattern, suite->nranks, i, suite->rank);
    }
    job->in_bytes = GATHERED == pattern ? (size_t) job->given[0] : places(job, suite, job->given, job->from);
    job->out_bytes = places(job, suite, job->taken, job->to);
    const size_t most = job->in_bytes > job->out_bytes ? job->in_bytes : job->out_bytes;
    buffer_alloc(&job->in, BUFFER_DEVICE, most + 1, (size_t) suite->rank % 5);
    buffer_alloc(&job->out, BUFFER_DEVICE, most + 1, 3 * (size_t) suite->rank % 7);
    job->image = malloc(most + 1);
    job->wanted = malloc(most + 1);
}

static void job_free(job_t *job)
{
    buffer_free(&job->in);
    buffer_free(&job->out);
    free(job->image);
    free(job->wanted);
}

/* Who gets the block of a rank makes no difference in MPI_Allgatherv. */
static void blocks_write(const job_t *job, const suite_t *suite, unsigned char *image, bool given, unsigned salt)
{
    const int *lengths = given ? job->given : job->taken, *begin = given ? job->from : job->to;
    for (int rank = 0; rank < suite->nranks; ++rank) {
        const int from = given ? suite->rank : rank, to = GATHERED == job->pattern ? 0 : given ? rank : suite->rank;
        const int at = given && GATHERED == job->pattern ? 0 : begin[rank];
        for (int i = 0; i < lengths[rank]; ++i) {
            image[at + i] = value(from, to, i, salt);
        }
    }
}

static void job_fill(job_t *job, const suite_t *suite, unsigned salt)
{
    memset(job->image, HOLE, job->in_bytes + 1);
    blocks_write(job, suite, job->image, true, salt);
    buffer_write(&job->in, job->image, job->in_bytes);
    memset(job->wanted, HOLE, job->out_bytes + 1);
    buffer_write(&job->out, job->wanted, job->out_bytes);
    blocks_write(job, suite, job->wanted, false, salt);
}

static void job_check(job_t *job, suite_t *suite, const char *how)
{
    buffer_read(&job->out, job->image, job->out_bytes);
    for (size_t i = 0; i < job->out_bytes; ++i) {
        if (job->image[i] != job->wanted[i]) {
            suite_fail(suite, "%s, %s: byte %zu of %zu is %d, not %d", names[job->pattern], how, i, job->out_bytes,
                       job->image[i], job->wanted[i]);
            break;
        }
    }
    if (0 != buffer_check_guards(&job->out) || 0 != buffer_check_guards(&job->in)) {
        suite_fail(suite, "%s, %s: wrote outside the buffers", names[job->pattern], how);
    }
}

#define CALL(Name, Iname, ...) \
    (blocking ? MPI_##Name(__VA_ARGS__, job->comm) : MPI_##Iname(__VA_ARGS__, job->comm, &job->request))

static void job_call(job_t *job, suite_t *suite, bool blocking)
{
    const int mine = job->given[0];
    char *in = job->in.message, *out = job->out.message;
    ++suite->calls;
    const int rc =
        EQUAL == job->pattern ? CALL(Alltoall, Ialltoall, in, mine, MPI_BYTE, out, mine, MPI_BYTE)
        : GATHERED == job->pattern
            ? CALL(Allgatherv, Iallgatherv, in, mine, MPI_BYTE, out, job->taken, job->to, MPI_BYTE)
            : CALL(Alltoallv, Ialltoallv, in, job->given, job->from, MPI_BYTE, out, job->taken, job->to, MPI_BYTE);
    if (MPI_SUCCESS != rc) {
        suite_fail(suite, "%s: error %d", names[job->pattern], rc);
    }
}

/* Must the blocks of a pattern go in kernels that wait for each other? A rank with short blocks learns of longer ones
 * of other ranks when all have arrived. */
static bool is_short(const suite_t *suite, pattern_t pattern, int most)
{
    int longest = 0;
    for (int from = 0; from < suite->nranks; ++from) {
        for (int to = 0; to < suite->nranks; ++to) {
            const int bytes = length(pattern, suite->nranks, from, to);
            longest = bytes > longest ? bytes : longest;
        }
    }
    return longest <= most;
}

static unsigned long long launches(void)
{
    unsigned long long value = 0;
    return buffer_emulator_count("launches", &value) ? value : 0;
}

/* Blocking calls on the same buffers until peers have mapped them, and then one whose launches count. */
static void job_run(job_t *job, suite_t *suite, int most)
{
    const char *oneshot = getenv("GPUHIER_EXPECT_ONESHOT");
    pvars_t before, after;
    for (int i = 0; i <= WARM; ++i) {
        job_fill(job, suite, (unsigned) ++suite->salt);
        pvars_read(&before);
        const unsigned long long launched = launches();
        job_call(job, suite, true);
        const int made = (int) (launches() - launched);
        if (WARM == i && most > 0 && (1 == most || LONG == job->pattern) && made > most) {
            suite_fail(suite, "%s: %d launches, not %d", names[job->pattern], made, most);
        }
        pvars_read(&after);
        job_check(job, suite, "blocking");
        if (NULL != oneshot && i > 0
            && (after.oneshot > before.oneshot) != is_short(suite, job->pattern, atoi(oneshot))) {
            suite_fail(suite, "%s, call %d: %sin kernels that wait", names[job->pattern], i,
                       after.oneshot > before.oneshot ? "" : "not ");
        }
    }
    if (PATH_ANY != suite->default_path && after.accelerated == before.accelerated) {
        suite_fail(suite, "%s: not on the GPUs", names[job->pattern]);
    }
}

/* Nonblocking calls of all jobs at a time, which odd ranks post in the opposite order. */
static void jobs_run(job_t *jobs, int n, suite_t *suite)
{
    MPI_Request requests[PATTERNS];
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < n; ++i) {
            job_fill(&jobs[i], suite, (unsigned) ++suite->salt);
        }
        for (int k = 0; k < n; ++k) {
            const int i = 0 == suite->rank % 2 ? k : n - 1 - k;
            job_call(&jobs[i], suite, false);
            requests[k] = jobs[i].request;
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; ++i) {
            job_check(&jobs[i], suite, "nonblocking, several at a time");
        }
    }
}

int main(int argc, char **argv)
{
    static job_t jobs[PATTERNS];
    suite_t suite;
    suite_begin(&suite, "moves", &argc, &argv);
    const int most = argc > 1 ? atoi(argv[1]) : 0;
    if (suite.nranks > RANKS_MAX) {
        suite_fail(&suite, "more than %d ranks", RANKS_MAX);
        return suite_end(&suite);
    }
    for (int pattern = 0; pattern < PATTERNS; ++pattern) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        job_make(&jobs[pattern], &suite, (pattern_t) pattern, comm);
        job_run(&jobs[pattern], &suite, most);
    }
    jobs_run(jobs, PATTERNS, &suite);
    for (int pattern = 0; pattern < PATTERNS; ++pattern) {
        job_free(&jobs[pattern]);
        MPI_Comm_free(&jobs[pattern].comm);
    }
    return suite_end(&suite);
}
