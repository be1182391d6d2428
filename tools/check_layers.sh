#!/bin/sh
# check_layers.sh [ROOT] - fail on an #include that breaks the layers: a lower folder never includes a higher one,
# everything outside the library sees public headers only, intrinsics stay in the folders of their ISA.
set -eu
cd "${1:-$(dirname "$0")/..}"

folders=$(for folder in src include plugins cli examples; do [ ! -d $folder ] || echo $folder; done)
find $folders -name '*.[ch]' -o -name '*.inc' -o -name '*.def' | sort | xargs awk '
    BEGIN {
        # folder: the folders it builds on; what those build on is included
        below["base"] = ""
        below["kernels"] = "base"
        below["device"] = "kernels"
        below["comm"] = "device"
        below["tensor"] = "comm"
        below["autograd"] = "tensor"
        below["ops"] = "autograd"
        below["formats"] = "tensor"
        below["nn"] = "ops formats"
        below["models"] = "nn formats"
        below["data"] = "tensor"
        below["optim"] = "parallel"
        below["parallel"] = "autograd"
        below["checkpoint"] = "formats nn optim data"
        below["launch"] = "base comm"
        below["track"] = "tensor"
        below["run"] = "nn optim data parallel checkpoint launch track"

        # public header: the folder that stands behind it; any other is named after its folder
        split("base call collective version plugin group link ops.def", words, " ")
        for (i in words) behind[words[i]] = "base"
        split("run tensor state", words, " ")
        for (i in words) behind[words[i]] = "tensor"
        behind["env"] = behind["flags"] = "run"
        behind["image"] = behind["text"] = "data"
    }

    function may_include(folder, other,    parts, n, i) {
        if (folder == other) return 1
        n = split(below[folder], parts, " ")
        for (i = 1; i <= n; i++) if (may_include(parts[i], other)) return 1
        return 0
    }

    function complain(why) {
        printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why
        bad++
    }

    # <lockstep/nn.h> -> nn, <lockstep/models/resnet.h> -> models
    function folder_behind(header) {
        sub(/^lockstep\//, "", header)
        sub(/\.h$|\/.*/, "", header)
        return header in behind ? behind[header] : header
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

    # does an include of a program or plug-in leave its own folder?
    function leaves_home(target,    own_folder, path, parts) {
        own_folder = FILENAME
        sub(/[^\/]*$/, "", own_folder)
        path = normal(own_folder target)
        split(path, parts, "/")
        return parts[1] != place[1] || (place[1] == "plugins" && parts[2] != place[2]) || !exists(path)
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
            if (quoted ? leaves_home(target) : target ~ /^lockstep/ && target !~ /^lockstep\/((plugin|link|group)\.h|ops\.def)$/)
                complain("a plug-in sees lockstep/plugin.h, lockstep/group.h and lockstep/link.h only")
        } else if (place[1] == "include") {
            if (quoted) complain("public headers include each other as <lockstep/name.h>")
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
            else if (!may_include(place[2], reached[2])) complain(place[2] " must not know " reached[2])
        } else if (target ~ /^lockstep/ && !may_include(place[2], folder_behind(target))) {
            complain(place[2] " must not know " folder_behind(target))
        }
    }

    END { exit bad > 0 }'
