#!/bin/sh
# check_files.sh - fail on files above 800 lines, lines of C above 120 columns, paths of somebody's machine, tabs, blanks
# at line ends.
set -eu
cd "$(dirname "$0")/.."

# Hand-written text files: tracked ones and those about to be. Tables of numbers and generated pages are not.
files=$(git ls-files --cached --others --exclude-standard 2>/dev/null ||
    find . -type f -not -path './build*' -not -path './.git/*' | sed 's|^\./||')
files=$(for file in $files; do
    case $file in
    docs/ops.md | tests/golden/*.txt | *_tables.inc) ;;
    *.c | *.h | *.cu | *.cuh | *.inc | *.def | *.sh | *.py | *.md | *.txt | *.cmake | *.in | *.json | Makefile | .[!/]*)
        [ ! -f "$file" ] || echo "$file"
        ;;
    esac
done)

bad=0
complain()
{
    echo "^ $*"
    bad=1
}

for file in $files; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || complain "$file has $lines lines; split it, 800 is the limit"
done
LC_ALL=C.UTF-8 grep -nE '^.{121,}' $(echo "$files" | grep -E '\.(c|h|cu|cuh|inc|def)$') && complain "wider than 120 columns"
grep -nE '/(work|home|root|Users)/' $files && complain "a path that exists on one machine only"
grep -nE '[[:blank:]]+$' $files && complain "blanks at the end of a line"
grep -n "$(printf '\t')" $(echo "$files" | grep -v '^Makefile$') && complain "tabs; only the Makefile needs them"
exit $bad
