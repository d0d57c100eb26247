/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the agreement of a communicator's members. At start, each process publishes three things in the PMIx modex:
 * its version of gpuhier, the hash of the parameters that decide paths, and whether a CUDA driver is there. A
 * communicator's calls are probed only when all members have published the same values, with a driver present: a rank
 * without the component would answer a probe with its user's data.
 *
 * A rank looks up only its neighbours in a binomial tree. Messages along the tree then collect the verdicts and spread
 * the result. Two neighbours that published different things exchange no message; both see the difference, so neither
 * waits for the other. A process therefore looks up itself and at most log2 of the ranks, two on average. Open MPI
 * learns of few processes that its own collectives would not have told it of.
 *
 * Called by the component when it opens, and by path at a communicator's first eligible call.
 */
#include "ompi_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_limits.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "coll/coll_gpuhier_agree.h"
#include "plan/coll_gpuhier_tree.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"

typedef struct agree_word {
    uint32_t version;     /* GPUHIER_FORMAT_VERSION */
    uint32_t driver;      /* 1 when libcuda.so.1 could be loaded */
    uint64_t params_hash; /* gpuhier_params_hash() */
} agree_word_t;

static const mca_base_component_t *component; /* the name under which the value is published */
static agree_word_t published;

/*
 * Caches the modex's answers about other processes: they never change, and each communicator asks for them. A process's
 * place follows from its name; a later process with the same place replaces it.
 */
#define ANSWERS 64
static struct {
    uint64_t name;
    enum { ANSWER_NONE, ANSWER_DIFFERS, ANSWER_SAME } said;
} answers[ANSWERS];
static opal_mutex_t answers_lock = OPAL_MUTEX_STATIC_INIT;

int gpuhier_agree_publish(const mca_base_component_t *self)
{
    component = self;
    published = (agree_word_t){GPUHIER_FORMAT_VERSION, gpuhier_cuda_present() ? 1 : 0, gpuhier_params_hash()};
    int rc;
    OPAL_MODEX_SEND(rc, GPUHIER_MODEX_SCOPE, component, &published, sizeof(published));
    if (OPAL_SUCCESS != rc) {
        published.driver = 0; /* the other ranks find no value, and expect no message from this one */
    }
    return rc;
}

#define LOCAL_SECONDS 20      /* more than an answer from this node ever takes */
#define OTHER_JOB_SECONDS 120 /* more than one from another job's node takes */

/*
 * Asks the modex whether the process published the same. Where MPI_Init has brought all values of this
 * job to each node, which is the default, the answer is on this node, and a value that does not come does not exist.
 * A process of another job published before it could connect to this one, but its node must be asked. Without the
 * default a process of this job may still be on its way through MPI_Init, so the wait for it has no limit.
 */
static bool published_same(const opal_process_name_t *name)
{
    agree_word_t *word = NULL;
    size_t bytes = 0;
    const bool is_ours = name->jobid == ompi_proc_local()->super.proc_name.jobid;
    const int seconds = !is_ours ? OTHER_JOB_SECONDS : gpuhier_modex_is_complete() ? LOCAL_SECONDS : 0;
    int rc = gpuhier_modex_recv(component, name, seconds, (void **) &word, &bytes);
    bool same = OPAL_SUCCESS == rc && sizeof(published) == bytes && 0 == memcmp(word, &published, sizeof(published));
    if (OPAL_SUCCESS == rc) {
        free(word);
    }
    return same;
}

/* Did the rank publish the same? Uses the cache, and makes no ompi_proc_t for the process. */
static bool is_same(struct ompi_communicator_t *comm, int rank)
{
    const opal_process_name_t process = ompi_group_get_proc_name(comm->c_local_group, rank);
    const uint64_t name = (uint64_t) process.jobid << 32 | process.vpid;
    const size_t place = (process.jobid + process.vpid) % ANSWERS;
    opal_mutex_lock(&answers_lock);
    int said = name == answers[place].name ? answers[place].said : ANSWER_NONE;
    opal_mutex_unlock(&answers_lock);
    if (ANSWER_NONE == said) {
        said = published_same(&process) ? ANSWER_SAME : ANSWER_DIFFERS;
        opal_mutex_lock(&answers_lock);
        answers[place].name = name;
        answers[place].said = said;
        opal_mutex_unlock(&answers_lock);
    }
    return ANSWER_SAME == said;
}

