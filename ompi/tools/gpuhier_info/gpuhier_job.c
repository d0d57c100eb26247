/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What gpuhier makes of a job: groups, rails, the path of messages by their size, and a self-test of a few calls.
 * `mpirun gpuhier_info job` becomes this program, see info_job.c.
 *
 * Each rank takes the GPU of its local rank. The component says what it has made of MPI_COMM_WORLD
 * (coll_gpuhier_describe.h), so nothing is computed a second time here. The counters say where each call of the
 * self-test ran. Where gpuhier does not serve all ranks there is no self-test, since the Open MPI below may not be able
 * to take GPU memory. Rank 0 prints.
 *
 * Exit status: 0; 1: gpuhier does not serve the job, a call ran elsewhere than on the GPUs, or a result is wrong; 3:
 * failed.
 */
#define _GNU_SOURCE /* dl_iterate_phdr() */

#include "coll/coll_gpuhier_describe.h"
#include "info_driver.h"
#include "info_json.h"
#include "job_serving.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 7 /* timed, of each kind; one comes before, which sets up and is not timed */

/* What a rank tells rank 0. */
typedef struct told {
    char host[64];
    int32_t pid;
    int32_t on_gpu; /* its buffers are GPU memory */
    char why_not[128];
    int32_t is_served; /* by gpuhier */
    char why_not_served[320];
    gpuhier_served_t served[GPUHIER_SERVED_COUNT];
    int32_t others; /* collectives beside those, which gpuhier serves */
    gpuhier_description_t gpuhier;
} told_t;

typedef enum kind { ALLREDUCE, IALLREDUCE, REDUCE, SCATTER, BCAST, GATHER, PAIRS, KINDS } kind_t;
static const struct {
    const char *call;
    bool reduces, has_blocks;
} kinds[KINDS] = {{"MPI_Allreduce", true, false}, {"MPI_Iallreduce", true, false},
                  {"MPI_Reduce", true, false},    {"MPI_Reduce_scatter_block", true, true},
                  {"MPI_Bcast", false, false},    {"MPI_Allgather", false, true},
                  {"MPI_Alltoall", false, true}};

/* One kind of call. */
typedef struct row {
    kind_t kind;
    size_t count;  /* doubles of the longer buffer */
    double us;     /* median over the calls of the slowest rank's time */
    int32_t wrong; /* elements, on all ranks */
    char path[160];
    bool on_gpus;
} row_t;

static int rank, nranks;
static gpuhier_describe_fn *describe;

/* Finds the component among the loaded libraries. */
static int library_look(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void) bytes;
    (void) unused;
    if (NULL == strstr(info->dlpi_name, "mca_coll_gpuhier")) {
        return 0;
    }
    void *library = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    void *function = NULL != library ? dlsym(library, "gpuhier_describe") : NULL;
    memcpy(&describe, &function, sizeof(function));
    return 1;
}

static void component_find(void)
{
    dl_iterate_phdr(library_look, NULL);
    if (NULL == describe) { /* built into libmpi */
        void *function = dlsym(RTLD_DEFAULT, "gpuhier_describe");
        memcpy(&describe, &function, sizeof(function));
    }
}

/* Returns false, and fills in zeros, if the component is not loaded. */
static bool describe_now(gpuhier_description_t *d)
{
    const bool known =
        NULL != describe && 0 == describe(MPI_COMM_WORLD, d) && GPUHIER_DESCRIPTION_VERSION == d->version;
    if (!known) {
        memset(d, 0, sizeof(*d));
    }
    return known;
}

