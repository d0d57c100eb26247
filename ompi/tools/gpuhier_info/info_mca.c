/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MCA settings without Open MPI: --mca of the command line wins over OMPI_MCA_NAME in the environment, which wins over
 * the user's $HOME/.openmpi/mca-params.conf, which wins over the site's openmpi-mca-params.conf. The site's folder is
 * what `ompi_info` says, where there is one.
 *
 * Not read: files that mpirun is given by --tune or --am, and aggregate parameter sets.
 */
#include "gpuhier_info.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/coll_gpuhier_schedule.h"

#define SMALL_BYTES_MAX ((uint64_t) 1 << 20) /* as coll_gpuhier_params.c */
#define SLICE_BYTES_MOST ((uint64_t) 1 << 40)
#define PREFIX "coll_gpuhier_"

/* A line of a file of parameters. */
typedef struct setting {
    char *name;
    char *value;
    char *file;
    struct setting *next;
} setting_t;

static setting_t *settings; /* of all files, the strongest first; live until the process ends */
static bool settings_read;

const char *info_mca_folder(void)
{
    static char folder[PATH_MAX];
    static const char key[] = "path:sysconfdir:";
    char line[PATH_MAX];

    if ('\0' != folder[0]) {
        return folder;
    }
    snprintf(folder, sizeof(folder), "/etc/openmpi");
    FILE *said = popen("ompi_info --parsable --path sysconfdir 2>/dev/null", "re");
    while (NULL != said && NULL != fgets(line, sizeof(line), said)) {
        line[strcspn(line, "\n")] = '\0';
        if (0 == strncmp(line, key, sizeof(key) - 1)) {
            snprintf(folder, sizeof(folder), "%s", line + sizeof(key) - 1);
        }
    }
    if (NULL != said) {
        (void) pclose(said);
    }
    return folder;
}

/* Without the blanks and quotes around it. */
static char *trimmed(char *text)
{
    while (isspace((unsigned char) *text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char) text[length - 1])) {
        text[--length] = '\0';
    }
    if (length > 1 && '"' == text[0] && '"' == text[length - 1]) {
        text[length - 1] = '\0';
        text++;
    }
    return text;
}

/* Appends the lines "NAME = VALUE" of a file; a file that cannot be read says nothing, as for Open MPI. */
static void file_read(const char *path, setting_t ***end_p)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;

    while (NULL != file && getline(&line, &room, file) >= 0) {
        char *equals = strchr(line, '=');
        setting_t *own = NULL;

        line[strcspn(line, "\n")] = '\0';
        if ('#' != trimmed(line)[0] && NULL != equals) {
            own = calloc(1, sizeof(*own));
        }
        if (NULL != own) {
            *equals = '\0';
            own->name = strdup(trimmed(line));
            own->value = strdup(trimmed(equals + 1));
            own->file = strdup(path);
            **end_p = own;
            *end_p = &own->next;
        }
    }
    free(line);
    if (NULL != file) {
        fclose(file);
    }
}

static void files_read(void)
{
    const char *list = getenv("OMPI_MCA_mca_base_param_files");
    setting_t **end = &settings;
    char path[PATH_MAX + 32];

    settings_read = true;
    if (NULL != list) {
        while ('\0' != *list) {
            const size_t length = strcspn(list, ":,");
            snprintf(path, sizeof(path), "%.*s", (int) length, list);
            file_read(path, &end);
            list += length + ('\0' != list[length]);
        }
        return;
    }
    if (NULL != getenv("HOME")) {
        snprintf(path, sizeof(path), "%s/.openmpi/mca-params.conf", getenv("HOME"));
        file_read(path, &end);
    }
    snprintf(path, sizeof(path), "%s/openmpi-mca-params.conf", info_mca_folder());
    file_read(path, &end);
}

const char *info_mca_find(const info_mca_t *mca, const char *name, const char **where_p)
{
    char variable[128];
    const char *value;

    for (int i = mca->options - 1; i >= 0; --i) {
        if (0 == strcmp(mca->option[i][0], name)) {
            *where_p = "--mca";
            return mca->option[i][1];
        }
    }
    snprintf(variable, sizeof(variable), "OMPI_MCA_%s", name);
    value = getenv(variable);
    if (NULL != value) {
        *where_p = "the environment";
        return value;
    }
    if (!settings_read) {
        files_read();
    }
    for (const setting_t *s = settings; NULL != s; s = s->next) {
        if (NULL != s->name && NULL != s->value && 0 == strcmp(s->name, name)) {
            *where_p = s->file;
            return s->value;
        }
    }
    return NULL;
}

static const char *own(const info_mca_t *mca, const char *name, const char **where_p)
{
    char full[128];

    snprintf(full, sizeof(full), PREFIX "%s", name);
    return info_mca_find(mca, full, where_p);
}

static int bad(const char *name, const char *value, const char *where, const char *expected)
{
    return info_fail(INFO_BAD_USAGE, PREFIX "%s is '%s' (%s); %s is expected", name, value, where, expected);
}

