#!/bin/sh
# check_layers.sh [ROOT] - fail on an #include that breaks the layers of layers.txt: a lower folder never includes a
# higher one, nor does its public header; everything outside the library sees public headers only (the kernel for
# notebooks src/base/ as well), and programs do not see the contract of devices; intrinsics stay in the folders of their
# ISA.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$(dirname "$0")/..}"

folders=$(for folder in src include plugins cli examples notebook; do [ ! -d $folder ] || echo $folder; done)
awk "$(cat "$tools/layers.awk")"'
    function complain(why) {
        printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why
        bad++
    }

    # a/b/../c -> a/c
    function normal(path) {
        while (sub(/[^\/]+\/\.\.\//, "", path)) {}
        return path
    }

    function exists(path,    line, found) {
        found = (getline line < path) >= 0
        close(path)
        return found
    }

    # does an include of a program or plug-in leave its own folder? Headers that plug-ins share lie above theirs.
    function leaves_home(target,    own_folder, path, parts) {
        own_folder = FILENAME
        sub(/[^\/]*$/, "", own_folder)
        path = normal(own_folder target)
        split(path, parts, "/")
        return parts[1] != place[1] || (place[1] == "plugins" && parts[2] != place[2] && parts[2] !~ /\.h$/) || !exists(path)
    }

    /^[ \t]*#[ \t]*include[ \t]*["<]/ {
        quoted = $0 ~ /include[ \t]*"/
        target = $0
        sub(/^[^"<]*["<]/, "", target)
        sub(/[">].*/, "", target)
        split(FILENAME, place, "/")

        if (!quoted && target ~ /^(arm_.*|.*mmintrin|x86intrin|.*intrin)\.h$/) {
            if (FILENAME !~ /^src\/kernels\/[a-z0-9_]+\//) complain("intrinsics belong in src/kernels/<isa>/")
        } else if (place[1] == "plugins") {
            if (quoted ? leaves_home(target) : target ~ /^lockstep/ && target !~ /^lockstep\/((plugin|link|group|device)\.h|(ops|tpus)\.def)$/)
                complain("a plug-in sees lockstep/plugin.h, group.h, link.h and device.h, and tables of facts (.def), only")
        } else if (place[1] == "include") {
            contract = "/((plugin|link|group)\\.h|(ops|tpus)\\.def)$"
            if (quoted) complain("public headers include each other as <lockstep/name.h>")
            else if (target ~ contract && FILENAME !~ contract) complain("programs do not see the contracts of plug-ins")
            else if (target ~ /^lockstep\// && place[2] == "lockstep") {
                from = folder_behind(place[3])
                to = folder_behind(target)
                if (!may_know(from, to) && !((from, substr(target, 10)) in except)) complain(from " must not know " to)
            }
        } else if (place[1] == "notebook") {
            own = FILENAME
            sub(/[^\/]*$/, "", own)
            home = exists(normal(own target)) || exists("notebook/" target)
            if (quoted && !home && (target !~ /^base\// || place[2] == "session"))
                complain("notebooks see src/base, their session public headers only")
        } else if (place[1] == "cli" || place[1] == "examples") {
            if (quoted && leaves_home(target)) complain("programs see public headers only")
        } else if (quoted) {
            own_folder = FILENAME
            sub(/[^\/]*$/, "", own_folder)
            path = normal(own_folder target)
            if (!exists(path)) path = normal("src/" target)
            if (!exists(path)) {
                complain("no such file in src/")
                next
            }
            split(path, reached, "/")
            if (!(place[2] in below)) complain("src/" place[2] " is not in the table of layers")
            else if (!may_know(place[2], reached[2])) complain(place[2] " must not know " reached[2])
        } else if (target ~ /^lockstep/ && !may_know(place[2], folder_behind(target)) &&
                   !((place[2], substr(target, 10)) in except)) {
            complain(place[2] " must not know " folder_behind(target))
        }
    }

    END { exit bad > 0 }' "$tools/layers.txt" $(find $folders -name '*.[ch]' -o -name '*.inc' -o -name '*.def' | sort)
