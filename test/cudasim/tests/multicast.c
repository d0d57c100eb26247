/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast objects between processes, each with a GPU of its own.
 *
 *   multicast_test sums N      N processes reduce and store through the switch; sums, bytes over links
 *   multicast_test order N     sums of floats differ between launches
 *   multicast_test signal N    a push to the multicast address reaches all; the others' kernels wait for it
 *   multicast_test illegal N   accesses that stop a launch, and calls that are refused
 *   multicast_test killed N    what a killed process had bound; nothing is left behind
 *   multicast_test slots 2     no more objects can have memory bound than an NVSwitch has slots
 *   multicast_test faults 2    calls that CUDASIM_FAIL makes fail
 *   multicast_test model N     64 MiB under a model, in the time that the formula says
 *
 * An alarm ends a process that waits too long for the others. Process 0 sends them the object as a descriptor.
 */
#include <cuda.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cudasim.h"

#define MIB ((size_t) 1 << 20)
#define MOST 8
#define DEADLINE_S 50

/* Between the processes. */
static struct common {
    pthread_barrier_t barrier;
    unsigned long long out[MOST][MOST], in[MOST][MOST]; /* [process][GPU]: bytes to and from the switch */
    double us[MOST];
} * common;

static int rank, nranks, sockets[MOST][2];
static size_t bytes = 4 * MIB;
static CUstream stream;
static CUmodule module;
static CUmemGenericAllocationHandle object, memory;
static CUdeviceptr own, team; /* this GPU's memory, and all members' */

static void must(CUresult rc, CUresult wanted, const char *what, int line)
{
    if (wanted != rc) {
        fprintf(stderr, "process %d, line %d: %s gives %d in place of %d\n", rank, line, what, (int) rc, (int) wanted);
        exit(1);
    }
}

#define MUST(call) must(call, CUDA_SUCCESS, #call, __LINE__)
#define GIVES(rc, call) must(call, rc, #call, __LINE__)

#define HOLDS(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "process %d, line %d: not %s\n", rank, __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static void barrier(void)
{
    pthread_barrier_wait(&common->barrier);
}

/* ---- set-up ---- */

static void descriptor_send(int to, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    HOLDS(1 == sendmsg(sockets[to][0], &message, 0));
}

static int descriptor_receive(void)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    int fd;

    HOLDS(1 == recvmsg(sockets[rank][1], &message, MSG_CMSG_CLOEXEC));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static void context_make(void)
{
    CUcontext ctx;

    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, rank));
    MUST(cuCtxSetCurrent(ctx));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoad(&module, "contract_kernels.fatbin"));
}

