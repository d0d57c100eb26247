/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rank dies or stops: before a call, between its arrival and its first launch, or while slices move.
 *
 *   fault_death VICTIM HARM EXPECTED SECONDS [DOUBLES]
 *
 * HARM is "before" (the victim kills itself instead of calling), "late=S" (it comes S seconds late), a plan of the
 * saboteur (saboteur.h), which strikes in the middle of the call, or "late=S+PLAN", both. EXPECTED is "error" or
 * "right": how the call must end on every rank that lives, before the deadline of SECONDS. After an error the next call
 * must end with one, too; "last" is a call that ends right on all living ranks, while the next one ends with an error.
 * Each such rank prints "rank N is content"; the script `death` counts them. After an error no rank calls MPI_Finalize,
 * where Open MPI would wait for the dead one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_lib.h"
#include "pvars.h"

#define COUNT 60000 /* doubles, unless told: several slices of 64 KiB */
#define WARM 4

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* Files of the component in /dev/shm. */
static int files_left(void)
{
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;
    int files = 0;

    while (NULL != folder && NULL != (entry = readdir(folder))) {
        files += 0 == strncmp(entry->d_name, "gpuhier", 7);
    }
    if (NULL != folder) {
        closedir(folder);
    }
    return files;
}

static void harm_self(const saboteur_t *saboteur, const char *harm)
{
    const char *plan = harm;
    if (0 == strcmp(harm, "before")) {
        raise(SIGKILL);
    } else if (0 == strncmp(harm, "late=", 5)) {
        sleep((unsigned) atoi(harm + 5));
        plan = strchr(harm, '+');
        plan = NULL != plan ? plan + 1 : "";
    }
    if (0 != saboteur->arm(plan)) {
        _exit(2);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pair_t pair;
    pvars_t before, after;

    suite_begin(&suite, "fault_death", &argc, &argv);
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "fault_death VICTIM HARM EXPECTED SECONDS [DOUBLES]\n");
        _exit(2);
    }
    const bool last = 0 == strcmp(argv[3], "last"), error = last || 0 == strcmp(argv[3], "error");
    saboteur_find(&saboteur);
    deaths_tolerate();
    const size_t count = argc > 5 ? (size_t) atoi(argv[5]) : COUNT;
    pair_alloc(&pair, count);
    pvars_read(&before);
    for (int i = 0; i < WARM; ++i) {
        if (OUTCOME_RIGHT != pair_call(&suite, MPI_COMM_WORLD, &pair, count, ++suite.salt)) {
            fprintf(stderr, "fault_death: rank %d: a call before any harm failed\n", suite.rank);
            _exit(1);
        }
    }
    pvars_read(&after);
    if (WARM != after.accelerated - before.accelerated) {
        fprintf(stderr, "fault_death: rank %d: the calls before any harm were not accelerated\n", suite.rank);
        _exit(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    deadline((unsigned) atoi(argv[4]), "in the call that is harmed, or the next");
    if (suite.rank == atoi(argv[1])) {
        harm_self(&saboteur, argv[2]);
    }
    double begin = now();
    outcome_t outcome = pair_call(&suite, MPI_COMM_WORLD, &pair, count, ++suite.salt);
    double took = now() - begin;
    outcome_t next = pair_call(&suite, MPI_COMM_WORLD, &pair, count, ++suite.salt);
    outcome_t wanted = error && !last ? OUTCOME_ERROR : OUTCOME_RIGHT,
              wanted_next = error ? OUTCOME_ERROR : OUTCOME_RIGHT;
    const int left = files_left();
    const bool content = wanted == outcome && wanted_next == next && 0 == left;

    printf("rank %d is %s: %c then %c, %.1f s, %d files left in /dev/shm\n", suite.rank,
           content ? "content" : "not content", outcome_letter(outcome), outcome_letter(next), took, left);
    fflush(stdout);
    deadline(0, "");
    if (error) {
        sleep(120);                   /* the others say their word first, and then the script ends all */
        MPI_Abort(MPI_COMM_WORLD, 5); /* mpirun, told to survive deaths, would wait for the dead */
    }
    pair_free(&pair);
    suite.calls = 1;
    suite_end(&suite);
    return content ? 0 : 1;
}
