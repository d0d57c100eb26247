/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank dies, and Open MPI's point-to-point layer says so, while its own messages carry what goes between groups.
 *
 *   fault_told VICTIM HARM error SECONDS
 *
 * HARM is "before" (the victim kills itself instead of calling) or a plan of the saboteur (saboteur.h), which strikes
 * in the middle of the call. The call of each rank that lives must end with an error, and so must the next one, before
 * the deadline of SECONDS. Each such rank prints "rank N is content"; the script `death` counts them.
 *
 * How it works: an Open MPI that tolerates deaths ends the requests that wait for a dead process with an error, and
 * starts no others. Open MPI 4.1 does neither. So this program puts itself in front of the layer, notes the requests
 * of the component that wait for the victim, and does the same KNOWN_AFTER seconds after the harm.
 */
#include "ompi_config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_lib.h"
#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

#define COUNT 60000 /* doubles: several slices of 64 KiB */
#define KNOWN_AFTER 2
#define NOTES_MAX 4096
#define TAGS_END (-0x7f000000) /* the component's tags are below, and no others */

static mca_pml_base_module_irecv_fn_t real_irecv;
static mca_pml_base_module_isend_fn_t real_isend;
static ompi_request_t *notes[NOTES_MAX]; /* NULL: free */
static int victim, told;                 /* told: requests that were ended, and messages that were refused */
static double known_at;                  /* 0: there was no harm yet */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static bool is_known(void)
{
    return known_at > 0 && now() > known_at;
}

static bool is_theirs(int rank, int tag, const struct ompi_communicator_t *comm)
{
    return rank == victim && tag < TAGS_END && (const void *) comm == (const void *) MPI_COMM_WORLD;
}

/* Does the request wait for the victim? Open MPI uses its memory again for others. */
static bool waits(const ompi_request_t *request)
{
    const mca_pml_base_request_t *base = (const mca_pml_base_request_t *) request;
    return !REQUEST_COMPLETE(request) && is_theirs(base->req_peer, base->req_tag, base->req_comm);
}

static void note(ompi_request_t *request)
{
    int place = 0;
    while (place < NOTES_MAX && NULL != notes[place] && request != notes[place] && waits(notes[place])) {
        ++place;
    }
    if (NOTES_MAX == place) {
        fprintf(stderr, "fault_told: too many requests wait for one rank\n");
        _exit(2);
    }
    notes[place] = request;
}

static int irecv(void *buf, size_t count, struct ompi_datatype_t *type, int source, int tag,
                 struct ompi_communicator_t *comm, struct ompi_request_t **request_p)
{
    if (is_theirs(source, tag, comm) && is_known()) {
        ++told;
        return OMPI_ERR_UNREACH;
    }
    const int rc = real_irecv(buf, count, type, source, tag, comm, request_p);
    if (OMPI_SUCCESS == rc && is_theirs(source, tag, comm)) {
        note(*request_p);
    }
    return rc;
}

static int isend(const void *buf, size_t count, struct ompi_datatype_t *type, int target, int tag,
                 mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm, struct ompi_request_t **request_p)
{
    if (is_theirs(target, tag, comm) && is_known()) {
        ++told;
        return OMPI_ERR_UNREACH;
    }
    const int rc = real_isend(buf, count, type, target, tag, mode, comm, request_p);
    if (OMPI_SUCCESS == rc && is_theirs(target, tag, comm)) {
        note(*request_p);
    }
    return rc;
}

/* Part of Open MPI's progress. */
static int end_requests(void)
{
    int ended = 0;
    for (int place = 0; place < NOTES_MAX && is_known(); ++place) {
        if (NULL != notes[place] && waits(notes[place])) {
            notes[place]->req_status.MPI_ERROR = MPI_ERR_OTHER;
            ompi_request_complete(notes[place], true);
            ++ended;
        }
        notes[place] = NULL;
    }
    told += ended;
    return ended;
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pair_t pair;
    suite_begin(&suite, "fault_told", &argc, &argv);
    if (argc != 5) {
        fprintf(stderr, "fault_told VICTIM HARM error SECONDS\n");
        _exit(2);
    }
    victim = atoi(argv[1]);
    saboteur_find(&saboteur);
    deaths_tolerate();
    pair_alloc(&pair, COUNT);
    real_irecv = mca_pml.pml_irecv;
    real_isend = mca_pml.pml_isend;
    mca_pml.pml_irecv = irecv;
    mca_pml.pml_isend = isend;
    opal_progress_register(end_requests);
    for (int i = 0; i < 4; ++i) {
        if (OUTCOME_RIGHT != pair_call(&suite, MPI_COMM_WORLD, &pair, COUNT, ++suite.salt)) {
            fprintf(stderr, "fault_told: rank %d: a call before any harm failed\n", suite.rank);
            _exit(1);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    deadline((unsigned) atoi(argv[4]), "in the call that is harmed, or the next");
    if (suite.rank == victim && 0 == strcmp(argv[2], "before")) {
        raise(SIGKILL);
    } else if (suite.rank == victim && 0 != saboteur.arm(argv[2])) {
        _exit(2);
    }
    if (0 == strcmp(argv[2], "before")) {
        usleep(200000); /* long enough for Open MPI to write to a connection that the victim has closed */
    }
    known_at = suite.rank == victim ? 0 : now() + KNOWN_AFTER;
    const outcome_t outcome = pair_call(&suite, MPI_COMM_WORLD, &pair, COUNT, ++suite.salt);
    const outcome_t next = pair_call(&suite, MPI_COMM_WORLD, &pair, COUNT, ++suite.salt);
    const bool content = OUTCOME_ERROR == outcome && OUTCOME_ERROR == next && told > 0;
    printf("rank %d is %s: %c then %c, told %d times\n", suite.rank, content ? "content" : "not content",
           outcome_letter(outcome), outcome_letter(next), told);
    fflush(stdout);
    deadline(0, "");
    sleep(120);                   /* the others say their word first, and then the script ends all */
    MPI_Abort(MPI_COMM_WORLD, 5); /* MPI_Finalize would wait for the dead */
    return 1;
}
