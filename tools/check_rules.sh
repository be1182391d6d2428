#!/bin/sh
# check_rules.sh - a check that never fails checks nothing: break each rule of layers, calls and names in a small tree,
# expect a complaint.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
bad=0

# breaks YES|NO FILE LINE - does this line in this file break a rule?
breaks()
{
    rm -rf "$tree"/*
    mkdir -p "$tree/src/base" "$tree/src/kernels/neon" "$tree/src/tensor" "$tree/src/optim" "$tree/src/nn" "$tree/src/models" \
        "$tree/include/lockstep" "$tree/cli" "$tree/examples" "$tree/plugins/one" "$tree/notebook/cell" "$tree/notebook/session"
    touch "$tree/notebook/cell/text.h" "$tree/src/base/log.h" "$tree/src/kernels/gemm.h" "$tree/src/tensor/view.h" "$tree/src/nn/module.h" \
        "$tree/cli/table.h" "$tree/plugins/one/own.h"
    echo "$3" >"$tree/$2"
    got=NO
    "$tools/check_layers.sh" "$tree" >/dev/null 2>&1 || got=YES
    [ $got = "$1" ] || { echo "$2: $3: expected $1, got $got"; bad=1; }
}

breaks NO src/tensor/a.c '#include "base/log.h"'
breaks NO src/tensor/a.c '#include "view.h"'
breaks NO src/kernels/neon/a.c '#include "../gemm.h"'
breaks NO src/kernels/neon/a.c '#include <arm_neon.h>'
breaks NO src/nn/a.c '#include "tensor/view.h"'
breaks NO cli/a.c '#include "table.h"'
breaks NO cli/a.c '#include <lockstep/base.h>'
breaks NO notebook/cell/a.c '#include "text.h"'
breaks NO notebook/session/a.c '#include "cell/text.h"'
breaks NO notebook/cell/a.c '#include "base/log.h"'
breaks NO plugins/one/a.c '#include <lockstep/plugin.h>'
breaks NO plugins/one/a.c '#include <lockstep/link.h>'
breaks NO plugins/one/a.c '#include "own.h"'
breaks NO src/kernels/a.c '#include <lockstep/plugin.h>'
breaks NO src/nn/a.c '#include <lockstep/ops.h>'
breaks NO src/models/a.c '#include "nn/module.h"'
breaks NO include/lockstep/ops.h '#include <lockstep/tensor.h>'

breaks YES src/base/a.c '#include "tensor/view.h"'
breaks YES src/kernels/neon/a.c '#include "../../tensor/view.h"'
breaks YES src/kernels/a.c '#include <arm_neon.h>'
breaks YES src/base/a.c '#  include <immintrin.h>'
breaks YES src/optim/a.c '#include "nn/module.h"'
breaks YES src/tensor/a.c '#include "base/missing.h"'
breaks YES src/kernels/a.c '#include <lockstep/tensor.h>'
breaks YES src/tensor/a.c '#include <lockstep.h>'
breaks YES src/nn/a.c '#include <lockstep/models/resnet.h>'
breaks YES include/lockstep/a.h '#include "base/log.h"'
breaks YES include/lockstep/tensor.h '#include <lockstep/ops.h>'
breaks YES include/lockstep/optim.h '#include <lockstep/data.h>'
breaks YES include/lockstep/optim.h '#include <lockstep/nn.h>'
breaks YES include/lockstep/ops.h '#include <lockstep/plugin.h>'
breaks YES include/lockstep.h '#include <lockstep/link.h>'
breaks NO include/lockstep/link.h '#include <lockstep/plugin.h>'
breaks YES cli/a.c '#include "../src/base/log.h"'
breaks YES examples/a.c '#include "base/log.h"'
breaks YES notebook/cell/a.c '#include "tensor/view.h"'
breaks YES notebook/session/a.c '#include "base/log.h"'
breaks YES plugins/one/a.c '#include <lockstep/tensor.h>'
breaks YES plugins/one/a.c '#include "../../src/base/log.h"'

# calls YES|NO FOLDER FUNCTION FOLDER - does it break a rule that a file of the first folder calls this function, which the
# second defines?
calls()
{
    rm -rf "$tree"/*
    mkdir -p "$tree/src/$2" "$tree/src/$4" "$tree/objects/$2" "$tree/objects/$4"
    echo "void $3(void); void caller(void); void caller(void) { $3(); }" >"$tree/src/$2/a.c"
    echo "void $3(void); void $3(void) {}" >"$tree/src/$4/b.c"
    "${CC:-cc}" -c "$tree/src/$2/a.c" -o "$tree/objects/$2/a.c.o"
    "${CC:-cc}" -c "$tree/src/$4/b.c" -o "$tree/objects/$4/b.c.o"
    got=NO
    "$tools/check_calls.sh" "$tree/objects" "$tree" >/dev/null 2>&1 || got=YES
    [ $got = "$1" ] || { echo "$2 calls $3 of $4: expected $1, got $got"; bad=1; }
}

calls NO ops ls_anything autograd
calls NO ops ls_anything ops
calls YES optim ls_parameters nn
calls YES autograd ls_anything ops
calls YES optim ls_anything nn
calls YES checkpoint ls_is_main run

# clash YES|NO LINE LINE - do these lines, in headers of two folders, give one name to two things?
clash()
{
    rm -rf "$tree"/*
    mkdir -p "$tree/src/data" "$tree/src/nn"
    echo "$2" >"$tree/src/data/a.h"
    echo "$3" >"$tree/src/nn/b.h"
    got=NO
    "$tools/check_names.sh" "$tree" >/dev/null 2>&1 || got=YES
    [ $got = "$1" ] || { echo "$2 and $3: expected $1, got $got"; bad=1; }
}

clash NO 'typedef struct ls_slot {' 'typedef struct ls_place {'
clash NO 'typedef struct ls_slot ls_slot;' 'struct ls_slot {'
clash NO 'typedef struct ls_slot ls_slot;' 'typedef struct ls_slot ls_slot;'
clash NO 'typedef struct ls_slot {' 'ls_slot *ls_slot_new(int size);'
clash NO 'typedef void ls_slot_fn(int i);' '#define ls_slot_new(...) LS_CALL(__VA_ARGS__)'

clash YES 'typedef struct ls_slot {' 'typedef struct ls_slot {'
clash YES 'typedef struct ls_slot {' 'typedef enum ls_slot { LS_SLOT_A, LS_SLOT_B } ls_slot;'
clash YES 'typedef struct ls_slot {' 'struct ls_slot {'
clash YES 'typedef struct ls_slot ls_slot;' 'typedef struct ls_slot {'
clash YES 'typedef struct ls_slot {' 'typedef struct ls_slot ls_slot;'
clash YES 'typedef void ls_slot_fn(int i);' 'typedef int ls_slot_fn(void);'
clash YES 'typedef int64_t ls_slot;' 'typedef struct ls_slot {'
clash YES 'typedef struct ls_slot {' 'LS_API ls_tensor *ls_slot(ls_tensor *x);'
clash YES 'static inline int ls_slot(int x)' 'typedef struct ls_slot {'
clash YES '#define ls_slot(...) LS_CALL(__VA_ARGS__)' 'typedef enum ls_slot { LS_SLOT_A } ls_slot;'
exit $bad
