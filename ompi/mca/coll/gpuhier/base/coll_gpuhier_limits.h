/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Numbers that several layers share.
 */
#ifndef GPUHIER_LIMITS_H
#define GPUHIER_LIMITS_H

/*
 * The version of everything that ranks tell one another: the value in the modex, the record, the address blob, the
 * control block and the messages. Raise it with any change that keeps two builds from working together. Ranks compare
 * it before their first message; the formats carry it to find damage.
 */
#define GPUHIER_FORMAT_VERSION 19

#define GPUHIER_RAILS_MAX 8 /* rails of one rank */

#endif /* GPUHIER_LIMITS_H */
