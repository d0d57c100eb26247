/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits that several layers share.
 */
#ifndef GPUHIER_LIMITS_H
#define GPUHIER_LIMITS_H

#define GPUHIER_RAILS_MAX 8 /* rails of one rank */

#endif /* GPUHIER_LIMITS_H */
