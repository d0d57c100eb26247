/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The words that ranks of different groups send each other outside their calls: a greeting at set-up, and a notice when
 * a rank gives up.
 */
#ifndef GPUHIER_PARTNERS_H
#define GPUHIER_PARTNERS_H

#include "team/coll_gpuhier_team.h"

/*
 * Expects a notice from each partner of a team of several groups. Returns an Open MPI code; gpuhier_partners_fini() may
 * be called in any case. The engine's lock is held in all functions but gpuhier_partners_connect().
 */
int gpuhier_partners_init(gpuhier_team_t *team);

/* Stops expecting notices. Messages that UCX has not let go of are kept until it does. Harmless when no notice is
 * expected. */
void gpuhier_partners_fini(gpuhier_team_t *team);

/*
 * The same as gpuhier_partners_fini(), after a call has failed. Until every partner has given up as well, but for two
 * minutes at most, this rank receives and discards their messages, so that they get their memory back.
 */
void gpuhier_partners_leave(gpuhier_team_t *team);

/*
 * Exchanges a greeting with each partner. UCX connects with the first message, and that takes both sides. Over a
 * connection that stands, a later notice leaves at once, even if the partner is not in the call yet. All members call
 * it. Waits GREETING_SECONDS at most for each rail; returns an Open MPI code.
 */
int gpuhier_partners_connect(gpuhier_team_t *team);

/* OMPI_ERR_UNREACH when a partner cannot be reached, OMPI_ERROR when one has given up, else OMPI_SUCCESS. */
int gpuhier_partners_check(const gpuhier_team_t *team);

/*
 * Keeps what the team has heard of its partners until it is unshared, even if the team ends before. Memory that a
 * failed call has offered to partners must not change until they have taken it, or have given up as well.
 */
struct gpuhier_partners *gpuhier_partners_share(const gpuhier_team_t *team);
void gpuhier_partners_unshare(struct gpuhier_partners *partners);

/* Has this partner said that it has given up, or is its connection lost? False once this rank no longer listens to
 * it. */
bool gpuhier_partners_rank_is_over(const struct gpuhier_partners *partners, int rank);

/* Tells the partners, once, that this rank has given up. Does not wait for them. */
void gpuhier_partners_give_up(gpuhier_team_t *team);

/* Are the notices still on their way out? */
bool gpuhier_partners_is_giving_up(const gpuhier_team_t *team);

#endif /* GPUHIER_PARTNERS_H */
