/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes the component draw the same random word of four bytes each time (the ids of its teams), with
 * GPUHIER_SABOTAGE_RANDOM in the environment: getrandom() in front of the C library's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t getrandom(void *bytes, size_t length, unsigned flags);

__attribute__((visibility("default"))) ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
    Dl_info info;
    if (4 == length && NULL != getenv("GPUHIER_SABOTAGE_RANDOM") && 0 != dladdr(__builtin_return_address(0), &info)
        && NULL != info.dli_fname && NULL != strstr(info.dli_fname, "mca_coll_gpuhier")) {
        memset(bytes, 0x5a, length);
        return (ssize_t) length;
    }
    return syscall(SYS_getrandom, bytes, length, flags);
}