/* Makes the context of this rank's GPU current. Returns NULL, or why there is none. */
static const char *gpu_take(void)
{
    static char text[128];
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK"), *why;
    const info_driver_t *cuda = info_driver(&why);
    CUdevice device;
    CUcontext context;
    int gpus = 0;
    if (NULL == cuda) {
        return why;
    }
    if (CUDA_SUCCESS != cuda->cuDeviceGetCount(&gpus) || 0 == gpus) {
        return "no GPU is visible";
    }
    CUresult result = cuda->cuDeviceGet(&device, (NULL != local ? atoi(local) : 0) % gpus);
    result = CUDA_SUCCESS != result ? result : cuda->cuDevicePrimaryCtxRetain(&context, device);
    result = CUDA_SUCCESS != result ? result : cuda->cuCtxPushCurrent(context);
    if (CUDA_SUCCESS != result) {
        snprintf(text, sizeof(text), "the GPU gives no context: %s", info_driver_error(result));
        return text;
    }
    return NULL;
}

static void *buffer_make(size_t bytes, bool on_gpu)
{
    CUdeviceptr address = 0;
    if (!on_gpu) {
        return malloc(bytes);
    }
    return CUDA_SUCCESS == info_driver(NULL)->cuMemAlloc(&address, bytes) ? (void *) (uintptr_t) address : NULL;
}

static void buffer_free(void *buffer, bool on_gpu)
{
    if (on_gpu) {
        (void) info_driver(NULL)->cuMemFree((CUdeviceptr) (uintptr_t) buffer);
    } else {
        free(buffer);
    }
}

static bool copy(void *to, const void *from, size_t bytes, bool on_gpu, bool to_gpu)
{
    if (!on_gpu) {
        memcpy(to, from, bytes);
        return true;
    }
    const info_driver_t *cuda = info_driver(NULL);
    return CUDA_SUCCESS
           == (to_gpu ? cuda->cuMemcpyHtoD((CUdeviceptr) (uintptr_t) to, from, bytes)
                      : cuda->cuMemcpyDtoH(to, (CUdeviceptr) (uintptr_t) from, bytes));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return x < y ? -1 : x > y;
}

/* Where the timed calls ran, from the counters before and after them. Calls on host memory of other collectives than
 * MPI_Allreduce are not counted. */
static void path_tell(const gpuhier_description_t *before, const gpuhier_description_t *after, bool on_gpu, row_t *row)
{
    const uint64_t gpus = after->accelerated - before->accelerated, small = after->small - before->small;
    row->on_gpus = CALLS == gpus;
    if (CALLS == gpus) {
        snprintf(row->path, sizeof(row->path), "%s by the %s", kinds[row->kind].reduces ? "reduced" : "moved",
                 CALLS == small ? "host" : "GPUs");
        return;
    }
    const char *why = '\0' != after->members[0] ? after->members
                      : on_gpu                  ? ""
                                                : gpuhier_reason_text(GPUHIER_REASON_host_here);
    snprintf(row->path, sizeof(row->path), "left to Open MPI%s%s", '\0' == why[0] ? "" : ": ", why);
    for (int i = 0; i < GPUHIER_REASON_COUNT; ++i) {
        if (after->left[i] > before->left[i]) {
            const bool known = GPUHIER_REASON_members == i && '\0' != after->members[0];
            snprintf(row->path, sizeof(row->path), "left to Open MPI%s: %s",
                     after->staged > before->staged ? ", staged" : "",
                     known ? after->members : gpuhier_reason_text((gpuhier_reason_t) i));
        }
    }
}

/* What a rank has at a place of its input: sums are exact. */
static double value(int of, size_t i)
{
    return (double) (of + 1) * (double) (1 + i % 7);
}

