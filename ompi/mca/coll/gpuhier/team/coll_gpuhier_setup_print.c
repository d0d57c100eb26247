/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what set-up says of a new team: the lines of print_info, and warnings about how its groups exchange data.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/coll_gpuhier_params.h"
#include "plan/coll_gpuhier_choice.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

/* The levels of a group in words; "": it has none. */
static const char *levels_text(const gpuhier_setup_t *setup, int group, char *text, size_t room)
{
    gpuhier_parts_t parts;
    text[0] = '\0';
    return gpuhier_levels_find(&setup->team->hierarchy, group, setup->records, &parts)
               ? gpuhier_levels_text(&parts, text, room)
               : text;
}

/* A line for each run of groups with the same levels. */
static void levels_print(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    char text[128], next[128], where[48] = "";
    for (int first = 0, end; 0 != team->levels.min_bytes && first < team->ngroups; first = end) {
        levels_text(setup, first, text, sizeof(text));
        end = first + 1;
        while (end < team->ngroups && 0 == strcmp(text, levels_text(setup, end, next, sizeof(next)))) {
            ++end;
        }
        if (end - first > 1) {
            snprintf(where, sizeof(where), "groups %d to %d ", first, end - 1);
        } else if (team->ngroups > 1) {
            snprintf(where, sizeof(where), "group %d ", first);
        }
        if ('\0' != text[0]) {
            opal_output(0, "coll:gpuhier:   %sfrom %llu bytes: %s", where, (unsigned long long) team->levels.min_bytes,
                        text);
        }
    }
}

void gpuhier_setup_print(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    if (!gpuhier_params.print_info || 0 != team->rank) {
        return;
    }
    opal_output(0,
                "coll:gpuhier: communicator %s: %d ranks in %d group%s, %d piece%s, slices of at most %llu bytes, %s "
                "between groups",
                team->comm->c_name, team->nranks, team->ngroups, 1 == team->ngroups ? "" : "s", team->shape.npieces,
                1 == team->shape.npieces ? "" : "s",
                (unsigned long long) gpuhier_choice_longest(&team->shape, &team->limits), gpuhier_team_between(team));
    if ('\0' != setup->no_links[0]) {
        opal_output(0, "coll:gpuhier:   %s", setup->no_links);
    }
    if (NULL != gpuhier_team_between_on_node(team)) {
        opal_output(0, "coll:gpuhier:   between groups of one node %s", gpuhier_team_between_on_node(team));
    }
    if (team->ngroups > 1 && GPUHIER_WIRE_NVLINK != team->limits.wire && GPUHIER_NET_GPU_YES != setup->gpu) {
        const char *remedy = gpuhier_net_gpu_remedy(setup->gpu);
        opal_output(0, "coll:gpuhier:   %sGPU memory for UCX, since on rank %d %s%s%s",
                    team->net_on_device ? "" : "no ", setup->gpu_rank, gpuhier_net_gpu_reason(setup->gpu),
                    '\0' == remedy[0] ? "" : "; ", remedy);
    }
    for (int group = 0; group < team->ngroups; ++group) {
        for (int i = 0; i < gpuhier_hierarchy_group_size(&team->hierarchy, group); ++i) {
            int rank = gpuhier_hierarchy_member(&team->hierarchy, group, i);
            opal_output(0, "coll:gpuhier:   group %d index %d: rank %d, pid %d, gpu %d", group, i, rank,
                        (int) setup->records[rank].pid, (int) setup->records[rank].gpu_ordinal);
        }
    }
    if (GPUHIER_SWITCH_NONE != team->switch_state) {
        opal_output(0, "coll:gpuhier:   from %llu bytes: %s may be reduced in NVSwitches",
                    (unsigned long long) team->switch_from,
                    gpuhier_params.reproducible ? "sums, extremes and bits of integers"
                                                : "sums, and extremes and bits of integers,");
    }
    levels_print(setup);
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    const gpuhier_facts_t facts = gpuhier_team_facts(team);
    const int nrows = gpuhier_choice_table(&team->shape, &team->limits, &facts, rows);
    for (int i = 0; i < nrows; ++i) {
        char text[GPUHIER_CHOICE_TEXT_MAX];
        opal_output(0, "coll:gpuhier:   %s", gpuhier_choice_text(&rows[i], team->ngroups, text, sizeof(text)));
    }
}

/* Tells why messages between groups pass through host memory. */
static void bounced_tell(gpuhier_net_gpu_t gpu, int gpu_rank)
{
    const char *remedy = gpuhier_net_gpu_remedy(gpu);
    char reason[320];
    snprintf(reason, sizeof(reason), "on rank %d %s%s%s", gpu_rank, gpuhier_net_gpu_reason(gpu),
             '\0' == remedy[0] ? "" : "; ", remedy);
    opal_show_help("help-coll-gpuhier.txt", "no GPUDirect", true, ompi_process_info.nodename, reason);
}

void gpuhier_setup_warn(const gpuhier_setup_t *setup)
{
    const gpuhier_team_t *team = setup->team;
    static atomic_flag told_bounced = ATOMIC_FLAG_INIT, told_few = ATOMIC_FLAG_INIT;
    gpuhier_rails_use_t use;
    if (0 != team->rank || team->ngroups < 2 || GPUHIER_WIRE_NVLINK == team->limits.wire) {
        return;
    }
    if (GPUHIER_WIRE_RDMA == team->limits.wire && GPUHIER_NET_AUTO == gpuhier_params.net && !team->net_on_device
        && !atomic_flag_test_and_set(&told_bounced)) {
        bounced_tell(setup->gpu, setup->gpu_rank);
    }
    if (gpuhier_rails_are_few(&team->shape, setup->records, team->rails, setup->widest, &use)
        && !atomic_flag_test_and_set(&told_few)) {
        char reason[128] = "the GPUs of a node are in several groups, which share the rails of the largest one";
        if (use.fewest < use.there) {
            snprintf(reason, sizeof(reason), "rank %d has %d of them, and all ranks use the same number",
                     use.fewest_rank, use.fewest);
        }
        opal_show_help("help-coll-gpuhier.txt", "few rails", true, ompi_process_info.nodename, use.driven, use.there,
                       setup->widest, reason);
    }
}
