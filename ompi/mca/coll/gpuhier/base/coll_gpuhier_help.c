/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ompi_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/coll_gpuhier_help.h"

#if OMPI_MAJOR_VERSION >= 6

#    define BAR "--------------------------------------------------------------------------\n"

static const char *const lines[] = {
#    include "help_lines.inc" /* the file's, without comments */
};

void gpuhier_help(const char *topic, ...)
{
    char text[4096];
    int length = snprintf(text, sizeof(text), "%s", BAR);
    bool is_ours = false;
    va_list values;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); ++i) {
        if ('[' == lines[i][0]) {
            is_ours = 0 == strncmp(lines[i] + 1, topic, strlen(topic)) && ']' == lines[i][1 + strlen(topic)];
        } else if (is_ours) {
            length += snprintf(text + length, sizeof(text) - (size_t) length, "%s\n", lines[i]);
        }
    }
    (void) snprintf(text + length, sizeof(text) - (size_t) length, "%s", BAR);
    va_start(values, topic);
    (void) vfprintf(stderr, text, values);
    va_end(values);
}

#endif
