# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The environment that run gives to Open MPI and to the program: which Open
# MPI, the uninstalled component, the emulated GPUs. Everything goes through
# the environment and not through mpirun's command line, so that what the user
# says with --mca always wins. OMPI_MCA_... wins over what default_to sets.

# default_to NAME VALUE: exports a value that the user's environment overrides.
default_to() {
    [[ -n ${!1+set} ]] || printf -v "$1" '%s' "$2"
    export "${1?}"
}

# find_open_mpi PREFIX: puts that Open MPI first; sets ompi_major.
find_open_mpi() {
    local text

    if [[ -n $1 ]]; then
        [[ -x $1/bin/mpirun ]] || fail 2 "--ompi: there is no $1/bin/mpirun"
        export PATH=$1/bin:$PATH
        export LD_LIBRARY_PATH=$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    type -P mpirun >/dev/null || fail 2 'there is no mpirun on PATH: install Open MPI (package openmpi-bin), or give --ompi PREFIX'
    text=$(mpirun --version 2>&1)
    [[ $text =~ 'Open MPI) '([0-9]+)\. ]] || fail 2 "$(type -P mpirun) is not Open MPI: '${text%%$'\n'*}'"
    ompi_major=${BASH_REMATCH[1]}
}

# Sets build to the build tree: $GPUHIER_BUILD, else the tree around the
# current folder, else build/ in the source tree, else the source tree.
find_build_tree() {
    local at=$PWD

    build=${GPUHIER_BUILD:-}
    while [[ -z $build && $at != / && -n $at ]]; do
        [[ -e $at/config.status && -d $at/ompi/mca/coll/gpuhier ]] && build=$at
        at=$(dirname "$at")
    done
    if [[ -z $build ]]; then
        build=$(cd "$here/../.." && pwd -P)
        [[ -e $build/build/config.status ]] && build=$build/build
    fi
    [[ -d $build ]] && build=$(cd "$build" && pwd)
    component=$build/ompi/mca/coll/gpuhier/component
    emulator=$build/test/cudasim/lib
}

# The relay delays packets where tc lacks netem, as it does on most small kernels.
find_relay() {
    relay=$build/test/vcluster/vcluster_relay
    [[ -z $latency || -x $relay ]] || fail 2 "--latency needs $relay:
  build it (./configure && make check), or say where with GPUHIER_BUILD=build-folder"
}

# Takes the numbers of GPUs, rails and nodes from the description where the
# command line leaves them open. If the command line names GPUs or rails, the
# description must agree. The tool says what is wrong with a description, and
# where. A description of a real machine has NICs with names of their own. The
# NICs that carry data are then the rails, in the order of the description, and
# the others are left out.
read_topology() {
    local tool=$build/test/cudasim/cudasim_topo text word name gpus_there=0 nics_there=0 nodes_there

    [[ -n $topology ]] || return 0
    (( ! real )) || fail 2 '--topology describes emulated GPUs: leave it or --real away'
    [[ -x $tool ]] || fail 2 "--topology needs $tool:
  build it (./configure && make), or say where with GPUHIER_BUILD=build-folder"
    text=$("$tool" "$topology" 2>&1) || fail 2 "--topology: ${text#cudasim: }"
    while read -r word name _; do
        [[ $word == gpu ]] && gpus_there=$(( gpus_there + 1 ))
        [[ $word == nic ]] && nics_there=$(( nics_there + 1 ))
    done <<<"$text"
    gpus=${gpus:-$gpus_there}
    (( gpus == gpus_there )) || fail 2 "--gpus $gpus, but $topology describes $gpus_there: omit --gpus"
    topology_xml=--hwloc-xml
    if [[ $text == *$'\n'nic\ * && $text != *$'\n'nic\ rail[0-9]* ]]; then
        topology_xml=--rails-xml
        read -r _ nics_there <<<"$("$tool" --rails "$topology")"
        rails=${rails:-$(( nics_there > 16 ? 16 : nics_there ))}
    fi
    read -r nodes_there _ <<<"$("$tool" --rails "$topology")"
    (( nodes_there == 1 && ! known_machine )) || nodes=${nodes:-$nodes_there}
    (( nics_there == 0 )) || rails=${rails:-$nics_there}
    while read -r word name _; do
        [[ $topology_xml == --rails-xml || $word != nic ]] || [[ $name =~ ^rail([0-9]+)$ && ${BASH_REMATCH[1]} -lt ${rails:-1} ]] ||
            fail 2 "$topology has a nic $name, but the interfaces of ${rails:-1} rails are called rail0 to rail$(( ${rails:-1} - 1 ))"
    done <<<"$text"
    topology_tool=$tool
}

