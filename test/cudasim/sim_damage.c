/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Damaged ways between GPUs.
 *
 * Owns what kernels of one GPU see of another GPU's memory where CUDASIM_DAMAGE says so, for example
 * "1:2:stale,2:1:lost". The calls of the driver and its copies succeed, and copies move the right bytes; only kernels
 * are lied to, as where an IOMMU or ACS reroutes the traffic between two GPUs.
 *
 * A GPU with such a way has a view of its own: the whole window, shown a third time at another distance (see
 * sim_window.c). Its kernels work there. Memory of the other GPU is shown in it as the damage wants, all else as it is.
 * Called by sim_window.c and sim_launch.c.
 */
#include "sim_damage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim_context.h"
#include "sim_window.h"

#define PAGE_BYTES 4096

enum damage {
    DAMAGE_NONE,
    DAMAGE_STALE,   /* reads give zeros, as when the memory was allocated; writes are lost */
    DAMAGE_SHIFTED, /* reads give what lies a page further; writes are lost */
    DAMAGE_LOST     /* reads are right until the kernel has written there; writes are lost */
};

static const char *const names[] = {[DAMAGE_STALE] = "stale", [DAMAGE_SHIFTED] = "shifted", [DAMAGE_LOST] = "lost"};

/* Constant after setup. */
static struct view {
    uintptr_t base; /* 0: kernels of this GPU see the memory as it is */
    enum damage of[SIM_MAX_GPUS];
} views[SIM_MAX_GPUS];

static int parse_one(const char *text)
{
    char kind[16], rest;
    int from, to;
    size_t i;

    if (3 != sscanf(text, "%d:%d:%15[a-z]%c", &from, &to, kind, &rest) || from < 0 || to < 0 || from == to
        || from >= sim_driver.topology.ngpus || to >= sim_driver.topology.ngpus) {
        return -1;
    }
    for (i = DAMAGE_STALE; i <= DAMAGE_LOST; i++) {
        if (0 == strcmp(kind, names[i])) {
            views[from].of[to] = (enum damage) i;
            views[from].base = 1; /* wanted */
            return 0;
        }
    }
    return -1;
}

static int view_reserve(struct view *view)
{
    void *got = mmap(NULL, sim_window.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (MAP_FAILED == got) {
        fprintf(stderr, "cudasim: CUDASIM_DAMAGE: no address range for another view of the memory: %s\n",
                strerror(errno));
        return -1;
    }
    madvise(got, sim_window.size, MADV_DONTDUMP);
    view->base = (uintptr_t) got;
    return 0;
}

int sim_damage_setup(void)
{
    const char *list = getenv("CUDASIM_DAMAGE");
    char text[1024], *save = NULL, *word;
    int i;

    if (NULL == list || '\0' == list[0]) {
        return 0;
    }
    snprintf(text, sizeof(text), "%s", list);
    for (word = strtok_r(text, ",", &save); NULL != word; word = strtok_r(NULL, ",", &save)) {
        if (0 != parse_one(word)) {
            fprintf(stderr,
                    "cudasim: CUDASIM_DAMAGE has '%s'; GPU:GPU:KIND is expected, with two GPUs of the machine "
                    "and stale, shifted or lost\n",
                    word);
            return -1;
        }
    }
    for (i = 0; i < SIM_MAX_GPUS; i++) {
        if (0 != views[i].base && 0 != view_reserve(&views[i])) {
            return -1;
        }
    }
    return 0;
}

ptrdiff_t sim_damage_alias(int gpu)
{
    return 0 == views[gpu].base ? sim_window.alias : (ptrdiff_t) (views[gpu].base - sim_window.base);
}

int sim_damage_show(uintptr_t address, size_t bytes, int fd, off_t offset, int gpu)
{
    int i;

    for (i = 0; i < SIM_MAX_GPUS; i++) {
        const enum damage damage = views[i].of[gpu];
        int flags = (DAMAGE_NONE == damage ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED | MAP_NORESERVE;
        void *where = (void *) (views[i].base + (address - sim_window.base));

        if (0 == views[i].base) {
            continue;
        }
        if (DAMAGE_STALE == damage) {
            flags |= MAP_ANONYMOUS;
        }
        if (MAP_FAILED
            == mmap(where, bytes, PROT_READ | PROT_WRITE, flags, DAMAGE_STALE == damage ? -1 : fd,
                    DAMAGE_STALE == damage     ? 0
                    : DAMAGE_SHIFTED == damage ? offset + PAGE_BYTES
                                               : offset)) {
            return -1;
        }
        madvise(where, bytes, MADV_DONTDUMP);
    }
    return 0;
}

void sim_damage_hide(uintptr_t address, size_t bytes)
{
    int i;

    for (i = 0; i < SIM_MAX_GPUS; i++) {
        void *where = (void *) (views[i].base + (address - sim_window.base));

        if (0 != views[i].base
            && MAP_FAILED
                   == mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)) {
            fprintf(stderr, "cudasim: cannot unmap device memory: %s\n", strerror(errno));
            abort();
        }
    }
}
