#!/bin/sh
# gpu_sanitize.sh [TOOL...] - the table of operators and whole training steps under NVIDIA's compute-sanitizer.
#
# TOOLs: memcheck (out of bounds), racecheck (hazards in shared memory), initcheck (memory read before it is written),
# synccheck (barriers); all four unless some are named. Needs what tools/gpu_check.sh has built, in BUILD. The table is
# divided among PARTS processes (12), all of which run at once; LIMIT: seconds for each (150). Prints one line for each
# tool, and the kernels with findings, which fail it as wrong results do; everything else is in OUT, else in BUILD.
# ONLY: an extended regular expression of the processes' names: ONLY='gpu|optim' for training steps alone.
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build/gpu}")
out=$(realpath "${OUT:-$build}")/sanitize
parts=${PARTS:-12}
limit=${LIMIT:-150}
only=${ONLY:-.}
cuda=$build/lib/lockstep/liblockstep-cuda.so
PATH=$PATH:/usr/local/cuda/bin
export CHECK_QUICK=1
unset LOCKSTEP_USE_CPU || true
mkdir -p "$out"

# check TOOL NAME PROGRAM... - in the background
check()
{
    echo "$2" | grep -qE "$only" || return 0
    tool=$1
    log=$out/$1.$2.txt
    shift 2
    (
        mkdir -p "$log.folder"
        cd "$log.folder"
        code=0
        timeout -k 5 "$limit" compute-sanitizer --tool "$tool" --print-limit 20 "$@" >"$log" 2>&1 || code=$?
        [ $code -ne 124 ] && [ $code -ne 137 ] || echo "OUT OF TIME" >>"$log"
    ) &
}

# check_all TOOL - the programs that every tool watches
check_all()
{
    for part in $(seq "$parts"); do
        check "$1" "walk$part" "$build/tests/test_ops_walk" --device "$cuda" --part "$part/$parts"
    done
    check "$1" corners "$build/tests/test_ops_corners" --device "$cuda"
    for network in bert_stays_on_the_gpu_in_f32 bert_stays_on_the_gpu_in_bf16 bert_stays_on_the_gpu_in_f16 \
                   resnet18_stays_on_the_gpu_in_f32 resnet18_stays_on_the_gpu_in_bf16 \
                   resnet50d_stays_on_the_gpu_in_bf16 resnet50d_stays_on_the_gpu_in_f16 \
                   a_frozen_network_stays_on_the_gpu; do
        check "$1" "$network" "$build/tests/cuda/test_cuda_steps" "$network"
    done
    check "$1" optim "$build/tests/test_golden_optim" --device "$cuda"
    check "$1" window "$build/tests/cuda/check_window"
    check "$1" batch_norm "$build/tests/cuda/check_batch_norm"
    wait
}

[ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
status=0
for tool in "$@"; do
    began=$(date +%s)
    rm -rf "$out/$tool".*
    check_all "$tool"
    all=$(find "$out" -name "$tool.*.txt" | wc -l)
    clean=$(grep -l 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$out/$tool".*.txt | wc -l)
    late=$(grep -l '^OUT OF TIME' "$out/$tool".*.txt | wc -l)
    failed=$(grep -lE '^[0-9]+ passed, [1-9][0-9]* failed' "$out/$tool".*.txt | wc -l)
    echo "$tool: $clean of $all processes clean, $late out of time, $failed with wrong results, $(($(date +%s) - began)) s"
    sed -nE 's/^=+ (Invalid|Uninitialized|Race|Program hit|Error|Warning|Barrier|Divergent)/\1/p; s/^=+ .* at (.*)\+0x[0-9a-f]+.*/    at \1/p' \
        "$out/$tool".*.txt | cut -c 1-200 | sort | uniq -c | sort -rn | head -30
    [ "$clean" = "$all" ] && [ "$failed" = 0 ] || status=1
done
exit $status
