/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Draws a machine. From the top: NVLink, as a bar for NVSwitches or an arc for each pair; the GPUs in frames of NUMA
 * nodes, in a colour for each group; under them the network devices that a job would use, joined to the ranks that
 * drive them; the matrix of ways; words. Plain SVG 1.1, without scripts or fonts of its own.
 *
 * The parts are drawn into memory from the top down, each returning where it ends, since the height of the picture
 * comes first in the file.
 */
#include "ompi_config.h"

#include "info_svg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN = 24,
    CELL = 58, /* of the matrix */
    ROW = 26,
    LABEL = 74,   /* names of the matrix's rows */
    LINE = 18,    /* of text */
    COLUMN = 112, /* of a GPU and its network devices */
    GAP = 18,     /* between NUMA nodes */
    BOX = 96,
    GPU_HEIGHT = 46,
    NIC_HEIGHT = 22,
    ARC_MAX = 150, /* height of NVLink's arcs */
    WIDTH_MIN = 760
};

/* A colour for each way: green is near, red is far. NVLink is blue. */
static const char *const colours[INFO_WAY_COUNT] = {"#e8e8e8", "#f0c8f0", "#b7e4b0", "#d5edb5",
                                                    "#fdf0b0", "#fbd49c", "#f4b3a6", "#ffffff"};
static const char *const strong[INFO_WAY_COUNT] = {"#888888", "#b060b0", "#3f9c35", "#7fae2e",
                                                   "#c8a200", "#d98200", "#cc4630", "#888888"};
#define COLOUR_NVLINK "#a9cdf2"
#define STRONG_NVLINK "#3d7fc1"

/* Fills of GPUs by group, again from the first after the last. */
static const char *const group_colours[] = {"#dbe9f8", "#fde8cf", "#dff2dc", "#f3dff3",
                                            "#fdf5c9", "#d8f1f1", "#f8dcdc"};
enum { GROUP_COLOURS = sizeof(group_colours) / sizeof(group_colours[0]) };

/* What is drawn, and where things came to stand. */
typedef struct picture {
    const info_machine_t *machine;
    const info_ucx_t *ucx; /* NULL: a described machine */
    FILE *out;
    int shown[GPUHIER_FOUND_NICS_MAX]; /* network devices that a job would use */
    int nshown;
    int rank[INFO_GPUS_MAX];  /* of a GPU; -1: it does not answer */
    int group[INFO_GPUS_MAX]; /* of that rank */
    int ngroups;
    int x[INFO_GPUS_MAX]; /* left edge of a GPU's column */
    int gpu_y;
    int nic_x[GPUHIER_FOUND_NICS_MAX], nic_y[GPUHIER_FOUND_NICS_MAX];
    int width;
} picture_t;

static void text(const picture_t *picture, int x, int y, const char *style, const char *words)
{
    fprintf(picture->out, "<text x=\"%d\" y=\"%d\" %s>", x, y, style);
    for (; '\0' != *words; ++words) {
        if ('<' == *words) {
            fprintf(picture->out, "&lt;");
        } else if ('&' == *words) {
            fprintf(picture->out, "&amp;");
        } else {
            fputc(*words, picture->out);
        }
    }
    fprintf(picture->out, "</text>\n");
}

static void box(const picture_t *picture, int x, int y, int width, int height, const char *fill, const char *stroke)
{
    fprintf(picture->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"%s\"/>\n",
            x, y, width, height, fill, stroke);
}

/* Ranks and groups of GPUs, and which network devices are shown. */
static void prepare(picture_t *picture)
{
    const info_machine_t *machine = picture->machine;
    gpuhier_hierarchy_t h;
    int gpus[INFO_GPUS_MAX];
    bool by_host;
    const int nranks = info_machine_groups(machine, &h, gpus, &by_host);

    for (int i = 0; i < machine->ngpus; ++i) {
        picture->rank[i] = -1;
    }
    for (int rank = 0; rank < nranks; ++rank) {
        picture->rank[gpus[rank]] = rank;
        picture->group[gpus[rank]] = h.group_of[rank];
    }
    if (nranks > 0) {
        picture->ngroups = h.ngroups;
        gpuhier_hierarchy_fini(&h);
    }
    for (int n = 0; n < machine->nnics; ++n) {
        if (machine->nic[n].found.is_taken) {
            picture->shown[picture->nshown++] = n;
        }
    }
}

