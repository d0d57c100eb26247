/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract of the CUDA driver, as far as the emulated one keeps it.
 *
 *   contract FATBIN            runs all parts and prints what happened
 *   contract FATBIN multicast  runs the part that depends on the machine
 *
 * The output is compared with contract.golden by contract.sh. The same program runs
 * on a real driver, which then judges the golden file.
 */
#include "contract.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *contract_name(CUresult rc)
{
    const char *name = NULL;

    if (CUDA_SUCCESS != cuGetErrorName(rc, &name) || NULL == name) {
        return "unknown error";
    }
    return 0 == strncmp(name, "CUDA_", 5) ? name + 5 : name;
}

/* Starts the second process, which runs exec so that it begins without a driver. */
static pid_t start_child(const char *program, int *to_child_p, int *from_child_p)
{
    char in[16], out[16];
    int down[2], up[2];
    pid_t pid;

    if (0 != socketpair(AF_UNIX, SOCK_STREAM, 0, down) || 0 != pipe(up)) { /* a socket takes descriptors, too */
        perror("socketpair or pipe");
        exit(1);
    }
    pid = fork();
    if (0 == pid) {
        close(down[1]);
        close(up[0]);
        snprintf(in, sizeof(in), "%d", down[0]);
        snprintf(out, sizeof(out), "%d", up[1]);
        execl(program, program, "--ipc-child", in, out, (char *) NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    *to_child_p = down[1];
    *from_child_p = up[0];
    return pid;
}

int main(int argc, char **argv)
{
    int to_child, from_child, status = -1;
    pid_t child;

    if (4 == argc && 0 == strcmp(argv[1], "--ipc-child")) {
        return contract_ipc_child(atoi(argv[2]), atoi(argv[3]));
    }
    if (3 == argc && 0 == strcmp(argv[2], "multicast")) {
        return contract_multicast(argv[1]);
    }
    if (2 != argc) {
        fprintf(stderr, "usage: contract FATBIN [multicast]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    child = start_child("/proc/self/exe", &to_child, &from_child);
    contract_before_init();
    contract_devices();
    contract_contexts();
    contract_memory();
    contract_host_memory();
    contract_attributes();
    contract_copies();
    contract_streams();
    contract_modules(argv[1]);
    contract_mapped();
    contract_pools();
    contract_entry_points();
    contract_ipc_parent(to_child, from_child);
    contract_faults();
    close(to_child);
    waitpid(child, &status, 0);
    HOLDS("the second process ended well", WIFEXITED(status) && 0 == WEXITSTATUS(status));
    return 0;
}
