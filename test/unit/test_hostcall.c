/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The input of a call that ends in host memory, with more elements than an int counts. The program's buffer is memory
 * that is not there until it is written, so the test takes little more than the copy.
 */
#include "ompi_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/coll_gpuhier_call.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "engine/coll_gpuhier_hostcall.h"
#include "host/coll_gpuhier_staging.h"
#include "ompi/datatype/ompi_datatype.h"

#define BYTES (((size_t) 1 << 31) + 7)

/* -- what stands around it: nothing of it is called --------------------------------------- */

void gpuhier_staging_shape(gpuhier_staging_t *s, const void *user, size_t count, struct ompi_datatype_t *dtype)
{
    (void) s;
    (void) user;
    (void) count;
    (void) dtype;
    abort();
}

int gpuhier_staging_copy(const gpuhier_staging_t *s, bool to_host)
{
    (void) s;
    (void) to_host;
    abort();
}

void gpuhier_host_reduce(int index, void *to, const void *const from[], int nsources, size_t count)
{
    (void) index;
    (void) to;
    (void) from;
    (void) nsources;
    (void) count;
    abort();
}

/* -- the call ----------------------------------------------------------------------------- */

int main(void)
{
    static const gpuhier_collective_t row = {.name = "MPI_Bcast", .from = GPUHIER_RANKS_ROOT, .to = GPUHIER_RANKS_ALL};
    static gpuhier_team_t team = {.rank = 0, .nranks = 2};
    static gpuhier_call_t call = {.team = &team,
                                  .row = &row,
                                  .elem_bytes = 1,
                                  .count = BYTES,
                                  .in_bytes = BYTES,
                                  .out_bytes = BYTES,
                                  .from = {.kind = GPUHIER_BUFFER_HOST},
                                  .to = {.kind = GPUHIER_BUFFER_HOST},
                                  .dtype = &ompi_mpi_byte.dt};
    if ((size_t) sysconf(_SC_PHYS_PAGES) < ((size_t) 4 << 30) / (size_t) sysconf(_SC_PAGESIZE)) {
        return 77;
    }
    char *user = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (MAP_FAILED == (void *) user) {
        perror("test_hostcall: mmap");
        return 1;
    }
    user[0] = 'a';
    user[BYTES - 1] = 'z';
    call.in = call.out = (CUdeviceptr) (uintptr_t) user;
    gpuhier_hostcall_begin(&call);
    if (NULL == call.host.data || NULL == call.host.verdicts || 0 != call.host.verdicts->mine) {
        fprintf(stderr, "test_hostcall: the input was not copied\n");
        return 1;
    }
    const char *copy = call.host.data;
    const bool right = 'a' == copy[0] && 0 == copy[1] && 0 == copy[BYTES - 2] && 'z' == copy[BYTES - 1];
    if (!right) {
        fprintf(stderr, "test_hostcall: the copy of the input begins with %d, %d and ends with %d, %d\n", copy[0],
                copy[1], copy[BYTES - 2], copy[BYTES - 1]);
    }
    gpuhier_hostcall_end(&call);
    munmap(user, BYTES);
    return right ? 0 : 1;
}
