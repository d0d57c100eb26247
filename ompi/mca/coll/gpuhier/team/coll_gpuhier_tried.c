/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "team/coll_gpuhier_tried.h"
#include "opal/class/opal_hash_table.h"

/* A program that spawns processes without end fills the table, which is emptied then. Others may still remember what
 * this process does not; set-up allows for that (verdicts). */
#define PAIRS_MAX 4096

static opal_hash_table_t rates; /* of the pairs that have passed */
static bool ready;

static double *rate_of(const gpuhier_tried_pair_t *pair)
{
    void *rate = NULL;
    const bool found = ready && OPAL_SUCCESS == opal_hash_table_get_value_ptr(&rates, pair, sizeof(*pair), &rate);
    return found ? rate : NULL;
}

bool gpuhier_tried_find(const gpuhier_tried_pair_t *pair, double *rate_p)
{
    const double *rate = rate_of(pair);
    *rate_p = NULL != rate ? *rate : 0.0;
    return NULL != rate;
}

void gpuhier_tried_note(const gpuhier_tried_pair_t *pair, double rate)
{
    if (NULL != rate_of(pair)) {
        return;
    }
    if (ready && opal_hash_table_get_size(&rates) >= PAIRS_MAX) {
        gpuhier_tried_finalize();
    }
    if (!ready) {
        OBJ_CONSTRUCT(&rates, opal_hash_table_t);
        opal_hash_table_init(&rates, 16); /* it grows */
        ready = true;
    }
    double *kept = malloc(sizeof(*kept));
    if (NULL != kept) {
        *kept = rate;
        if (OPAL_SUCCESS != opal_hash_table_set_value_ptr(&rates, pair, sizeof(*pair), kept)) {
            free(kept);
        }
    }
}

void gpuhier_tried_forget(const gpuhier_tried_pair_t *pair)
{
    double *rate = rate_of(pair);
    if (NULL != rate) {
        opal_hash_table_remove_value_ptr(&rates, pair, sizeof(*pair));
        free(rate);
    }
}

void gpuhier_tried_finalize(void)
{
    void *key, *rate, *node = NULL;
    size_t bytes;
    if (!ready) {
        return;
    }
    for (int rc = opal_hash_table_get_first_key_ptr(&rates, &key, &bytes, &rate, &node); OPAL_SUCCESS == rc;
         rc = opal_hash_table_get_next_key_ptr(&rates, &key, &bytes, &rate, node, &node)) {
        free(rate);
    }
    OBJ_DESTRUCT(&rates);
    ready = false;
}
