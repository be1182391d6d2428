#!/bin/sh
# check_files.sh - fail on files above 800 lines, on paths of somebody's machine, tabs and blank line ends.
set -eu
cd "$(dirname "$0")/.."

# Hand-written text files, tracked or about to be.
if git rev-parse --git-dir >/dev/null 2>&1; then
    files=$(git ls-files --cached --others --exclude-standard)
else
    files=$(find . -type f -not -path './build*/*' | sed 's|^\./||')
fi
files=$(for file in $files; do
    case $file in
    LICENSE | docs/ops.md | tests/golden/*.txt | *.safetensors | *.png) ;;
    *) [ ! -f "$file" ] || echo "$file" ;;
    esac
done)

bad=0
for file in $files; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || { echo "$file: $lines lines; split it, 800 is the limit"; bad=1; }
done
if grep -nE '/(work|home|root|Users)/' $files; then
    echo "paths of one machine do not belong in the tree"
    bad=1
fi
if grep -nE '[[:blank:]]+$' $files; then
    echo "blanks at the end of a line"
    bad=1
fi
if grep -n "$(printf '\t')" $(echo "$files" | grep -v '^Makefile$'); then
    echo "tabs; only the Makefile needs them"
    bad=1
fi
exit $bad
