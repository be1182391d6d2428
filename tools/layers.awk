# layers.awk - reads tools/layers.txt, the first file; what follows it is for the script that this is put in front of.
FILENAME == ARGV[1] {
    if ($1 == "layer") {
        below[$2] = ""
        for (i = 3; i <= NF; i++) below[$2] = below[$2] " " $i
    }
    if ($1 == "header") for (i = 3; i <= NF; i++) behind[$i] = $2
    if ($1 == "except") except[$2, $3] = 1
    next
}

# does a folder stand on another?
function may_know(folder, other,    parts, n, i) {
    if (folder == other) return 1
    n = split(below[folder], parts, " ")
    for (i = 1; i <= n; i++) if (may_know(parts[i], other)) return 1
    return 0
}

# <lockstep/nn.h> -> nn, <lockstep/models/resnet.h> -> models
function folder_behind(header) {
    sub(/^lockstep\//, "", header)
    sub(/\.h$|\/.*/, "", header)
    return header in behind ? behind[header] : header
}
