#!/bin/bash
# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Model files: every one of models/ is accepted; each damaged one ends cuInit with a message that names file, line and
# fault. Also: a timeline without a model is refused.
set -u
export LD_LIBRARY_PATH=$PWD/lib
models=$GPUHIER_SRC/test/cudasim/models
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# damage SED-EXPRESSION MESSAGE: the damaged file must be refused with that message.
damage()
{
    sed "$1" "$models/h100-dgx" >"$work/damaged"
    local said
    said=$(CUDASIM_MODEL=$work/damaged ./limits_test init-fails 2>&1) || { echo "accepted after $1"; bad=1; }
    case $said in
    *"$work/damaged"*"$2"*) ;;
    *) echo "after $1 the message is: $said"; bad=1 ;;
    esac
}

for model in h100-dgx h200-dgx a100-dgx a100-pcie gb200; do
    CUDASIM_MODEL=$models/$model ./limits_test inits || { echo "$model is refused"; bad=1; }
    # Each figure says where it comes from, or is one of a group whose first does.
    awk -F'#' '/^(gpu|memory|sm|link|pcie|copy|gdr|rail|multicast)\./ && NF < 2 && !/is_pcie/ { print FILENAME ": no source: " $0; n++ }
        END { exit n > 0 }' "$models/$model" || bad=1
done
damage '/^gpu.sms/d' "the file ends without the key 'gpu.sms'"
damage '/^rail.latency/d' "the file ends without the key 'rail.latency'"
damage 's/^rail.rate = .*/rail.rate = 0/' "rail.rate must be more than 0"
damage '/^multicast.rate/d' "the file ends without the key 'multicast.rate'"
damage '/^host.default/d' "the file ends without the key 'host.default'"
damage 's/^gpu.gap = .*/gpu.gap = fast/' "a number that is not negative is expected instead of 'fast'"
damage 's/^gpu.gap = .*/gpu.gap = -1/' "a number that is not negative is expected instead of '-1'"
damage 's/^gpu.gap = .*/gpu.gap = nan/' "a number that is not negative is expected instead of 'nan'"
damage 's/^gpu.gap = .*/gpu.gap 1/' "'key = value' is expected instead of 'gpu.gap 1'"
damage 's/^gpu.gap = .*/gpu.gasp = 1/' "there is no key 'gpu.gasp'"
damage 's/^link.rate = .*/link.rate = 0/' "link.rate must be more than 0"
damage 's/^copy.engines = .*/copy.engines = 9/' "copy.engines must be from 1 to 8"
damage 's/^host.cuEventQuery = .*/host.cuEventQuiz = 1/' "there is no key 'host.cuEventQuiz'"
damage '$a gpu.sms = 5' "a second value for 'gpu.sms'"
damage '$a host.cuMemAlloc = 5' "a second value for 'host.cuMemAlloc'"

said=$(CUDASIM_MODEL=$work/none ./limits_test init-fails 2>&1) || bad=1
[[ $said == *"$work/none: No such file"* ]] || { echo "no file: $said"; bad=1; }
said=$(CUDASIM_MODEL=$models/h100-dgx CUDASIM_DILATION=0.5 ./limits_test init-fails 2>&1) || bad=1
[[ $said == *"CUDASIM_DILATION is '0.5'"* ]] || { echo "dilation: $said"; bad=1; }
said=$(CUDASIM_TRACE=$work/trace ./limits_test init-fails 2>&1) || bad=1
[[ $said == *"CUDASIM_TRACE needs CUDASIM_MODEL"* ]] || { echo "trace: $said"; bad=1; }
exit $bad
