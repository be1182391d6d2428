#!/bin/sh
# check_headers.sh CC - every public header compiles alone and without a warning, as C17 and as C++17.
set -eu
cd "$(dirname "$0")/.."
cc=$1
cxx=$(command -v c++ || true)

bad=0
for header in $(cd include && find . -name '*.h' | sed 's|^\./||' | sort); do
    echo "#include <$header>" | "$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c - || bad=1
    [ -z "$cxx" ] || echo "#include <$header>" |
        "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c++ - || bad=1
done
[ -n "$cxx" ] || echo "no C++ compiler: checked as C only"
exit $bad
