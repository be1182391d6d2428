#!/bin/sh
# by_name.sh CC - options go by name: a value without one does not compile, with no flag asked for, with every C compiler
# there is and with headers of the system, whose warnings compilers hide; the same calls with names do, without a warning.
set -eu
include=$(cd "$(dirname "$0")/../../include" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

program() { # program CALL
    printf '#include <lockstep.h>\n%s\n' "void call(ls_run *run, ls_module *m, ls_dataset *set);
void call(ls_run *run, ls_module *m, ls_dataset *set)
{
    (void)run, (void)m, (void)set;
    $1;
}" >"$work/program.c"
}

for cc in "$1" gcc clang; do
    command -v "$cc" >/dev/null || continue
    for call in 'ls_adamw_new(run, m, .lr = 0.05)' 'ls_sgd_new(run, m)' 'ls_linear_new(run, 2, 3, .bias = false)' \
        'ls_loader_new(run, set, .batch = 2)' 'ls_image_read(run, "a.png")' \
        'ls_adamw_opts o = LS_OPTIONS(ls_adamw_opts, .lr = 0); (void)o'; do
        program "$call"
        "$cc" -std=c17 -Wall -Wextra -Wpedantic -Wconversion -Werror -I"$include" -c "$work/program.c" -o "$work/program.o" ||
            { echo "$cc refuses $call"; exit 1; }
    done
    for call in 'ls_adamw_new(run, m, 0.05)' 'ls_adamw_new(run, m, 0)' 'ls_sgd_new(run, m, 0.1)' \
        'ls_linear_new(run, 2, 3, true)' 'ls_linear_new(run, 2, 3, false)' 'ls_loader_new(run, set, 2)' \
        'ls_image_read(run, "a.png", NULL)' 'ls_adamw_opts o = LS_OPTIONS(ls_adamw_opts, 0.05); (void)o'; do
        program "$call"
        for where in -I -isystem; do
            "$cc" -std=c17 "$where" "$include" -c "$work/program.c" -o "$work/program.o" 2>"$work/said" &&
                { echo "$cc $where takes $call"; exit 1; }
            grep -qE 'positional initialization|excess elements' "$work/said" || { cat "$work/said"; exit 1; }
        done
    done
done
