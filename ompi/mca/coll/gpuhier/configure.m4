# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Builds the component as one of Open MPI's own: copy this folder to ompi/mca/coll/gpuhier of Open MPI 5.0's source
# tree, then run autogen.pl and configure --with-cuda. Open MPI's configure calls the two MCA_ macros. This project's
# own configure calls GPUHIER_CUDA_ARCHS only, and does the rest by config/gpuhier_*.m4, with the same results:
#
#   coll_gpuhier_CPPFLAGS CFLAGS LDFLAGS LIBS   for the component
#   coll_gpuhier_DSO_LIBS                       further ones, for a component that is loaded at run time
#   NVCC NVCC_GENCODE NVCC_GENCODE_MULTICAST    for gpu/kernels/
#   GPUHIER_OUT_OF_TREE                         conditional, and a macro with the value 0 or 1

# Machine code for one minor version runs on all later minor versions of the same major version. So nvcc makes code for
# the lowest minor version of each major version that it knows, from sm_70 (V100, up to CUDA 12) on. Later GPUs use PTX.
# The kernels move memory and gain nothing from newer PTX, so all code is made from one PTX, of the oldest version. That
# halves the time that nvcc takes. Kernels for multicast addresses need sm_90; if nvcc does not know it, their file has
# no kernels.
AC_DEFUN([GPUHIER_CUDA_ARCHS], [
    gpuhier_known=`"$NVCC" --list-gpu-code | sed -n 's/^sm_\(@<:@0-9@:>@*\)$/\1/p' | sort -n`
    gpuhier_codes=
    gpuhier_cuda_archs=
    gpuhier_major_seen=
    gpuhier_oldest=
    gpuhier_multicast=
    gpuhier_multicast_codes=
    for gpuhier_arch in $gpuhier_known; do
        AS_IF([test $gpuhier_arch -lt 70], [continue])
        AS_IF([test -z "$gpuhier_oldest"], [gpuhier_oldest=$gpuhier_arch])
        gpuhier_major=`expr $gpuhier_arch / 10`
        AS_CASE([" $gpuhier_major_seen "], [*" $gpuhier_major "*], [continue])
        gpuhier_major_seen="$gpuhier_major_seen $gpuhier_major"
        gpuhier_codes="${gpuhier_codes}sm_$gpuhier_arch,"
        AS_IF([test $gpuhier_arch -ge 90],
              [gpuhier_multicast=90
               gpuhier_multicast_codes="${gpuhier_multicast_codes}sm_$gpuhier_arch,"])
        gpuhier_cuda_archs="$gpuhier_cuda_archs sm_$gpuhier_arch"
    done
    NVCC_GENCODE="-gencode arch=compute_$gpuhier_oldest,code=@<:@${gpuhier_codes}compute_$gpuhier_oldest@:>@"
    AS_IF([test -z "$gpuhier_multicast"], [gpuhier_multicast=$gpuhier_oldest])
    NVCC_GENCODE_MULTICAST="-gencode arch=compute_$gpuhier_multicast,code=@<:@${gpuhier_multicast_codes}compute_$gpuhier_multicast@:>@"
    gpuhier_cuda_archs="$gpuhier_cuda_archs, PTX $gpuhier_oldest"
])

# MCA_ompi_coll_gpuhier_CONFIG([action-if-can-compile], [action-if-cant-compile])
#
# Needs --with-cuda, nvcc, UCX and hwloc, which is part of every Open MPI; its flags are in all compilations. Both may be
# older than the component needs: config/gpuhier_libs.m4 gives the reasons.
AC_DEFUN([MCA_ompi_coll_gpuhier_CONFIG], [
    AC_CONFIG_FILES([ompi/mca/coll/gpuhier/Makefile
                     ompi/mca/coll/gpuhier/gpu/kernels/Makefile])
    OPAL_VAR_SCOPE_PUSH([gpuhier_cuda gpuhier_happy gpuhier_save_cppflags])

    gpuhier_cuda=
    AS_IF([test "$CUDA_SUPPORT" = 1],
          [AS_CASE([$with_cuda],
                   [""|yes|no], [gpuhier_cuda=/usr/local/cuda],
                   [gpuhier_cuda=$with_cuda])])
    AC_MSG_CHECKING([for nvcc of the CUDA toolkit])
    NVCC=$gpuhier_cuda/bin/nvcc
    AS_IF([test -n "$gpuhier_cuda" && test -x "$NVCC" && test -f "$gpuhier_cuda/include/cuda.h"],
          [AC_MSG_RESULT([$NVCC])
           gpuhier_happy=yes
           GPUHIER_CUDA_ARCHS],
          [AC_MSG_RESULT([no])
           gpuhier_happy=no])
    AS_IF([test "$gpuhier_happy" = yes],
          [OMPI_CHECK_UCX([coll_gpuhier], [], [gpuhier_happy=no])])
    AS_IF([test "$gpuhier_happy" = yes],
          [gpuhier_save_cppflags=$CPPFLAGS
           CPPFLAGS="$coll_gpuhier_CPPFLAGS $opal_hwloc_CPPFLAGS $CPPFLAGS"
           AC_MSG_CHECKING([for UCX 1.12 and hwloc 2.1, or newer])
           AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <ucp/api/ucp.h>
#include <hwloc.h>
#if UCP_API_VERSION < UCP_VERSION(1, 12)
#error "UCX is older than 1.12"
#endif
#if HWLOC_API_VERSION < 0x00020100
#error "hwloc is older than 2.1"
#endif]], [])],
               [AC_MSG_RESULT([yes])],
               [AC_MSG_RESULT([no])
                gpuhier_happy=no])
           CPPFLAGS=$gpuhier_save_cppflags])

    coll_gpuhier_CPPFLAGS="-DGPUHIER_OUT_OF_TREE=0 -isystem $gpuhier_cuda/include $coll_gpuhier_CPPFLAGS"
    coll_gpuhier_CFLAGS=
    coll_gpuhier_DSO_LIBS='$(top_builddir)/ompi/lib$(OMPI_LIBMPI_NAME).la'
    AC_SUBST([NVCC])
    AC_SUBST([NVCC_GENCODE])
    AC_SUBST([NVCC_GENCODE_MULTICAST])
    AC_SUBST([coll_gpuhier_CPPFLAGS])
    AC_SUBST([coll_gpuhier_CFLAGS])
    AC_SUBST([coll_gpuhier_LDFLAGS])
    AC_SUBST([coll_gpuhier_LIBS])
    AC_SUBST([coll_gpuhier_DSO_LIBS])
    AS_IF([test "$gpuhier_happy" = yes], [$1], [$2])
    OPAL_SUMMARY_ADD([Accelerators], [hierarchical all-reduce], [], [$gpuhier_happy])
    OPAL_VAR_SCOPE_POP
])

AC_DEFUN([MCA_ompi_coll_gpuhier_POST_CONFIG], [
    AM_CONDITIONAL([GPUHIER_OUT_OF_TREE], [false])
])
