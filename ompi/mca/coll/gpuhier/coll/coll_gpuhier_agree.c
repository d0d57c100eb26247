/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the agreement that precedes everything: each process publishes, in the
 * PMIx modex at start, its version of gpuhier, the hash of the parameters that
 * decide paths, and whether a CUDA driver is there. Only in communicators whose
 * members all published the same, and a driver, does any rank ever probe: a rank
 * without the component would answer a probe with its user's data.
 *
 * Called by the component's open, and by the module at its first eligible call.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_params.h"
#include "coll_gpuhier_component.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "coll_gpuhier_module.h"
#include "team/coll_gpuhier_process.h"
#include "ompi/proc/proc.h"
#include "opal/class/opal_hash_table.h"

#define AGREE_VERSION 1u

typedef struct agree_word {
    uint32_t version;     /* AGREE_VERSION: raise it whenever ranks of two builds could not work together */
    uint32_t driver;      /* 1 when libcuda.so.1 could be loaded */
    uint64_t params_hash; /* gpuhier_params_hash() */
} agree_word_t;

static agree_word_t published;

/* What the modex said of each process that we have asked it about; it does not change, and asking takes a while. Guarded by the engine's lock. */
static opal_hash_table_t answers;
static bool answers_made;

enum { ANSWER_DIFFERS = 1, ANSWER_SAME };

int gpuhier_agree_publish(void)
{
    published = (agree_word_t){AGREE_VERSION, gpuhier_cuda_present() ? 1 : 0, gpuhier_params_hash()};
    int rc;
    OPAL_MODEX_SEND(rc, GPUHIER_MODEX_SCOPE, &mca_coll_gpuhier_component.super.collm_version, &published, sizeof(published));
    return rc;
}

/* Asks the modex. */
static bool published_same(ompi_proc_t *proc)
{
    agree_word_t *word = NULL;
    size_t bytes = 0;
    int rc;
    OPAL_MODEX_RECV(rc, &mca_coll_gpuhier_component.super.collm_version, &proc->super.proc_name, (void **) &word, &bytes);
    bool same = OPAL_SUCCESS == rc && sizeof(published) == bytes && 0 == memcmp(word, &published, sizeof(published));
    if (OPAL_SUCCESS == rc) {
        free(word);
    }
    return same;
}

/* Remembers the answer for the next communicator. */
static bool is_same(ompi_proc_t *proc)
{
    const uint64_t name = (uint64_t) proc->super.proc_name.jobid << 32 | proc->super.proc_name.vpid;
    void *answer = NULL;
    if (!answers_made) {
        OBJ_CONSTRUCT(&answers, opal_hash_table_t);
        opal_hash_table_init(&answers, 256);
        answers_made = true;
    }
    if (OPAL_SUCCESS != opal_hash_table_get_value_uint64(&answers, name, &answer)) {
        answer = (void *) (uintptr_t) (published_same(proc) ? ANSWER_SAME : ANSWER_DIFFERS);
        opal_hash_table_set_value_uint64(&answers, name, answer);
    }
    return ANSWER_SAME == (uintptr_t) answer;
}

bool gpuhier_agree(struct ompi_communicator_t *comm)
{
    bool all = published.driver;
    gpuhier_engine_lock();
    for (int rank = 0; rank < ompi_comm_size(comm) && all; ++rank) {
        all = is_same(ompi_comm_peer_lookup(comm, rank));
    }
    gpuhier_engine_unlock();
    return all;
}

void gpuhier_agree_forget(void)
{
    if (answers_made) {
        OBJ_DESTRUCT(&answers);
        answers_made = false;
    }
}
