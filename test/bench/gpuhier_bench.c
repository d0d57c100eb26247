/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The benchmark: MPI_Allreduce, or another collective, on GPU buffers with the component, without it, and the floor
 * under both.
 *
 * Owns: the order of rows, and the exit status: 0 when every row is right, 1 when one is
 * not (a wrong element, another path than the component promises, other traffic than
 * computed), 2 for a bad command line, 3 where a rank has no GPU.
 *
 *   gpuhier_bench (rows) -> bench_measure (one row) -> bench_stock | bench_floor | bench_traffic -> bench_report
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists all rows that the options ask for, in the order of the table. Returns their number. */
static int list_rows(const bench_options_t *o, int nranks, bench_row_t **rows_p)
{
    const size_t blocks = bench_collective_has_blocks(o->collective) ? (size_t) nranks : 1;
    bench_row_t *rows = NULL;
    int n = 0;

    for (int t = 0; t < o->ntypes; ++t) {
        for (int p = 0; p < o->nops; ++p) {
            if (!value_is_defined(o->types[t], o->ops[p])) {
                continue;
            }
            for (int in_place = 0; in_place < 2; ++in_place) {
                for (size_t bytes = o->min_bytes; o->in_place[in_place] && bytes <= o->max_bytes; bytes *= o->factor) {
                    size_t count = bytes / o->types[t]->extent / blocks;
                    if (0 == count || (o->collective->has_lists ? blocks * count : count) > INT32_MAX) {
                        continue;
                    }
                    bench_row_t *more = realloc(rows, (size_t) (n + 1) * sizeof(*rows));
                    if (NULL == more) {
                        fprintf(stderr, "gpuhier_bench: no memory\n");
                        MPI_Abort(MPI_COMM_WORLD, 3);
                    }
                    rows = more;
                    memset(&rows[n], 0, sizeof(*rows));
                    rows[n].collective = o->collective;
                    rows[n].type = o->types[t];
                    rows[n].op = o->ops[p];
                    rows[n].count = count;
                    rows[n].bytes = blocks * count * o->types[t]->extent;
                    rows[n++].in_place = 1 == in_place;
                }
            }
        }
    }
    *rows_p = rows;
    return n;
}

/* An equal share of the budget for every row that is still to come: what fast rows leave goes to the slow ones. */
static double share_of(const bench_options_t *o, double began, int rows_left)
{
    double left = o->budget - (MPI_Wtime() - began);

    if (o->budget <= 0.0) {
        return 0.0;
    }
    return left > 0.01 * rows_left ? left / rows_left : 0.01;
}

static int measure_rows(const bench_options_t *options, const bench_place_t *place)
{
    bench_row_t *rows;
    int nrows = list_rows(options, place->nranks, &rows);
    int failures = 0;
    bench_stock_t *stock = bench_stock_create(options);
    bench_floor_t *floor = bench_floor_create(options, place);
    bench_traffic_t *traffic = bench_traffic_create(place, options);
    bool speaks = 0 == place->rank;

    if (speaks) {
        bench_report_header(options, place, bench_stock_name(stock));
    }
    double began = MPI_Wtime();
    for (int i = 0; i < nrows; ++i) {
        bench_measure(options, place, stock, floor, traffic, share_of(options, began, nrows - i), &rows[i]);
        failures += bench_row_is_right(&rows[i], options) ? 0 : 1;
        if (speaks) {
            bench_report_row(&rows[i], place);
        }
    }
    if (options->host && place->has_component) {
        bench_dup_report(place);
    }
    if (speaks) {
        printf("# %d rows, %d failed\n", nrows, failures);
        if (NULL != options->json && !bench_report_json(options->json, rows, nrows, place)) {
            ++failures;
        }
        if (NULL != options->plot && !bench_report_plot(options->plot, rows, nrows, place, bench_stock_name(stock))) {
            ++failures;
        }
        if (0 == nrows) {
            fprintf(stderr, "gpuhier_bench: no row fits the options\n");
            ++failures;
        }
    }
    bench_traffic_destroy(traffic);
    bench_floor_destroy(floor);
    bench_stock_destroy(stock);
    for (int i = 0; i < nrows; ++i) {
        free(rows[i].samples);
        free(rows[i].stock_samples);
    }
    free(rows);
    return failures;
}

int main(int argc, char **argv)
{
    bench_options_t options;
    bench_place_t place;
    int rank, failures = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int status = bench_options_parse(&options, argc, argv, 0 == rank);
    if (0 == status) {
        if (bench_place_init(&place)) {
            failures = measure_rows(&options, &place);
            bench_place_free(&place);
        } else {
            status = 3;
        }
        pvars_close();
    }
    MPI_Finalize();
    if (0 != status) {
        return 1 == status ? 0 : status;
    }
    return 0 == failures ? 0 : 1;
}