/* The object with this process's GPU in its team. */
static void team_join(void)
{
    const CUmulticastObjectProp properties = {
        .numDevices = (unsigned) nranks, .size = bytes, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    int fd;

    if (0 == rank) {
        MUST(cuMulticastCreate(&object, &properties));
        MUST(cuMemExportToShareableHandle(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        for (int i = 1; i < nranks; i++) {
            descriptor_send(i, fd);
        }
    } else {
        fd = descriptor_receive();
        MUST(cuMemImportFromShareableHandle(&object, (void *) (intptr_t) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    }
    close(fd);
    MUST(cuMulticastAddDevice(object, rank));
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rank},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;

    MUST(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    MUST(cuMemMap(at, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(at, bytes, &access, 1));
    return at;
}

static void memory_make(void)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rank}};

    MUST(cuMemCreate(&memory, bytes, &properties, 0));
    own = map(memory);
}

/* All of the above, with memory bound behind the whole object. */
static void start(void)
{
    context_make();
    team_join();
    memory_make();
    MUST(cuMulticastBindMem(object, 0, memory, 0, bytes, 0));
    team = map(object);
    MUST(cuMemRelease(memory));
    MUST(cuMemRelease(object));
    barrier();
}

static void stop(void)
{
    unsigned long long live = 1;

    barrier();
    MUST(cuMemUnmap(team, bytes));
    MUST(cuMemUnmap(own, bytes));
    MUST(cuMemAddressFree(team, bytes));
    MUST(cuMemAddressFree(own, bytes));
    HOLDS(0 == cudasim_counter("multicast_live", &live) && 0 == live);
    HOLDS(0 == cudasim_counter("allocs_live", &live) && 0 == live);
}

static CUfunction kernel(const char *name)
{
    CUfunction function;

    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

static void launch(const char *name, void **params)
{
    const CUresult rc = cuLaunchKernel(kernel(name), 16, 1, 1, 256, 1, 1, 0, stream, params, NULL);

    HOLDS(CUDA_SUCCESS == rc || CUDA_ERROR_ILLEGAL_ADDRESS == rc); /* which a wait reports as well */
}

static void sum(CUdeviceptr at, uint64_t n, uint32_t floats)
{
    void *params[] = {&at, &n, &floats};

    launch("multicast_sum", params);
}

/* Writes this GPU's memory; another GPU reads it next. */
static void write_own(size_t offset, const void *from, size_t count)
{
    MUST(cuMemcpyHtoD(own + offset, from, count));
    MUST(cuCtxSynchronize()); /* the copy may return with its last part on its way */
    barrier();
}

/* ---- tests ---- */

/* Each process reduces its part. Afterwards all processes have all sums, and each GPU's links have carried
 * (1 + 1/P) B. */
static void sums(void)
{
    const uint64_t words = bytes / 4, part = words / (uint64_t) nranks;
    uint32_t *host = malloc(bytes);
    unsigned long long out = 0, in = 0;

    start();
    for (uint64_t i = 0; i < words; i++) {
        host[i] = (uint32_t) (i * 2654435761u) + (uint32_t) rank;
    }
    write_own(0, host, bytes);
    cudasim_counters_reset();
    sum(team + (CUdeviceptr) (4 * part * (uint64_t) rank), part, 0);
    MUST(cuStreamSynchronize(stream));
    for (int gpu = 0; gpu < nranks; gpu++) {
        char name[2][32];
        snprintf(name[0], sizeof(name[0]), "link.%d.switch", gpu);
        snprintf(name[1], sizeof(name[1]), "link.switch.%d", gpu);
        HOLDS(0 == cudasim_counter(name[0], &common->out[rank][gpu]));
        HOLDS(0 == cudasim_counter(name[1], &common->in[rank][gpu]));
    }
    barrier();
    for (int i = 0; i < nranks; i++) {
        out += common->out[i][rank];
        in += common->in[i][rank];
    }
    HOLDS(out == bytes + bytes / (size_t) nranks);
    HOLDS(in == bytes + bytes / (size_t) nranks);
    MUST(cuMemcpyDtoH(host, own, bytes));
    for (uint64_t i = 0; i < words; i++) {
        HOLDS(host[i] == (uint32_t) nranks * (uint32_t) (i * 2654435761u) + (uint32_t) (nranks * (nranks - 1) / 2));
    }
    free(host);
    stop();
}

/* Sums of three floats or more differ between launches; sums of two do not. */
static void order(void)
{
    const float values[] = {1e8f, 1.0f, -1e8f, 0.3f, 3e7f, -7.0f, 1e-3f, 5e6f};
    uint64_t n = 1;
    float first = 0, got;
    int changes = 0;

    start();
    write_own(0, &values[rank], sizeof(float));
    for (int i = 0; i < 32; i++) {
        CUdeviceptr to = own + MIB;
        void *params[] = {&team, &to, &n};
        launch("multicast_load", params);
        MUST(cuStreamSynchronize(stream));
        MUST(cuMemcpyDtoH(&got, to, sizeof(got)));
        first = 0 == i ? got : first;
        changes += 0 != memcmp(&first, &got, sizeof(got));
    }
    HOLDS(nranks > 2 ? changes > 0 : 0 == changes);
    stop();
}

/* Process 0 pushes a word to all GPUs; each process's kernel waits for it at its own address. */
static void signalled(void)
{
    start();
    for (uint64_t value = 1; value <= 20; value++) {
        CUdeviceptr to = 0 == rank ? team + 64 : 0, at = own + 64;
        void *params[] = {&to, &at, &value};
        launch("multicast_signal", params);
        MUST(cuStreamSynchronize(stream));
        barrier();
    }
    stop();
}

static void illegal(void)
{
    const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rank}};
    CUmemGenericAllocationHandle unshared;
    uint32_t word = 0, zero = 0;
    uint64_t n = 4;

    context_make();
    team_join();
    memory_make();
    const CUmemAccessDesc outside = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = nranks},
                                     .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(cuMemCreate(&unshared, bytes, &plain, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(object, 0, unshared, 0, bytes, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(object, 2 * MIB, memory, 0, bytes, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(object, 0, memory, MIB, 2 * MIB, 0));
    /* All but the last bind both halves, in the other order; the last binds one half only. */
    MUST(cuMulticastBindMem(object, 0, memory, 2 * MIB, 2 * MIB, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(object, 0, memory, 0, 2 * MIB, 0));
    if (rank < nranks - 1) {
        MUST(cuMulticastBindAddr(object, 2 * MIB, own, 2 * MIB, 0));
    }
    team = map(object);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemSetAccess(team, bytes, &outside, 1)); /* not in the team */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&word, team, sizeof(word)));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(team, &word, sizeof(word)));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(own, team, sizeof(word)));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(team, 0, 16));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, team, 1, 0));
    barrier();
    word = 1u << rank;
    write_own(2 * MIB, &word, sizeof(word));
    if (0 == rank) {
        sum(team, 1, 0);
        MUST(cuStreamSynchronize(stream));
    }
    barrier();
    MUST(cuMemcpyDtoH(&word, own + 2 * MIB, sizeof(word)));
    HOLDS((1u << nranks) - 1 == word);
    barrier();
    switch (rank) { /* each poisons its context in another way */
    case 0:
        sum(team + 2 * MIB - 8, 4, 0); /* half of it is not bound everywhere */
        break;
    case 1: {
        void *params[] = {&team, &zero};
        launch("multicast_plain", params);
        break;
    }
    default: {
        void *params[] = {&own, &own, &n}; /* no multicast address */
        launch("multicast_load", params);
        break;
    }
    }
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    barrier();
}