/* Columns from left to right, with a gap where the NUMA node changes. Returns where they end. */
static int place_columns(picture_t *picture)
{
    const info_machine_t *machine = picture->machine;
    int x = MARGIN + 8;

    for (int i = 0; i < machine->ngpus; ++i) {
        if (i > 0 && machine->record[i].numa_node != machine->record[i - 1].numa_node) {
            x += GAP;
        }
        picture->x[i] = x;
        x += COLUMN;
    }
    return x + 8;
}

static bool drives(const info_machine_t *machine, int gpu, int nic)
{
    const char *rails[GPUHIER_RAILS_MAX];
    const int nrails = '\0' != machine->gpu[gpu].failure[0] ? 0 : info_machine_rails(machine, gpu, false, rails);

    for (int rail = 0; rail < nrails; ++rail) {
        if (0 == strcmp(rails[rail], machine->nic[nic].found.device)) {
            return true;
        }
    }
    return false;
}

/* The GPU under which a network device stands: the nearest, and of those one that drives it. */
static int home_of(const info_machine_t *machine, int nic)
{
    int best = 0;

    for (int i = 1; i < machine->ngpus; ++i) {
        const info_way_t way = machine->nic_way[i][nic], best_way = machine->nic_way[best][nic];
        if (way < best_way || (way == best_way && !drives(machine, best, nic) && drives(machine, i, nic))) {
            best = i;
        }
    }
    return best;
}

/* NVLink above the GPUs; returns the y at which the GPUs begin. */
static int draw_nvlink(const picture_t *picture, int y)
{
    const info_machine_t *machine = picture->machine;
    char words[64];
    int reach = 0;

    if (machine->switch_links > 0) {
        const int left = picture->x[0], right = picture->x[machine->ngpus - 1] + BOX;
        box(picture, left, y, right - left, 28, COLOUR_NVLINK, STRONG_NVLINK);
        snprintf(words, sizeof(words), "NVSwitch%s, %d links to each GPU", machine->is_fabric ? " of all nodes" : "",
                 machine->switch_links);
        text(picture, (left + right) / 2, y + 19, "text-anchor=\"middle\"", words);
        for (int i = 0; i < machine->ngpus; ++i) {
            fprintf(picture->out, "<path d=\"M %d %d V %d\" stroke=\"" STRONG_NVLINK "\" stroke-width=\"4\"/>\n",
                    picture->x[i] + BOX / 2, y + 28, y + 58);
        }
        return y + 58;
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = i + 1; j < machine->ngpus; ++j) {
            reach = machine->links[i][j] > 0 && j - i > reach ? j - i : reach;
        }
    }
    if (0 == reach) {
        return y;
    }
    const int step = ARC_MAX / reach < 46 ? ARC_MAX / reach : 46;
    const int foot = y + reach * step + 14;
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = i + 1; j < machine->ngpus; ++j) {
            const int from = picture->x[i] + BOX / 2 + 8, to = picture->x[j] + BOX / 2 - 8;
            const int top = foot - (j - i) * step;

            if (0 == machine->links[i][j]) {
                continue;
            }
            fprintf(picture->out,
                    "<path d=\"M %d %d C %d %d, %d %d, %d %d\" fill=\"none\" stroke=\"" STRONG_NVLINK
                    "\" stroke-width=\"%.1f\" opacity=\"0.75\"/>\n",
                    from, foot, from, top - step / 3, to, top - step / 3, to, foot,
                    machine->links[i][j] > 6 ? 6.0 : 1.0 + 0.8 * machine->links[i][j]);
            snprintf(words, sizeof(words), "%d", machine->links[i][j]);
            text(picture, (from + to) / 2, foot - (3 * ((foot - top) + step / 3)) / 4 - 3,
                 "text-anchor=\"middle\" font-size=\"11\" fill=\"" STRONG_NVLINK "\"", words);
        }
    }
    return foot;
}

