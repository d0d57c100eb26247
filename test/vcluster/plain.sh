# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# One node without namespaces, for users who may not make any. A janitor process
# outlives run, whatever happens to run. It kills the processes of this run, which
# carry its mark in their environment, and removes the run's folder in /dev/shm.
# /dev/shm is that of the machine, so other files of the program stay there.

# run_plain MPIRUN-COMMAND... PROGRAM...: returns the status of the program.
run_plain() {
    local mark folder child status started=$SECONDS

    janitor_process=
    mark=VCLUSTER_RUN=$$.$RANDOM$RANDOM
    trap 'end_plain; exit 129' HUP
    trap 'end_plain; exit 130' INT
    trap 'end_plain; exit 143' TERM
    coproc janitor { exec setsid bash "$here/janitor.sh" "$mark" 7>&- 2>/dev/null; }
    janitor_process=$janitor_PID
    # The end of this pipe tells the janitor that run has ended, so no other
    # process may hold it.
    exec 8>&"${janitor[1]}"
    eval "exec ${janitor[1]}>&-"
    read -r -t 100 folder <&"${janitor[0]}" || fail 125 'cannot make a folder in /dev/shm'
    if [[ -n ${VCLUSTER_TOPOLOGY_TOOL:-} ]]; then
        "$VCLUSTER_TOPOLOGY_TOOL" --hwloc-xml >"$folder/hwloc.xml" || fail 125 "cannot write $folder/hwloc.xml"
        export HWLOC_XMLFILE=$folder/hwloc.xml
    fi
    exec 6<&0
    env "$mark" TMPDIR="$folder" \
        OMPI_MCA_btl_vader_backing_directory="$folder" OMPI_MCA_btl_sm_backing_directory="$folder" \
        VCLUSTER_NODE=0 VCLUSTER_NODES=1 VCLUSTER_RAILS=0 CUDASIM_NODE="node0.${folder##*.}" \
        "$@" <&6 6<&- 8>&- &
    child=$!
    exec 6<&-
    wait $child
    status=$?
    end_plain
    if [[ -n $timeout ]] && (( status == 124 || (status == 137 && SECONDS - started >= timeout) )); then
        say "not done after $timeout s, killed"
        status=124
    fi
    return $status
}

end_plain() {
    exec 8>&-
    # Bash puts -1 there once the descriptor is closed.
    [[ ! ${janitor[1]:-} =~ ^[0-9]+$ ]] || eval "exec ${janitor[1]}>&-"
    wait "${janitor_process:-${janitor_PID:-}}" 2>/dev/null
}
