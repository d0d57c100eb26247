#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# The timeline of two processes that end at the same time: one valid JSON array with the calls and the work of both,
# in which work of a stream does not overlap.
set -u
export LD_LIBRARY_PATH=$PWD/lib CUDASIM_TWINS=$PWD/lib/model_twin.so CUDASIM_GPUS=2
export CUDASIM_MODEL=$GPUHIER_SRC/test/cudasim/models/h100-dgx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CUDASIM_TRACE=$work/trace.json
OMPI_COMM_WORLD_RANK=0 ./model_test costs >/dev/null &
first=$!
OMPI_COMM_WORLD_RANK=1 ./model_test costs >/dev/null || exit 1
wait $first || exit 1
python3 - "$CUDASIM_TRACE" <<'EOF'
import json, sys
from collections import defaultdict

events = json.load(open(sys.argv[1]))
names = sorted(e["args"]["name"] for e in events if "M" == e["ph"])
assert ["rank 0", "rank 1"] == names, names
spans = [e for e in events if "X" == e["ph"]]
tracks = defaultdict(list)
for e in spans:
    assert e["dur"] >= 0 and e["cat"] in ("host", "gpu"), e
    tracks[e["pid"], e["tid"]].append(e)
for pid in {e["pid"] for e in spans}:
    seen = {e["name"] for e in spans if e["pid"] == pid}
    for name in ("cuLaunchKernel", "cuStreamSynchronize", "model_empty", "model_oneshot", "copy"):
        assert name in seen, (pid, name)
for track in tracks.values():
    track.sort(key=lambda e: (e["ts"], e["ts"] + e["dur"]))
    for a, b in zip(track, track[1:]):
        assert b["ts"] >= a["ts"] + a["dur"] - 0.01, (a, b)
EOF
