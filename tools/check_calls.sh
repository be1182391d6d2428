#!/bin/sh
# check_calls.sh OBJECTS [ROOT] - fail on a call that breaks the layers of layers.txt: a function, or data, of a folder
# that the caller's folder does not stand on. OBJECTS has the object files of src/, in folders like those of the sources.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${2:-$tools/..}" && pwd)
cd "$1"

# Objects whose source is gone are left over from an earlier build.
objects=$(find . -name '*.o' | sed 's|^\./||' | sort | while read -r object; do
    [ ! -e "$root/src/${object%.o}" ] || echo "$object"
done)
[ -n "$objects" ] || { echo "no object files in $1"; exit 77; }

nm -gA $objects | awk "$(cat "$tools/layers.awk")"'
    {
        object = $1
        sub(/\.o:.*/, "", object)
        folder = object
        sub(/\/.*/, "", folder)
        if ($(NF - 1) != "U") owner[$NF] = folder
        else called[object " " $NF] = folder
    }

    END {
        for (call in called) {
            split(call, part, " ")
            name = part[2]
            if (!(name in owner) || may_know(called[call], owner[name]) || ((called[call], name) in except)) continue
            printf "src/%s: %s of src/%s: %s must not know %s\n", part[1], name, owner[name], called[call], owner[name]
            bad++
        }
        exit bad > 0
    }' "$tools/layers.txt" -
