#!/bin/sh
# run_tests.sh BUILD [ctest options] - run the tests of a build folder; the last line is "N passed, N failed, N skipped".
#
# A test program counts with the numbers it prints itself, any other test as one. Tests that could not be done here are
# listed before the last line, each with its reason: "SKIP program/test: reason". Fails when a test failed or none ran.
# The counts are left in BUILD/test_counts as three numbers, the list in BUILD/test_skips.
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

[ -f "$results" ] || echo '<testcase name="ctest" status="fail"></testcase>' >"$results"
awk -v counts="$build/test_counts" -v status="$status" '
    function value_of(attribute) {
        return match($0, " " attribute "=\"[^\"]*\"") ? substr($0, RSTART + length(attribute) + 3, RLENGTH - length(attribute) - 4) : ""
    }
    function plain(text) {
        gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "\047", text)
        gsub(/&amp;/, "\\&", text)
        return text
    }
    function close_test() {
        if (state == "notrun" && message ~ /^SKIP_/) state = "skip"
        passed += p; failed += f; skipped += s
        if (state == "run" && !seen) passed++
        else if (state == "skip" && !s) { skipped++; print "SKIP " name ": " plain(last) }
        else if (state != "run" && state != "skip" && !f) failed++
    }
    /<testcase / { name = value_of("name"); state = value_of("status"); message = last = ""; seen = p = f = s = 0 }
    /<skipped / { message = value_of("message") }
    { line = $0; sub(/.*<system-out>/, "", line); sub(/<\/system-out>.*/, "", line) }
    line ~ /[^ \t]/ && line !~ /^[ \t]*<\/?[a-z]/ { last = line }
    line ~ /^SKIP / { print "SKIP " name "/" plain(substr(line, 6)) }
    match(line, /[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped/) {
        split(substr(line, RSTART, RLENGTH), word, " ")
        seen = 1; p = word[1]; f = word[3]; s = word[5]
    }
    /<\/testcase>/ { close_test() }
    END { print passed + 0, failed + (status != 0 && !failed), skipped + 0 >counts }' "$results" | tee "$build/test_skips"
read -r passed failed skipped <"$build/test_counts"
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