/* A frame around the GPUs of each NUMA node, down to y. */
static void draw_frames(const picture_t *picture, int y, int end)
{
    const info_machine_t *machine = picture->machine;
    char words[32];

    for (int i = 0; i < machine->ngpus;) {
        const int numa = machine->record[i].numa_node;
        int last = i;

        while (last + 1 < machine->ngpus && machine->record[last + 1].numa_node == numa) {
            last++;
        }
        fprintf(picture->out,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"none\" stroke=\"#999999\" "
                "stroke-dasharray=\"4 3\"/>\n",
                picture->x[i] - 8, y, picture->x[last] - picture->x[i] + BOX + 16, end - y);
        snprintf(words, sizeof(words), numa < 0 ? "NUMA node ?" : "NUMA node %d", numa);
        text(picture, picture->x[i] - 2, end - 6, "font-size=\"11\" fill=\"#666666\"", words);
        i = last + 1;
    }
}

static void draw_gpus(picture_t *picture, int y)
{
    const info_machine_t *machine = picture->machine;
    char words[64];

    picture->gpu_y = y;
    for (int i = 0; i < machine->ngpus; ++i) {
        const int rank = picture->rank[i], middle = picture->x[i] + BOX / 2;

        box(picture, picture->x[i], y, BOX, GPU_HEIGHT,
            rank < 0 ? "#ffffff" : group_colours[picture->group[i] % GROUP_COLOURS], rank < 0 ? "#cc0000" : "#444444");
        snprintf(words, sizeof(words), "GPU%d%s%s", i, '\0' != machine->gpu[i].slice[0] ? " " : "",
                 machine->gpu[i].slice);
        text(picture, middle, y + 19,
             '\0' != machine->gpu[i].slice[0] ? "text-anchor=\"middle\" font-weight=\"bold\" font-size=\"11\""
                                              : "text-anchor=\"middle\" font-weight=\"bold\"",
             words);
        if (rank < 0) {
            snprintf(words, sizeof(words), "does not answer");
        } else {
            snprintf(words, sizeof(words), "rank %d, group %d", rank, picture->group[i]);
        }
        text(picture, middle, y + 37, "text-anchor=\"middle\" font-size=\"11\"", words);
    }
}

/* Network devices under their GPUs, and a line to each rank that drives one; returns where they end. */
static int draw_nics(picture_t *picture, int y)
{
    const info_machine_t *machine = picture->machine;
    int under[INFO_GPUS_MAX] = {0};
    int end = y;

    for (int s = 0; s < picture->nshown; ++s) {
        const int nic = picture->shown[s], home = home_of(machine, nic);

        picture->nic_x[nic] = picture->x[home] + 12;
        picture->nic_y[nic] = y + 30 + under[home]++ * (NIC_HEIGHT + 6);
        end = picture->nic_y[nic] + NIC_HEIGHT > end ? picture->nic_y[nic] + NIC_HEIGHT : end;
    }
    for (int s = 0; s < picture->nshown; ++s) {
        const int nic = picture->shown[s], left = picture->nic_x[nic];
        const int middle = picture->nic_y[nic] + NIC_HEIGHT / 2;

        for (int i = 0; i < machine->ngpus; ++i) {
            if (!drives(machine, i, nic)) {
                continue;
            }
            const char *colour = strong[machine->nic_way[i][nic]];
            if (picture->x[i] + 12 == left) {
                fprintf(picture->out,
                        "<path d=\"M %d %d V %d H %d\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", left - 8,
                        picture->gpu_y + GPU_HEIGHT, middle, left, colour);
            } else {
                /* From the GPU across, then down between the columns to the device's far edge. */
                const bool from_right = picture->x[i] > left;
                const int edge = from_right ? left + BOX - 12 : left;
                const int lane = from_right ? edge + 8 : left - 5;
                fprintf(picture->out,
                        "<path d=\"M %d %d L %d %d V %d H %d\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                        picture->x[i] + BOX / 2, picture->gpu_y + GPU_HEIGHT, lane, picture->gpu_y + GPU_HEIGHT + 22,
                        middle, edge, colour);
            }
        }
    }
    for (int s = 0; s < picture->nshown; ++s) {
        const int nic = picture->shown[s];
        char words[GPUHIER_RECORD_DEVICE_MAX + 16];

        box(picture, picture->nic_x[nic], picture->nic_y[nic], BOX - 12, NIC_HEIGHT, "#eeeeee", "#444444");
        snprintf(words, sizeof(words), "%s", machine->nic[nic].found.device);
        text(picture, picture->nic_x[nic] + (BOX - 12) / 2, picture->nic_y[nic] + 15,
             strlen(words) > 11 ? "text-anchor=\"middle\" font-size=\"10\"" : "text-anchor=\"middle\" font-size=\"12\"",
             words);
    }
    return end;
}

