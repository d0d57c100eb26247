# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# GPUHIER_CHECK_COMPILER: make, C++, C11 with GNU extensions, and the warnings that this project keeps at zero.
AC_DEFUN([GPUHIER_CHECK_COMPILER], [
    AC_MSG_CHECKING([for GNU make])
    AS_CASE([`${MAKE-make} --version 2>/dev/null`],
        [*GNU*], [AC_MSG_RESULT([${MAKE-make}])],
        [AC_MSG_RESULT([no])
         GPUHIER_MISSING([GNU make], [install make])])
    AC_LANG_PUSH([C++])
    AC_MSG_CHECKING([whether $CXX compiles C++])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <cstdlib>]], [[std::abort();]])],
        [gpuhier_cxx=yes],
        [gpuhier_cxx=no
         GPUHIER_MISSING([a C++ compiler, which nvcc needs], [install g++])])
    AC_MSG_RESULT([$gpuhier_cxx])
    AC_LANG_POP([C++])
    AC_LANG_PUSH([C])
    AC_CACHE_CHECK([how to ask for C11], [gpuhier_cv_std], [
        gpuhier_cv_std=no
        gpuhier_save_cflags=$CFLAGS
        CFLAGS="$CFLAGS -std=gnu11"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <stdatomic.h>]],
                                           [[_Static_assert(sizeof(_Atomic int) > 0, "C11");]])],
                          [gpuhier_cv_std=-std=gnu11])
        CFLAGS=$gpuhier_save_cflags
    ])
    AS_IF([test "$gpuhier_cv_std" = no],
          [AC_MSG_ERROR([the C compiler $CC does not know C11 atomics; use gcc 4.9 or clang 3.6 or newer])])
    CC="$CC $gpuhier_cv_std"
    AC_CACHE_CHECK([how to compare and swap 16 bytes], [gpuhier_cv_cx16], [
        gpuhier_cv_cx16=no
        gpuhier_save_cflags=$CFLAGS
        for gpuhier_option in "" -mcx16; do
            CFLAGS="$gpuhier_save_cflags $gpuhier_option"
            AC_LINK_IFELSE([AC_LANG_PROGRAM([[static __int128 word;]],
                                            [[return __sync_bool_compare_and_swap(&word, word, word + 1);]])],
                           [gpuhier_cv_cx16=$gpuhier_option
                            break])
        done
        CFLAGS=$gpuhier_save_cflags
    ])
    AC_LANG_POP([C])
    # Open MPI's headers do it, in its lists that several threads use, if its own compiler could.
    CX16_CFLAGS=
    AS_IF([test "$gpuhier_cv_cx16" != no], [CX16_CFLAGS=$gpuhier_cv_cx16])
    AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [make compiler warnings errors])])
    WARN_CFLAGS="-Wall -Wextra"
    AS_IF([test "$enable_werror" = yes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
    AC_SUBST([WARN_CFLAGS])
])

# GPUHIER_MISSING(what, how to get it): remembers what is missing, so that one run of configure names all of it.
AC_DEFUN([GPUHIER_MISSING], [
    gpuhier_missing="$gpuhier_missing
  $1: $2"
])

AC_DEFUN([GPUHIER_REQUIRE_FOUND], [
    AS_IF([test -n "$gpuhier_missing"],
          [AC_MSG_ERROR([these are missing:$gpuhier_missing])])
])

AC_DEFUN([GPUHIER_SUMMARY], [
    # AC_OUTPUT has set prefix and exec_prefix.
    gpuhier_component_goes=$componentdir
    for gpuhier_i in 1 2 3; do
        gpuhier_component_goes=`eval echo "$gpuhier_component_goes"`
    done
    AS_CASE([$gpuhier_component_goes],
        [$OMPI_COMPONENTS|*/.openmpi/components], [gpuhier_component_note=],
        [gpuhier_component_note="
             where Open MPI looks if OMPI_MCA_mca_base_component_path names it:
             $gpuhier_component_goes:$OMPI_COMPONENTS"])
    cat <<EOF

gpuhier $PACKAGE_VERSION is configured:
  Open MPI   $OMPI_VERSION in $OMPI_PREFIX (headers $gpuhier_ompi_headers)
  UCX        $gpuhier_ucx_version
  hwloc      $gpuhier_hwloc_version
  CUDA       $gpuhier_cuda_version in $CUDA_HOME (kernels for $gpuhier_cuda_archs)
  cmocka     $gpuhier_cmocka_version
  SimGrid    $gpuhier_simgrid
  component  goes to $gpuhier_component_goes$gpuhier_component_note

Next: make install-product. Or without installing: make, then test/demo.sh, test/check.sh
EOF
])
