# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# GPUHIER_COMPONENT: what the component's Makefile.am wants to know, here where it is built beside an installed
# Open MPI; in Open MPI's own tree its configure.m4 tells. After the checks for Open MPI, UCX, hwloc and CUDA.
AC_DEFUN([GPUHIER_COMPONENT], [
    coll_gpuhier_CPPFLAGS="-DGPUHIER_OUT_OF_TREE=1 $OMPI_CPPFLAGS $UCX_CPPFLAGS $HWLOC_CPPFLAGS $CUDA_CPPFLAGS"
    coll_gpuhier_CFLAGS="$WARN_CFLAGS $CX16_CFLAGS"
    coll_gpuhier_LDFLAGS=$OMPI_LDFLAGS
    coll_gpuhier_LIBS="$UCX_LIBS $HWLOC_LIBS -ldl -lpthread"
    coll_gpuhier_DSO_LIBS=$OMPI_LIBS
    ompilibdir=$componentdir
    ompidatadir=$helpdir
    AC_SUBST([coll_gpuhier_CPPFLAGS])
    AC_SUBST([coll_gpuhier_CFLAGS])
    AC_SUBST([coll_gpuhier_LDFLAGS])
    AC_SUBST([coll_gpuhier_LIBS])
    AC_SUBST([coll_gpuhier_DSO_LIBS])
    AC_SUBST([ompilibdir])
    AC_SUBST([ompidatadir])
    AM_CONDITIONAL([GPUHIER_OUT_OF_TREE], [true])
    AM_CONDITIONAL([MCA_BUILD_ompi_coll_gpuhier_DSO], [true])
])
