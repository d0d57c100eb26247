#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the tests: the lines of test/*/tests.list, some side by side.
#
#   test/check.sh [options] [pattern...]
#
#   pattern       runs only these tests: a folder (nodes/), the beginning of folder/name (ranks/types), or
#                 a part of a name (lazy), and then all of a folder with that name, too; may be a glob
#   --ci          also the tests that are marked "slow"; without it and without a pattern they are left out
#   --full        all tests, and more in some of them (GPUHIER_CHECK_FULL=1 tells them)
#   --asan        the unit and ranks tests, in a build with AddressSanitizer and UBSan
#   --jobs N      runs N tests at a time (default: two for each processor, since tests wait much; at most 8)
#   --loop [N]    repeats the tests until one fails, or for N rounds
#   --list        names the tests and stops
#   --programs    names the programs that their lines start, as folder/name, and stops
#   --verbose     the output of every test, not only of failing ones
#   --build DIR   build folder (default: GPUHIER_BUILD, else build/ in the source tree)
#   --no-setup    uses the build as it is
#
# A line of a tests.list is "NAME DEADLINE_SECONDS [MARK...] command args...". The command is run by bash
# in the build folder of that test folder with GPUHIER_SRC and GPUHIER_BUILD set. Status 0 is a pass, 77 a
# skip, and anything else a failure. A test also fails if it passes its deadline, or if it leaves something
# behind: a process, a file in /dev/shm, a network namespace, an interface, a System V IPC object.
#
#   slow    left out when neither --ci, --full nor a pattern asks for it
#   full    runs with --full only, or when a pattern is its whole name
#   alone   runs after the others, with no other test beside it
#   first   starts before the others: a long one, which would run on when all others have ended
#
# A deadline is generous for an idle machine. A busy machine may be many times slower, and only a hang should
# reach the deadline, so a test gets five times as long. No test judges how long something takes:
# test/bench/suite.sh does.
#
# If root runs this script, and may make namespaces, each test gets /dev/shm, System V IPC and a network of its
# own. Then what it leaves behind is seen, whatever else runs on the machine, and does not trouble another test.
# Otherwise tests run one after the other. Results are printed in the order of the lists. The last line reads
# "N passed, N failed, N skipped".
set -u
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
self=$src/test/check.sh
export GPUHIER_SRC=$src
export GPUHIER_BUILD=${GPUHIER_BUILD:-$src/build}
build_chosen=0

# Folders whose tests are about small things come first, so that the first failure tells most.
folder_order=(unit cudasim vcluster ranks nodes fault fuzz bench compile gpu peers)

patience=5

asan=0 full=0 ci=0 jobs="" loops=1 list_only="" verbose=0 setup=1
patterns=()

usage()
{
    awk 'NR > 4 { if (!/^#/) { exit } sub(/^# ?/, ""); print }' "$self"
}

while [ $# -gt 0 ]; do
    case $1 in
    --asan) asan=1 ;;
    --full) full=1 ;;
    --ci) ci=1 ;;
    --jobs)
        [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo "check: --jobs needs a number" >&2; exit 2; }
        jobs=$2
        shift
        ;;
    --loop)
        loops=0
        if [[ ${2:-} =~ ^[0-9]+$ ]]; then
            loops=$2
            shift
        fi
        ;;
    --list | --programs) list_only=$1 ;;
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
# Fills beside[] and lonely[] with lines "folder/NAME DEADLINE command..."; a test that is marked "alone" is lonely, and those
# that are marked "first" come first.
read_lists()
{
    local folder list name deadline command known marks early=()
    beside=() lonely=()
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
            marks=' '
            while [[ $command =~ ^(slow|full|alone|first)[[:space:]]+(.*)$ ]]; do
                marks+="${BASH_REMATCH[1]} "
                command=${BASH_REMATCH[2]}
            done
            if ! [[ $deadline =~ ^[0-9]+$ ]] || [ -z "$command" ]; then
                echo "check: test/$folder/tests.list: bad line for '$name': want NAME SECONDS command" >&2
                exit 2
            fi
            if ! is_wanted "$folder/$name" "$marks"; then
                continue
            fi
            case $marks in
            *' alone '*) lonely+=("$folder/$name $deadline $command") ;;
            *' first '*) early+=("$folder/$name $deadline $command") ;;
            *) beside+=("$folder/$name $deadline $command") ;;
            esac
        done <"$list"
    done
    beside=(${early[@]+"${early[@]}"} ${beside[@]+"${beside[@]}"})
}

