#!/bin/sh
# check_rules.sh - a check that never fails checks nothing: break each layer rule in a small tree, expect a complaint.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
bad=0

# breaks YES|NO FILE LINE - does this line in this file break a rule?
breaks()
{
    rm -rf "$tree"/*
    mkdir -p "$tree/src/base" "$tree/src/kernels/neon" "$tree/src/tensor" "$tree/src/optim" "$tree/src/nn" \
        "$tree/include/lockstep" "$tree/cli" "$tree/examples" "$tree/plugins/one"
    touch "$tree/src/base/log.h" "$tree/src/kernels/gemm.h" "$tree/src/tensor/view.h" "$tree/src/nn/module.h" \
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
breaks NO plugins/one/a.c '#include <lockstep/plugin.h>'
breaks NO plugins/one/a.c '#include <lockstep/link.h>'
breaks NO plugins/one/a.c '#include "own.h"'
breaks NO src/kernels/a.c '#include <lockstep/plugin.h>'
breaks NO src/nn/a.c '#include <lockstep/ops.h>'

breaks YES src/base/a.c '#include "tensor/view.h"'
breaks YES src/kernels/neon/a.c '#include "../../tensor/view.h"'
breaks YES src/kernels/a.c '#include <arm_neon.h>'
breaks YES src/base/a.c '#  include <immintrin.h>'
breaks YES src/optim/a.c '#include "nn/module.h"'
breaks YES src/tensor/a.c '#include "base/missing.h"'
breaks YES src/kernels/a.c '#include <lockstep/tensor.h>'
breaks YES src/tensor/a.c '#include <lockstep.h>'
breaks YES include/lockstep/a.h '#include "base/log.h"'
breaks YES cli/a.c '#include "../src/base/log.h"'
breaks YES examples/a.c '#include "base/log.h"'
breaks YES plugins/one/a.c '#include <lockstep/tensor.h>'
breaks YES plugins/one/a.c '#include "../../src/base/log.h"'
exit $bad
