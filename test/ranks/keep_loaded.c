/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For builds with AddressSanitizer, nothing in others: keeps every library mapped. Open MPI unloads its
 * components before leaks are looked for, and whose a leak is can be told only while its library is there.
 * Linked into the test programs that call MPI_Init.
 */
#include <dlfcn.h>

#if defined(__SANITIZE_ADDRESS__)
int dlclose(void *handle)
{
    (void) handle;
    return 0;
}
#endif
