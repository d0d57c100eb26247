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
#include <unistd.h>

#include "base/coll_gpuhier_params.h"
#include "plan/coll_gpuhier_schedule.h"

#define SMALL_BYTES_MAX ((uint64_t) 1 << 20) /* as coll_gpuhier_params.c */
#define SLICE_BYTES_MOST ((uint64_t) 1 << 40)
#define PREFIX "coll_gpuhier_"

extern char **environ;

typedef enum kind { KIND_INT, KIND_BOOL, KIND_SIZE_T, KIND_DOUBLE, KIND_STRING } kind_t;

static const char *const ipc_names[] = {GPUHIER_IPC_NAMES, NULL};
static const char *const net_names[] = {GPUHIER_NET_NAMES, NULL};
static const char *algorithm_names[GPUHIER_ALGORITHM_COUNT + 1]; /* filled by info_mca_load() */

#define ANY NULL
#define IPC ipc_names
#define NET net_names
#define ALGORITHM algorithm_names

/* The parameters of the component. */
static const struct param {
    const char *name;
    kind_t kind;
    const char *const *choices; /* NULL: any value of the kind */
} params[] = {
#define PARAM(name, type, standard, path, level, scope, choices, text) {#name, KIND_##type, choices},
    GPUHIER_PARAMS(PARAM)
#undef PARAM
};

static const struct tune_key {
    const char *name;
    double standard, least, most;
} tune_keys[] = {
#define TUNE_KEY(name, type, standard, least, most, path) {#name, standard, least, most},
    GPUHIER_TUNE_KEYS(TUNE_KEY)
#undef TUNE_KEY
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

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

/* As Open MPI reads it: a number, or one of its words. */
static bool parse_bool(const char *text, bool *value_p)
{
    static const char *const words[] = {"false", "f", "disabled", "no", "n", "true", "t", "enabled", "yes", "y"};
    char *end;
    const long number = strtol(text, &end, 10);

    if ('\0' == *end) {
        *value_p = 0 != number;
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(words); ++i) {
        if (0 == strcmp(words[i], text)) {
            *value_p = i >= COUNT_OF(words) / 2;
            return true;
        }
    }
    return false;
}

/* The number of a name of the list, or the number itself; -1: it is neither. */
static int choice_of(const char *text, const char *const *choices)
{
    for (int i = 0; NULL != choices[i]; ++i) {
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        if (0 == strcmp(text, choices[i]) || 0 == strcmp(text, number)) {
            return i;
        }
    }
    return -1;
}

static const struct tune_key *tune_key(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT_OF(tune_keys); ++i) {
        if (strlen(tune_keys[i].name) == length && 0 == strncmp(tune_keys[i].name, name, length)) {
            return &tune_keys[i];
        }
    }
    return NULL;
}

/* The value of a key of the list `tune`, clamped. wanted: NULL: none. bad: [room] the last entry that cannot be read,
 * or empty. */
static double tuned(const char *list, const char *wanted, char *bad, size_t room)
{
    const struct tune_key *own = NULL != wanted ? tune_key(wanted, strlen(wanted)) : NULL;
    double chosen = NULL != own ? own->standard : 0;
    bad[0] = '\0';
    while (NULL != list && '\0' != *(list += strspn(list, ", "))) {
        const size_t length = strcspn(list, ", ");
        const char *sign = memchr(list, '=', length);
        const struct tune_key *key = NULL != sign ? tune_key(list, (size_t) (sign - list)) : NULL;
        char *end = NULL;
        const double value = NULL != key ? strtod(sign + 1, &end) : 0;
        if (NULL == key || end == sign + 1 || end != list + length || value != value) {
            snprintf(bad, room, "%.*s", (int) length, list);
        } else if (key == own) {
            chosen = value < key->least ? key->least : value > key->most ? key->most : value;
        }
        list += length;
    }
    return chosen;
}

/* What is expected instead of the value; NULL: it is right. */
static const char *expected(const struct param *param, const char *text)
{
    static char list[256];
    char *end, bad_entry[96];
    bool truth;
    uint64_t bytes;

    if (NULL != param->choices) {
        int length = snprintf(list, sizeof(list), "one of");
        for (int i = 0; NULL != param->choices[i]; ++i) {
            length += snprintf(list + length, sizeof(list) - (size_t) length, " %s", param->choices[i]);
        }
        return choice_of(text, param->choices) < 0 ? list : NULL;
    }
    switch (param->kind) {
    case KIND_BOOL:
        return parse_bool(text, &truth) ? NULL : "true or false";
    case KIND_SIZE_T:
        return info_parse_bytes(text, 0, &bytes) ? NULL : "a number of bytes";
    case KIND_DOUBLE:
        (void) strtod(text, &end);
        return end != text && '\0' == *end ? NULL : "a number";
    case KIND_INT:
        errno = 0;
        const long value = strtol(text, &end, 0);
        return 0 == errno && end != text && '\0' == *end && value >= INT_MIN && value <= INT_MAX ? NULL
                                                                                                 : "a whole number";
    default:
        if (0 == strcmp(param->name, "tune")) {
            (void) tuned(text, NULL, bad_entry, sizeof(bad_entry));
            snprintf(list, sizeof(list), "not '%s', but KEY=NUMBER, where KEY is one of", bad_entry);
            for (size_t i = 0; i < COUNT_OF(tune_keys); ++i) {
                const size_t length = strlen(list);
                snprintf(list + length, sizeof(list) - length, " %s", tune_keys[i].name);
            }
            return '\0' != bad_entry[0] ? list : NULL;
        }
        return NULL;
    }
}