static int load_bytes(const info_mca_t *mca, const char *name, uint64_t *value_p)
{
    const char *where;
    const char *text = own(mca, name, &where);

    if (NULL != text && !info_parse_bytes(text, 0, value_p)) {
        return bad(name, text, where, "a number of bytes");
    }
    return 0;
}

static int load_int(const info_mca_t *mca, const char *name, int *value_p)
{
    const char *where;
    const char *text = own(mca, name, &where);
    char *end;

    if (NULL == text) {
        return 0;
    }
    errno = 0;
    const long value = strtol(text, &end, 0);
    if (0 != errno || end == text || '\0' != *end || value < INT_MIN || value > INT_MAX) {
        return bad(name, text, where, "a whole number");
    }
    *value_p = (int) value;
    return 0;
}

static int load_bool(const info_mca_t *mca, const char *name, bool *value_p)
{
    static const char *const words[] = {"0", "false", "no", "n", "1", "true", "yes", "y"};
    const char *where;
    const char *text = own(mca, name, &where);

    if (NULL == text) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
        if (0 == strcasecmp(words[i], text)) {
            *value_p = i >= 4;
            return 0;
        }
    }
    return bad(name, text, where, "true or false");
}

/* A name of the list, or its number. */
static int load_name(const info_mca_t *mca, const char *name, const char *const *names, int count, int *value_p)
{
    const char *where;
    const char *text = own(mca, name, &where);
    char expected[256] = "one of";

    if (NULL == text) {
        return 0;
    }
    for (int i = 0; i < count; ++i) {
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        if (0 == strcmp(text, names[i]) || 0 == strcmp(text, number)) {
            *value_p = i;
            return 0;
        }
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), " %s", names[i]);
    }
    return bad(name, text, where, expected);
}

/* A key of the list `tune`. A job reports and ignores entries that it cannot read, and clamps values. */
static int tuned(const info_mca_t *mca, const char *key, int standard, int least, int most)
{
    const char *where;
    int chosen = standard;
    const char *text = own(mca, "tune", &where);
    for (text = NULL == text ? NULL : strstr(text, key); NULL != text; text = strstr(text, key)) {
        char *end;
        text += strlen(key);
        const double value = strtod(text, &end);
        if (end != text && ('\0' == *end || NULL != strchr(", ", *end))) {
            chosen = value < least ? least : value > most ? most : (int) value;
        }
    }
    return chosen;
}

int info_mca_load(info_mca_t *mca)
{
    static const char *const nets[] = {"auto", "direct", "staged"};
    const char *where;
    int rc = 0;

    /* The defaults of coll_gpuhier_params.c. */
    mca->small_bytes = 8 << 10;
    mca->slice_bytes = 4 << 20;
    mca->slice_bytes_max = 8 << 20;
    mca->slices_in_flight = tuned(mca, "slices_in_flight=", 4, 2, 4);
    mca->oneshot_bytes = tuned(mca, "oneshot_bytes=", 256 << 10, 0, 1 << 20);
    mca->levels_bytes = tuned(mca, "levels_bytes=", 512 << 10, 0, INT_MAX);
    mca->host_shard_bytes = tuned(mca, "host_shard_bytes=", 64 << 10, 0, 1 << 20);
    mca->priority = 100;
    mca->enable = true;
    mca->probe = 1;
    mca->devices = own(mca, "devices", &where);
    rc = load_bytes(mca, "small_bytes", &mca->small_bytes);
    rc = 0 != rc ? rc : load_bytes(mca, "slice_bytes", &mca->slice_bytes);
    rc = 0 != rc ? rc : load_bytes(mca, "slice_bytes_max", &mca->slice_bytes_max);
    rc = 0 != rc ? rc : load_int(mca, "priority", &mca->priority);
    rc = 0 != rc ? rc : load_int(mca, "probe", &mca->probe);
    rc = 0 != rc ? rc : load_bool(mca, "enable", &mca->enable);
    rc = 0 != rc ? rc : load_name(mca, "net", nets, 3, &mca->net);
    rc = 0 != rc ? rc : load_name(mca, "algorithm", gpuhier_algorithm_names, GPUHIER_ALGORITHM_COUNT, &mca->algorithm);
    if (0 != rc) {
        return rc;
    }
    mca->slice_bytes = mca->slice_bytes < 4096 ? 4096 : mca->slice_bytes;
    mca->slice_bytes = mca->slice_bytes > SLICE_BYTES_MOST ? SLICE_BYTES_MOST : mca->slice_bytes;
    mca->slice_bytes_max = mca->slice_bytes_max > SLICE_BYTES_MOST ? SLICE_BYTES_MOST : mca->slice_bytes_max;
    if (mca->slice_bytes_max < mca->slice_bytes
        || (NULL != own(mca, "slice_bytes", &where) && NULL == own(mca, "slice_bytes_max", &where))) {
        mca->slice_bytes_max = mca->slice_bytes;
    }
    mca->small_bytes = mca->small_bytes > SMALL_BYTES_MAX ? SMALL_BYTES_MAX : mca->small_bytes;
    return 0;
}
