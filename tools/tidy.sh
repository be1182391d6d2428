#!/bin/sh
# tidy.sh BUILD [FILE...] - static analysis by the rules of .clang-tidy, of everything the build folder compiles.
set -eu
build=$1
shift
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- $(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' "$build/compile_commands.json" | sort -u)
echo "$@" | xargs -n 4 -P "$(nproc)" clang-tidy -p "$build" --quiet 2>/dev/null