/* One call; rank 0 is the root. A kind must have run in a blocking call before a nonblocking one does on the GPUs. */
static void call_make(const row_t *row, double *in, double *out, bool blocks)
{
    const int count = (int) row->count, block = count / nranks;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (row->kind) {
    case REDUCE:
        MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
    case SCATTER:
        MPI_Reduce_scatter_block(in, out, block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BCAST:
        MPI_Bcast(0 == rank ? in : out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        break;
    case GATHER:
        MPI_Allgather(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, MPI_COMM_WORLD);
        break;
    case PAIRS:
        MPI_Alltoall(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, MPI_COMM_WORLD);
        break;
    default:
        if (IALLREDUCE == row->kind && !blocks) {
            MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
    }
}

/* Wrong elements of this rank's result. */
static int32_t wrong_count(const row_t *row, const double *out)
{
    const size_t block = row->count / (size_t) nranks, mine = (size_t) rank * block;
    const bool is_idle = 0 == rank ? BCAST == row->kind : REDUCE == row->kind;
    const size_t count = is_idle                       ? 0
                         : SCATTER == row->kind        ? block
                         : kinds[row->kind].has_blocks ? block * (size_t) nranks
                                                       : row->count;
    int32_t wrong = 0;
    for (size_t i = 0; i < count; ++i) {
        const double want =
            kinds[row->kind].reduces ? (double) nranks / 2 * value(nranks, SCATTER == row->kind ? mine + i : i)
            : BCAST == row->kind     ? value(0, i)
                                     : value((int) (i / block), i % block + (PAIRS == row->kind ? mine : 0));
        wrong += want != out[i];
    }
    return wrong;
}

/* The calls of one row. Returns false if memory is missing on any rank. */
static bool row_run(row_t *row, bool on_gpu)
{
    const size_t bytes = row->count * sizeof(double);
    double *host = malloc(bytes), *in = buffer_make(bytes, on_gpu), *out = buffer_make(bytes, on_gpu);
    gpuhier_description_t before = {0}, after;
    double seconds[CALLS];
    int ok = NULL != host && NULL != in && NULL != out, all = 0;
    for (size_t i = 0; i < row->count && ok; ++i) {
        host[i] = value(rank, i);
    }
    ok = ok && copy(in, host, bytes, on_gpu, true);
    MPI_Reduce(&ok, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int call = -1; call < CALLS && all; ++call) {
        if (0 == call) {
            (void) describe_now(&before);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        call_make(row, in, out, call < 0);
        double mine = MPI_Wtime() - begin, slowest = 0;
        MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (call >= 0) {
            seconds[call] = slowest;
        }
    }
    if (all) {
        (void) describe_now(&after);
        path_tell(&before, &after, on_gpu, row);
        qsort(seconds, CALLS, sizeof(seconds[0]), by_value);
        row->us = 1e6 * seconds[CALLS / 2];
        int32_t wrong = copy(host, out, bytes, on_gpu, false) ? wrong_count(row, host) : 1;
        MPI_Reduce(&wrong, &row->wrong, 1, MPI_INT32_T, MPI_SUM, 0, MPI_COMM_WORLD);
    }
    free(host);
    buffer_free(in, on_gpu);
    buffer_free(out, on_gpu);
    return all;
}

/* The rails that a rank drives, and in brackets those that it does not. */
static const char *rails_text(const gpuhier_description_t *d, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < d->nrails && at < room; ++i) {
        const bool driven = 0 != (d->driven >> i & 1);
        at += (size_t) snprintf(text + at, room - at, driven ? " %s" : " (%s)", d->rail[i]);
    }
    return 0 == d->nrails ? " none" : text;
}

/* The first rank that gpuhier does not serve; NULL: it serves all. */
static const told_t *outsider(const told_t *told)
{
    for (int i = 0; i < nranks; ++i) {
        if (!told[i].is_served) {
            return &told[i];
        }
    }
    return NULL;
}

/* What nccl-tests counts as moved by a GPU's links, times the bytes. */
static double bus(kind_t kind)
{
    const double part = (double) (nranks - 1) / nranks;
    return kind <= IALLREDUCE ? 2 * part : kinds[kind].has_blocks ? part : 1;
}

static void print_text(const told_t *told, const row_t *rows, int nrows, const char *mpi)
{
    const gpuhier_description_t *first = &told[0].gpuhier;
    char served[768];
    printf("job of %d rank%s, %s\n", nranks, 1 == nranks ? "" : "s", mpi);
    for (int i = 0; i < nranks; ++i) {
        if (!told[i].on_gpu) {
            printf("rank %d on %s has no GPU: %s\n", i, told[i].host, told[i].why_not);
        }
    }
    const told_t *outside = outsider(told);
    const told_t *shown = NULL != outside ? outside : &told[0];
    printf("MPI_COMM_WORLD: %s\n", gpuhier_served_text(shown->served, shown->others, served, sizeof(served)));
    if (NULL != outside) {
        printf("gpuhier does not serve MPI_Allreduce on rank %d on %s: %s\n", (int) (outside - told), outside->host,
               outside->why_not_served);
        printf("no self-test: without gpuhier Open MPI may be unable to take GPU memory\n");
        return;
    }
    if (!first->has_team) {
        const bool known = '\0' != first->members[0];
        printf("gpuhier has not run any call on the GPUs%s%s\n", known ? ", since " : "; the self-test says why",
               first->members);
    } else {
        printf("%d group%s; between groups: %s\n", first->ngroups, 1 == first->ngroups ? "" : "s", first->between);
        for (int group = 0; group < first->ngroups; ++group) {
            printf("  group %d:\n", group);
            for (int i = 0; i < nranks; ++i) {
                const gpuhier_description_t *d = &told[i].gpuhier;
                char rails[512];
                if (group == d->group) {
                    printf("    rank %d on %s, pid %d, GPU %d at %s%s%s%s\n", i, told[i].host, (int) told[i].pid,
                           (int) d->gpu, d->pci, d->on_host ? ", through host memory" : "",
                           d->ngroups > 1 ? "; rails:" : "", d->ngroups > 1 ? rails_text(d, rails, sizeof(rails)) : "");
                }
            }
        }
        bool brackets = false;
        for (int i = 0; i < nranks && first->ngroups > 1; ++i) {
            brackets = brackets || told[i].gpuhier.driven != (1u << told[i].gpuhier.nrails) - 1;
        }
        printf("%smessages of doubles:\n", brackets ? "  (the rank does not drive rails in brackets)\n" : "");
        for (int i = 0; i < first->nsizes; ++i) {
            printf("  %s\n", first->path[i]);
        }
    }
    printf("self-test: %d calls each, median of the slowest rank; no benchmark\n", CALLS);
    printf("  %-24s %9s %10s %10s  %s\n", "call", "bytes", "us", "busbw GB/s", "path");
    for (int i = 0; i < nrows; ++i) {
        const double bytes = (double) (rows[i].count * sizeof(double));
        printf("  %-24s %9.0f %10.1f %10.3f  %s", kinds[rows[i].kind].call, bytes, rows[i].us,
               rows[i].us > 0 ? bytes * bus(rows[i].kind) / rows[i].us / 1e3 : 0, rows[i].path);
        if (0 != rows[i].wrong) {
            printf("; %d elements are WRONG", (int) rows[i].wrong);
        }
        printf("\n");
    }
}

static void print_json(const told_t *told, const row_t *rows, int nrows, const char *mpi)
{
    const gpuhier_description_t *first = &told[0].gpuhier;
    info_json_open(NULL, '{');
    info_json_text("mpi", mpi);
    info_json_bool("loaded", NULL != describe);
    info_json_bool("serves", NULL == outsider(told));
    info_json_open("collectives", '[');
    for (int i = 0; i < GPUHIER_SERVED_COUNT; ++i) {
        const gpuhier_served_t *served = &told[0].served[i];
        info_json_open(NULL, '{');
        info_json_text("call", served->call);
        info_json_text("by", '\0' != served->by[0] ? served->by : NULL);
        info_json_text("else", '\0' != served->below[0] ? served->below : NULL);
        info_json_close();
    }
    info_json_close();
    info_json_int("others_by_gpuhier", told[0].others);
    info_json_bool("on_gpus", first->has_team);
    info_json_int("groups", first->ngroups);
    info_json_text("members", '\0' != first->members[0] ? first->members : NULL);
    info_json_text("between_groups", first->has_team ? first->between : NULL);
    info_json_open("ranks", '[');
    for (int i = 0; i < nranks; ++i) {
        const gpuhier_description_t *d = &told[i].gpuhier;
        info_json_open(NULL, '{');
        info_json_int("rank", i);
        info_json_text("host", told[i].host);
        info_json_int("pid", told[i].pid);
        info_json_text("no_gpu", told[i].on_gpu ? NULL : told[i].why_not);
        info_json_text("not_served", told[i].is_served ? NULL : told[i].why_not_served);
        if (d->has_team) {
            info_json_int("group", d->group);
            info_json_int("index", d->index);
            info_json_int("gpu", d->gpu);
            info_json_text("pci", d->pci);
            info_json_bool("through_host_memory", d->on_host);
            info_json_open("rails", '[');
            for (int r = 0; r < d->nrails; ++r) {
                info_json_open(NULL, '{');
                info_json_text("name", d->rail[r]);
                info_json_bool("driven", d->driven >> r & 1);
                info_json_close();
            }
            info_json_close();
        }
        info_json_close();
    }
    info_json_close();
    info_json_open("sizes", '[');
    for (int i = 0; i < first->nsizes; ++i) {
        info_json_open(NULL, '{');
        info_json_int("from_bytes", (long long) first->from[i]);
        info_json_text("path", first->path[i]);
        info_json_close();
    }
    info_json_close();
    info_json_open("self_test", '[');
    for (int i = 0; i < nrows; ++i) {
        info_json_open(NULL, '{');
        info_json_text("call", kinds[rows[i].kind].call);
        info_json_int("bytes", (long long) (rows[i].count * sizeof(double)));
        info_json_number("us", rows[i].us);
        info_json_text("path", rows[i].path);
        info_json_bool("accelerated", rows[i].on_gpus);
        info_json_int("wrong", rows[i].wrong);
        info_json_close();
    }
    info_json_close();
    info_json_close();
}

/* What rank 0 gets from each rank. Returns NULL on the others. */
static told_t *tell(told_t *mine)
{
    told_t *told = NULL;
    (void) gethostname(mine->host, sizeof(mine->host) - 1);
    if (0 == rank && NULL == (told = malloc(sizeof(*told) * (size_t) nranks))) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Gather(mine, sizeof(*mine), MPI_BYTE, told, sizeof(*mine), MPI_BYTE, 0, MPI_COMM_WORLD);
    return told;
}

int main(int argc, char **argv)
{
    row_t rows[2 + KINDS] = {{.count = 1}, {.count = 8 << 10}};
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, status = 0, nrows = sizeof(rows) / sizeof(rows[0]), is_served, all_served;
    told_t mine = {.pid = (int32_t) getpid()}, *told;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (int i = 2; i < nrows; ++i) {
        rows[i] = (row_t){.kind = (kind_t) (i - 2), .count = 512 << 10};
    }
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, ",\n")] = '\0';
    component_find();
    mine.is_served = is_served = job_serving(describe_now(&mine.gpuhier) ? &mine.gpuhier : NULL, mine.served,
                                             mine.why_not_served, sizeof(mine.why_not_served));
    mine.others = gpuhier_served_others(MPI_COMM_WORLD);
    MPI_Reduce(&is_served, &all_served, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Bcast(&all_served, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const char *why_not = gpu_take();
    mine.on_gpu = NULL == why_not;
    snprintf(mine.why_not, sizeof(mine.why_not), "%s", NULL == why_not ? "" : why_not);
    nrows = all_served ? nrows : 0;
    for (int i = 0; i < nrows && 0 == status; ++i) {
        status = row_run(&rows[i], NULL == why_not) ? 0 : 3;
    }
    (void) describe_now(&mine.gpuhier);
    told = tell(&mine);
    if (0 == rank && 0 != status) {
        fprintf(stderr, "gpuhier_info: out of memory\n");
    } else if (0 == rank) {
        (argc > 1 && 0 == strcmp(argv[1], "--json") ? print_json : print_text)(told, rows, nrows, mpi);
        status = all_served ? 0 : 1;
        for (int i = 0; i < nrows; ++i) {
            status = 0 != rows[i].wrong || !rows[i].on_gpus ? 1 : status;
        }
    }
    free(told);
    MPI_Finalize();
    return status;
}
