/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables of rates. Standards say what a link carries; what programs get of it is measured by others, as named.
 */
#include "info_rates.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PCI_SIG "PCI-SIG, x16: 8 to 32 GT/s with 128b/130b, 64 GT/s with FLIT; copies between GPUs get about 0.8"
#define NVLINK "NVIDIA's whitepapers: links, GB/s each way; 783 of 900 GB/s in NVIDIA/nccl issue 1264"
#define IBTA "IBTA's rates of four lanes; 97.8 of 100 Gbit/s in le.qun.ch's series on libfabric and EFA"
#define IEEE "IEEE 802.3; 0.95 after RoCE v2's headers with 4 KiB packets"

static const info_rate_t link_rates[] = {
    {"pcie3", 15.75, 0.80, 1, PCI_SIG},  {"pcie4", 31.5, 0.80, 1, PCI_SIG},   {"pcie5", 63.0, 0.80, 1, PCI_SIG},
    {"pcie6", 121.0, 0.80, 1, PCI_SIG},  {"nvlink1", 20.0, 0.87, 4, NVLINK},  {"nvlink2", 25.0, 0.87, 6, NVLINK},
    {"nvlink3", 25.0, 0.87, 12, NVLINK}, {"nvlink4", 25.0, 0.87, 18, NVLINK}, {"nvlink5", 50.0, 0.87, 18, NVLINK},
};
enum { PCIE_FIRST = 0, NVLINK_FIRST = 4, LINK_RATES = sizeof(link_rates) / sizeof(link_rates[0]) };

static const info_rate_t rail_rates[] = {
    {"hdr100", 12.5, 0.97, 1, IBTA}, {"hdr", 25.0, 0.97, 1, IBTA},    {"ndr", 50.0, 0.97, 1, IBTA},
    {"xdr", 100.0, 0.97, 1, IBTA},   {"100gbe", 12.5, 0.95, 1, IEEE}, {"200gbe", 25.0, 0.95, 1, IEEE},
    {"400gbe", 50.0, 0.95, 1, IEEE},
};
enum { RAIL_RATES = sizeof(rail_rates) / sizeof(rail_rates[0]) };

static const info_rate_t *find(const info_rate_t *rates, int count, const char *name)
{
    for (int i = 0; i < count; ++i) {
        if (0 == strcmp(rates[i].name, name)) {
            return &rates[i];
        }
    }
    return NULL;
}

const info_rate_t *info_link_rate(const char *name)
{
    return find(link_rates, LINK_RATES, name);
}

const info_rate_t *info_rail_rate(const char *name)
{
    return find(rail_rates, RAIL_RATES, name);
}

const char *info_rate_names(int of_rails)
{
    static char text[256];
    const info_rate_t *rates = of_rails ? rail_rates : link_rates;
    const int count = of_rails ? (int) RAIL_RATES : (int) LINK_RATES;

    text[0] = '\0';
    for (int i = 0; i < count; ++i) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? ", " : "", rates[i].name);
    }
    return text;
}

const info_rate_t *info_pcie_rate(int generation)
{
    return generation < 3 || generation > 6 ? NULL : &link_rates[PCIE_FIRST + generation - 3];
}

const info_rate_t *info_nvlink_rate(int generation)
{
    return generation < 1 || generation > 5 ? NULL : &link_rates[NVLINK_FIRST + generation - 1];
}
