#!/bin/sh
# check_symbols.sh LIBRARY [--update] - the shared library exports what tools/symbols.txt lists, no more and no less,
# and every function that a public header declares with LS_API. --update accepts the library's present list.
set -eu
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
export LC_ALL=C

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
if [ "${2:-}" = --update ]; then
    echo "$exported" >tools/symbols.txt
    exit 0
fi

bad=0
echo "$exported" | diff -u tools/symbols.txt - || {
    echo "exports changed: + is new, - is gone; accept them with: make symbols"
    bad=1
}
declared=$(grep -rhoE '^LS_API .*' include | grep -oE 'ls_[a-z0-9_]+\(' | tr -d '(' | sort -u)
missing=$(for name in $declared; do echo "$exported" | grep -qx "$name" || echo "$name"; done)
[ -z "$missing" ] || {
    echo "declared with LS_API but not exported:" $missing
    bad=1
}
exit $bad
