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

#include "coll_gpuhier_component.h"
#include "coll_gpuhier_cuda.h"
#include "coll_gpuhier_module.h"
#include "ompi/proc/proc.h"

#define AGREE_VERSION 1u

typedef struct agree_word {
    uint32_t version;     /* AGREE_VERSION: raise it whenever ranks of two builds could not work together */
    uint32_t driver;      /* 1 when libcuda.so.1 could be loaded */
    uint64_t params_hash; /* gpuhier_params_hash() */
} agree_word_t;

static agree_word_t published;

int gpuhier_agree_publish(void)
{
    published = (agree_word_t){AGREE_VERSION, gpuhier_cuda_present() ? 1 : 0, gpuhier_params_hash()};
    int rc;
    OPAL_MODEX_SEND(rc, GPUHIER_MODEX_SCOPE, &mca_coll_gpuhier_component.super.collm_version, &published, sizeof(published));
    return rc;
}

bool gpuhier_agree(struct ompi_communicator_t *comm)
{
    if (!published.driver) {
        return false;
    }
    for (int rank = 0; rank < ompi_comm_size(comm); ++rank) {
        ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
        agree_word_t *word = NULL;
        size_t bytes = 0;
        int rc;
        OPAL_MODEX_RECV(rc, &mca_coll_gpuhier_component.super.collm_version, &proc->super.proc_name, (void **) &word, &bytes);
        bool same = OPAL_SUCCESS == rc && sizeof(published) == bytes && 0 == memcmp(word, &published, sizeof(published));
        if (OPAL_SUCCESS == rc) {
            free(word);
        }
        if (!same) {
            return false;
        }
    }
    return true;
}
