# shellcheck shell=bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The environment in which tests run MPI programs from a build tree; sourced by bash
# scripts (test/check.sh, test/ranks/run_alone). It sets variables and functions only, starts nothing.
#
# In:  GPUHIER_SRC, GPUHIER_BUILD (top source and top build folder)
# Out: gpuhier_env_mpi       settings of Open MPI for a small machine and for root
#      gpuhier_env_component the uninstalled component in front of Open MPI's own
#      gpuhier_env_sanitizers how a sanitized build reports; leaks count
#      gpuhier_env_emulator  the emulated CUDA libraries in front of everything else
#      gpuhier_env_kernels   nvcc's part of the build under test for another build
#      gpuhier_env_twin      and its kernels for emulated GPUs

# Oversubscribed ranks yield, root may run, nothing asks for a network that a test box lacks.
gpuhier_env_mpi()
{
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_hwloc_base_binding_policy=none
    # Containers often forbid process_vm_readv; Open MPI then warns in every rank's output.
    export OMPI_MCA_btl_vader_single_copy_mechanism=none
    # Open MPI 5 reads the same settings under PRRTE's names.
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export PRTE_MCA_hwloc_default_binding_policy=none
}

# The path of components replaces Open MPI's own, so Open MPI's is appended.
gpuhier_env_component()
{
    local default
    default=$(ompi_info --param mca base --level 9 --parsable 2>/dev/null |
        sed -n 's/^mca:mca:base:param:mca_base_component_path:value:"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p')
    if [ -z "$default" ]; then
        echo "ompi_info does not tell Open MPI's mca_base_component_path" >&2
        return 1
    fi
    export OMPI_MCA_mca_base_component_path=$GPUHIER_BUILD/ompi/mca/coll/gpuhier/component:$default
    # Open MPI 5 hands that on to PMIx, which complains of every file there that is not its own: an empty folder.
    mkdir -p "$GPUHIER_BUILD/test/none"
    export PMIX_MCA_mca_base_component_path=$GPUHIER_BUILD/test/none
}

gpuhier_env_emulator()
{
    export LD_LIBRARY_PATH=$GPUHIER_BUILD/test/cudasim/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export CUDASIM_TWINS=$GPUHIER_BUILD/test/cudasim/lib/libgpuhier_twin.so
}

# A report ends the process with a status that no test uses. A leak is known by the function that allocates
# and by nothing further out (malloc_context_size): every stack of ours has frames of Open MPI in it,
# so that a suppression of Open MPI's leaks would hide ours as well.
gpuhier_env_sanitizers()
{
    export ASAN_OPTIONS=detect_leaks=1:malloc_context_size=2:exitcode=66:abort_on_error=0:allocator_may_return_null=1:detect_odr_violation=1
    export LSAN_OPTIONS=suppressions=$GPUHIER_SRC/test/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=halt_on_error=1:exitcode=66:print_stacktrace=1
    # What libraries do among themselves is not watched.
    export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66:history_size=4:suppressions=$GPUHIER_SRC/test/tsan.supp:print_suppressions=0
}

# gpuhier_env_kernels FOLDER: puts nvcc's part of the build under test into another configured build, where nvcc would
# take minutes for the same.
gpuhier_env_kernels()
{
    local kernels=ompi/mca/coll/gpuhier/gpu/kernels name
    mkdir -p "$1/$kernels" || return 1
    for name in gpuhier_kernels.fatbin gpuhier_multicast.fatbin; do
        cmp -s "$GPUHIER_BUILD/$kernels/$name" "$1/$kernels/$name" ||
            cp "$GPUHIER_BUILD/$kernels/$name" "$1/$kernels/" || return 1
    done
}
# gpuhier_env_twin FOLDER: puts the kernels for emulated GPUs of the build under test into another configured build, where
# hundreds of templates would take minutes. They know nothing of MPI, and sanitizers cannot watch emulated GPU memory.
gpuhier_env_twin()
{
    local twin=test/cudasim/twin
    mkdir -p "$1/$twin" || return 1
    cmp -s "$GPUHIER_BUILD/$twin/.libs/libgpuhier_twin.so" "$1/$twin/.libs/libgpuhier_twin.so" ||
        tar -C "$GPUHIER_BUILD/$twin" --exclude=./Makefile --exclude=./.deps -cf - . | tar -C "$1/$twin" -xpf -
}
