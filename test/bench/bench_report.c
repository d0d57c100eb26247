/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the benchmark says: the table, the JSON file, the picture, and whether a row is a failure.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bench_path_name(bench_path_t path)
{
    static const char *const names[] = {"none", "gpuhier", "staged", "saved", "mixed"};
    return names[path];
}

bool bench_row_is_right(const bench_row_t *row, const bench_options_t *options)
{
    if (0 != row->wrong || 0 != row->stock_wrong || !row->traffic_is_right) {
        return false;
    }
    if (options->host && MODE_STOCK != options->mode && BENCH_PATH_SAVED != row->path) {
        return false;
    }
    return options->host || MODE_STOCK == options->mode || options->any_path || !row->type->accelerated
           || BENCH_PATH_GPUHIER == row->path;
}

void bench_report_header(const bench_options_t *options, const bench_place_t *place, const char *stock_name)
{
    printf("# gpuhier_bench: %d ranks on %d node%s, %d %s GPU%s on this one%s\n", place->nranks, place->nnodes,
           1 == place->nnodes ? "" : "s", place->ngpus, place->is_emulated ? "emulated" : "real",
           1 == place->ngpus ? "" : "s", place->shared_gpu ? ", shared by ranks" : "");
    if (MODE_GPUHIER != options->mode) {
        printf("# stock: %s\n", stock_name);
    }
    printf("# %s; floor: the same kernel moving %s B bytes per node of P ranks, without a protocol",
           options->collective->function,
           bench_collective_is_allreduce(options->collective) || BY_PAIR == options->collective->from ? "2 P"
           : BY_ROOT == options->collective->from && 1 == place->nnodes                               ? "P"
                                                                                                      : "(P + 1)");
    if (place->nnodes > 1 && options->wire_gbps > 0.0) {
        printf(", or the wire: %d rail%s of %g Gbit/s per node", options->rails, 1 == options->rails ? "" : "s",
               options->wire_gbps);
    }
    printf("\n# time: median over calls of the slowest rank; busbw: algbw * %s; x: stock / gpuhier\n#\n",
           bench_collective_is_allreduce(options->collective) ? "2 (n - 1) / n"
           : bench_collective_has_blocks(options->collective) ? "(n - 1) / n"
                                                              : "1");
    printf("#%11s %10s %14s %7s %5s %10s %8s %8s %7s %10s %7s %10s %8s %8s\n", "size", "count", "type", "redop",
           "place", "time", "algbw", "busbw", "#wrong", "stock", "x", "floor", "t/floor", "path");
    printf("#%11s %10s %14s %7s %5s %10s %8s %8s %7s %10s %7s %10s %8s %8s\n", "(B)", "(elements)", "", "", "", "(us)",
           "(GB/s)", "(GB/s)", "", "(us)", "", "(us)", "", "");
    fflush(stdout);
}

/* A number, or a dash when there is none. */
static void print_number(int width, int decimals, double value)
{
    if (value > 0.0) {
        printf(" %*.*f", width, decimals, value);
    } else {
        printf(" %*s", width, "-");
    }
}

void bench_report_row(const bench_row_t *row, const bench_place_t *place)
{
    double algbw = row->time_us > 0.0 ? (double) row->bytes / row->time_us * 1e-3 : 0.0;

    printf("%12zu %10zu %14s %7s %5s", row->bytes, row->count, row->type->name,
           bench_collective_reduces(row->collective) ? row->op->name : "none", row->in_place ? "in" : "out");
    print_number(10, row->time_us < 100.0 ? 2 : 1, row->time_us);
    print_number(8, algbw < 1.0 ? 4 : 2, algbw);
    print_number(8, algbw < 1.0 ? 4 : 2, algbw * bench_bus_factor(row->collective, place->nranks));
    printf(" %7llu", (unsigned long long) (row->wrong + row->stock_wrong));
    print_number(10, row->stock_us < 100.0 ? 2 : 1, row->stock_us);
    print_number(7, 2, row->time_us > 0.0 ? row->stock_us / row->time_us : 0.0);
    print_number(10, row->floor_us < 100.0 ? 2 : 1, row->floor_us);
    print_number(8, 2, row->floor_us > 0.0 ? row->time_us / row->floor_us : 0.0);
    printf(" %8s\n", bench_path_name(row->path));
    if ('\0' != row->traffic[0]) {
        printf("#            %s\n", row->traffic);
    }
    fflush(stdout);
}

static void json_number(FILE *file, const char *name, double value, const char *after)
{
    if (value > 0.0) {
        fprintf(file, "\"%s\": %.3f%s", name, value, after);
    } else {
        fprintf(file, "\"%s\": null%s", name, after);
    }
}

static void json_samples(FILE *file, const char *name, const double *samples, int n)
{
    fprintf(file, "\"%s\": [", name);
    for (int i = 0; NULL != samples && i < n; ++i) {
        fprintf(file, "%s%.3f", 0 == i ? "" : ", ", samples[i]);
    }
    fprintf(file, "], ");
}

