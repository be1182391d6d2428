#!/bin/sh
# gpu_check.sh [ctest options] - on a machine with a GPU: build what runs on it, run the tests and checks, print one table.
#
# Needs cmake, ninja, nvcc and g++; installs nothing. cuBLASLt and cuDNN may be those of python3's nvidia packages. Compiles
# for this machine's GPU alone. BUILD: the folder to build in. OUT: where the table and all output go, else there.
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

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
packages=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null || true)
hints=$(for folder in "$packages"/cu13 "$packages"/cublas "$packages"/cudnn "$packages"/nccl; do [ ! -d "$folder" ] || printf '%s;' "$folder"; done)
if ! cmake -S . -B "$build" -G Ninja -DLOCKSTEP_WITH_CUDA=ON -DLOCKSTEP_CUDA_ARCHITECTURES="$architecture" \
    -DLOCKSTEP_CUDA_HINTS="$hints" >"$out/configure.txt" 2>&1; then
    tail -40 "$out/configure.txt"
    exit 1
fi
grep 'cuda  ' "$out/configure.txt"
say "configured for compute capability $architecture"
if ! cmake --build "$build" --target gpu_tests ${EXTRA:-} -j "$(nproc)" >"$out/build.txt" 2>&1; then
    grep -E 'error|FAILED|warning' "$out/build.txt" | head -60
    exit 1
fi
say built

status=0
(cd "$build" && ctest -L cuda -j 4 --output-on-failure --timeout 200 "$@") >"$out/tests.txt" 2>&1 || status=$?
say tested
grep -E '^ *[0-9]+/[0-9]+ Test' "$out/tests.txt" | sed 's/ *[0-9]*\/[0-9]* Test *#[0-9]*: //' | sort >"$out/table.txt"
grep -E '^(FAIL|SKIP) ' "$out/tests.txt" >>"$out/table.txt" || true
cat "$out/table.txt"
tail -4 "$out/tests.txt"
exit $status
