#!/bin/sh
# run_tests.sh BUILD [ctest options] - run the tests of a build folder; the last line is "N passed, N failed".
#
# A test program counts with the numbers it prints itself, any other test as one. Fails when a test failed or none ran.
# The counts are left in BUILD/test_counts as two numbers.
set -eu
build=$1
shift
results=$(cd "$build" && pwd)/test_results.xml
rm -f "$results"

export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:suppressions=$(cd "$(dirname "$0")" && pwd)/tsan.supp}"

# The thread sanitizer wants its address ranges free; kernels that randomise many bits put something there. UCX hooks
# what threads do last, when the sanitizer has left them already.
unrandomised=
if grep -q 'LOCKSTEP_SANITIZE:STRING=.*thread' "$build/CMakeCache.txt"; then
    export UCX_MEM_EVENTS=no
    if setarch -R true 2>/dev/null; then unrandomised="setarch -R"; fi
fi

status=0
$unrandomised ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error \
    --test-output-size-passed 1000000 --test-output-size-failed 1000000 --output-junit "$results" "$@" || status=$?

[ -f "$results" ] || echo "<testcase status=\"fail\"></testcase>" >"$results"
counts=$(awk '
    function close_test() {
        if (state == "run") { if (seen) { passed += p; failed += f } else passed++ }
        if (state == "fail") { passed += p; failed += f ? f : 1 }
    }
    /<testcase / {
        match($0, /status="[a-z]*"/)
        state = substr($0, RSTART + 8, RLENGTH - 9)
        seen = p = f = 0
    }
    match($0, /[0-9]+ passed, [0-9]+ failed/) {
        split(substr($0, RSTART, RLENGTH), word, " ")
        seen = 1; p = word[1]; f = word[3]
    }
    /<\/testcase>/ { close_test() }
    END { print passed + 0, failed + 0 }' "$results")
[ "$status" = 0 ] || [ "${counts#* }" != 0 ] || counts="${counts% *} 1"
echo "$counts" >"$build/test_counts"
echo "${counts% *} passed, ${counts#* } failed"
exit "$status"