# Sets up the emulated GPUs: their libraries, number and description, and the kernels' twins.
set_gpus() {
    (( ! real && gpus > 0 )) || return 0
    [[ -e $emulator/libcuda.so.1 ]] || fail 2 "there are no emulated CUDA libraries in $emulator:
  build them (./configure && make), say where with GPUHIER_BUILD=build-folder, or run with --real or --gpus 0"
    export LD_LIBRARY_PATH=$emulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export CUDASIM_GPUS=$gpus
    if [[ -n $topology ]]; then
        export CUDASIM_TOPOLOGY=$topology VCLUSTER_TOPOLOGY_TOOL=$topology_tool VCLUSTER_TOPOLOGY_XML=$topology_xml
    fi
    if [[ -e $emulator/libgpuhier_twin.so ]]; then
        export CUDASIM_TWINS=$emulator/libgpuhier_twin.so${CUDASIM_TWINS:+:$CUDASIM_TWINS}
    fi
}

# Sets up the component. mca_base_component_path replaces Open MPI's own path, so it gets both.
set_component() {
    local own

    if (( stock )); then
        default_to OMPI_MCA_coll '^gpuhier'
        return 0
    fi
    [[ -e $component/mca_coll_gpuhier.so ]] || fail 2 "there is no component in $component:
  build it (./configure && make), say where with GPUHIER_BUILD=build-folder, or run with --stock"
    own=$(gpuhier_env_own_path)
    [[ -n $own ]] || fail 2 "$(type -P ompi_info || echo 'ompi_info (not on PATH)') does not tell its mca_base_component_path"
    export OMPI_MCA_mca_base_component_path=$component:$own
    # Open MPI 5 hands this path on to PMIx, which complains about files that are not its own. So PMIx gets an empty
    # folder.
    mkdir -p "$build/test/none"
    default_to PMIX_MCA_mca_base_component_path "$build/test/none"
}

# Decides how processes are placed. Ranks fill node after node: run promises this,
# so the environment cannot change it. Nothing is bound, since all nodes share the
# same processors.
set_open_mpi() {
    set_component
    default_to OMPI_MCA_pml ob1
    default_to OMPI_MCA_btl '^openib,ofi,uct,usnic'
    default_to OMPI_MCA_mpi_yield_when_idle 1
    # Daemons that end a failed job kill its ranks at once and do not sleep a second before that, twice.
    if (( ompi_major < 5 )); then
        default_to OMPI_MCA_odls_base_sigkill_timeout 0
        default_to OMPI_ALLOW_RUN_AS_ROOT 1
        default_to OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
        export OMPI_MCA_rmaps_base_mapping_policy=slot
        default_to OMPI_MCA_rmaps_base_oversubscribe 1
        default_to OMPI_MCA_hwloc_base_binding_policy none
    else
        default_to PRTE_ALLOW_RUN_AS_ROOT 1
        default_to PRTE_ALLOW_RUN_AS_ROOT_CONFIRM 1
        default_to OMPI_ALLOW_RUN_AS_ROOT 1
        default_to OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
        export PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe
        default_to PRTE_MCA_hwloc_default_binding_policy none
    fi
}

# Lets processes find each other, on the rails of network.sh. cluster.sh puts the
# agent where this says.
set_network() {
    local agent=/dev/shm/.vcluster/agent

    default_to OMPI_MCA_btl_tcp_if_include 10.0.0.0/8
    if (( ompi_major < 5 )); then
        export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$agent OMPI_MCA_plm_rsh_no_tree_spawn=1
        default_to OMPI_MCA_oob_tcp_if_include 10.1.0.0/16
    else
        export PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent=$agent PRTE_MCA_plm_ssh_no_tree_spawn=1
        default_to PRTE_MCA_prte_if_include 10.1.0.0/16
    fi
}
