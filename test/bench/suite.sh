#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Measures all figures of docs/performance-full.md, each beside its goal, and prints them as a table.
#
#   test/bench/suite.sh [--quick] [--only GLOB]... [--json FILE] [--plot DIR] [--docs FILE]
#
#   --quick      shorter messages, fewer calls: within 5 minutes on two cores
#   --only GLOB  these figures only (one_node.*)
#   --json FILE  one object a figure: name, value, goal, ok, and the raw times behind it
#   --plot DIR   pictures of time over size
#   --docs FILE  writes the table of figures in this file anew (docs/performance-full.md)
#   --list       names the figures and stops
#
# Works on a finished build: GPUHIER_BUILD, else build/ in the source tree. Emulated GPUs, and nodes that are
# namespaces of this machine. Status 0: everything was measured, whether goals are met or not; 1: a
# measurement failed; 2: bad arguments. To add a figure, add a function to suite_figures.py.
set -u
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export GPUHIER_SRC=$src GPUHIER_BUILD=${GPUHIER_BUILD:-$src/build}
export PYTHONDONTWRITEBYTECODE=1

command -v python3 >/dev/null || { echo "suite: needs python3 to evaluate the samples" >&2; exit 2; }
[ -x "$GPUHIER_BUILD/test/bench/gpuhier_bench" ] || {
    echo "suite: no benchmark in $GPUHIER_BUILD/test/bench; build it (test/setup.sh), or set GPUHIER_BUILD" >&2
    exit 2
}
# shellcheck source=test/env.sh
. "$src/test/env.sh"
gpuhier_env_mpi
exec python3 "$src/test/bench/suite.py" "$@"