bool bench_report_json(const char *path, const bench_row_t *rows, int nrows, const bench_place_t *place)
{
    FILE *file = fopen(path, "w");

    if (NULL == file) {
        perror(path);
        return false;
    }
    fprintf(file, "[\n");
    for (int i = 0; i < nrows; ++i) {
        const bench_row_t *row = &rows[i];
        double busbw = row->time_us > 0.0 ? (double) row->bytes / row->time_us * 1e-3
                                                * bench_bus_factor(row->collective, place->nranks)
                                          : 0.0;
        fprintf(file,
                "  {\"collective\": \"%s\", "
                "\"nodes\": %d, \"ranks\": %d, \"bytes\": %zu, \"type\": \"%s\", \"op\": \"%s\", \"in_place\": %s, ",
                row->collective->function, place->nnodes, place->nranks, row->bytes, row->type->name, row->op->name,
                row->in_place ? "true" : "false");
        json_number(file, "time_us", row->time_us, ", ");
        json_number(file, "stock_us", row->stock_us, ", ");
        json_number(file, "floor_us", row->floor_us, ", ");
        json_number(file, "cpu_us", row->cpu_us, ", ");
        json_number(file, "stock_cpu_us", row->stock_cpu_us, ", ");
        json_number(file, "rail_balance", row->rail_balance, ", ");
        json_samples(file, "samples_us", row->samples, row->iterations);
        json_samples(file, "stock_samples_us", row->stock_samples, row->iterations);
        if (busbw > 0.0) {
            fprintf(file, "\"busbw_gbs\": %.6f, ", busbw);
        } else {
            fprintf(file, "\"busbw_gbs\": null, ");
        }
        fprintf(file, "\"traffic_is_right\": %s, ", row->traffic_is_right ? "true" : "false");
        fprintf(file, "\"wrong\": %llu, \"path\": \"%s\"}%s\n", (unsigned long long) (row->wrong + row->stock_wrong),
                bench_path_name(row->path), i + 1 < nrows ? "," : "");
    }
    fprintf(file, "]\n");
    return 0 == fclose(file);
}

/*
 * One curve's points, as gnuplot reads them inline. The floor ends where a call was faster: it is measured, too, and
 * what it bounds must not lie below it in a picture.
 */
static void plot_curve(FILE *gnuplot, const bench_row_t *rows, int nrows, size_t column)
{
    for (int i = 0; i < nrows; ++i) {
        double value = *(const double *) ((const char *) &rows[i] + column);
        /* The first type, operation and place only: one picture, one story. */
        if (value > 0.0 && rows[i].type == rows[0].type && rows[i].op == rows[0].op
            && rows[i].in_place == rows[0].in_place) {
            if (offsetof(bench_row_t, floor_us) == column) {
                value = rows[i].time_us > 0.0 && rows[i].time_us < value ? rows[i].time_us : value;
                value = rows[i].stock_us > 0.0 && rows[i].stock_us < value ? rows[i].stock_us : value;
            }
            fprintf(gnuplot, "%zu %.3f\n", rows[i].bytes, value);
        }
    }
    fprintf(gnuplot, "e\n");
}

bool bench_report_plot(const char *path, const bench_row_t *rows, int nrows, const bench_place_t *place,
                       const char *stock_name)
{
    static const struct {
        size_t column;
        const char *title, *style;
    } curves[] = {
        {offsetof(bench_row_t, floor_us), "less than the floor", "filledcurves x1 lc rgb '#e0e0e0'"},
        {offsetof(bench_row_t, time_us), "gpuhier", "linespoints lc rgb '#1f77b4' lw 2 pt 7"},
        {offsetof(bench_row_t, stock_us), NULL, "linespoints lc rgb '#d9700a' lw 2 pt 5"},
    };
    const int ncurves = (int) (sizeof(curves) / sizeof(curves[0]));
    bool drawn[3] = {false, false, false};
    const char *dot = strrchr(path, '.');
    bool svg = NULL != dot && 0 == strcmp(dot, ".svg");
    bool first = true;

    if (0 == nrows || NULL != strchr(path, '\'')) {
        fprintf(stderr, "gpuhier_bench: nothing to plot, or a file name that gnuplot cannot take: %s\n", path);
        return false;
    }
    FILE *gnuplot = popen("gnuplot", "w");
    if (NULL == gnuplot) {
        perror("gnuplot");
        return false;
    }
    fprintf(gnuplot, "set terminal %s size 900,600\nset output '%s'\n", svg ? "svg" : "pngcairo", path);
    fprintf(gnuplot, "set title '%s, %s %s, %d ranks on %d %s, %s GPUs' noenhanced\n", rows[0].collective->function,
            rows[0].type->name, rows[0].op->name, place->nranks, place->nnodes, 1 == place->nnodes ? "node" : "nodes",
            place->is_emulated ? "emulated" : "real");
    fprintf(
        gnuplot,
        "set logscale x 2\nset logscale y 10\n"
        "set xtics ('8 B' 8, '64 B' 64, '512 B' 512, '4 KiB' 4096, '32 KiB' 32768, '256 KiB' 262144, '2 MiB' 2097152,"
        " '16 MiB' 16777216, '128 MiB' 134217728, '1 GiB' 1073741824)\n"
        "set ylabel 'time in microseconds'\nset bmargin 7\nset key bmargin center horizontal\nset grid\nplot ");
    for (int c = 0; c < ncurves; ++c) {
        for (int i = 0; i < nrows; ++i) {
            drawn[c] |= *(const double *) ((const char *) &rows[i] + curves[c].column) > 0.0;
        }
        if (drawn[c]) {
            fprintf(gnuplot, "%s'-' using 1:2 with %s title \"%s%s\"", first ? "" : ", ", curves[c].style,
                    NULL == curves[c].title ? "stock: " : "", NULL == curves[c].title ? stock_name : curves[c].title);
            first = false;
        }
    }
    fprintf(gnuplot, "\n");
    for (int c = 0; c < ncurves; ++c) {
        if (drawn[c]) {
            plot_curve(gnuplot, rows, nrows, curves[c].column);
        }
    }
    if (0 != pclose(gnuplot)) {
        fprintf(stderr, "gpuhier_bench: gnuplot failed; is the package gnuplot-nox installed?\n");
        return false;
    }
    return true;
}
