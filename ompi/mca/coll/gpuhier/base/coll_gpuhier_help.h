/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * gpuhier_help(topic, ...): prints a message of help-coll-gpuhier.txt, with the values of its conversions. Open MPI 4
 * and 5 read the file. Open MPI 6 prints only texts that it was built with, so there the component prints its own.
 */
#ifndef GPUHIER_HELP_H
#define GPUHIER_HELP_H

#if OMPI_MAJOR_VERSION < 6
#    include "opal/util/show_help.h"
#    define gpuhier_help(topic, ...) opal_show_help("help-coll-gpuhier.txt", topic, true, __VA_ARGS__)
#else
void gpuhier_help(const char *topic, ...);
#endif

#endif /* GPUHIER_HELP_H */