/* Is there such a parameter of gpuhier, if the name is one of gpuhier's? Returns 0, or 2 after a message. */
static int check_name(const char *name, size_t length, const char *where)
{
    if (0 != strncmp(name, PREFIX, sizeof(PREFIX) - 1)) {
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(params); ++i) {
        if (strlen(params[i].name) + sizeof(PREFIX) - 1 == length
            && 0 == strncmp(params[i].name, name + sizeof(PREFIX) - 1, length - sizeof(PREFIX) + 1)) {
            return 0;
        }
    }
    return info_fail(INFO_BAD_USAGE, "there is no parameter %.*s (%s); man 7 gpuhier lists them", (int) length, name,
                     where);
}

/* Looks at all settings of gpuhier, those that this tool does not use, too. */
static int check_all(const info_mca_t *mca)
{
    static const char variable[] = "OMPI_MCA_";
    const char *where;
    int rc = 0;

    for (int i = 0; i < mca->options && 0 == rc; ++i) {
        rc = check_name(mca->option[i][0], strlen(mca->option[i][0]), "--mca");
    }
    for (char **one = environ; NULL != *one && 0 == rc; ++one) {
        if (0 == strncmp(*one, variable, sizeof(variable) - 1)) {
            const char *name = *one + sizeof(variable) - 1;
            rc = check_name(name, strcspn(name, "="), "the environment");
        }
    }
    if (!settings_read) {
        files_read();
    }
    for (const setting_t *s = settings; NULL != s && 0 == rc; s = s->next) {
        rc = NULL != s->name ? check_name(s->name, strlen(s->name), s->file) : 0;
    }
    for (size_t i = 0; i < COUNT_OF(params) && 0 == rc; ++i) {
        const char *text = own(mca, params[i].name, &where);
        const char *wanted = NULL != text ? expected(&params[i], text) : NULL;
        rc = NULL != wanted ? info_fail(INFO_BAD_USAGE, PREFIX "%s is '%s' (%s); %s is expected", params[i].name, text,
                                        where, wanted)
                            : 0;
    }
    return rc;
}

const char *info_mca_off(const info_mca_t *mca)
{
    return mca->priority < 0 ? "coll_gpuhier_priority is below 0"
           : !mca->enable    ? "coll_gpuhier_enable is false"
           : 0 == mca->probe ? "coll_gpuhier_probe is 0"
                             : NULL;
}

/* A value that has been checked; the standard where it is not set. */
static uint64_t bytes_of(const info_mca_t *mca, const char *name, uint64_t standard)
{
    const char *where, *text = own(mca, name, &where);
    uint64_t value = standard;
    (void) (NULL != text && info_parse_bytes(text, 0, &value));
    return value;
}

static int int_of(const info_mca_t *mca, const char *name, int standard, const char *const *choices)
{
    const char *where, *text = own(mca, name, &where);
    return NULL == text ? standard : NULL != choices ? choice_of(text, choices) : (int) strtol(text, NULL, 0);
}

int info_mca_load(info_mca_t *mca)
{
    const char *where, *list = own(mca, "tune", &where), *enable;
    char bad[96];

    for (int i = 0; i < GPUHIER_ALGORITHM_COUNT; ++i) {
        algorithm_names[i] = gpuhier_algorithm_names[i];
    }
    const int rc = check_all(mca);
    if (0 != rc) {
        return rc;
    }
    mca->slices_in_flight = (int) tuned(list, "slices_in_flight", bad, sizeof(bad));
    mca->oneshot_bytes = (int) tuned(list, "oneshot_bytes", bad, sizeof(bad));
    mca->levels_bytes = (int) tuned(list, "levels_bytes", bad, sizeof(bad));
    mca->host_shard_bytes = (int) tuned(list, "host_shard_bytes", bad, sizeof(bad));
    mca->devices = own(mca, "devices", &where);
    /* The defaults and bounds of coll_gpuhier_params.c. */
    mca->small_bytes = bytes_of(mca, "small_bytes", 8 << 10);
    mca->slice_bytes = bytes_of(mca, "slice_bytes", 4 << 20);
    mca->slice_bytes_max = bytes_of(mca, "slice_bytes_max", 8 << 20);
    mca->priority = int_of(mca, "priority", 100, NULL);
    mca->probe = int_of(mca, "probe", 1, NULL);
    mca->net = int_of(mca, "net", 0, net_names);
    mca->algorithm = int_of(mca, "algorithm", 0, algorithm_names);
    mca->enable = true;
    enable = own(mca, "enable", &where);
    (void) (NULL != enable && parse_bool(enable, &mca->enable));
    mca->slice_bytes = mca->slice_bytes < GPUHIER_SLICE_BYTES_MIN ? GPUHIER_SLICE_BYTES_MIN : mca->slice_bytes;
    mca->slice_bytes = mca->slice_bytes > SLICE_BYTES_MOST ? SLICE_BYTES_MOST : mca->slice_bytes;
    mca->slice_bytes_max = mca->slice_bytes_max > SLICE_BYTES_MOST ? SLICE_BYTES_MOST : mca->slice_bytes_max;
    if (mca->slice_bytes_max < mca->slice_bytes
        || (NULL != own(mca, "slice_bytes", &where) && NULL == own(mca, "slice_bytes_max", &where))) {
        mca->slice_bytes_max = mca->slice_bytes;
    }
    mca->small_bytes = mca->small_bytes > SMALL_BYTES_MAX ? SMALL_BYTES_MAX : mca->small_bytes;
    return 0;
}