# is_wanted FOLDER/NAME MARKS: do the options and the patterns choose this test?
is_wanted()
{
    local pattern
    if [ $asan = 1 ]; then
        case $1 in
        unit/* | ranks/*) ;;
        *) return 1 ;;
        esac
    fi
    if [ ${#patterns[@]} -eq 0 ]; then
        case $full$ci$2 in
        1*) return 0 ;;
        *' full '*) return 1 ;;
        00*' slow '*) return 1 ;;
        esac
        return 0
    fi
    for pattern in "${patterns[@]}"; do
        if [ "$pattern" = "$1" ] || [ "$pattern" = "${1#*/}" ]; then
            return 0
        fi
        if [ $full = 0 ] && [[ $2 == *' full '* ]]; then
            continue
        fi
        # shellcheck disable=SC2254 # patterns may be globs
        case $1 in
        $pattern*) return 0 ;;
        */*) [[ $pattern == */* ]] || [[ ${1#*/} != *$pattern* ]] || return 0 ;;
        esac
    done
    return 1
}

if [ -n "${GPUHIER_CHECK_FULL:-}" ]; then
    full=1 # inside a test of the whole matrix
fi
read_lists
if [ -n "$list_only" ]; then
    printf '%s\n' ${beside[@]+"${beside[@]}"} ${lonely[@]+"${lonely[@]}"} | if [ "$list_only" = --list ]; then
        cut -d ' ' -f 1
    else
        awk '{
            split($1, name, "/")
            for (i = 3; i <= NF; i++) {
                sub(/[^a-z0-9_.\/].*/, "", $i)
                if ($i ~ /^\.\/[a-z]/) { print name[1] substr($i, 2) }
                if ($i ~ /^\.\.\/[a-z]/) { print substr($i, 4) }
            }
        }' | sort -u
    fi
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
    echo "check: there is no build in $GPUHIER_BUILD; omit --no-setup" >&2
    exit 1
fi
GPUHIER_BUILD=$(cd "$GPUHIER_BUILD" && pwd)

# shellcheck source=test/env.sh
. "$src/test/env.sh"
gpuhier_env_mpi
GPUHIER_OWN_PATH=$(type -P ompi_info)=$(gpuhier_env_own_path)
export GPUHIER_OWN_PATH
if [ $asan = 1 ]; then
    gpuhier_env_sanitizers
fi
if [ $full = 1 ]; then
    export GPUHIER_CHECK_FULL=1
fi
# A test may run this script for another build. If it ran itself in this way, that would never end.
export GPUHIER_CHECK_DEPTH=$((${GPUHIER_CHECK_DEPTH:-0} + 1))
if [ $GPUHIER_CHECK_DEPTH -gt 2 ]; then
    echo "check: a test that runs test/check.sh runs itself: give it patterns that leave itself out" >&2
    exit 2
fi

# -- one test -----------------------------------------------------------------------------
scratch=$(mktemp -d "${GPUHIER_CHECK_SCRATCH:-${TMPDIR:-/tmp}}/gpuhier-check.XXXXXX") || exit 1
export GPUHIER_CHECK_SCRATCH=$scratch # runs inside a test put their files here, in case they are killed

# All processes of a test carry its tag in their environment. A test that runs this script has a tag that begins all
# those of the tests inside.
run_tag=${GPUHIER_TEST_TAG:-}/$$.$RANDOM
trap 'end_all; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Only root gets namespaces here: in an unprivileged user namespace files would have other owners.
isolated=0
if [ "$(id -u)" = 0 ] && unshare --mount --ipc --net true 2>/dev/null; then
    isolated=1
fi
export GPUHIER_CHECK_ISOLATED=$isolated
if [ -z "$jobs" ]; then
    jobs=$((2 * $(nproc 2>/dev/null || echo 1)))
    [ "$jobs" -le 8 ] || jobs=8
fi
[ $isolated = 1 ] || jobs=1

# Runs in the test's namespaces: a private /dev/shm and /run/netns, loopback up, then the test
# under its deadline, then a look at what is left. Leftovers are named in $place/left.
inside='
deadline=$1 place=$2 isolated=$3 command=$4
if [ "$isolated" = 1 ]; then
    mount -t tmpfs -o size=2g,mode=1777 gpuhier-check /dev/shm || exit 99
    mkdir -p /run/netns && mount -t tmpfs gpuhier-check /run/netns || exit 99
    if command -v ip >/dev/null; then ip link set lo up; fi
fi
mine= me=
if [ "$isolated" = 0 ]; then mine="-user $(id -u)" me=$(id -un); fi # others use the machine as well
look() {
    { find /dev/shm -mindepth 1 -maxdepth 1 $mine -printf "file %p\n" 2>/dev/null
      ls -A /run/netns 2>/dev/null | sed "s,^,network namespace ,"
      sed -n "3,\$s,^ *\([^:]*\):.*,network interface \1,p" /proc/net/dev
      ipcs -m -q -s 2>/dev/null | awk -v me="$me" "/^0x/ && (me == \"\" || \$3 == me) { print \"System V object\", \$1, \$2 }"
    } | sort
}
look >"$place/before"
timeout -k 10 "$deadline" bash -c "$command" </dev/null
status=$?
for i in $(seq 100); do
    look | comm -13 "$place/before" - >"$place/left"
    [ -s "$place/left" ] || break
    sleep 0.2
done
exit $status
'

# Processes that carry this tag, or one that begins with it, as "pid command line" lines.
tagged()
{
    local file pid
    # shellcheck disable=SC2013 # no blanks in them
    for file in $(grep -lzE "^GPUHIER_TEST_TAG=$1(/|\$)" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${file#/proc/}
        pid=${pid%/environ}
        # A zombie's environ is empty, so each process found here runs.
        echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c1-120)"
    done
}

# Kills all processes of an interrupted run. It looks again, since they may have started others meanwhile.
end_all()
{
    local tries found pid rest
    local workers
    mapfile -t workers < <(jobs -p)
    disown -a # or bash would report each kill
    [ ${#workers[@]} -eq 0 ] || kill -KILL "${workers[@]}" 2>/dev/null
    for ((tries = 0; tries < 50; tries++)); do
        found=$(tagged "$run_tag")
        [ -n "$found" ] || return 0
        while read -r pid rest; do
            kill -KILL "$pid" 2>/dev/null
        done <<<"$found"
        sleep 0.1
    done
}

# Waits up to 20 seconds for the processes of a test to end. Kills those that do not, and prints them.
left_processes()
{
    local tries found pid rest
    for ((tries = 0; tries < 100; tries++)); do
        found=$(tagged "$1")
        [ -n "$found" ] || return 0
        sleep 0.2
    done
    while read -r pid rest; do
        echo "process $pid $rest"
        kill -KILL "$pid" 2>/dev/null
    done <<<"$found"
}

# run_test NUMBER LINE: runs a test, in a subshell. Writes what is to be printed to the file report in $scratch/NUMBER,
# and then PASS, SKIP or FAIL to the file verdict.
run_test()
{
    local place=$scratch/$1 test deadline command
    local status began ended seconds verdict=FAIL dir tag=$run_tag/$1
    local wrap=()

    read -r test deadline command <<<"$2"
    deadline=$((deadline * patience))
    dir=$GPUHIER_BUILD/test/${test%/*}
    if [[ $test == unit/* && $command == ./test_* && ! -e $dir/${command%% *} ]] &&
        grep -q '^S\["HAVE_CMOCKA_TRUE"\]="#"' "$GPUHIER_BUILD/config.status"; then
        command='echo "configure found no cmocka"; exit 77'
    fi
    mkdir -p "$dir" "$place"
    if [ $isolated = 1 ]; then
        wrap=(unshare --mount --ipc --net --propagation private)
    fi
    : >"$place/left"
    began=$(date +%s.%N)
    (cd "$dir" && GPUHIER_TEST_TAG=$tag ${wrap[@]+"${wrap[@]}"} bash -c "$inside" check-one \
        "$deadline" "$place" "$isolated" "$command") >"$place/output" 2>&1
    status=$?
    ended=$(date +%s.%N)
    left_processes "$tag" >>"$place/left"
    seconds=$(awk -v a="$began" -v b="$ended" 'BEGIN { printf "%.1f", b - a }')
    if [ ! -s "$place/left" ]; then
        case $status in
        0) verdict=PASS ;;
        77) verdict=SKIP ;;
        124 | 137) ;;
        *) # a user who may make no namespaces; CI must
            if [ $isolated$ci = 00 ] && grep -q 'need namespaces, which this user may not make' "$place/output"; then
                verdict=SKIP
            fi
            ;;
        esac
    fi
    {
        echo "$verdict $test $seconds"
        if [ $verdict = SKIP ] && [ $verbose = 0 ]; then
            tail -n 1 "$place/output" | sed 's/^/    /'
        fi
        if [ $verdict = FAIL ] || [ $verbose = 1 ]; then
            head -c 65536 "$place/output" | sed 's/^/    /'
            if [ "$(stat -c %s "$place/output")" -gt 65536 ]; then
                echo "    [the output was longer than 64 KiB]"
            fi
        fi
        if [ $verdict = FAIL ]; then
            case $status in
            124 | 137) echo "    -- passed its deadline of $deadline seconds" ;;
            99) echo "    -- its namespaces could not be made" ;;
            *) echo "    -- exit status $status" ;;
            esac
            sed 's/^/    -- left behind: /' "$place/left"
            echo "    -- command: $command"
        fi
    } >"$place/report"
    echo $verdict >"$place/verdict.new" && mv "$place/verdict.new" "$place/verdict"
}

# -- all tests ----------------------------------------------------------------------------
passed=0 failed=0 skipped=0
failures=()
started=0  # tests
reported=0 # of them
lines=()   # those of the tests that were started

# Prints the reports of the tests that have ended, up to the first test that has not.
report()
{
    local place
    while [ $reported -lt $started ] && [ -e "$scratch/$((reported + 1))/verdict" ]; do
        reported=$((reported + 1))
        place=$scratch/$reported
        cat "$place/report"
        case $(<"$place/verdict") in
        PASS) passed=$((passed + 1)) ;;
        SKIP) skipped=$((skipped + 1)) ;;
        *)
            failed=$((failed + 1))
            failures+=("${lines[reported]%% *}")
            ;;
        esac
        rm -rf "$place"
    done
}

# run_tests JOBS LINE...: runs the tests of the lines, JOBS at a time.
run_tests()
{
    local most=$1 running=0 line
    shift
    for line in "$@"; do
        if [ $running -ge "$most" ]; then
            wait -n
            running=$((running - 1))
            report
        fi
        started=$((started + 1))
        lines[started]=$line
        run_test $started "$line" &
        running=$((running + 1))
    done
    while [ $running -gt 0 ]; do
        wait -n
        running=$((running - 1))
        report
    done
}

if [ ${#beside[@]} -eq 0 ] && [ ${#lonely[@]} -eq 0 ]; then
    echo "check: no test matches: ${patterns[*]-}" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
round=1
began_all=$SECONDS
while :; do
    run_tests "$jobs" ${beside[@]+"${beside[@]}"}
    run_tests 1 ${lonely[@]+"${lonely[@]}"}
    if [ $reported -lt $started ]; then
        echo "check: ${lines[reported + 1]%% *} ended without a verdict"
        failed=$((failed + started - reported))
    fi
    [ $failed -eq 0 ] || break
    [ "$loops" -ne 1 ] || break
    [ "$loops" -eq 0 ] || [ $round -lt "$loops" ] || break
    round=$((round + 1))
    echo "check: round $round"
done
echo "check: $((SECONDS - began_all)) seconds"
if [ ${#failures[@]} -gt 0 ]; then
    echo "check: failed: ${failures[*]}"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
