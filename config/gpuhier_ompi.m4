# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# GPUHIER_CHECK_OMPI: the Open MPI that the component is built for, with its internal headers.
#
# Substitutes OMPI_PREFIX OMPI_VERSION OMPI_CPPFLAGS OMPI_LDFLAGS OMPI_LIBS MPICC MPIRUN; sets componentdir and helpdir, where the component and its messages go.
AC_DEFUN([GPUHIER_CHECK_OMPI], [
    AC_ARG_WITH([ompi], [AS_HELP_STRING([--with-ompi=DIR], [Open MPI's installation prefix (default: mpicc on PATH)])])
    AC_ARG_WITH([ompi-src], [AS_HELP_STRING([--with-ompi-src=DIR],
                [Open MPI's source tree, configured by contrib/ompi-headers, for internal headers that an installation lacks])])
    AC_ARG_WITH([component-dir], [AS_HELP_STRING([--with-component-dir=DIR],
                [where to install mca_coll_gpuhier.so (default: LIBDIR/openmpi with --prefix, else where that Open MPI looks; a user's own: ~/.openmpi/components)])])

    AS_CASE([$with_ompi],
        [""|yes|no], [gpuhier_ompi_path=$PATH],
        [gpuhier_ompi_path=$with_ompi/bin])
    AC_PATH_PROG([MPICC], [mpicc], [], [$gpuhier_ompi_path])
    AC_PATH_PROG([MPIRUN], [mpirun], [], [$gpuhier_ompi_path])
    AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$gpuhier_ompi_path])
    AS_IF([test -z "$MPICC" || test -z "$MPIRUN" || test -z "$OMPI_INFO"],
          [GPUHIER_MISSING([Open MPI (mpicc, mpirun, ompi_info)],
                           [install libopenmpi-dev and openmpi-bin, or name its prefix by --with-ompi=DIR])],
          [GPUHIER_OMPI_HEADERS])
    AC_SUBST([OMPI_PREFIX])
    AC_SUBST([OMPI_VERSION])
    AC_SUBST([OMPI_CPPFLAGS])
    AC_SUBST([OMPI_LDFLAGS])
    AC_SUBST([OMPI_LIBS])
    AC_SUBST([OMPI_COMPONENTS])
])

# One value out of ompi_info --path.
AC_DEFUN([GPUHIER_OMPI_PATH], [`$OMPI_INFO --parsable --path $1 2>/dev/null | $SED -n 's/^path:$1://p' | head -n 1`])

AC_DEFUN([GPUHIER_OMPI_HEADERS], [
    OMPI_VERSION=`$OMPI_INFO --version 2>/dev/null | $SED -n 's/^Open MPI v//p'`
    AS_IF([test -z "$OMPI_VERSION"],
          [AC_MSG_ERROR([$OMPI_INFO does not say that it is Open MPI's; name Open MPI's prefix by --with-ompi=DIR])])
    AS_IF([$OMPI_INFO --parsable --config 2>/dev/null | grep '^option:dlopen:no' >/dev/null],
          [GPUHIER_MISSING([an Open MPI that loads components],
                           [configure it without --disable-dlopen, or build gpuhier as a part of it])])
    OMPI_PREFIX=GPUHIER_OMPI_PATH([prefix])
    gpuhier_ompi_incdir=GPUHIER_OMPI_PATH([incdir])
    gpuhier_ompi_libdir=GPUHIER_OMPI_PATH([libdir])
    OMPI_COMPONENTS=GPUHIER_OMPI_PATH([pkglibdir])
    gpuhier_ompi_datadir=GPUHIER_OMPI_PATH([pkgdatadir])
    OMPI_CPPFLAGS="-I$gpuhier_ompi_incdir -I$gpuhier_ompi_incdir/openmpi"
    gpuhier_ompi_headers=$gpuhier_ompi_incdir/openmpi
    AS_IF([test -n "$with_ompi_src"], [
        AS_IF([test ! -f "$with_ompi_src/ompi/mca/coll/coll.h"],
              [AC_MSG_ERROR([--with-ompi-src=$with_ompi_src is not an Open MPI source tree (no ompi/mca/coll/coll.h)])])
        OMPI_CPPFLAGS="$OMPI_CPPFLAGS -I$with_ompi_src -I$with_ompi_src/ompi/include -I$with_ompi_src/opal/include"
        # Open MPI 4, and the PMIx that Open MPI 5 may have brought along.
        for gpuhier_dir in "$with_ompi_src/orte/include" "$with_ompi_src/3rd-party/openpmix/include"; do
            AS_IF([test -d "$gpuhier_dir"], [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -I$gpuhier_dir"])
        done
        gpuhier_ompi_headers="$gpuhier_ompi_headers, then $with_ompi_src"
    ])
    OMPI_LDFLAGS="-L$gpuhier_ompi_libdir"
    OMPI_LIBS="-lmpi -lopen-pal"
    # Open MPI 6: libmpi has the bindings only.
    AS_IF([test -e "$gpuhier_ompi_libdir/libopen_mpi.so"], [OMPI_LIBS="-lmpi -lopen_mpi -lopen-pal"])
    # An Open MPI that is named is found by programs when they run, before any other. One on PATH need not be the
    # system's either, but whoever put it there sees to that.
    AS_CASE([$with_ompi], [""|yes|no], [OMPI_LIBS="$OMPI_LDFLAGS $OMPI_LIBS"],
        [OMPI_LIBS="$OMPI_LDFLAGS -Wl,-rpath,$gpuhier_ompi_libdir $OMPI_LIBS"])
    componentdir=$OMPI_COMPONENTS
    helpdir=$gpuhier_ompi_datadir
    AS_IF([test -n "$with_component_dir"], [componentdir=$with_component_dir; helpdir=$componentdir],
          [test "x$prefix" != xNONE], [componentdir='${libdir}/openmpi'; helpdir=$componentdir])

    gpuhier_save_cppflags=$CPPFLAGS
    gpuhier_save_ldflags=$LDFLAGS
    gpuhier_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS"
    LDFLAGS="$LDFLAGS $OMPI_LDFLAGS"
    LIBS="$OMPI_LIBS $LIBS"
    AC_MSG_CHECKING([for Open MPI's internal headers])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "ompi_config.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/communicator/communicator.h"
#include "opal/runtime/opal_progress.h"
    ]], [[opal_progress(); return NULL == ompi_mpi_comm_world.comm.c_coll;]])],
        [AC_MSG_RESULT([$gpuhier_ompi_headers])],
        [AC_MSG_RESULT([no])
         GPUHIER_MISSING([internal headers of Open MPI $OMPI_VERSION],
            [install libopenmpi-dev (Open MPI 5 needs libpmix-dev too). An Open MPI that was configured without --with-devel-headers has none: run contrib/ompi-headers PREFIX SOURCE on the unpacked source of that release, and add --with-ompi-src=SOURCE])])
    CPPFLAGS=$gpuhier_save_cppflags
    LDFLAGS=$gpuhier_save_ldflags
    LIBS=$gpuhier_save_libs
])
