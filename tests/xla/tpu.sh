#!/bin/bash
# tpu.sh BUILD LIBTPU [TOPOLOGY...] - what TPUs' compiler says to our programs, without a TPU: every call of the table of
# operators is compiled, and a step of ResNet-50d and of BERT, which must update their parameters in place; a step that
# is too large must fail with the compiler's own words. On another architecture than x86-64, BUILD is a cross build and
# EMULATOR runs its programs: "qemu-x86_64 -cpu max -L /usr/x86_64-linux-gnu".
set -u
build=$(cd "$1" && pwd)
export LOCKSTEP_PJRT_LIBRARY=$2 LOCKSTEP_PLUGIN_PATH=$build/lib/lockstep CHECK_QUICK=1
shift 2
[ $# -gt 0 ] || set -- v2:2x2 v3:2x2 v4:2x2x1 v5e:1x1 v5e:2x2 v5p:2x2x1 v6e:2x2 tpu7x:2x2x1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# check NAME CONDITION...
check()
{
    local name=$1
    shift
    if "$@"; then echo "passed  $topology  $name"; else
        echo "FAILED  $topology  $name"
        cat "$work/log"
        failed=1
    fi
}

compile()
{
    ${EMULATOR:-} "$build/lockstep" compile --topology "$topology" -- ${EMULATOR:-} "$build/tests/xla/pupil" "$@" \
        >"$work/log" 2>&1
}

# The table says so many MiB are aliased in step 2, at least.
aliases()
{
    awk -v least="$1" '$1 == 2 {
        for (i = 3; i < NF; i += 2) value[(i - 1) / 2] = $i * ($(i + 1) == "GiB" ? 1024 : $(i + 1) == "KiB" ? 1 / 1024 : 1)
        if (value[3] > most) most = value[3]
    } END { exit most < least }' "$work/log"
}

operators()
{
    rm -f "$work/report"
    LOCKSTEP_XLA_TOPOLOGY=$topology LOCKSTEP_XLA_REPORT=$work/report ${EMULATOR:-} "$build/tests/xla/test_xla_walk" \
        >"$work/log" 2>&1 && grep -c '^program' "$work/report" >/dev/null && ! grep '^refused' "$work/report" >"$work/log"
}

fails_for_memory()
{
    ! compile bert 4096 512 2 && grep -iE 'hbm|memory|RESOURCE_EXHAUSTED' "$work/log" >/dev/null &&
        grep 'cannot be compiled for' "$work/log" >/dev/null
}

for topology; do
    check "operators" operators
    check "ResNet-50d compiles" compile resnet50d 8 64 2
    check "ResNet-50d is updated in place" aliases 260 # 23.6 million parameters and AdamW's two numbers for each
    check "BERT compiles" compile bert 4 32 2
    check "BERT is updated in place" aliases 1200 # 109 million
    check "a batch that is too large is refused" fails_for_memory
done
exit $failed
