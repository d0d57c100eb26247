#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the tests: every line of every test/*/tests.list, one after the other.
#
#   test/check.sh [options] [pattern...]
#
#   pattern       runs only these tests: a folder (nodes/), the beginning of folder/name (ranks/types), or
#                 a part of a name (lazy), and then all of a folder with that name, too; may be a glob
#   --asan        in a build with AddressSanitizer and UBSan: the unit and ranks tests
#   --full        the whole matrix instead of the pairwise choice (GPUHIER_CHECK_FULL=1 for the tests)
#   --loop [N]    again and again until a test fails, or N rounds
#   --list        names the tests and stops
#   --verbose     the output of every test, not only of failing ones
#   --build DIR   build folder (default: GPUHIER_BUILD, else build/ in the source tree)
#   --no-setup    uses the build as it is
#
# A line of a tests.list is "NAME DEADLINE_SECONDS command args...", run by bash in the build
# folder of that test folder with GPUHIER_SRC and GPUHIER_BUILD set. Status 0 is a pass, 77 a
# skip, anything else a failure; so is passing the deadline, and so is leaving something behind:
# a process, a file in /dev/shm, a network namespace, an interface, a System V segment.
#
# Each test gets /dev/shm, System V IPC and a network of its own when we may make namespaces, so
# that what it leaves is seen exactly, whatever else runs on the machine, and does not
# trouble the next test. The last line reads "N passed, N failed, N skipped".
set -u
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
self=$src/test/check.sh
export GPUHIER_SRC=$src
export GPUHIER_BUILD=${GPUHIER_BUILD:-$src/build}
build_chosen=0

# The order in which a failure tells most: the smallest thing that can be broken comes first.
folder_order=(unit cudasim vcluster ranks nodes fault fuzz bench compile gpu peers)

asan=0 full=0 loops=1 list_only=0 verbose=0 setup=1
patterns=()

usage()
{
    awk 'NR > 4 { if (!/^#/) { exit } sub(/^# ?/, ""); print }' "$self"
}

while [ $# -gt 0 ]; do
    case $1 in
    --asan) asan=1 ;;
    --full) full=1 ;;
    --loop)
        loops=0
        if [[ ${2:-} =~ ^[0-9]+$ ]]; then
            loops=$2
            shift
        fi
        ;;
    --list) list_only=1 ;;
    --verbose) verbose=1 ;;
    --build)
        [ $# -ge 2 ] || { echo "check: --build needs a folder" >&2; exit 2; }
        GPUHIER_BUILD=$2
        build_chosen=1
        shift
        ;;
    --no-setup) setup=0 ;;
    -h | --help)
        usage
        exit 0
        ;;
    -*)
        echo "check: unknown option $1 (see --help)" >&2
        exit 2
        ;;
    *) patterns+=("$1") ;;
    esac
    shift
done

# -- the tests ----------------------------------------------------------------------------
# Fills tests[] with lines "folder NAME DEADLINE command...".
read_lists()
{
    local folder list name deadline command known
    tests=()
    known=" ${folder_order[*]} "
    local folders=("${folder_order[@]}")
    for list in "$src"/test/*/tests.list; do
        [ -e "$list" ] || continue
        folder=$(basename "$(dirname "$list")")
        case $known in
        *" $folder "*) ;;
        *) folders+=("$folder") ;;
        esac
    done
    for folder in "${folders[@]}"; do
        list=$src/test/$folder/tests.list
        [ -e "$list" ] || continue
        while read -r name deadline command || [ -n "$name" ]; do
            case $name in
            '' | '#'*) continue ;;
            esac
            if ! [[ $deadline =~ ^[0-9]+$ ]] || [ -z "$command" ]; then
                echo "check: test/$folder/tests.list: bad line for '$name': want NAME SECONDS command" >&2
                exit 2
            fi
            if is_wanted "$folder/$name"; then
                tests+=("$folder $name $deadline $command")
            fi
        done <"$list"
    done
}

is_wanted()
{
    local pattern
    if [ $asan = 1 ]; then
        case $1 in
        unit/* | ranks/*) ;;
        *) return 1 ;;
        esac
    fi
    [ ${#patterns[@]} -gt 0 ] || return 0
    for pattern in "${patterns[@]}"; do
        case $1 in
        $pattern*) return 0 ;;
        */*) [[ $pattern == */* ]] || [[ ${1#*/} != *$pattern* ]] || return 0 ;;
        esac
    done
    return 1
}

