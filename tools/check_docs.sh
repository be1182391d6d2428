#!/bin/sh
# check_docs.sh - the pages that describe tables in the code list exactly what those tables hold; programs in them compile;
# the tour passes every folder, and every header of src/base/.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C
bad=0

# same PAGE SOURCE "names in the source" "names in the page"
same()
{
    [ "$3" = "$4" ] && return
    echo "$1 and $2 differ:"
    for name in $3; do echo "$4" | grep -qx "$name" || echo "  $name is not described in $1"; done
    for name in $4; do echo "$3" | grep -qx "$name" || echo "  $name is no longer in $2"; done
    bad=1
}

tools/gen_ops_doc.sh | diff -u docs/ops.md - || { echo "docs/ops.md is out of date: make docs"; bad=1; }

same docs/errors.md include/lockstep/base.h \
    "$(grep -oE 'LS_STATUS\(LS_[A-Z_]+' include/lockstep/base.h | sed 's/.*(//' | sort)" \
    "$(grep -oE '^## `LS_[A-Z_]+`' docs/errors.md | tr -d '#` ' | sort)"

settings=$(grep -oE '^ +LS_SETTING\([A-Z0-9_]+' src/base/config.h | sed 's/.*(/LOCKSTEP_/' | sort)
same "the table of docs/env.md" src/base/config.h \
    "$settings" "$(grep -oE '^\| `LOCKSTEP_[A-Z0-9_]+`' docs/env.md | tr -d '|` ' | sort)"
same "the sections of docs/env.md" src/base/config.h \
    "$settings" "$(grep -oE '^## `LOCKSTEP_[A-Z0-9_]+`' docs/env.md | tr -d '#` ' | sort)"

# Whole programs in the pages compile.
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
awk -v to="$programs" '
    /^```c$/ { inside = 1; text = ""; next }
    /^```$/ && inside { inside = 0; if (text ~ /int main\(/) { printf "%s", text >(to "/" ++n ".c"); close(to "/" n ".c") } }
    inside { text = text $0 "\n" }' README.md docs/*.md
for program in "$programs"/*.c; do
    "${CC:-cc}" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude "$program" ||
        { echo "a program in README.md or docs/ does not compile:"; cat "$program"; bad=1; }
done

# Functions and constants that the pages name exist.
grep -ohE '\<(ls|LS)_[A-Za-z0-9_]+' -r include src | sort -u >"$programs/known"
grep -oE '`[^`]*`' README.md docs/*.md | grep -oE '\<(ls|LS)_[A-Za-z0-9_]+' | sort -u >"$programs/named"
comm -13 "$programs/known" "$programs/named" >"$programs/missing"
[ ! -s "$programs/missing" ] || { echo "pages name what the sources do not have:"; cat "$programs/missing"; bad=1; }

# The tour passes every folder of the library. Those of kernels are instruction sets.
for folder in $(find src -mindepth 2 -maxdepth 3 -type f | sed 's|/[^/]*$||' | grep -v '^src/kernels/' | sort -u); do
    grep -q "\`$folder/" docs/tour.md || { echo "docs/tour.md does not pass $folder/"; bad=1; }
done

# Its map of src/base/ has every header there.
for header in $(ls src/base | grep '\.h$'); do
    grep -q "^| .*\`$header\`" docs/tour.md || { echo "docs/tour.md has no place for src/base/$header"; bad=1; }
done

exit $bad
