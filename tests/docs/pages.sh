#!/bin/sh
# pages.sh CC LOCKSTEP LIBRARY - what docs/first_steps.md, modules.md, bert.md and from_torch.md show works: programs and
# commands of the first three run as they stand there, expressions and lines of the last compile.
set -eu
cc=$1
lockstep=$2
library=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "$lockstep" bin/lockstep
export PATH="$work/bin:$PATH"
strict="-std=c17 -Wall -Wextra -Wpedantic -Werror -I$root/include"

# ---- first_steps.md: blocks are programs, named by their first line; indented lines are commands ----

awk '/^```c$/ { inside = 1; name = ""; next }
     /^```$/ { inside = 0 }
     inside && name == "" { name = $2 }
     inside { print >name }' "$root/docs/first_steps.md"
grep -E '^    (cc|awk|\./|lockstep) ?' "$root/docs/first_steps.md" | sed 's/^    //' >commands
[ "$(ls ./*.c | wc -l)" -ge 3 ] && [ "$(wc -l <commands)" -ge 9 ] || { echo "programs or commands are missing"; exit 1; }
while read -r line; do
    echo "$line" | sed "s|^cc |$cc $strict |; s|\$(pkg-config --cflags --libs lockstep)|$library -Wl,-rpath,$(dirname "$library")|" >one
    sh -e ./one >log 2>&1 </dev/null || { echo "failed: $line"; cat log; exit 1; }
    case $line in
    './where') grep -q '^1 on .*, mean of the ranks 0$' log || { echo "says something else:"; cat log; exit 1; } ;;
    'lockstep launch -n 2 ./where') grep -q '^2 on .*, mean of the ranks 0.5$' log || { cat log; exit 1; } ;;
    './first') grep -q 'epoch 19: 9[0-9]\.[0-9] % right' log || { echo "did not learn:"; cat log; exit 1; } ;;
    *latest) grep -q '^epoch 3: ' log && ! grep -q '^epoch 2: ' log || { echo "did not go on:"; cat log; exit 1; } ;;
    './letters') grep -q '^the quick brown |' log && awk '/^epoch 29/ { exit !($4 < 0.5) }' log ||
        { echo "did not learn:"; cat log; exit 1; } ;;
    esac
done <commands

# ---- modules.md: one program ----

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/modules.md" >modules.c
$cc $strict modules.c -o modules "$library" -Wl,-rpath,"$(dirname "$library")"
./modules | grep -q '^2 outputs, gradient of the first weight: there$' || { echo "modules.md says something else"; exit 1; }

# ---- bert.md: one program ----

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/bert.md" >bert.c
$cc $strict bert.c -o bert "$library" -Wl,-rpath,"$(dirname "$library")"
./bert && [ -s tuned/model.safetensors ] && grep -q '"LABEL_2": 2' tuned/config.json ||
    { echo "bert.md says something else"; exit 1; }

# ---- from_torch.md: blocks are lines of a function, the right column is expressions ----

cat >start.c <<'END'
#include <lockstep.h>
#include <stdio.h>
ls_tensor *forward(ls_module *net, ls_tensor *x, void *user);
ls_forward_pre_hook_fn before;
ls_grad_hook_fn look;
ls_change_fn change;
ls_outputs encode(ls_module *net, ls_tensor *const *inputs, int64_t n, void *user);
void lines(ls_run *run, ls_tensor *x, ls_tensor *y, ls_tensor *a, ls_tensor *b, ls_tensor *mask, ls_tensor *index,
           ls_tensor *logits, ls_tensor *target, ls_tensor *loss, ls_module *net, ls_optim *opt, ls_state *state);
END
awk '/^```c$/ { inside = 1; print "{"; next }
     /^```$/ && inside { inside = 0; print "}"; next }
     inside { print }
     /^## Not supported/ { exit }
     /^\| .* \| .* \|$/ && !/^\| (PyTorch|torch)/ {
         text = $0
         sub(/ \|$/, "", text)
         sub(/.* \| /, "", text)
         while (match(text, /`[^`]*`/)) {
             code = substr(text, RSTART + 1, RLENGTH - 2)
             text = substr(text, RSTART + RLENGTH)
             if (code ~ /^ls_[a-z0-9_]+\(/) { print "(void)" code ";"; n++ }
         }
     }
     END { if (n < 100) print "#error only", n, "expressions" }' "$root/docs/from_torch.md" |
    sed 's/^(void)\(ls_\(backward\|train\|eval\|freeze\|assign\|optim_set_lr\|set_seed\|optim_set_group\|describe\|clip_grad_value\|chunk\|set_loss_scaling\|sync_batch_norm\|tie\|hook_remove\|register_grad_hook\|set_recompute\|init_[a-z_]*\)(\)/\1/' >lines.inc
cat start.c - lines.inc >lines.c <<'END'
void lines(ls_run *run, ls_tensor *x, ls_tensor *y, ls_tensor *a, ls_tensor *b, ls_tensor *mask, ls_tensor *index,
           ls_tensor *logits, ls_tensor *target, ls_tensor *loss, ls_module *net, ls_optim *opt, ls_state *state)
{
    ls_tensor *q = x, *k = x, *v = x, *list[] = {a, b};
    ls_module *one = net, *two = net;
    ls_hook *hook = NULL;
    ls_schedule *plateau = NULL;
    ls_dataset *set = NULL, *other = NULL;
    double weights[3] = {1, 2, 3};
    int64_t n = 3;
    float numbers[6] = {0};
    char text[100];
END
echo '}' >>lines.c
"$cc" $strict -Wno-unused-variable -fsyntax-only lines.c

# ---- missing.h: names of what does not exist yet are refused with advice ----

for name in ls_conv3d ls_conv3d_new ls_lstm_new ls_gru_new ls_rnn_new ls_autograd_grad; do
    printf '#include <lockstep.h>\nvoid *f(ls_run *run)\n{\n    return %s(run, 8, 16);\n}\n' $name >missing.c
    ! "$cc" $strict -fsyntax-only missing.c 2>log && grep -q 'Lockstep has no .* yet: ' log ||
        { echo "$name is not refused with advice:"; cat log; exit 1; }
done