/* Objects of GPUs 0 and 1, both in this process. The slots' number is that of the emulator. */
static void slots(void)
{
    const CUmulticastObjectProp properties = {.numDevices = 2, .size = 2 * MIB};
    const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle objects[129];
    unsigned long long live = 0;

    if (0 != rank) {
        return;
    }
    context_make();
    MUST(cuMemCreate(&memory, 2 * MIB, &plain, 0));
    for (int i = 0; i < 129; i++) {
        MUST(cuMulticastCreate(&objects[i], &properties));
        MUST(cuMulticastAddDevice(objects[i], 0));
        MUST(cuMulticastAddDevice(objects[i], 1));
        GIVES(i < 128 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
              cuMulticastBindMem(objects[i], 0, memory, 0, 2 * MIB, 0));
    }
    MUST(cuMulticastUnbind(objects[5], 0, 0, 2 * MIB));
    MUST(cuMulticastBindMem(objects[128], 0, memory, 0, 2 * MIB, 0));
    for (int i = 0; i < 129; i++) {
        MUST(cuMemRelease(objects[i]));
    }
    MUST(cuMemRelease(memory));
    HOLDS(0 == cudasim_counter("multicast_live", &live) && 0 == live);
}

/* With CUDASIM_FAIL=cuMulticastAddDevice:1:CUDA_ERROR_ILLEGAL_STATE,cuMulticastBindMem:2:CUDA_ERROR_SYSTEM_NOT_READY */
static void faults(void)
{
    const CUmulticastObjectProp properties = {.numDevices = 2, .size = 4 * MIB};
    const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

    if (0 != rank) {
        return;
    }
    context_make();
    MUST(cuMemCreate(&memory, 4 * MIB, &plain, 0));
    MUST(cuMulticastCreate(&object, &properties));
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cuMulticastAddDevice(object, 0));
    MUST(cuMulticastAddDevice(object, 0));
    MUST(cuMulticastAddDevice(object, 1));
    MUST(cuMulticastBindMem(object, 0, memory, 0, 2 * MIB, 0));
    GIVES(CUDA_ERROR_SYSTEM_NOT_READY, cuMulticastBindMem(object, 2 * MIB, memory, 2 * MIB, 2 * MIB, 0));
    MUST(cuMulticastBindMem(object, 2 * MIB, memory, 2 * MIB, 2 * MIB, 0));
}

/* The last process is killed after all have bound. Process 0 has used the address before and still can; the others
 * cannot. */
static void killed(void)
{
    unsigned long long live = 1;

    start();
    if (0 == rank) {
        sum(team, 1, 0);
        MUST(cuStreamSynchronize(stream));
    }
    barrier();
    if (nranks - 1 == rank) {
        raise(SIGKILL);
    }
    while (0 == kill(getppid(), 0) && 0 == common->us[0]) { /* set by the parent, which has seen the death */
        usleep(1000);
    }
    sum(team, 1, 0);
    GIVES(0 == rank ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    if (0 == rank) {
        MUST(cuMemUnmap(team, bytes));
        HOLDS(0 == cudasim_counter("multicast_live", &live) && 0 == live);
    }
}

/* A figure of the model file, read here and not by the emulator. */
static double key(const char *name)
{
    FILE *file = fopen(getenv("CUDASIM_MODEL"), "r");
    char line[512];
    double value = NAN;
    size_t length = strlen(name);

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (0 == strncmp(line, name, length) && ' ' == line[length]) {
            value = strtod(strchr(line, '=') + 1, NULL);
        }
    }
    HOLDS(NULL != file && !isnan(value));
    fclose(file);
    return value;
}

