#!/bin/sh
# check_headers.sh CC - every public header compiles alone and without a warning, as C17 and as C++17. A program that
# includes <lockstep.h> may give the names of the contracts of plug-ins to things of its own: it sees none of them.
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

contracts="include/lockstep/plugin.h include/lockstep/group.h include/lockstep/link.h"
names=$(sed -nE 's/^\} (ls_[a-z_]+);.*/\1/p; s/^typedef .*[ *](ls_[a-z_]+)(\(.*\))?;.*/\1/p' $contracts | sort -u)
[ "$(echo "$names" | wc -l)" -ge 20 ] || { echo "too few names were found in $contracts"; bad=1; }
{
    echo '#include <lockstep.h>'
    for name in $names; do echo "typedef struct { int own; } $name;"; done
} | "$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c - ||
    { echo "a program that includes <lockstep.h> sees names of $contracts"; bad=1; }

[ -n "$cxx" ] || echo "no C++ compiler: checked as C only"
exit $bad