read_lists
if [ $list_only = 1 ]; then
    for line in ${tests[@]+"${tests[@]}"}; do
        read -r folder name deadline command <<<"$line"
        echo "$folder/$name"
    done
    exit 0
fi

# -- the build ----------------------------------------------------------------------------
setup_args=()
if [ $asan = 1 ]; then
    if [ $build_chosen = 0 ]; then
        GPUHIER_BUILD=$src/build-asan
    fi
    setup_args=(--configure "$src/contrib/configure-asan")
fi
if [ $setup = 1 ]; then
    "$src/test/setup.sh" --with-check --build "$GPUHIER_BUILD" ${setup_args[@]+"${setup_args[@]}"} || {
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    }
fi
if [ ! -d "$GPUHIER_BUILD" ]; then
    echo "check: there is no build in $GPUHIER_BUILD; leave --no-setup away" >&2
    exit 1
fi
GPUHIER_BUILD=$(cd "$GPUHIER_BUILD" && pwd)

. "$src/test/env.sh"
gpuhier_env_mpi
if [ $asan = 1 ]; then
    gpuhier_env_sanitizers
fi
if [ $full = 1 ]; then
    export GPUHIER_CHECK_FULL=1
fi
# A test may run this script for another build; one that runs itself that way would never end.
export GPUHIER_CHECK_DEPTH=$((${GPUHIER_CHECK_DEPTH:-0} + 1))
if [ $GPUHIER_CHECK_DEPTH -gt 2 ]; then
    echo "check: a test that runs test/check.sh runs itself: give it patterns that leave itself out" >&2
    exit 2
fi

# -- one test -----------------------------------------------------------------------------
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpuhier-check.XXXXXX") || exit 1
tag=
trap 'end_tagged; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Namespaces are a root's thing here: an unprivileged user namespace would change who owns files.
isolated=0
if [ "$(id -u)" = 0 ] && unshare --mount --ipc --net true 2>/dev/null; then
    isolated=1
fi

# Runs in the test's namespaces: a private /dev/shm and /run/netns, loopback up, then the test
# under its deadline, then a look at what is left. Leftovers are named in $scratch/left.
inside='
deadline=$1 scratch=$2 isolated=$3 command=$4
if [ "$isolated" = 1 ]; then
    mount -t tmpfs -o size=2g,mode=1777 gpuhier-check /dev/shm || exit 99
    mkdir -p /run/netns && mount -t tmpfs gpuhier-check /run/netns || exit 99
    if command -v ip >/dev/null; then ip link set lo up; fi
fi
look() {
    { ls -A /dev/shm | sed "s,^,file /dev/shm/,"
      ls -A /run/netns 2>/dev/null | sed "s,^,network namespace ,"
      sed -n "3,\$s,^ *\([^:]*\):.*,network interface \1,p" /proc/net/dev
      ipcs -m -q -s 2>/dev/null | sed -n "s/^\(0x[0-9a-f]* *[0-9]*\) .*/System V object \1/p"
    } | sort
}
look >"$scratch/before"
timeout -k 10 "$deadline" bash -c "$command" </dev/null
status=$?
for i in 1 2 3 4 5 6 7 8 9 10; do
    look | comm -13 "$scratch/before" - >"$scratch/left"
    [ -s "$scratch/left" ] || break
    sleep 0.2
done
exit $status
'

# Processes that carry this test's tag in their environment, as "pid command line" lines.
tagged()
{
    local file pid
    for file in /proc/[0-9]*/environ; do
        if grep -qzFx "GPUHIER_TEST_TAG=$1" "$file" 2>/dev/null; then
            pid=${file#/proc/}
            pid=${pid%/environ}
            # A zombie's environ is empty, so whoever shows up here runs.
            echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c1-120)"
        fi
    done
}

