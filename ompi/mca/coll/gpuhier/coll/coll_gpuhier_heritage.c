/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns an attribute of communicators that have kinds of calls in mode ACC. Open MPI tells a new module nothing about a
 * parent, but it copies attributes where MPI duplicates a communicator, and nowhere else: in MPI_Comm_dup, in
 * MPI_Comm_dup_with_info, and when MPI_Comm_idup is posted. Modes change only where blocking calls end, and these and
 * the duplication have one order on all ranks, so all ranks copy the same modes. No rank relies on that: the members
 * compare what they have copied before they use it (agree).
 *
 *   parent                          duplicate
 *   heritage_leave: sets it
 *   MPI_Comm_dup: copied -------->  lies there until the first call
 *                                   heritage_take: compared and used, or not; then it stands for the duplicate's table
 *
 * Programs do not see the attribute, since they do not know its key. Called by path.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "coll/coll_gpuhier_heritage.h"

typedef struct heritage {
    const gpuhier_module_t *module; /* the communicator's own: duplicates inherit its table; NULL: they inherit `acc` */
    gpuhier_modes_acc_t acc[];      /* [1] where module is NULL, else none */
} heritage_t;

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT; /* of the key */
static int keyval = MPI_KEYVAL_INVALID;

void gpuhier_heritage_open(void)
{
    keyval = MPI_KEYVAL_INVALID; /* keys do not outlive a closing */
}

/* Runs in a duplication of the parent, so no thread is in a call that changes the parent's modes. */
static int copied(MPI_Comm comm, int key, void *extra, void *value, void *copy_p, int *flag_p)
{
    const heritage_t *parent = value;
    heritage_t *child = malloc(sizeof(*child) + sizeof(child->acc[0]));
    bool any = NULL != child;
    (void) comm;
    (void) key;
    (void) extra;
    if (any && NULL == parent->module) {
        child->acc[0] = parent->acc[0];
    } else if (any) {
        any = gpuhier_modes_list(&parent->module->modes, child->acc);
    }
    if (any) {
        child->module = NULL;
        *(void **) copy_p = child;
    } else {
        free(child);
    }
    *flag_p = any;
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm;
    (void) key;
    (void) extra;
    free(value);
    return MPI_SUCCESS;
}

static int key_get(bool make)
{
    opal_mutex_lock(&lock);
    if (MPI_KEYVAL_INVALID == keyval && make
        && MPI_SUCCESS != PMPI_Comm_create_keyval(copied, deleted, &keyval, NULL)) {
        keyval = MPI_KEYVAL_INVALID;
    }
    const int key = keyval;
    opal_mutex_unlock(&lock);
    return key;
}

/* Makes duplicates of the communicator inherit from its own table, in place of the list that it has. */
static void own_set(gpuhier_module_t *module, struct ompi_communicator_t *comm, int key)
{
    heritage_t *heritage = malloc(sizeof(*heritage));
    module->leaves = true; /* even if this fails: it is not tried again */
    if (NULL != heritage) {
        heritage->module = module;
        if (MPI_SUCCESS != PMPI_Comm_set_attr(comm, key, heritage)) {
            free(heritage);
        }
    }
}

void gpuhier_heritage_leave(gpuhier_module_t *module, struct ompi_communicator_t *comm)
{
    const int key = module->leaves ? MPI_KEYVAL_INVALID : key_get(true);
    if (MPI_KEYVAL_INVALID != key) {
        own_set(module, comm, key);
    }
}

bool gpuhier_heritage_take(gpuhier_module_t *module, struct ompi_communicator_t *comm, gpuhier_modes_acc_t *acc)
{
    const int key = key_get(false);
    heritage_t *heritage = NULL;
    int found = 0;
    if (MPI_KEYVAL_INVALID == key || MPI_SUCCESS != PMPI_Comm_get_attr(comm, key, (void *) &heritage, &found)
        || !found) {
        return false;
    }
    *acc = heritage->acc[0];
    own_set(module, comm, key);
    return true;
}
