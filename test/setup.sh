#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Brings a clone from nothing to a finished build: missing Debian packages (when it
# is root; else it names them), autogen.sh, configure, make. Everything that is
# already done is left alone, so it costs a second when there is nothing to do.
#
# Called by test/check.sh and test/demo.sh; may be called by hand.
#
#   test/setup.sh [options] [-- CONFIGURE_ARGS...]
#
#   --build DIR       build folder (default: GPUHIER_BUILD, else build/ in the source tree)
#   --configure FILE  runs this script (of contrib/) in place of configure
#   --with-check      also what only the test suite needs (cmocka, python3; for root also clang, mpi4py, SimGrid, valgrind)
#   --packages-only   stops before autogen.sh
#
# Prints what it does, one line a step; the output of a step goes to a log file, whose
# end is shown when the step fails.
set -u
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$src/test/env.sh"
build=${GPUHIER_BUILD:-$src/build}
with_check=0
packages_only=0
configure=$src/configure
configure_args=()

while [ $# -gt 0 ]; do
    case $1 in
    --build)
        [ $# -ge 2 ] || { echo "setup: --build needs a folder" >&2; exit 2; }
        build=$2
        shift
        ;;
    --configure)
        [ $# -ge 2 ] || { echo "setup: --configure needs a script" >&2; exit 2; }
        configure=$2
        shift
        ;;
    --with-check) with_check=1 ;;
    --packages-only) packages_only=1 ;;
    --)
        shift
        configure_args=("$@")
        break
        ;;
    -h | --help)
        awk 'NR > 4 { if (!/^#/) { exit } sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    *)
        echo "setup: unknown option $1 (see --help)" >&2
        exit 2
        ;;
    esac
    shift
done

mkdir -p "$build" || exit 1
build=$(cd "$build" && pwd)
log=$build/setup.log

# Two calls at once (a demo beside a check) take turns; the lock file lives in the build folder.
exec 9>"$build/.setup.lock"
if command -v flock >/dev/null && ! flock -w 900 9; then
    echo "setup: another setup has been working in $build for 15 minutes; is it stuck?" >&2
    exit 1
fi

fail()
{
    echo "setup: $1" >&2
    if [ -s "$log" ]; then
        echo "setup: the last lines of $log:" >&2
        tail -n "${2:-25}" "$log" >&2
    fi
    exit 1
}

# -- packages -----------------------------------------------------------------------------
# What is needed, how it is recognised, which Debian package brings it. A command or a header
# that is already there counts, wherever it came from (an Open MPI of the user's own, say).
have_header()
{
    # shellcheck disable=SC2086 # options
    printf '#include <%s>\n' "$1" | ${CC:-cc} ${CPPFLAGS:-} -E - >/dev/null 2>&1
}

