/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the words that partners exchange outside their calls, as empty messages:
 *
 *   greeting    at set-up, on each rail that two partners share: UCX connects with the first message
 *   notice      on rail 0, expected as long as the team lives: its sender has given up
 *   last word   on each other rail, after a notice: nothing more comes there
 *
 * After a failed call, partners may have sent messages that no call receives, and UCX keeps a long message at its
 * sender until there is a receive for it. So a rank on which a call failed discards what arrives for the team, until
 * every partner has said, on each rail that it uses, that nothing more comes.
 *
 * Called by set-up, and by the engine.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_kept.h"
#include "base/coll_gpuhier_lock.h"
#include "team/coll_gpuhier_partners.h"
#include "team/coll_gpuhier_process.h"
#include "opal/runtime/opal_progress.h"

/* The words that this rank and one partner send each other. */
typedef struct notice {
    int rank;
    gpuhier_net_op_t recv, send;
    /*
     * Rail r's word is received by element 2 r and sent by 2 r + 1: at set-up a greeting, after a failure the last
     * word. Rail 0's last word is the notice, in recv and send.
     */
    gpuhier_net_op_t greeting[2 * GPUHIER_RAILS_MAX];
} notice_t;

typedef struct gpuhier_partners {
    int nnotices;
    notice_t *notices; /* [partners] */
    bool has_given_up;
    int shares; /* calls of gpuhier_partners_share() that no unshare has undone */
    /* When a call has failed, or the team is gone: */
    gpuhier_kept_t kept;
    uint32_t team; /* its id */
    gpuhier_way_t way;
    double until; /* when the wait for the partners' last words ends; 0: no wait */
} gpuhier_partners_t;

#define LAST_WORDS_SECONDS 120.0 /* a partner that frees the communicator before it hears of a failure sends none */
#define GREETING_SECONDS 30.0    /* partners have just voted, so they will soon greet */
#define SETTLE_SECONDS 1.0       /* after an error, for connections that are being made */

