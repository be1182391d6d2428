#!/bin/sh
# gpu_check.sh [ctest options] - on a machine with a GPU: build what runs on it, test it, time training steps, and print one
# table of all. Takes less than nine minutes on 16 cores.
#
# Needs cmake, ninja, nvcc and g++; installs nothing. cuBLASLt and cuDNN may be those of python3's nvidia packages. Compiles
# for this machine's GPU alone. Steps are timed beside PyTorch's where python3 has torch. BUILD: the folder to build in. OUT:
# where the table and all output go, else there. LIMIT: seconds after which no further peer is timed (400). PEERS=0: none is.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/gpu}
out=${OUT:-$build}
mkdir -p "$build" "$out"
began=$(date +%s)
say()
{
    echo "$(($(date +%s) - began)) s: $*"
}

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
[ -n "$architecture" ] || { echo "gpu_check: nvidia-smi finds no GPU here" >&2 && exit 1; }
packages=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null || true)
hints=$(for folder in "$packages"/cu13 "$packages"/cublas "$packages"/cudnn "$packages"/nccl; do [ ! -d "$folder" ] || printf '%s;' "$folder"; done)
if ! cmake -S . -B "$build" -G Ninja -DLOCKSTEP_WITH_CUDA=ON -DLOCKSTEP_CUDA_ARCHITECTURES="$architecture" \
    -DLOCKSTEP_CUDA_HINTS="$hints" >"$out/configure.txt" 2>&1; then
    tail -40 "$out/configure.txt"
    exit 1
fi
grep 'cuda  ' "$out/configure.txt"
say "configured for compute capability $architecture"
if ! cmake --build "$build" --target gpu_tests gpu_bert resnet_step ${EXTRA:-} -j "$(nproc)" >"$out/build.txt" 2>&1; then
    grep -E 'error|FAILED|warning' "$out/build.txt" | head -60
    exit 1
fi
say built

status=0
(cd "$build" && ctest -L cuda -j 4 --output-on-failure --timeout 200 "$@") >"$out/tests.txt" 2>&1 || status=$?
grep -E '^ *[0-9]+/[0-9]+ Test' "$out/tests.txt" | sed 's/ *[0-9]*\/[0-9]* Test *#[0-9]*: //' | sort >"$out/table.txt"
grep -E '^(FAIL|SKIP) ' "$out/tests.txt" >>"$out/table.txt" || true
cat "$out/table.txt"
tail -4 "$out/tests.txt"
say tested

peers=
if [ "${PEERS:-1}" != 0 ] && python3 -c 'import torch' 2>/dev/null; then peers=--peers; fi
left=$((${LIMIT:-400} - $(date +%s) + began))
# shellcheck disable=SC2086
python3 bench/gpu.py "$build" $peers --seconds "$left" >"$out/steps.md" 2>&1 || status=1
cat "$out/steps.md" | tee -a "$out/table.txt"
say timed
exit $status
