#!/bin/sh
# run_tests.sh RUN_TESTS - what tools/run_tests.sh makes of tests that pass, fail, are skipped, and count themselves.
set -eu
run_tests=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: >"$folder/CMakeCache.txt"

# tests_are NAME SCRIPT... - the tests of the folder
tests_are()
{
    : >"$folder/CTestTestfile.cmake"
    while [ $# -gt 0 ]; do
        echo "$2" >"$folder/$1.sh"
        printf 'add_test(%s sh %s)\nset_tests_properties(%s PROPERTIES SKIP_RETURN_CODE 77)\n' "$1" "$folder/$1.sh" "$1" \
            >>"$folder/CTestTestfile.cmake"
        shift 2
    done
}

# expect CODE LINES - how it ends, and its last lines after what ctest itself says
expect()
{
    code=0
    "$run_tests" "$folder" >"$folder/said" 2>&1 || code=$?
    [ "$code" = 0 ] || code=1
    lines=$(printf '%s\n' "$2" | wc -l)
    [ "$code" = "$1" ] && [ "$(tail -n "$lines" "$folder/said")" = "$2" ] && return
    echo "ended with $code, expected $1 and \"$2\" after:"
    cat "$folder/said"
    exit 1
}

tests_are one 'exit 0' \
    many 'echo "SKIP a_test: no \"<network>\" & no luck"; echo "4 passed, 0 failed, 1 skipped"' \
    absent 'echo looking; echo "clang is missing"; exit 77' \
    all 'echo "SKIP this: no root"; echo "SKIP that: no root"; echo "0 passed, 0 failed, 2 skipped"; exit 77'
expect 0 'SKIP many/a_test: no "<network>" & no luck
SKIP absent: clang is missing
SKIP all/this: no root
SKIP all/that: no root
5 passed, 0 failed, 4 skipped'
[ "$(cat "$folder/test_counts")" = "5 0 4" ]
[ "$(wc -l <"$folder/test_skips")" = 4 ]

tests_are one 'exit 1' many 'echo "3 passed, 2 failed, 0 skipped"; exit 1' gone 'kill -9 $$'
expect 1 '3 passed, 4 failed, 0 skipped'

tests_are said 'echo "3 passed, 0 failed, 0 skipped"; exit 1' # of a program that dies after its count
expect 1 '3 passed, 1 failed, 0 skipped'

tests_are one 'exit 0'
echo "add_test(nobody $folder/no_such_program)" >>"$folder/CTestTestfile.cmake"
expect 1 '1 passed, 1 failed, 0 skipped'
