#!/bin/sh
# run.sh [SECONDS [NAME...]] - let libFuzzer look for inputs that crash, hang or take too much memory: so long for each
# harness, beginning with its corpus. Findings lie in build/fuzz/found/; the last line is "N passed, N failed, N skipped".
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:-20}
[ $# -eq 0 ] || shift
passed=0 failed=0 skipped=0
mkdir -p build/fuzz/found
: >build/fuzz/test_skips
if ! echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
    clang -fsanitize=fuzzer,address -x c - -o build/fuzz/probe 2>/dev/null; then
    echo "SKIP fuzz: clang and libclang-rt-14-dev are not here" | tee build/fuzz/test_skips
    echo "0 0 1" >build/fuzz/test_counts
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
[ -f build/fuzz/build.ninja ] || CC=clang cmake -S . -B build/fuzz -G Ninja -DLOCKSTEP_SANITIZE=address,undefined \
    -DLOCKSTEP_FUZZ=ON >/dev/null || exit 1
cmake --build build/fuzz --target fuzz || exit 1
for corpus in tests/fuzz/corpus/*; do
    name=${corpus##*/}
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    if [ ! -x "build/fuzz/tests/fuzz/fuzz_$name" ]; then
        skipped=$((skipped + 1))
        echo "SKIP fuzz_$name: what it tests is not built here" | tee -a build/fuzz/test_skips
        continue
    fi
    mkdir -p "build/fuzz/corpus/$name"
    if ASAN_OPTIONS=allocator_may_return_null=1 "build/fuzz/tests/fuzz/fuzz_$name" "build/fuzz/corpus/$name" "$corpus" \
        -max_total_time="$seconds" -max_len=20000 -timeout=120 -rss_limit_mb=2000 \
        -artifact_prefix="build/fuzz/found/$name-" >"build/fuzz/$name.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        tail -n 40 "build/fuzz/$name.log"
    fi
    echo "fuzz $name: $(grep -aE '^#[0-9]+' "build/fuzz/$name.log" | tail -n 1)"
done
echo "$passed $failed $skipped" >build/fuzz/test_counts
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
