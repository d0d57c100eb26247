# shellcheck shell=bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The environment in which tests run MPI programs from a build tree; sourced by bash
# scripts (test/check.sh, test/vcluster/run). It sets variables and functions only, starts nothing.
#
# In:  GPUHIER_SRC, GPUHIER_BUILD (top source and top build folder)
# Out: PATH                  with the folders of system tools
#      gpuhier_env_mpi       settings of Open MPI for a small machine and for root
#      gpuhier_env_own_path  prints the path of Open MPI's own components
#      gpuhier_env_component the uninstalled component in front of Open MPI's own
#      gpuhier_env_sanitizers how a sanitized build reports; leaks are errors
#      gpuhier_env_emulator  the emulated CUDA libraries in front of everything else
#      gpuhier_env_kernels   copies what nvcc has made for the build under test into another build
#      gpuhier_env_twin      copies the kernels for emulated GPUs into another build

# Debian's users have no folder on their PATH that has tc or ldconfig.
case :$PATH: in
*:/usr/sbin:*) ;;
*) PATH=$PATH:/usr/sbin:/sbin ;;
esac

# Lets root run programs. Ranks may outnumber the processors: none is bound, and a rank that waits yields.
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

# Prints Open MPI's own mca_base_component_path, nothing if ompi_info does not tell it. test/check.sh asks once for all its
# tests, which find the answer, and whose it is, in GPUHIER_OWN_PATH.
gpuhier_env_own_path()
{
    local tool
    tool=$(type -P ompi_info)
    case ${OMPI_MCA_mca_base_component_path:-}${GPUHIER_OWN_PATH:-} in
    "$tool="?*) echo "${GPUHIER_OWN_PATH#*=}" ;;
    *)
        ompi_info --param mca base --level 9 --parsable 2>/dev/null |
            sed -n 's/^mca:mca:base:param:mca_base_component_path:value:"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p'
        ;;
    esac
}

# The path of components replaces Open MPI's own, so Open MPI's is appended.
gpuhier_env_component()
{
    local default
    default=$(gpuhier_env_own_path)
    if [ -z "$default" ]; then
        echo "ompi_info does not tell Open MPI's mca_base_component_path" >&2
        return 1
    fi
    export OMPI_MCA_mca_base_component_path=$GPUHIER_BUILD/ompi/mca/coll/gpuhier/component:$default
    # Open MPI 5 hands this path on to PMIx, which complains about files that are not its own. So PMIx gets an empty
    # folder.
    mkdir -p "$GPUHIER_BUILD/test/none"
    export PMIX_MCA_mca_base_component_path=$GPUHIER_BUILD/test/none
}

gpuhier_env_emulator()
{
    export LD_LIBRARY_PATH=$GPUHIER_BUILD/test/cudasim/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export CUDASIM_TWINS=$GPUHIER_BUILD/test/cudasim/lib/libgpuhier_twin.so
}

# A report ends the process with a status that no test uses. Of a leak's stack only the function that allocates is
# recorded (malloc_context_size). Further up, every stack of ours has frames of Open MPI, and so the suppressions of
# Open MPI's leaks would hide ours as well.
gpuhier_env_sanitizers()
{
    export ASAN_OPTIONS=detect_leaks=1:malloc_context_size=2:exitcode=66:abort_on_error=0:allocator_may_return_null=1:detect_odr_violation=1
    export LSAN_OPTIONS=suppressions=$GPUHIER_SRC/test/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=halt_on_error=1:exitcode=66:print_stacktrace=1
    # What uninstrumented libraries do among themselves is ignored.
    export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66:history_size=4:suppressions=$GPUHIER_SRC/test/tsan.supp:print_suppressions=0
}

# gpuhier_env_kernels FOLDER: copies what nvcc has made for the build under test into another configured build, where
# nvcc would take minutes to make the same.
gpuhier_env_kernels()
{
    local kernels=ompi/mca/coll/gpuhier/gpu/kernels name
    mkdir -p "$1/$kernels" || return 1
    for name in gpuhier_kernels.fatbin gpuhier_multicast.fatbin; do
        cmp -s "$GPUHIER_BUILD/$kernels/$name" "$1/$kernels/$name" ||
            cp "$GPUHIER_BUILD/$kernels/$name" "$1/$kernels/" || return 1
        touch "$1/$kernels/$name" # or make finds the sources newer, and has nvcc make the same again
    done
}
# gpuhier_env_twin FOLDER: copies the kernels for emulated GPUs from the build under test into another configured build,
# where hundreds of templates would take minutes. They do not depend on Open MPI, and sanitizers cannot watch emulated
# GPU memory.
gpuhier_env_twin()
{
    local twin=test/cudasim/twin
    mkdir -p "$1/$twin" || return 1
    cmp -s "$GPUHIER_BUILD/$twin/.libs/libgpuhier_twin.so" "$1/$twin/.libs/libgpuhier_twin.so" ||
        tar -C "$GPUHIER_BUILD/$twin" --exclude=./Makefile --exclude=./.deps -cf - . | tar -C "$1/$twin" -xpf -
}
