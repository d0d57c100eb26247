/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI's messages fail while gpuhier asks the other ranks about a call, or sets up: that error is the result of the
 * program's call, and the rank sends nothing more on the communicator. Another message could reach a rank that still
 * waits for one of gpuhier's own, which are a few bytes long.
 *
 *   fault_inner told WHAT FIRST STEP
 *   fault_inner dead WHAT FIRST STEP    needs fault tolerance (Open MPI 5, with mpi_ft_enable)
 *   fault_inner                         status 77 where Open MPI has none, else 0; no MPI call
 *
 * WHAT: first (the first call of a communicator), probe (the first call of a kind), barrier (one that asks about
 * nonblocking calls), init (MPI_Allreduce_init), rest (the first call of a kind, while calls of MPI_Bcast on host
 * memory rest between two probes; one that follows a failure gets that error).
 *
 * Each round has a communicator of its own, and harms one rank in its operation number K of Open MPI's point-to-point
 * layer there, but for those of a barrier of Open MPI's: K is FIRST, FIRST + STEP, ...
 *
 * told: the operation fails, as if a death were known, and the other ranks' fail once they are told. Each rank must get
 * an error if one of its operations failed, and have attempted no other one since. Ends when the call has less than K.
 * dead: the rank kills itself. Each other rank must get MPIX_ERR_PROC_FAILED or MPIX_ERR_REVOKED, or a right result.
 * The shrunken communicator must have one rank less; the next round's is a duplicate of it. Ends when two ranks are
 * left.
 *
 * A rank on which all of that holds prints "rank N is content".
 */
#include "ompi_config.h"

#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

#if defined(OMPI_HAVE_MPI_EXT_FTMPI)
#    define TOLERANT 1
#else
#    define TOLERANT 0
#    define MPIX_ERR_PROC_FAILED MPI_ERR_OTHER
#    define MPIX_ERR_REVOKED MPI_ERR_OTHER
#endif
#if OMPI_MAJOR_VERSION < 5
#    define MPI_Allreduce_init MPIX_Allreduce_init
#endif

#define WARM 1000   /* doubles; of a kind that is on the GPUs before any harm */
#define COUNT 50000 /* of the call that is harmed */
#define WAITS_MAX 256
#define VICTIM 1
#define TAG 77

static mca_pml_base_module_t real;
static const void *harmed; /* the communicator; NULL: no harm is done */
static long strike_at;     /* this rank is harmed in this operation; 0: it is not */
static bool by_death;
static long operations, after; /* on the communicator: all, and those that were attempted after one had failed */
static bool has_failed;
static MPI_Request word_request = MPI_REQUEST_NULL; /* the victim's word: 1 when it was harmed, 0 when it was not */
static int word;
static ompi_request_t *waits[WAITS_MAX];
static int nwaits;
static int error_class; /* of the last error */

static void tell_others(int what)
{
    int n;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int rank = 0; rank < n; ++rank) {
        if (VICTIM != rank) {
            (void) real.pml_send(&what, 1, MPI_INT, rank, TAG, MCA_PML_BASE_SEND_STANDARD, MPI_COMM_WORLD);
        }
    }
}

static bool is_told(void)
{
    return MPI_REQUEST_NULL != word_request && REQUEST_COMPLETE(word_request) && 1 == word;
}

/* Open MPI uses the memory of a request again for others. */
static bool still_waits(const ompi_request_t *request)
{
    return OMPI_REQUEST_ACTIVE == request->req_state && !REQUEST_COMPLETE(request)
           && harmed == (const void *) ((const mca_pml_base_request_t *) request)->req_comm;
}

/* Ends all receives that wait, so that no message is written to memory that is not theirs any longer. */
static int waits_end(void)
{
    int ended = 0;
    for (int i = 0; i < nwaits; ++i) {
        if (still_waits(waits[i]) && OMPI_SUCCESS == ompi_request_cancel(waits[i]) && REQUEST_COMPLETE(waits[i])) {
            waits[i]->req_status.MPI_ERROR = MPI_ERR_OTHER;
            ++ended;
        }
    }
    return ended;
}

/* Part of Open MPI's progress. */
static int told_progress(void)
{
    const int ended = NULL != harmed && is_told() ? waits_end() : 0;
    has_failed = has_failed || ended > 0;
    return ended;
}

/* Does the operation fail? */
static bool fails(const void *comm, int tag)
{
    if (NULL == harmed || comm != harmed) {
        return false;
    }
    if (has_failed) {
        ++after;
        return true;
    }
    if (MCA_COLL_BASE_TAG_BARRIER == tag) {
        return false; /* all of gpuhier's own are over */
    }
    const bool strikes = ++operations == strike_at;
    if (strikes && by_death) {
        usleep(100000); /* the others wait by then */
        raise(SIGKILL);
    }
    if (strikes) {
        tell_others(1);
    }
    has_failed = strikes || is_told();
    if (has_failed) {
        (void) waits_end();
    }
    return has_failed;
}

