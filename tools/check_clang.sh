#!/bin/sh
# check_clang.sh BUILD - the library compiles without a warning with clang too. Unoptimised: only warnings matter here.
set -eu
build=$1
cd "$(dirname "$0")/.."

command -v clang >/dev/null || { echo "clang is missing"; exit 77; }
test -f "$build/build.ninja" || cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug \
    -DLOCKSTEP_WERROR=ON -DLOCKSTEP_TESTS=OFF
cmake --build "$build"