# What gpu/sass wants. Not every toolkit has one; PyPI has.
have_disassembler()
{
    local bins
    bins=$(printf '%s:' "$build"/disassembler/nvidia/*/bin)
    (PATH=$bins${CUDA_HOME:-/usr/local/cuda}/bin:$PATH && command -v cuobjdump && command -v nvdisasm) >/dev/null 2>&1
}

missing=()
need()
{
    local kind=$1 thing=$2 package=$3
    case $kind in
    command) command -v "$thing" >/dev/null 2>&1 && return ;;
    header) have_header "$thing" && return ;;
    python) /usr/bin/python3 -c "import $thing" >/dev/null 2>&1 && return ;;
    esac
    case " ${missing[*]-} " in
    *" $package "*) ;;
    *) missing+=("$package") ;;
    esac
}

# What a configured build has found, wherever it was, is not looked for again.
is_configured()
{
    [ -f "$build/config.status" ]
}

find_missing()
{
    missing=()
    need command "${CC:-gcc}" gcc
    need command "${CXX:-g++}" g++
    need command make make
    need command autoconf autoconf
    need command automake automake
    need command libtoolize libtool
    need command m4 m4
    need header stdio.h libc6-dev
    if ! is_configured; then
        case " ${configure_args[*]-} " in
        *" --with-ompi="*) ;;
        *)
            need command mpicc libopenmpi-dev
            need command mpirun openmpi-bin
            ;;
        esac
        [[ " ${configure_args[*]-} " == *" --with-ucx="* ]] || need header ucp/api/ucp.h libucx-dev
        [[ " ${configure_args[*]-} " == *" --with-hwloc="* ]] || need header hwloc.h libhwloc-dev
    fi
    need command ip iproute2
    need command tc iproute2
    need command unshare util-linux
    need command gnuplot gnuplot-nox
    if [ "$with_check" = 1 ]; then
        need header cmocka.h libcmocka-dev
        need command python3 python3
        # A test that wants these is skipped without them, so a user who may not install them is not asked to.
        if [ "$(id -u)" = 0 ]; then
            need command clang clang
            need python mpi4py python3-mpi4py
            need header simgrid/actor.h libsimgrid-dev
            need command shellcheck shellcheck
            need command clang-format clang-format
            need command valgrind valgrind # brings libc6-dbg, too, which compile/asan wants
            have_disassembler || need command pip3 python3-pip
        fi
    fi
}

find_missing
if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        fail "these Debian packages, or what stands for them on this system, are missing: ${missing[*]}"
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "setup: these packages are missing; install them as root and start again:" >&2
        echo "    apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "setup: installing ${missing[*]}"
    : >"$log"
    export DEBIAN_FRONTEND=noninteractive
    apt="apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    # A mirror may be unreachable for a moment, and a machine that has just started may be updating its lists.
    for try in 1 2 3; do
        # What one source lacks another may have: only the packages count.
        $apt update >>"$log" 2>&1 </dev/null
        $apt install --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null 9>&- && break
        [ $try -lt 3 ] || fail "apt-get could not install ${missing[*]}"
        sleep 20
    done
    hash -r
    find_missing
    [ ${#missing[@]} -eq 0 ] || fail "installed, but still not usable: ${missing[*]}"
fi

# nvcc is the one thing no Debian main package brings; configure says more about where it looked.
if ! is_configured && [ -z "${CUDA_HOME:-}" ] && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    case " ${configure_args[*]-} " in
    *" --with-cuda="*) ;;
    *)
        echo "setup: the CUDA toolkit (nvcc) was not found in /usr/local/cuda, CUDA_HOME or PATH;" >&2
        echo "    install it, or pass its place: test/setup.sh -- --with-cuda=DIR" >&2
        exit 1
        ;;
    esac
fi
[ "$packages_only" = 0 ] || exit 0

# -- autogen, configure, make -------------------------------------------------------------
jobs=$(nproc 2>/dev/null || echo 2)
if [ ! -x "$src/configure" ]; then
    echo "setup: autogen.sh"
    (cd "$src" && ./autogen.sh) >"$log" 2>&1 </dev/null 9>&- || fail "autogen.sh failed"
fi
if [ ! -f "$build/config.status" ] && [ -f "$src/config.status" ]; then
    echo "setup: $src itself is configured, and so no other folder can be: run make distclean there," >&2
    echo "    or use that build: --build $src" >&2
    exit 1
fi
if [ ! -f "$build/config.status" ] || [ ! -f "$build/Makefile" ]; then
    echo "setup: configure"
    (cd "$build" && "$configure" ${configure_args[@]+"${configure_args[@]}"}) >"$log" 2>&1 </dev/null 9>&- ||
        fail "configure failed"
elif [ "$with_check" = 1 ] && grep -Eq '^S\["HAVE_(CMOCKA|SIMGRID)_TRUE"\]="#"' "$build/config.status"; then
    echo "setup: configure again, with what tests need" # which was not there yet, as after the demo alone
    (cd "$build" && ./config.status --recheck && ./config.status) >"$log" 2>&1 </dev/null 9>&- || fail "configure failed"
fi
if ! make -C "$build" -q >/dev/null 2>&1 9>&-; then
    echo "setup: make"
fi
make -C "$build" -j"$jobs" >"$log" 2>&1 </dev/null 9>&- || fail "make failed" 40

# Tests have no network, so what they want from one is fetched here. They are skipped without it.
if [ "$with_check" = 1 ] && ! have_disassembler && command -v pip3 >/dev/null; then
    echo "setup: fetching a disassembler for the kernels"
    timeout 120 pip3 install --quiet --no-deps --target "$build/disassembler" \
        nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm >"$log" 2>&1 </dev/null 9>&- ||
        echo "setup: PyPI has no disassembler for this machine, or cannot be reached"
fi
if [ "$with_check" = 1 ] && [ "${GPUHIER_BUILD_PEERS:-0}" = 1 ]; then
    "$src/test/peers/build-ompi5" >"$log" 9>&-
    status=$?
    [ $status = 0 ] || [ $status = 77 ] || fail "test/peers/build-ompi5 failed"
fi
exit 0
