/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The picture of a machine.
 */
#ifndef INFO_SVG_H
#define INFO_SVG_H

#include "info_ucx.h"

/* Draws the machine into a file. ucx: NULL for a described machine. Returns an exit status, after a message if it
 * fails. */
int info_svg(const info_machine_t *machine, const info_ucx_t *ucx, const char *path);

#endif /* INFO_SVG_H */
