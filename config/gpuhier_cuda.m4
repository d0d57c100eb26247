# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# GPUHIER_CHECK_CUDA: the toolkit. The component needs its headers and nvcc to build, and only libcuda.so.1 to run.
#
# Substitutes CUDA_HOME CUDA_CPPFLAGS CUDART_LIBS NVCC NVCC_GENCODE NVCC_GENCODE_MULTICAST. GPUHIER_CUDA_ARCHS is in the
# component's configure.m4.
AC_DEFUN([GPUHIER_CHECK_CUDA], [
    AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR],
                [CUDA toolkit (default: CUDA_HOME, /usr/local/cuda, or where nvcc is)])])
    AC_ARG_VAR([CUDA_HOME], [CUDA toolkit, used when --with-cuda is not given])
    AS_CASE([$with_cuda],
        [""|yes|no], [
            AS_IF([test -z "$CUDA_HOME" && test -x /usr/local/cuda/bin/nvcc], [CUDA_HOME=/usr/local/cuda])
            AS_IF([test -z "$CUDA_HOME"], [
                AC_PATH_PROG([gpuhier_nvcc], [nvcc])
                AS_IF([test -n "$gpuhier_nvcc"], [CUDA_HOME=`dirname "$gpuhier_nvcc"`/..])])],
        [CUDA_HOME=$with_cuda])
    AC_MSG_CHECKING([for the CUDA toolkit])
    AS_IF([test -x "$CUDA_HOME/bin/nvcc" && test -f "$CUDA_HOME/include/cuda.h"],
          [AC_MSG_RESULT([$CUDA_HOME])
           NVCC=$CUDA_HOME/bin/nvcc
           CUDA_CPPFLAGS="-isystem $CUDA_HOME/include"
           gpuhier_cuda_lib=
           for gpuhier_dir in lib64 lib targets/*/lib; do
               AS_IF([test -z "$gpuhier_cuda_lib"],
                     [for gpuhier_file in "$CUDA_HOME"/$gpuhier_dir/libcudart.so; do
                          AS_IF([test -f "$gpuhier_file"], [gpuhier_cuda_lib=`dirname "$gpuhier_file"`])
                      done])
           done
           CUDART_LIBS="-L${gpuhier_cuda_lib:-$CUDA_HOME/lib64} -lcudart"
           gpuhier_cuda_version=`"$NVCC" --version | $SED -n 's/^.*release \(@<:@0-9.@:>@*\),.*/\1/p'`
           AS_VERSION_COMPARE([${gpuhier_cuda_version:-0}], [11.8],
               [GPUHIER_MISSING([CUDA 11.8 or newer ('$CUDA_HOME' has ${gpuhier_cuda_version:-an unknown version})],
                                [install it and name it by --with-cuda=DIR or CUDA_HOME])],
               [GPUHIER_CHECK_NVCC], [GPUHIER_CHECK_NVCC])
           GPUHIER_CUDA_ARCHS],
          [AC_MSG_RESULT([no])
           GPUHIER_MISSING([the CUDA toolkit (nvcc and cuda.h; looked in '${CUDA_HOME:-nothing}')],
                           [install CUDA 11.8 or newer and name it by --with-cuda=DIR or CUDA_HOME])])
    AC_SUBST([NVCC])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDART_LIBS])
    AC_SUBST([NVCC_GENCODE])
    AC_SUBST([NVCC_GENCODE_MULTICAST])
])

# nvcc calls the gcc on PATH, and refuses one that is newer than it knows.
AC_DEFUN([GPUHIER_CHECK_NVCC], [
    AS_IF([test "$gpuhier_cxx" = yes], [
        AC_MSG_CHECKING([whether nvcc works])
        echo '__global__ void kernel(void) {}' >conftest.cu
        AS_IF([gpuhier_error=`"$NVCC" -E conftest.cu 2>&1 >/dev/null`],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             gpuhier_error=`AS_ECHO(["$gpuhier_error"]) | $SED -n '/error/{p;q;}'`
             GPUHIER_MISSING([a host compiler that $NVCC takes ($gpuhier_error)],
                 [install one, and export NVCC_PREPEND_FLAGS=-ccbin=FILE for configure and make])])
        rm -f conftest.cu
    ])
])
