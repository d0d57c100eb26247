/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the first MPI_Allreduce of a program without device memory costs on a machine with a driver, in other processes
 * that Open MPI comes to know (it makes an object for each, at first use), and in values that are looked up in the
 * modex. Neither may be one for each rank of the job.
 *
 * How: the objects are counted by a function of Open MPI's own, the values by a PMIx_Get() in front of PMIx's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

#define DUPS 5

static _Atomic int values; /* of the component's that were looked up */

typedef int (*get_fn_t)(const void *process, const char *key, const void *info, size_t ninfo, void *value_p);
int PMIx_Get(const void *process, const char *key, const void *info, size_t ninfo, void *value_p);

__attribute__((visibility("default"))) int PMIx_Get(const void *process, const char *key, const void *info,
                                                    size_t ninfo, void *value_p)
{
    void *place = dlsym(RTLD_NEXT, "PMIx_Get");
    get_fn_t get;
    memcpy(&get, &place, sizeof(get));
    if (NULL != key && NULL != strstr(key, "gpuhier")) {
        atomic_fetch_add(&values, 1);
    }
    return get(process, key, info, ninfo, value_p);
}

/* Open MPI's own. */
void **ompi_proc_get_allocated(size_t *size);

static int processes_known(void)
{
    size_t known = 0;
    free(ompi_proc_get_allocated(&known));
    return (int) known;
}

static int log2_ceil(int n)
{
    int bits = 0;
    while (1 << bits < n) {
        ++bits;
    }
    return bits;
}

static void host_call(suite_t *suite, MPI_Comm comm)
{
    int mine = suite->rank, sum = -1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    ++suite->calls;
    if (suite->nranks * (suite->nranks - 1) / 2 != sum) {
        suite_fail(suite, "the sum of the ranks is %d", sum);
    }
}

/* Prints the sum and the largest of all ranks. */
static void total(const suite_t *suite, const char *what, int mine)
{
    int sum = 0, most = 0;
    MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (0 == suite->rank) {
        printf("peers_known: %d ranks: %s: %d, at most %d by one\n", suite->nranks, what, sum, most);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pvars_t before, after;

    suite_begin_host(&suite, "peers_known", &argc, &argv);
    pvars_read(&before);
    const int known_before = processes_known(), values_before = atomic_load(&values), bits = log2_ceil(suite.nranks);
    host_call(&suite, MPI_COMM_WORLD);
    const int made = processes_known() - known_before, asked = atomic_load(&values) - values_before;
    for (int i = 0; i < DUPS; ++i) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        host_call(&suite, comm);
        MPI_Comm_free(&comm);
    }
    const int again = atomic_load(&values) - values_before - asked;
    pvars_read(&after);
    total(&suite, "processes known after MPI_Init", known_before);
    total(&suite, "processes made by the first call", made);
    total(&suite, "values looked up by the first call", asked);
    total(&suite, "values looked up by calls of other communicators", again);
    if (before.present && after.probes - before.probes != 1 + DUPS) {
        suite_fail(&suite, "%llu probes, so the members did not agree",
                   (unsigned long long) (after.probes - before.probes));
    }
    if (before.present && 0 == asked) {
        suite_fail(&suite, "no value was looked up: this test does not see them");
    }
    /* The saved collective's partners, and those in the tree, most of which are the same; and the rank's own value. */
    if (made > 2 * bits || asked > bits + 1 || 0 != again) {
        suite_fail(&suite, "%d processes made, %d values looked up in the first call and %d later, with %d ranks", made,
                   asked, again, suite.nranks);
    }
    return suite_end(&suite);
}
