/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What links carry: the tables behind predict and measure.
 */
#ifndef INFO_RATES_H
#define INFO_RATES_H

typedef struct info_rate {
    const char *name;
    double gbyte;       /* GB/s (10^9) of one link, one way, as its standard says */
    double payload;     /* the part of it that programs get */
    int links;          /* of a GPU, or 1 */
    const char *source; /* of both numbers */
} info_rate_t;

/* What joins GPUs, by name ("pcie4", "nvlink3"); and what joins nodes ("ndr", "100gbe"). NULL: there is none. */
const info_rate_t *info_link_rate(const char *name);
const info_rate_t *info_rail_rate(const char *name);

/* "pcie3, pcie4, .." of the one list or the other. */
const char *info_rate_names(int of_rails);

/* The rows of a generation; NULL if there is none in the table. */
const info_rate_t *info_pcie_rate(int generation);
const info_rate_t *info_nvlink_rate(int generation);

/* GB/s that programs get of links of that kind. */
static inline double info_rate_of(const info_rate_t *rate, int links)
{
    return rate->gbyte * rate->payload * links;
}

/* The part of a port's rate in Gbit/s that programs get, for ports that are in no table. */
#define INFO_PORT_PAYLOAD 0.95

/*
 * Times that predict adds, in microseconds: assumptions, the same as those of the simulation (test/sim/README), and not
 * measured on GPUs.
 */
#define INFO_US_KERNEL 5.0   /* launch and completion of a kernel */
#define INFO_US_TURN 3.0     /* the hosts of a node wait for each other: before a kernel starts, and after it */
#define INFO_US_STEP 3.0     /* a message between nodes */
#define INFO_US_LINK 1.0     /* a hop inside a node */
#define INFO_GBYTE_TCP 3.0   /* that a process gets over TCP, one way: a core copies each byte twice */
#define INFO_US_ON_HOST 12.0 /* a short message's way through the host: copy out, add, copy in */
#define INFO_GBYTE_SOCKETS \
    20.0 /* between two sockets, one way: three UPI links of 10.4 GT/s carry 62, peers get a third */

#endif /* INFO_RATES_H */
