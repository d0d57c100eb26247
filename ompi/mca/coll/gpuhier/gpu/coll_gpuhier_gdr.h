/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * GPU memory that the host reads and writes itself, by GDRCopy's libgdrapi.so.2: no kernel and no copy engine takes
 * part. A read takes about a microsecond, and longer with each KiB; a write takes less.
 *
 * A window is some pages of the GPU that this process has pinned and mapped. That is slow, and room for it is scarce,
 * so windows are kept within a budget. The least recently used one goes first, unless all are in use. Callers hold the
 * engine's lock.
 */
#ifndef GPUHIER_GDR_H
#define GPUHIER_GDR_H

#include "gpu/coll_gpuhier_cuda.h"

/* Bytes of GPU memory that all windows of this process may cover together. A GPU has little room for such mappings, and
 * its processes share it. */
#define GPUHIER_GDR_BUDGET ((size_t) 2 << 20)

/*
 * Is there a window for these bytes of `buffer`? The bytes must lie in one allocation of cuMemAlloc. When they have
 * been asked for more than `uses` times, this function opens a window for them, and closes windows of memory that was
 * freed. The context that owns the memory is current. bytes > 0. Returns false also where the library or its kernel
 * module is missing.
 */
bool gpuhier_gdr_map(const void *address, size_t bytes, const gpuhier_buffer_t *buffer, unsigned uses);

/*
 * Copies by a window that gpuhier_gdr_map() has found for the same bytes and the same allocation. No GPU work is under
 * way on the memory, and it has not been freed. GPU work that is queued after a write sees it. Returns false when the
 * window has been closed meanwhile, or the library refuses.
 */
bool gpuhier_gdr_read(void *to, CUdeviceptr from, size_t bytes, uint64_t id);
bool gpuhier_gdr_write(CUdeviceptr to, const void *from, size_t bytes, uint64_t id);

/* Does the host see what the GPU has written to this word of scratch, and the GPU what the host writes there? stream is
 * a non-blocking one without work. The context is current. */
bool gpuhier_gdr_works(CUdeviceptr word, CUstream stream);

/*
 * Does cuStreamQuery() of the legacy default stream look at the context's blocking streams as well? NVIDIA's
 * documentation does not say. If so, one query shows whether all work that a call must wait for is done, before the
 * host reads. If that is not certain, the answer is no. The context is current.
 */
bool gpuhier_gdr_query_suffices(void);

/* Closes all windows, and the library. It is opened again when it is needed again. */
void gpuhier_gdr_finalize(void);

#endif /* GPUHIER_GDR_H */