#define TOLD_SECONDS 1 /* the value is here, or does not exist */

bool gpuhier_agree_who(struct ompi_communicator_t *comm, char *text, size_t room)
{
    const char *what = 0 == published.driver ? "has no CUDA driver" : NULL;
    int rank = NULL != what ? ompi_comm_rank(comm) : -1;
    while (NULL == what && ++rank < ompi_comm_size(comm)) {
        const opal_process_name_t name = ompi_group_get_proc_name(comm->c_local_group, rank);
        agree_word_t *word = NULL;
        size_t bytes = 0;
        if (OPAL_SUCCESS != gpuhier_modex_recv(component, &name, TOLD_SECONDS, (void **) &word, &bytes)) {
            what = "has no gpuhier";
        } else {
            what = sizeof(published) != bytes || published.version != word->version ? "has another version of gpuhier"
                   : published.driver != word->driver                               ? "has no CUDA driver"
                   : published.params_hash != word->params_hash                     ? "has other parameters"
                                                                                    : NULL;
            free(word);
        }
    }
    snprintf(text, room, "rank %d %s", rank, NULL != what ? what : "");
    return NULL != what;
}

/* A tag of blocking collectives, which MPI orders on a communicator. No allreduce uses this one. */
#define AGREE_TAG MCA_COLL_BASE_TAG_EXSCAN

/* The message on the tree: 1 if all ranks in the sender's subtree, itself included, have published the same values with
 * a driver present. On the way down it is the verdict on all members. */
static int hear(struct ompi_communicator_t *comm, int peer, int32_t *agreed_p)
{
    return MCA_PML_CALL(recv(agreed_p, sizeof(*agreed_p), MPI_BYTE, peer, AGREE_TAG, comm, MPI_STATUS_IGNORE));
}

static int tell(struct ompi_communicator_t *comm, int peer, const int32_t *agreed)
{
    return MCA_PML_CALL(send(agreed, sizeof(*agreed), MPI_BYTE, peer, AGREE_TAG, MCA_PML_BASE_SEND_STANDARD, comm));
}

int gpuhier_agree(struct ompi_communicator_t *comm, bool *agreed_p)
{
    const int rank = ompi_comm_rank(comm), nranks = ompi_comm_size(comm);
    gpuhier_tree_move_t move;
    int32_t all = 1, heard;
    bool listens[8 * sizeof(int)]; /* peers that published the same: a child by log2 of its distance, the parent last */
    int rc = OMPI_SUCCESS;
    *agreed_p = false;
    if (0 == published.driver || !is_same(comm, rank)) {
        return OMPI_SUCCESS; /* the other ranks see that, too */
    }
    for (int i = 0, peer; OMPI_SUCCESS == rc && gpuhier_tree_move(rank, nranks, i, &move, &peer); ++i) {
        bool *same = &listens[peer < rank ? 8 * (int) sizeof(int) - 1 : __builtin_ctz((unsigned) (peer - rank))];
        switch (move) {
        case GPUHIER_TREE_FROM_CHILD:
            *same = is_same(comm, peer);
            heard = 0;
            rc = *same ? hear(comm, peer, &heard) : rc;
            all = all && heard;
            break;
        case GPUHIER_TREE_TO_PARENT:
            *same = is_same(comm, peer);
            rc = *same ? tell(comm, peer, &all) : rc;
            break;
        case GPUHIER_TREE_FROM_PARENT:
            all = 0;
            rc = *same ? hear(comm, peer, &all) : rc;
            break;
        case GPUHIER_TREE_TO_CHILD:
            rc = *same ? tell(comm, peer, &all) : rc;
            break;
        }
    }
    *agreed_p = OMPI_SUCCESS == rc && 0 != all;
    return rc;
}

void gpuhier_agree_forget(void)
{
    memset(answers, 0, sizeof(answers));
}