/* Expects a notice from every partner. A rank that gives up tells its own group in shared memory. */
static int notices_post(gpuhier_team_t *team, gpuhier_partners_t *partners)
{
    for (int rank = 0; rank < team->nranks; ++rank) {
        partners->nnotices += NULL != team->peers[rank];
    }
    partners->notices = calloc((size_t) partners->nnotices, sizeof(*partners->notices));
    if (NULL == partners->notices) {
        partners->nnotices = 0;
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    notice_t *notice = partners->notices;
    for (int rank = 0; rank < team->nranks; ++rank) {
        if (NULL == team->peers[rank]) {
            continue;
        }
        notice->rank = rank;
        /* The sender is part of the tag: all partners send the same word. */
        const uint64_t name = gpuhier_word_tag(team->id, GPUHIER_WORD_NOTICE, rank);
        int rc = gpuhier_net_recv(team->peers[rank], 0, name, NULL, 0, false, &notice->recv);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        ++notice;
    }
    return OMPI_SUCCESS;
}

int gpuhier_partners_init(gpuhier_team_t *team)
{
    gpuhier_partners_t *partners = calloc(1, sizeof(*partners));
    if (NULL == partners) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    partners->team = team->id;
    partners->way = team->way;
    team->partners = partners;
    return notices_post(team, partners);
}

/* Is a greeting still under way? Sets *rc_p to the error of one that ended with one, or of a connection. Another thread
 * may drive the connections. */
static bool greetings_pending(const gpuhier_team_t *team, int *rc_p)
{
    const gpuhier_partners_t *partners = team->partners;
    bool pending = false;
    gpuhier_engine_lock();
    for (int i = 0; i < partners->nnotices; ++i) {
        for (int k = 0; k < 2 * GPUHIER_RAILS_MAX; ++k) {
            const gpuhier_net_op_t *op = &partners->notices[i].greeting[k];
            pending = pending || gpuhier_net_op_is_pending(op);
            if (GPUHIER_NET_OP_ERROR == op->state) {
                *rc_p = op->status;
            }
        }
    }
    *rc_p = !pending || OMPI_SUCCESS != *rc_p ? *rc_p : gpuhier_partners_check(team);
    gpuhier_engine_unlock();
    return pending;
}

/* The rails on which this rank exchanges pieces with a partner, as bits. Rail 0 also carries votes and notices. */
static unsigned rails_shared(const gpuhier_team_t *team, int partner)
{
    int begin, end, their_begin, their_end;
    gpuhier_shape_pieces(&team->shape, team->rank, &begin, &end);
    gpuhier_shape_pieces(&team->shape, partner, &their_begin, &their_end);
    return 1u
           | gpuhier_rails_bits(team->rails, begin > their_begin ? begin : their_begin,
                                end < their_end ? end : their_end);
}

/* Posts a greeting or a last word on a rail, both ways. */
static int words_post(const gpuhier_team_t *team, notice_t *notice, int word, int rail)
{
    gpuhier_net_peer_t *peer = team->peers[notice->rank];
    const uint64_t theirs = gpuhier_word_tag(team->id, word + rail, notice->rank);
    const uint64_t mine = gpuhier_word_tag(team->id, word + rail, team->rank);
    const int received = gpuhier_net_recv(peer, rail, theirs, NULL, 0, false, &notice->greeting[2 * rail]);
    const int sent = gpuhier_net_send(peer, rail, mine, NULL, 0, false, &notice->greeting[2 * rail + 1]);
    return OMPI_SUCCESS != received ? received : sent;
}

/* Posts the greetings to all partners with that rail. Stops at the first error and returns it. */
static int greetings_post(const gpuhier_team_t *team, int rail)
{
    gpuhier_partners_t *partners = team->partners;
    int rc = OMPI_SUCCESS;
    gpuhier_engine_lock();
    for (int i = 0; i < partners->nnotices && OMPI_SUCCESS == rc; ++i) {
        if (0 != (rails_shared(team, partners->notices[i].rank) >> rail & 1u)) {
            rc = words_post(team, &partners->notices[i], GPUHIER_WORD_GREETING, rail);
        }
    }
    gpuhier_engine_unlock();
    return rc;
}

/*
 * Waits until all greetings have ended; rc is what posting them returned. After an error, here or on a partner, the
 * other connections get SETTLE_SECONDS more: UCX can abort when a connection is closed while both sides make it.
 */
static int greetings_wait(const gpuhier_team_t *team, int rc)
{
    double deadline = gpuhier_clock() + (OMPI_SUCCESS == rc ? GREETING_SECONDS : SETTLE_SECONDS);
    int error = rc;
    while (greetings_pending(team, &error)) {
        const double now = gpuhier_clock();
        if (OMPI_SUCCESS == error && MPI_SUCCESS != gpuhier_comm_fault(team->comm, false)) {
            error = OMPI_ERROR; /* a partner may have left the set-up, and the next vote fails */
        }
        if (OMPI_SUCCESS == rc && OMPI_SUCCESS != error) {
            deadline = now + SETTLE_SECONDS;
            rc = error;
        }
        if (now > deadline) {
            return OMPI_SUCCESS != rc ? rc : OMPI_ERR_TIMEOUT;
        }
        (void) gpuhier_team_engine->drive(true);
        opal_progress();
    }
    return OMPI_SUCCESS != rc ? rc : error;
}

/*
 * All ranks connect one rail after the other, in the same order: when one turns out dead, those before it are
 * connected. A rank that finds a dead rail notifies its other partners over rail 0; otherwise they would wait for its
 * greeting on the next rail.
 */
int gpuhier_partners_connect(gpuhier_team_t *team)
{
    int rc = OMPI_SUCCESS;
    for (int rail = 0; rail < GPUHIER_RAILS_MAX && OMPI_SUCCESS == rc; ++rail) {
        rc = greetings_wait(team, greetings_post(team, rail));
    }
    if (OMPI_SUCCESS != rc) {
        gpuhier_engine_lock();
        gpuhier_partners_give_up(team);
        gpuhier_engine_unlock();
    }
    return rc;
}

static bool words_in_use(const gpuhier_partners_t *partners)
{
    bool in_use = false;
    for (int i = 0; i < partners->nnotices; ++i) {
        const notice_t *notice = &partners->notices[i];
        in_use = in_use || gpuhier_net_pair_in_use(&notice->send, &notice->recv);
        for (int k = 0; k < 2 * GPUHIER_RAILS_MAX; ++k) {
            in_use = in_use || gpuhier_net_op_is_pending(&notice->greeting[k]);
        }
    }
    return in_use;
}

/* Takes back the receives of words that have not come. */
static void words_cancel(gpuhier_partners_t *partners)
{
    for (int i = 0; i < partners->nnotices; ++i) {
        gpuhier_net_cancel(&partners->notices[i].recv);
        for (int rail = 0; rail < GPUHIER_RAILS_MAX; ++rail) {
            gpuhier_net_cancel(&partners->notices[i].greeting[2 * rail]);
        }
    }
    partners->until = 0;
}

static bool give_back(gpuhier_kept_t *kept)
{
    gpuhier_partners_t *partners = (gpuhier_partners_t *) (void *) ((char *) kept - offsetof(gpuhier_partners_t, kept));
    gpuhier_net_t *net = gpuhier_process_net(partners->way);
    if (partners->until > 0 && NULL != net) {
        gpuhier_net_discard(net, gpuhier_team_tag(partners->team), gpuhier_team_tag(UINT32_MAX));
    }
    if (partners->until > 0 && gpuhier_clock() > partners->until) {
        words_cancel(partners);
    }
    if (words_in_use(partners)) {
        return false;
    }
    partners->until = 0; /* what comes from now on may be another team's, with the same id */
    if (partners->shares > 0) {
        return false;
    }
    free(partners->notices);
    free(partners);
    return true;
}

static bool any_has_given_up(const gpuhier_partners_t *partners)
{
    bool any = false;
    for (int i = 0; i < partners->nnotices; ++i) {
        any = any || GPUHIER_NET_OP_DONE == partners->notices[i].recv.state;
    }
    return any;
}

void gpuhier_partners_leave(gpuhier_team_t *team, bool failed)
{
    gpuhier_partners_t *partners = team->partners;
    if (NULL == partners) {
        return;
    }
    if (failed) {
        partners->until = gpuhier_clock() + LAST_WORDS_SECONDS;
    } else {
        if (any_has_given_up(partners)) { /* it discards what this rank sends, until told that nothing more comes */
            gpuhier_partners_give_up(team);
        }
        words_cancel(partners);
    }
    team->partners = NULL;
    gpuhier_keep(&partners->kept, give_back);
}

struct gpuhier_partners *gpuhier_partners_share(const gpuhier_team_t *team)
{
    ++team->partners->shares;
    return team->partners;
}

void gpuhier_partners_unshare(struct gpuhier_partners *partners)
{
    --partners->shares;
}

bool gpuhier_partners_rank_is_over(const struct gpuhier_partners *partners, int rank)
{
    for (int i = 0; i < partners->nnotices; ++i) {
        const gpuhier_net_op_t *recv = &partners->notices[i].recv;
        if (rank == partners->notices[i].rank) {
            return GPUHIER_NET_OP_DONE == recv->state
                   || (GPUHIER_NET_OP_ERROR == recv->state && OMPI_ERR_INTERUPTED != recv->status);
        }
    }
    return false;
}

int gpuhier_partners_check(const gpuhier_team_t *team)
{
    const gpuhier_partners_t *partners = team->partners;
    int rc = OMPI_SUCCESS;
    for (int i = 0; NULL != partners && i < partners->nnotices; ++i) {
        if (GPUHIER_NET_OP_ERROR == partners->notices[i].recv.state) {
            return OMPI_ERR_UNREACH;
        }
        if (GPUHIER_NET_OP_PENDING != partners->notices[i].recv.state) {
            rc = OMPI_ERROR;
        }
    }
    return rc;
}

/* Errors are ignored: the partner learns of them by its connection. */
void gpuhier_partners_give_up(gpuhier_team_t *team)
{
    gpuhier_partners_t *partners = team->partners;
    if (NULL == partners || partners->has_given_up) {
        return;
    }
    partners->has_given_up = true;
    for (int i = 0; i < partners->nnotices; ++i) {
        notice_t *notice = &partners->notices[i];
        if (GPUHIER_NET_OP_IDLE == notice->greeting[1].state) {
            continue; /* set-up never connected it */
        }
        const uint64_t name = gpuhier_word_tag(team->id, GPUHIER_WORD_NOTICE, team->rank);
        (void) gpuhier_net_send(team->peers[notice->rank], 0, name, NULL, 0, false, &notice->send);
        for (int rail = 1; rail < GPUHIER_RAILS_MAX; ++rail) {
            const gpuhier_net_op_t *greeting = &notice->greeting[2 * rail];
            if (GPUHIER_NET_OP_DONE == greeting[0].state && GPUHIER_NET_OP_DONE == greeting[1].state) {
                (void) words_post(team, notice, GPUHIER_WORD_LAST, rail); /* calls have used this rail */
            }
        }
    }
}

bool gpuhier_partners_is_giving_up(const gpuhier_team_t *team)
{
    bool any = false;
    for (int i = 0; NULL != team->partners && i < team->partners->nnotices; ++i) {
        any = any || gpuhier_net_op_is_pending(&team->partners->notices[i].send);
    }
    return any;
}
