/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Writes JSON to stdout, piece by piece. A name is NULL inside an array and for the outermost value.
 */
#ifndef INFO_JSON_H
#define INFO_JSON_H

#include <stdbool.h>

/* kind: '{' or '['. */
void info_json_open(const char *name, char kind);
void info_json_close(void);
void info_json_text(const char *name, const char *text); /* NULL is null */
void info_json_int(const char *name, long long value);
void info_json_number(const char *name, double value);
void info_json_bool(const char *name, bool value);

#endif /* INFO_JSON_H */
