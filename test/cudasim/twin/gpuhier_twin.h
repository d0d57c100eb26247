/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the source files of the kernels' twin share: the exact form of each kernel, and the one-shot kernels, in the
 * order of GPUHIER_KERNEL_LIST.
 */
#ifndef GPUHIER_TWIN_H
#define GPUHIER_TWIN_H

#include "cudasim_twin.h"
#include "gpuhier_kernels.h"
#include "gpuhier_oneshot.h"

/* Hidden: the library exports its table only. */
namespace gpuhier __attribute__((visibility("hidden")))
{

typedef void (*twin_form_t)(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args);
typedef void (*twin_oneshot_t)(const cudasim_launch_t *launch, const gpuhier_oneshot_args_t &args);

extern const twin_form_t twin_exact[];
extern const twin_oneshot_t twin_oneshot[];
void twin_copy_exact(const cudasim_launch_t *launch, const gpuhier_kernel_args_t &args);

} /* namespace gpuhier */

#endif /* GPUHIER_TWIN_H */
