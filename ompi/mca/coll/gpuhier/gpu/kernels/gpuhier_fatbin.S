/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The compiled kernels as data of the component: gpuhier_fatbin, for cuModuleLoadData() (coll_gpuhier_reduce.c), and
 * its size in bytes; gpuhier_multicast_fatbin (coll_gpuhier_reduce.c). Assembled in the folder where nvcc
 * writes the files.
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

    .balign 16
    .globl gpuhier_multicast_fatbin
    .hidden gpuhier_multicast_fatbin
    .type gpuhier_multicast_fatbin, %object
gpuhier_multicast_fatbin:
    .incbin "gpuhier_multicast.fatbin"
gpuhier_multicast_fatbin_end:
    .size gpuhier_multicast_fatbin, gpuhier_multicast_fatbin_end - gpuhier_multicast_fatbin

    .section .note.GNU-stack, "", %progbits