static void note(ompi_request_t *request, const void *comm)
{
    if (NULL == harmed || comm != harmed || by_death) {
        return;
    }
    if (WAITS_MAX == nwaits) {
        nwaits = 0; /* those are long complete */
    }
    waits[nwaits++] = request;
}

static int hooked_irecv(void *buf, size_t count, struct ompi_datatype_t *type, int source, int tag,
                        struct ompi_communicator_t *comm, struct ompi_request_t **request_p)
{
    const int rc = fails(comm, tag) ? OMPI_ERR_UNREACH : real.pml_irecv(buf, count, type, source, tag, comm, request_p);
    if (OMPI_SUCCESS == rc) {
        note(*request_p, comm);
    }
    return rc;
}

/* Waits by itself, so that the request can be ended. */
static int hooked_recv(void *buf, size_t count, struct ompi_datatype_t *type, int source, int tag,
                       struct ompi_communicator_t *comm, ompi_status_public_t *status)
{
    ompi_request_t *request;
    if (NULL == harmed || (const void *) comm != harmed || by_death) {
        (void) fails(comm, tag);
        return real.pml_recv(buf, count, type, source, tag, comm, status);
    }
    const int rc = hooked_irecv(buf, count, type, source, tag, comm, &request);
    return OMPI_SUCCESS != rc ? rc : ompi_request_wait(&request, status);
}

static int hooked_isend(const void *buf, size_t count, struct ompi_datatype_t *type, int target, int tag,
                        mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm,
                        struct ompi_request_t **request_p)
{
    return fails(comm, tag) ? OMPI_ERR_UNREACH : real.pml_isend(buf, count, type, target, tag, mode, comm, request_p);
}

static int hooked_send(const void *buf, size_t count, struct ompi_datatype_t *type, int target, int tag,
                       mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm)
{
    return fails(comm, tag) ? OMPI_ERR_UNREACH : real.pml_send(buf, count, type, target, tag, mode, comm);
}

static void error_note(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    MPI_Error_class(*code, &error_class);
}

/* A kind of nonblocking call that the next barrier asks about. */
static void noted_call(suite_t *suite, MPI_Comm comm, pair_t *pair)
{
    MPI_Request request;
    if (MPI_SUCCESS
            != MPI_Iallreduce(pair->send.message, pair->recv.message, COUNT, MPI_DOUBLE, MPI_SUM, comm, &request)
        || MPI_SUCCESS != MPI_Wait(&request, MPI_STATUS_IGNORE)) {
        suite_fail(suite, "a nonblocking call before any harm failed");
    }
}

/* Calls on host memory, the last of which have asked nobody. */
static int host_calls(MPI_Comm comm, int n)
{
    int number = 0, code = MPI_SUCCESS;
    for (int i = 0; i < n && MPI_SUCCESS == code; ++i) {
        code = MPI_Bcast(&number, 1, MPI_INT, 0, comm);
    }
    return code;
}

static outcome_t harmed_call(suite_t *suite, MPI_Comm comm, pair_t *pair, const char *what)
{
    MPI_Request request;
    int code;
    if (0 == strcmp(what, "rest")) {
        const outcome_t outcome = pair_call(suite, comm, pair, COUNT, ++suite->salt);
        return has_failed && MPI_SUCCESS == host_calls(comm, 1) ? OUTCOME_WRONG : outcome;
    }
    if (0 == strcmp(what, "barrier")) {
        code = MPI_Barrier(comm);
    } else if (0 == strcmp(what, "init")) {
        code = MPI_Allreduce_init(pair->send.message, pair->recv.message, COUNT, MPI_DOUBLE, MPI_SUM, comm,
                                  MPI_INFO_NULL, &request);
        if (MPI_SUCCESS == code) {
            MPI_Request_free(&request);
        }
    } else {
        return pair_call(suite, comm, pair, COUNT, ++suite->salt);
    }
    return MPI_SUCCESS == code ? OUTCOME_RIGHT : OUTCOME_ERROR;
}

/* One round on a duplicate of base, which the caller frees. */
static outcome_t round_run(suite_t *suite, MPI_Comm base, MPI_Comm *comm_p, pair_t *pair, const char *what, long k)
{
    MPI_Errhandler handler;
    int rank;
    MPI_Comm_dup(base, comm_p);
    MPI_Comm_rank(base, &rank);
    MPI_Comm_create_errhandler(error_note, &handler);
    MPI_Comm_set_errhandler(*comm_p, handler);
    MPI_Errhandler_free(&handler);
    if (0 == strcmp(what, "probe") && OUTCOME_RIGHT != pair_call(suite, *comm_p, pair, WARM, ++suite->salt)) {
        suite_fail(suite, "a call before any harm failed");
    }
    if (0 == strcmp(what, "barrier")) {
        noted_call(suite, *comm_p, pair);
    }
    if (0 == strcmp(what, "rest") && MPI_SUCCESS != host_calls(*comm_p, 5)) {
        suite_fail(suite, "a call before any harm failed");
    }
    MPI_Barrier(base);
    operations = after = 0;
    error_class = MPI_SUCCESS;
    nwaits = 0;
    has_failed = false;
    strike_at = VICTIM == rank ? k : 0;
    harmed = *comm_p;
    const outcome_t outcome = harmed_call(suite, *comm_p, pair, what);
    harmed = NULL;
    ++suite->calls;
    return outcome;
}