static void cell(const picture_t *picture, int x, int y, const char *colour, const char *words)
{
    fprintf(picture->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\"/>\n", x, y,
            CELL, ROW, colour);
    text(picture, x + CELL / 2, y + 18, "text-anchor=\"middle\"", words);
}

static int draw_matrix(const picture_t *picture, int y)
{
    const info_machine_t *machine = picture->machine;
    char name[32], way[8];

    for (int j = 0; j < machine->ngpus + picture->nshown; ++j) {
        if (j < machine->ngpus) {
            snprintf(name, sizeof(name), "GPU%d", j);
        } else {
            snprintf(name, sizeof(name), "NIC%d", picture->shown[j - machine->ngpus]);
        }
        text(picture, MARGIN + LABEL + j * CELL + CELL / 2, y + 14, "text-anchor=\"middle\" font-weight=\"bold\"",
             name);
    }
    y += LINE + 4;
    for (int i = 0; i < machine->ngpus; ++i) {
        snprintf(name, sizeof(name), "GPU%d", i);
        text(picture, MARGIN, y + 18, "font-weight=\"bold\"", name);
        for (int j = 0; j < machine->ngpus; ++j) {
            const bool linked = i != j && 0 != machine->links[i][j];
            cell(picture, MARGIN + LABEL + j * CELL, y, linked ? COLOUR_NVLINK : colours[machine->way[i][j]],
                 info_way_text(machine, i, j, way));
        }
        for (int s = 0; s < picture->nshown; ++s) {
            const info_way_t nic_way = machine->nic_way[i][picture->shown[s]];
            cell(picture, MARGIN + LABEL + (machine->ngpus + s) * CELL, y, colours[nic_way], info_way_names[nic_way]);
        }
        y += ROW;
    }
    return y;
}

static bool way_is_used(const picture_t *picture, info_way_t way)
{
    const info_machine_t *machine = picture->machine;

    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            if (way == machine->way[i][j] && 0 == machine->links[i][j]) {
                return true;
            }
        }
        for (int s = 0; s < picture->nshown; ++s) {
            if (way == machine->nic_way[i][picture->shown[s]]) {
                return true;
            }
        }
    }
    return false;
}

static int legend_line(const picture_t *picture, int y, const char *colour, const char *name, const char *meaning)
{
    char words[256];

    snprintf(words, sizeof(words), "%s: %s", name, meaning);
    fprintf(picture->out, "<rect x=\"%d\" y=\"%d\" width=\"16\" height=\"14\" fill=\"%s\"/>\n", MARGIN, y + 3, colour);
    text(picture, MARGIN + 24, y + 14, "", words);
    return y + LINE;
}

