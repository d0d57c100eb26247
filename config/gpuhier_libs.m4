# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The libraries other than Open MPI and CUDA.

# GPUHIER_CHECK_LIB(NAME, package, header, library, function, how to get it)
# The header may refuse a version that is too old, with an #error.
# --with-name=DIR, else what the compiler finds. Substitutes NAME_CPPFLAGS and NAME_LIBS.
AC_DEFUN([GPUHIER_CHECK_LIB], [
    AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=DIR], [$2's installation prefix])])
    AS_CASE([$with_$2], [""|yes|no], [],
        [$1_CPPFLAGS="-I$with_$2/include"
         $1_LIBS="-L$with_$2/lib -Wl,-rpath,$with_$2/lib"])
    gpuhier_save_cppflags=$CPPFLAGS
    gpuhier_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $$1_CPPFLAGS"
    $1_LIBS="$$1_LIBS $4"
    LIBS="$LIBS $$1_LIBS"
    AC_MSG_CHECKING([for $2])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[$3]], [[$5]])],
        [AC_MSG_RESULT([yes])
         gpuhier_$2_version=`pkg-config --modversion $2 2>/dev/null || echo found`],
        [AC_MSG_RESULT([no])
         gpuhier_$2_version=no])
    CPPFLAGS=$gpuhier_save_cppflags
    LIBS=$gpuhier_save_libs
    AC_SUBST([$1_CPPFLAGS])
    AC_SUBST([$1_LIBS])
    AS_IF([test "$gpuhier_$2_version" = no], [$6])
])

# ucp_config_modify() knows the options of transports since UCX 1.12.
AC_DEFUN([GPUHIER_CHECK_UCX], [
    GPUHIER_CHECK_LIB([UCX], [ucx], [#include <ucp/api/ucp.h>
#if UCP_API_VERSION < UCP_VERSION(1, 12)
#error "UCX is older than 1.12"
#endif], [-lucp -luct -lucs],
        [ucp_request_param_t p; p.memory_type = UCS_MEMORY_TYPE_CUDA; ucp_get_version_string(); (void) p;],
        [GPUHIER_MISSING([UCX 1.12 or newer (none or an older one was found)],
                         [install libucx-dev, or name its prefix by --with-ucx=DIR])])
])

# hwloc_topology_set_components() is new in hwloc 2.1.
AC_DEFUN([GPUHIER_CHECK_HWLOC], [
    GPUHIER_CHECK_LIB([HWLOC], [hwloc], [#include <hwloc.h>
#if HWLOC_API_VERSION < 0x00020100
#error "hwloc is older than 2.1"
#endif], [-lhwloc],
        [hwloc_topology_t t; hwloc_topology_init(&t); hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_ALL);
         hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "cuda");],
        [GPUHIER_MISSING([hwloc 2.1 or newer (none or an older one was found)],
                         [install libhwloc-dev, or name its prefix by --with-hwloc=DIR])])
])

# cmocka is for the unit tests only.
AC_DEFUN([GPUHIER_CHECK_CMOCKA], [
    GPUHIER_CHECK_LIB([CMOCKA], [cmocka], [#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>], [-lcmocka], [cmocka_set_message_output(CM_OUTPUT_STDOUT);],
        [gpuhier_cmocka_version="not found: no unit tests (install libcmocka-dev)"])
    AM_CONDITIONAL([HAVE_CMOCKA], [AS_CASE([$gpuhier_cmocka_version], [not*], [false], [true])])
])

# SimGrid is for test/sim only. Its headers are C++17, and its errors those of templates: the language is asked for first.
AC_DEFUN([GPUHIER_CHECK_SIMGRID], [
    AC_LANG_PUSH([C++])
    SIMGRID_CXXFLAGS=-std=gnu++17
    SIMGRID_LIBS=-lsimgrid
    gpuhier_save_cxxflags=$CXXFLAGS
    gpuhier_save_libs=$LIBS
    CXXFLAGS="$CXXFLAGS $SIMGRID_CXXFLAGS"
    LIBS="$LIBS $SIMGRID_LIBS"
    AC_MSG_CHECKING([for SimGrid])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <simgrid/s4u.hpp>]], [[simgrid::s4u::create_star_zone("zone");]])],
        [gpuhier_simgrid=yes], [gpuhier_simgrid="no: no simulation (install libsimgrid-dev)"])
    AC_MSG_RESULT([$gpuhier_simgrid])
    CXXFLAGS=$gpuhier_save_cxxflags
    LIBS=$gpuhier_save_libs
    AC_LANG_POP([C++])
    AC_SUBST([SIMGRID_CXXFLAGS])
    AC_SUBST([SIMGRID_LIBS])
    AM_CONDITIONAL([HAVE_SIMGRID], [test "$gpuhier_simgrid" = yes])
])
