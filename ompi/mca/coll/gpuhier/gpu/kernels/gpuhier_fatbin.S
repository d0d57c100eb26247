/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The compiled kernels as data of the component: gpuhier_fatbin, for cuModuleLoadData() (coll_gpuhier_reduce.c), and
 * its size in bytes. Assembled in the folder where nvcc writes the file.
 */
    .section .rodata
    .balign 16
    .globl gpuhier_fatbin
    .hidden gpuhier_fatbin
    .type gpuhier_fatbin, %object
gpuhier_fatbin:
    .incbin "gpuhier_kernels.fatbin"
gpuhier_fatbin_end:
    .size gpuhier_fatbin, gpuhier_fatbin_end - gpuhier_fatbin

    .balign 8
    .globl gpuhier_fatbin_size
    .hidden gpuhier_fatbin_size
    .type gpuhier_fatbin_size, %object
gpuhier_fatbin_size:
    .quad gpuhier_fatbin_end - gpuhier_fatbin
    .size gpuhier_fatbin_size, 8

    .section .note.GNU-stack, "", %progbits
