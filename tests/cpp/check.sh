#!/bin/sh
# check.sh CC LIBRARY - a C++20 program uses the option macros without a warning, trains, and takes the defaults that C
# takes, with every C++ compiler there is. 77: there is none.
set -eu
cc=$1
library=$2
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -hoE '^#define ls_[a-z0-9_]+_defaults\>' --exclude=notebook.h -r "$include"/lockstep |
    sed -E 's/^#define (ls_[a-z0-9_]+)_defaults/TYPE(\1)/' >"$work/option_types.def"
for type in $(grep -hoE '^} ls_[a-z0-9_]+_opts;' -r "$include"/lockstep | tr -d '};'); do
    grep -q "($type)" "$work/option_types.def" ||
        { echo "$type has no defaults"; exit 1; }
done

strict="-Wall -Wextra -Wpedantic -Wshadow -Werror -I$include -I$work"
"$cc" -std=c17 $strict -c "$here/defaults.c" -o "$work/defaults.o"
tried=0
for cxx in g++ clang++; do
    command -v "$cxx" >/dev/null || continue
    echo 'int main() { return 0; }' | "$cxx" -std=c++20 -x c++ - -o "$work/empty" 2>/dev/null || continue
    tried=$((tried + 1))
    "$cxx" -std=c++20 $strict "$here/program.cc" "$work/defaults.o" "$library" \
        -Wl,-rpath,"$(dirname "$library")" -o "$work/program"
    "$work/program" --weight_decay 0 --lr=0.1
done
[ $tried -gt 0 ] || { echo "no compiler for C++20"; exit 77; }