/* The legend, and a line for each network device; returns the y below them. */
static int draw_words(const picture_t *picture, int y)
{
    const info_machine_t *machine = picture->machine;
    char words[3 * INFO_PATH_ROOM], path[2 * INFO_PATH_ROOM];

    if (machine->nvlink_generation > 0) {
        y = legend_line(picture, y, COLOUR_NVLINK, "NV#", "joined by # NVLink links");
    }
    for (int way = INFO_WAY_SLICE; way < INFO_WAY_UNKNOWN; ++way) {
        if (way_is_used(picture, (info_way_t) way)) {
            y = legend_line(picture, y, colours[way], info_way_names[way], info_way_texts[way]);
        }
    }
    y += 6;
    for (int n = 0; n < machine->nnics; ++n) {
        const info_nic_t *nic = &machine->nic[n];

        snprintf(words, sizeof(words), "NIC%d is %s%s, %s: it %s", n, nic->found.device, nic->is_efa ? " (EFA)" : "",
                 nic->found.is_taken ? "taken" : "not taken", nic->found.reason);
        text(picture, MARGIN, y + 14, nic->found.is_taken ? "" : "fill=\"#888888\"", words);
        y += LINE;
    }
    info_path_text(machine, picture->ucx, path, sizeof(path));
    snprintf(words, sizeof(words), "%d group%s of one rank on each GPU", picture->ngroups,
             1 == picture->ngroups ? "" : "s");
    text(picture, MARGIN, y + 14, "", words);
    y += LINE;
    gpuhier_hierarchy_t h;
    int gpus[INFO_GPUS_MAX];
    bool by_host;
    if (0 != info_machine_groups(machine, &h, gpus, &by_host)) {
        if (h.ngroups > 1) {
            snprintf(words, sizeof(words), "path between groups of one node: %s",
                     info_node_path_text(machine, &h, gpus));
            text(picture, MARGIN, y + 14, "", words);
            y += LINE;
        }
        gpuhier_hierarchy_fini(&h);
    }
    snprintf(words, sizeof(words), "path between groups: %s", path);
    text(picture, MARGIN, y + 14, "", words);
    return y + LINE;
}

/* Everything below the head; returns the height. */
static int draw(picture_t *picture)
{
    const info_machine_t *machine = picture->machine;
    char title[256];
    int y = MARGIN;

    snprintf(title, sizeof(title), "%s: %d%s GPU%s%s", machine->title, machine->ngpus,
             machine->is_emulated ? " emulated" : "", 1 == machine->ngpus ? "" : "s",
             machine->nodes > 1 ? ", one of several equal nodes" : "");
    text(picture, MARGIN, y + 8, "font-size=\"18\" font-weight=\"bold\"", title);
    y += LINE + 14;
    if (machine->ngpus > 0) {
        const int gpus = draw_nvlink(picture, y);
        draw_gpus(picture, gpus);
        y = draw_nics(picture, gpus + GPU_HEIGHT) + 26;
        draw_frames(picture, gpus - 8, y);
        y = draw_matrix(picture, y + 20) + 14;
    }
    return draw_words(picture, y) + MARGIN;
}

int info_svg(const info_machine_t *machine, const info_ucx_t *ucx, const char *path)
{
    picture_t picture = {.machine = machine, .ucx = ucx};
    char *body = NULL;
    size_t bytes = 0;
    FILE *out = fopen(path, "we");

    if (NULL == out) {
        return info_fail(INFO_FAILED, "--svg: cannot write %s: %s", path, strerror(errno));
    }
    picture.out = open_memstream(&body, &bytes);
    if (NULL == picture.out) {
        fclose(out);
        return info_fail(INFO_FAILED, "out of memory");
    }
    prepare(&picture);
    const int columns = place_columns(&picture) + MARGIN;
    const int matrix = 2 * MARGIN + LABEL + (machine->ngpus + picture.nshown) * CELL;
    picture.width = columns > matrix ? columns : matrix;
    picture.width = picture.width > WIDTH_MIN ? picture.width : WIDTH_MIN;
    const int height = draw(&picture);
    fclose(picture.out);
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"%d\" "
            "height=\"%d\" fill=\"#ffffff\"/>\n%s</svg>\n",
            picture.width, height, picture.width, height, picture.width, height, NULL == body ? "" : body);
    free(body);
    const bool failed = 0 != ferror(out);
    if (0 != fclose(out) || failed) {
        return info_fail(INFO_FAILED, "--svg: cannot write %s: %s", path, strerror(errno));
    }
    return INFO_OK;
}
