/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component's counters and switches through MPI_T; see pvars.h.
 *
 * A counter's handle counts from its allocation on (Open MPI keeps to MPI's "starting value" handle
 * by handle), so each is allocated at its first reading and kept until pvars_close().
 */
#include "pvars.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

static bool is_open;
static MPI_T_pvar_session session;

#define MAX_HANDLES (32 + PVARS_MAX_RAILS)
static struct {
    char name[64];
    MPI_T_pvar_handle handle;
} handles[MAX_HANDLES];
static int nhandles;

static void open_once(void)
{
    int provided;
    if (!is_open) {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        MPI_T_pvar_session_create(&session);
        is_open = true;
    }
}

void pvars_close(void)
{
    if (is_open) {
        while (nhandles > 0) {
            MPI_T_pvar_handle_free(session, &handles[--nhandles].handle);
        }
        MPI_T_pvar_session_free(&session);
        MPI_T_finalize();
        is_open = false;
    }
}

static int find(const char *name)
{
    int n = 0;
    MPI_T_pvar_get_num(&n);
    for (int i = 0; i < n; ++i) {
        char found[256];
        int length = sizeof(found), verbosity, var_class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        if (MPI_SUCCESS
                == MPI_T_pvar_get_info(i, found, &length, &verbosity, &var_class, &type, NULL, NULL, NULL, &bind,
                                       &readonly, &continuous, &atomic)
            && 0 == strcmp(found, name)) {
            return i;
        }
    }
    return -1;
}

/* The handle of a counter, allocated when first asked for; NULL when there is no such variable. */
static MPI_T_pvar_handle *handle_of(const char *name)
{
    for (int i = 0; i < nhandles; ++i) {
        if (0 == strcmp(handles[i].name, name)) {
            return &handles[i].handle;
        }
    }
    int count = 0;
    int index = find(name);
    if (index < 0 || nhandles == MAX_HANDLES
        || MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, index, NULL, &handles[nhandles].handle, &count)
        || 1 != count) {
        return NULL;
    }
    snprintf(handles[nhandles].name, sizeof(handles[nhandles].name), "%s", name);
    return &handles[nhandles++].handle;
}

/* Reads one counter, counted from its first reading; false when there is no such variable. */
static bool read_counter(const char *name, uint64_t *value_p)
{
    unsigned long long raw = 0;
    MPI_T_pvar_handle *handle = handle_of(name);
    if (NULL == handle || MPI_SUCCESS != MPI_T_pvar_read(session, *handle, &raw)) {
        return false;
    }
    *value_p = raw;
    return true;
}

void pvars_read(pvars_t *p)
{
    memset(p, 0, sizeof(*p));
    open_once();
    p->present =
        read_counter("coll_gpuhier_calls_accelerated", &p->accelerated)
        && read_counter("coll_gpuhier_calls_small", &p->small) && read_counter("coll_gpuhier_calls_mapped", &p->mapped)
        && read_counter("coll_gpuhier_calls_oneshot", &p->oneshot)
        && read_counter("coll_gpuhier_calls_long", &p->in_long_slices)
        && read_counter("coll_gpuhier_calls_nonblocking", &p->nonblocking)
        && read_counter("coll_gpuhier_calls_on_host", &p->on_host)
        && read_counter("coll_gpuhier_calls_saved", &p->saved) && read_counter("coll_gpuhier_calls_staged", &p->staged)
        && read_counter("coll_gpuhier_probes", &p->probes);
    (void) read_counter("coll_gpuhier_net_steps_sent", &p->net_steps_sent);
    for (p->nrails = 0; p->present && p->nrails < PVARS_MAX_RAILS; ++p->nrails) {
        char name[64];
        snprintf(name, sizeof(name), "coll_gpuhier_net_bytes_sent_%d", p->nrails);
        if (!read_counter(name, &p->net_bytes_sent[p->nrails])) {
            break;
        }
    }
}

bool pvars_counter(const char *name, uint64_t *value_p)
{
    open_once();
    return read_counter(name, value_p);
}

uint64_t pvars_net_bytes(const pvars_t *before, const pvars_t *after)
{
    uint64_t sum = 0;
    for (int i = 0; i < after->nrails; ++i) {
        sum += after->net_bytes_sent[i] - before->net_bytes_sent[i];
    }
    return sum;
}

bool pvars_number(const char *name, uint64_t *value_p)
{
    int index, count;
    unsigned long long value = 0;
    MPI_T_cvar_handle handle;
    bool done = false;

    open_once();
    if (MPI_SUCCESS == MPI_T_cvar_get_index(name, &index)
        && MPI_SUCCESS == MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        done = MPI_SUCCESS == MPI_T_cvar_read(handle, &value);
        MPI_T_cvar_handle_free(&handle);
        *value_p = value;
    }
    return done;
}

bool pvars_enable(bool on)
{
    int index, count;
    int value = on ? 1 : 0;
    MPI_T_cvar_handle handle;
    bool done = false;

    open_once();
    if (MPI_SUCCESS == MPI_T_cvar_get_index("coll_gpuhier_enable", &index)
        && MPI_SUCCESS == MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        /* A bool of the MCA system is exposed as MPI_INT or MPI_C_BOOL; ask. */
        MPI_Datatype type = MPI_INT;
        int name_length = 0, verbosity, desc_length = 0, bind, scope;
        char ignored[1];
        MPI_T_cvar_get_info(index, ignored, &name_length, &verbosity, &type, NULL, ignored, &desc_length, &bind,
                            &scope);
        bool value_bool = on;
        done = MPI_SUCCESS == MPI_T_cvar_write(handle, MPI_C_BOOL == type ? (void *) &value_bool : (void *) &value);
        MPI_T_cvar_handle_free(&handle);
    }
    return done;
}
