/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what gpuhier says of a communicator: which components serve its collectives, and the description for a tool.
 * Changes nothing and sends nothing.
 *
 * Called by gpuhier_info's program in a job; by the component at the end of MPI_Init, since a component that stands
 * above gpuhier leaves it no call that could say who serves; and by path when a communicator gets a team.
 */
#include "ompi_config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_agree.h"
#include "coll/coll_gpuhier_describe.h"
#include "coll/coll_gpuhier_module.h"
#include "plan/coll_gpuhier_choice.h"
#include "team/coll_gpuhier_team.h"
#include "opal/util/output.h"

#if __has_include("ompi/mpi/fortran/base/fint_2_int.h")
#    include "ompi/mca/coll/base/coll_base_util.h"
_Static_assert(sizeof(mca_coll_base_avail_coll_t) == sizeof(gpuhier_avail_t)
                   && offsetof(mca_coll_base_avail_coll_t, ac_component_name)
                          == offsetof(gpuhier_avail_t, ac_component_name),
               "Open MPI's struct is as base/compat says");
#endif

_Static_assert(GPUHIER_RAILS_MAX <= GPUHIER_DESCRIBED_RAILS, "there is room for all rails");
_Static_assert(GPUHIER_CHOICES_MAX <= GPUHIER_DESCRIBED_SIZES, "there is room for all sizes");

static void serving_find(const struct ompi_communicator_t *comm, gpuhier_served_t served_p[GPUHIER_SERVED_COUNT])
{
    gpuhier_served_t *served = served_p, below;
    gpuhier_served_find(comm, served_p);
#define BELOW(name)                                                                          \
    if (gpuhier_served_by_gpuhier(served)) {                                                 \
        const gpuhier_module_t *own = gpuhier_module_of(comm->c_coll->coll_##name##_module); \
        gpuhier_served_one(comm, #name, own->saved.name##_module, &below);                   \
        memcpy(served->below, below.by, sizeof(below.by));                                   \
    }                                                                                        \
    ++served;
    GPUHIER_COLLECTIVES(BELOW)
#undef BELOW
}

void gpuhier_serving_tell(struct ompi_communicator_t *comm)
{
    gpuhier_served_t served[GPUHIER_SERVED_COUNT];
    char text[768], why[256];
    serving_find(comm, served);
    gpuhier_served_text(served, gpuhier_served_others(comm), text, sizeof(text));
    if (!gpuhier_served_by_gpuhier(&served[0])) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, ". gpuhier does not serve MPI_Allreduce: %s",
                 gpuhier_served_why_not(&served[0], gpuhier_params.enable, gpuhier_params.priority, why, sizeof(why)));
    }
    if (MPI_COMM_WORLD == comm) {
        gpuhier_report_served(text);
    }
    if (gpuhier_params.print_info && 0 == ompi_comm_rank(comm)) {
        opal_output(0, "coll:gpuhier: communicator %s: %s", comm->c_name, text);
    }
}

static void rails_describe(const gpuhier_team_t *team, const gpuhier_record_t *mine, gpuhier_description_t *d)
{
    const char *names[GPUHIER_RAILS_MAX];
    d->nrails = gpuhier_rails_devices(mine, names);
    for (int i = 0; i < d->nrails; ++i) {
        snprintf(d->rail[i], sizeof(d->rail[i]), "%s", names[i]);
    }
    if (NULL == team->rails) {
        return;
    }
    int first, end;
    gpuhier_shape_pieces(&team->shape, team->rank, &first, &end);
    d->driven = gpuhier_rails_bits(team->rails, first, end);
}

static void team_describe(const gpuhier_team_t *team, gpuhier_description_t *d)
{
    const gpuhier_record_t *mine = &team->members[team->index];
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    d->has_team = 1;
    d->ngroups = team->ngroups;
    d->group = team->group;
    d->index = team->index;
    d->gpu = mine->gpu_ordinal;
    d->on_host = gpuhier_hostmem_is_used(&team->hostmem);
    const char *on_node = gpuhier_team_between_on_node(team);
    snprintf(d->between, sizeof(d->between), "%s%s%s", gpuhier_team_between(team),
             NULL != on_node ? ", and on one node " : "", NULL != on_node ? on_node : "");
    snprintf(d->pci, sizeof(d->pci), "%04x:%02x:%02x.%x", (unsigned) mine->gpu_pci.domain & 0xffff, mine->gpu_pci.bus,
             mine->gpu_pci.device, mine->gpu_pci.function & 7u);
    rails_describe(team, mine, d);
    const gpuhier_facts_t facts = gpuhier_team_facts(team);
    d->nsizes =
        gpuhier_choice_table(&team->shape, &team->limits, &facts, &gpuhier_collectives[GPUHIER_ALLREDUCE], rows);
    for (int i = 0; i < d->nsizes; ++i) {
        d->from[i] = rows[i].min_bytes;
        (void) gpuhier_choice_text(&rows[i], d->path[i], sizeof(d->path[i]));
    }
}

__attribute__((visibility("default"))) int gpuhier_describe(MPI_Comm comm, gpuhier_description_t *description_p)
{
    gpuhier_description_t *d = description_p;
    memset(d, 0, sizeof(*d));
    d->version = GPUHIER_DESCRIPTION_VERSION;
    d->bytes = sizeof(*d);
    serving_find(comm, d->served);
    d->enable = gpuhier_params.enable;
    d->priority = gpuhier_params.priority;
    d->serves = gpuhier_served_by_gpuhier(&d->served[0]);
    if (d->serves) {
        const gpuhier_module_t *module = gpuhier_module_of(comm->c_coll->coll_allreduce_module);
        if (NULL != module->team) {
            team_describe(module->team, d);
        } else if (GPUHIER_AGREE_NO == module->agree && GPUHIER_REASON_members == module->why
                   && !gpuhier_agree_who(comm, d->members, sizeof(d->members))) {
            d->members[0] = '\0';
        }
    }
    d->accelerated = gpuhier_counted(&gpuhier_counters.calls_accelerated);
    d->small = gpuhier_counted(&gpuhier_counters.calls_small);
    d->staged = gpuhier_counted(&gpuhier_counters.calls_staged);
    for (int i = 0; i < GPUHIER_REASON_COUNT; ++i) {
        d->left[i] = gpuhier_counted(&gpuhier_counters.saved_because[i]);
    }
    return 0;
}
