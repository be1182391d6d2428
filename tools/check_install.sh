#!/bin/sh
# check_install.sh BUILD CC - install into an empty prefix, then build and run a program against it in the three ways
# people do: pkg-config, CMake's find_package, and the static library. Plug-ins are found there, too.
set -eu
build=$1
cc=$2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
program=tests/install/program.c

cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name lockstep.pc)")
export PKG_CONFIG_PATH
library_dir=$(pkg-config --variable=libdir lockstep)

"$prefix/bin/lockstep" version
[ "$("$prefix/bin/lockstep" version)" = "lockstep $(pkg-config --modversion lockstep)" ]

# Every plug-in that was built is installed, and loaded from there: env shows a version and no reason why not.
"$prefix/bin/lockstep" env >"$work/env"
for plugin in "$build"/lib*/lockstep/liblockstep-comm-*.so "$build"/lib*/*/lockstep/liblockstep-comm-*.so; do
    [ -e "$plugin" ] || continue
    name=${plugin##*/liblockstep-comm-}
    name=${name%.so}
    [ -e "$library_dir/lockstep/${plugin##*/}" ] && grep -E "^ +$name +" "$work/env" | grep -vq "transport " ||
        { echo "plug-in $name is not found where it is installed:"; cat "$work/env"; exit 1; }
done

# The prefix is a private one: the commands of README.md put the path into the program, or LD_LIBRARY_PATH names it.
strict="-std=c17 -Wall -Wextra -Wpedantic -Werror"
command=$(sed -n 's/^    cc train\.c \(.*rpath.*\) -o train$/\1/p' README.md)
[ -n "$command" ] || { echo "README.md has no command for a private prefix"; exit 1; }
eval "\"$cc\" $strict $program $command -o $work/by_pkg_config"
"$work/by_pkg_config"
"$cc" $strict "$program" $(pkg-config --cflags --libs lockstep) -o "$work/without_path"
LD_LIBRARY_PATH=$library_dir "$work/without_path"

libraries=$(pkg-config --static --libs lockstep | sed "s|-llockstep|$library_dir/liblockstep.a|")
"$cc" -std=c17 "$program" $(pkg-config --cflags lockstep) $libraries -o "$work/by_static"
"$work/by_static"

cmake -S tests/install -B "$work/cmake" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" &&
    cmake --build "$work/cmake" >>"$work/log" || { cat "$work/log"; exit 1; }
"$work/cmake/program"
"$work/cmake/program_static"
