#!/bin/sh
# expect.sh CODE PATTERN COMMAND... - a command ends with this code, and what it prints, its lines taken as one, has the
# pattern (grep -E) in it.
expected=$1 pattern=$2
shift 2
said=$("$@" 2>&1 </dev/null)
code=$?
printf '%s\n' "$said"
[ "$code" = "$expected" ] || { echo "exit code $code, expected $expected: $*"; exit 1; }
printf '%s' "$said" | tr '\n' ' ' | grep -qE -e "$pattern" || { echo "nothing like \"$pattern\": $*"; exit 1; }
