#!/bin/sh
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes ./configure from configure.ac. Run it once in a clone, then ./configure.
set -e
cd "$(dirname "$0")"
for tool in autoconf automake libtoolize; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "autogen.sh: $tool is missing. On Debian: apt-get install autoconf automake libtool" >&2
        exit 1
    }
done
mkdir -p config/aux
exec autoreconf --install --force --warnings=all,no-obsolete
