/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * JSON by a stack of open brackets; the outermost one ends the line.
 */
#include "info_json.h"

#include <math.h>
#include <stdio.h>

#define DEPTH_MAX 16

static struct {
    char kind;
    bool has_member;
} stack[DEPTH_MAX];
static int depth;

static void quoted(const char *text)
{
    putchar('"');
    for (; '\0' != *text; ++text) {
        const unsigned char c = (unsigned char) *text;
        if ('"' == c || '\\' == c) {
            printf("\\%c", c);
        } else if (c < ' ') {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

/* The comma, the indent and the name of a value. */
static void begin(const char *name)
{
    if (depth > 0) {
        printf(stack[depth - 1].has_member ? ",\n%*s" : "\n%*s", 2 * depth, "");
        stack[depth - 1].has_member = true;
    }
    if (NULL != name) {
        quoted(name);
        printf(": ");
    }
}

void info_json_open(const char *name, char kind)
{
    begin(name);
    putchar(kind);
    if (depth < DEPTH_MAX) {
        stack[depth].kind = kind;
        stack[depth].has_member = false;
        depth++;
    }
}

void info_json_close(void)
{
    depth--;
    if (stack[depth].has_member) {
        printf("\n%*s", 2 * depth, "");
    }
    putchar('{' == stack[depth].kind ? '}' : ']');
    if (0 == depth) {
        putchar('\n');
    }
}

void info_json_text(const char *name, const char *text)
{
    begin(name);
    if (NULL == text) {
        printf("null");
    } else {
        quoted(text);
    }
}

void info_json_int(const char *name, long long value)
{
    begin(name);
    printf("%lld", value);
}

void info_json_number(const char *name, double value)
{
    begin(name);
    if (isfinite(value)) {
        printf("%.6g", value);
    } else {
        printf("null");
    }
}

void info_json_bool(const char *name, bool value)
{
    begin(name);
    printf(value ? "true" : "false");
}