static void told(suite_t *suite, MPI_Comm base, pair_t *pair, const char *what, long k, long step)
{
    long rounds = 0;
    for (int reached = 1; 1 == reached; k += step, ++rounds) {
        MPI_Comm comm;
        word = 0;
        if (VICTIM != suite->rank) {
            MPI_Irecv(&word, 1, MPI_INT, VICTIM, TAG, MPI_COMM_WORLD, &word_request);
        }
        const outcome_t outcome = round_run(suite, base, &comm, pair, what, k);
        if (after > 0) {
            suite_fail(suite, "operation %ld failed, and %ld others followed", operations, after);
        }
        if (OUTCOME_WRONG == outcome || (has_failed && OUTCOME_ERROR != outcome)) {
            suite_fail(suite, "operation %ld failed, and the call ended with %c", operations, outcome_letter(outcome));
        }
        if (VICTIM == suite->rank && !has_failed) {
            tell_others(0);
        }
        reached = VICTIM == suite->rank ? has_failed : (MPI_Wait(&word_request, MPI_STATUS_IGNORE), word);
        if (1 != reached && OUTCOME_RIGHT != outcome) {
            suite_fail(suite, "a call without harm ended with %c", outcome_letter(outcome));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_free(&comm);
    }
    if (0 == suite->rank) {
        printf("fault_inner: %ld rounds, the last with operation %ld\n", rounds, k - step);
    }
}

static void dead(suite_t *suite, MPI_Comm base, pair_t *pair, const char *what, long k, long step)
{
#if TOLERANT
    int left, survivors;
    by_death = true;
    for (MPI_Comm_size(base, &left); left > 2; --left, k += step) {
        MPI_Comm comm, shrunk;
        const outcome_t outcome = round_run(suite, base, &comm, pair, what, k);
        if (0 != strike_at) {
            raise(SIGKILL); /* the call had less operations */
        }
        if (OUTCOME_WRONG == outcome
            || (OUTCOME_ERROR == outcome && MPIX_ERR_PROC_FAILED != error_class && MPIX_ERR_REVOKED != error_class)) {
            suite_fail(suite, "operation %ld: %c, error class %d", k, outcome_letter(outcome), error_class);
        }
        MPIX_Comm_revoke(comm);
        MPIX_Comm_shrink(base, &shrunk);
        MPI_Comm_size(shrunk, &survivors);
        if (survivors != left - 1) {
            suite_fail(suite, "operation %ld: %d ranks of %d are left", k, survivors, left);
        }
        MPI_Comm_free(&comm);
        base = shrunk;
    }
#else
    (void) base;
    (void) pair;
    (void) what;
    (void) k;
    (void) step;
    suite_fail(suite, "this Open MPI does not tolerate deaths");
#endif
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    MPI_Comm base;

    if (argc < 2) {
        printf("this Open MPI %s\n", TOLERANT ? "tolerates deaths" : "does not tolerate deaths");
        return TOLERANT ? 0 : 77;
    }
    suite_begin(&suite, "fault_inner", &argc, &argv);
    if (argc != 5) {
        fprintf(stderr, "fault_inner told|dead first|probe|barrier|init FIRST STEP\n");
        return 2;
    }
    const char *what = argv[2];
    const long first = atol(argv[3]), step = atol(argv[4]);
    pair_alloc(&pair, COUNT);
    real = mca_pml;
    mca_pml.pml_irecv = hooked_irecv;
    mca_pml.pml_recv = hooked_recv;
    mca_pml.pml_isend = hooked_isend;
    mca_pml.pml_send = hooked_send;
    opal_progress_register(told_progress);
    MPI_Comm_dup(MPI_COMM_WORLD, &base);
    deadline(120, "in a call that is harmed");
    (0 == strcmp(argv[1], "dead") ? dead : told)(&suite, base, &pair, what, first, step);
    printf("rank %d is %s\n", suite.rank, 0 == suite.failures ? "content" : "not content");
    fflush(stdout);
    deadline(0, "");
    if (0 == strcmp(argv[1], "dead")) {
        sleep(120); /* the script ends all; MPI_Finalize would wait for the dead */
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_Comm_free(&base);
    pair_free(&pair);
    return suite_end(&suite);
}