# Ends what an interrupted test still runs.
end_tagged()
{
    local pid rest
    [ -n "$tag" ] || return 0
    tagged "$tag" | while read -r pid rest; do
        kill -KILL "$pid" 2>/dev/null
    done
}

# Waits a little for the processes of a test to go; ends and names those that do not.
left_processes()
{
    local tries found pid rest
    for ((tries = 0; tries < 15; tries++)); do
        found=$(tagged "$1")
        [ -n "$found" ] || return 0
        sleep 0.2
    done
    while read -r pid rest; do
        echo "process $pid $rest"
        kill -KILL "$pid" 2>/dev/null
    done <<<"$found"
}

passed=0 failed=0 skipped=0
failures=()

run_test()
{
    local folder=$1 name=$2 deadline=$3 command=$4
    local status began ended seconds verdict left dir
    local wrap=()

    dir=$GPUHIER_BUILD/test/$folder
    mkdir -p "$dir"
    tag=$$.$folder.$name.$RANDOM
    if [ $isolated = 1 ]; then
        wrap=(unshare --mount --ipc --net --propagation private)
    fi
    : >"$scratch/left"
    began=$(date +%s.%N)
    (cd "$dir" && GPUHIER_TEST_TAG=$tag ${wrap[@]+"${wrap[@]}"} bash -c "$inside" check-one \
        "$deadline" "$scratch" "$isolated" "$command") >"$scratch/output" 2>&1 &
    wait $!
    status=$?
    ended=$(date +%s.%N)
    left_processes "$tag" >>"$scratch/left"
    tag=
    seconds=$(awk -v a="$began" -v b="$ended" 'BEGIN { printf "%.1f", b - a }')
    verdict=FAIL
    left=$(cat "$scratch/left")
    if [ -z "$left" ]; then
        case $status in
        0) verdict=PASS ;;
        77) verdict=SKIP ;;
        esac
    fi
    printf '%s %s %s\n' "$verdict" "$folder/$name" "$seconds"
    case $verdict in
    PASS) passed=$((passed + 1)) ;;
    SKIP)
        skipped=$((skipped + 1))
        tail -n 1 "$scratch/output" | sed 's/^/    /'
        ;;
    FAIL)
        failed=$((failed + 1))
        failures+=("$folder/$name")
        ;;
    esac
    if [ $verdict = FAIL ] || [ $verbose = 1 ]; then
        head -c 65536 "$scratch/output" | sed 's/^/    /'
        if [ "$(stat -c %s "$scratch/output")" -gt 65536 ]; then
            echo "    [the output was longer than 64 KiB]"
        fi
    fi
    if [ $verdict = FAIL ]; then
        case $status in
        124 | 137) echo "    -- passed its deadline of $deadline seconds" ;;
        99) echo "    -- its namespaces could not be made" ;;
        *) echo "    -- exit status $status" ;;
        esac
        if [ -n "$left" ]; then
            sed 's/^/    -- left behind: /' <<<"$left"
        fi
        echo "    -- command: $command"
    fi
}

# -- all tests ----------------------------------------------------------------------------
if [ ${#tests[@]} -eq 0 ]; then
    echo "check: no test matches: ${patterns[*]-}" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
round=1
began_all=$SECONDS
while :; do
    for line in "${tests[@]}"; do
        read -r folder name deadline command <<<"$line"
        run_test "$folder" "$name" "$deadline" "$command"
    done
    [ $failed -eq 0 ] || break
    [ "$loops" -ne 1 ] || break
    [ "$loops" -eq 0 ] || [ $round -lt "$loops" ] || break
    round=$((round + 1))
    echo "check: round $round"
done
echo "check: $((SECONDS - began_all)) seconds"
if [ $failed -gt 0 ]; then
    echo "check: failed: ${failures[*]}"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
