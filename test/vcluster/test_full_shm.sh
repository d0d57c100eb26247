#!/usr/bin/env bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# --shm gives every node that much /dev/shm, and a full one stops neither
# mpirun, which keeps its files elsewhere, nor another node.
. "$GPUHIER_SRC/test/vcluster/test_lib.sh"
need_namespaces

fill='if [ $VCLUSTER_NODE = 0 ]; then head -c 20M /dev/zero >/dev/shm/fill 2>/dev/null; fi
      echo $VCLUSTER_NODE $(df --output=size -k /dev/shm | tail -1) $(stat -c %s /dev/shm/fill 2>/dev/null)
      echo x >$TMPDIR/session && cat $TMPDIR/session'
text=$(quiet_run --ranks 1 --shm 16M -- sh -c "$fill")
expect 'status' 0 $?
expect 'sizes' $'0 16384 16777216\n1 16384\nx\nx' "$(sort <<<"$text")"
finish
