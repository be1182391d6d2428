#!/bin/sh
# check_cross.sh ARCHITECTURE BUILD - compile the library for the other architecture and run the tests that need no more
# than kernels and the CPU device under qemu.
set -eu
architecture=$1
build=$2
cd "$(dirname "$0")/.."

for tool in "$architecture-linux-gnu-gcc" "qemu-$architecture"; do
    command -v "$tool" >/dev/null || { echo "$tool is missing"; exit 77; }
done
test -f "$build/build.ninja" || cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="cmake/$architecture.cmake"
cmake --build "$build" --target lockstep kernel_tests
CHECK_QUICK=1 LOCKSTEP_NUM_THREADS=1 tools/run_tests.sh "$build" -L '^(kernels|device)$' -LE '^portable$'