/*
 * 64 MiB by all processes at once, each a part: (1 + 1/P) B over each link, after a launch and before its end is seen.
 * It is never earlier. A busy machine makes it later, so there are several turns.
 */
static void model(void)
{
    const uint64_t words = 16 * MIB, part = words / (uint64_t) nranks;
    const double formula = (1.0 + 1.0 / nranks) * 64 * (double) MIB / 1e3 / key("multicast.rate")
                           + key("host.cuLaunchKernel") + key("gpu.start") + key("gpu.kernel") + key("multicast.load")
                           + key("link.store") + key("gpu.visible");
    double best = HUGE_VAL, slowest;

    bytes = 64 * MIB;
    start();
    for (int turn = 0; turn < 8 && !(best < 1.1 * formula); turn++) {
        CUdeviceptr at = team + (CUdeviceptr) (4 * part * (uint64_t) rank);
        void *params[] = {&at, (void *) &part};
        barrier();
        const unsigned long long begin = cudasim_model_ns();
        launch("multicast_time", params);
        MUST(cuStreamSynchronize(stream));
        common->us[rank] = (double) (cudasim_model_ns() - begin) / 1e3;
        barrier();
        slowest = 0;
        for (int i = 0; i < nranks; i++) {
            slowest = common->us[i] > slowest ? common->us[i] : slowest;
        }
        best = slowest < best ? slowest : best;
    }
    if (0 == rank) {
        printf("%d GPUs, 64 MiB by multimem.ld_reduce and multimem.st: %.1f us, by the formula %.1f\n", nranks, best,
               formula);
        fflush(stdout);
    }
    HOLDS(best > 0.97 * formula && best < 1.25 * formula);
    stop();
}

/* ---- the parent ---- */

static void run(const char *what)
{
    alarm(DEADLINE_S);
    if (0 == strcmp(what, "sums")) {
        sums();
    } else if (0 == strcmp(what, "order")) {
        order();
    } else if (0 == strcmp(what, "signal")) {
        signalled();
    } else if (0 == strcmp(what, "illegal")) {
        illegal();
    } else if (0 == strcmp(what, "slots")) {
        slots();
    } else if (0 == strcmp(what, "faults")) {
        faults();
    } else if (0 == strcmp(what, "killed")) {
        killed();
    } else {
        model();
    }
    exit(0);
}

int main(int argc, char **argv)
{
    static const char *const tests[] = {"sums", "order", "signal", "illegal", "slots", "faults", "killed", "model"};
    bool known = false, dies;
    pthread_barrierattr_t attributes;
    pid_t children[MOST], child;
    int status, failures = 0;

    for (size_t i = 0; 3 == argc && i < sizeof(tests) / sizeof(tests[0]); i++) {
        known = known || 0 == strcmp(argv[1], tests[i]);
    }
    nranks = known ? atoi(argv[2]) : 0;
    if (nranks < 2 || nranks > MOST) {
        fprintf(stderr, "usage: multicast_test sums|order|signal|illegal|slots|faults|killed|model PROCESSES\n");
        return 2;
    }
    dies = 0 == strcmp(argv[1], "killed");
    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&common->barrier, &attributes, (unsigned) nranks);
    for (int i = 0; i < nranks; i++) {
        if (0 != socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i])) {
            perror("socketpair");
            return 1;
        }
    }
    for (rank = 0; rank < nranks; rank++) {
        children[rank] = fork();
        if (0 == children[rank]) {
            run(argv[1]);
        }
    }
    while ((child = wait(&status)) > 0) {
        if (dies && child == children[nranks - 1]) {
            failures += !(WIFSIGNALED(status) && SIGKILL == WTERMSIG(status));
            common->us[0] = 1;
        } else if (!WIFEXITED(status) || 0 != WEXITSTATUS(status)) {
            failures++;
            for (int i = 0; i < nranks && 1 == failures; i++) {
                kill(children[i], SIGTERM); /* they may wait for the one that has failed */
            }
        }
    }
    return failures > 0;
}
