#!/bin/sh
# gen_ops_doc.sh - write docs/ops.md, the list of operators, from ops.def to standard output.
set -eu
cd "$(dirname "$0")/.."

cat <<'END'
# Operators

Generated from `include/lockstep/ops.def` by `make docs`; do not edit.

- **Operator**: its function is named `ls_` plus this name, or as stated in parentheses. Operators of kind *grad* and
  *update* have no function, nor have `conv2d_norm`, which replaces a `Conv2d` and its `BatchNorm2d` without gradients,
  `linears`, which the query, key and value of BERT are, and `feed_forward`, two linear layers of a `Sequential`, of
  BERT, or of a transformer layer without dropout, the first with GELU or SiLU.
- **Kind**: *kernel* runs on the device; *view* creates a new view of the same memory; *built* is composed of other
  operators; *grad* is called by gradients only; *update* writes its inputs in place; *collective* is executed by several
  processes together.
- **Autocast**: what a mixed-precision scope does to floating inputs. *half* casts them to the scope's type, *f32*
  widens them, *widest* casts all to the widest among them, *same* does not change them.
- **Gradient**: *own* if the operator has its own gradient, *parts* if it follows from the operators it is composed of;
  empty if it has none.
END

awk '
    BEGIN {
        function_of["copy"] = "ls_clone`, `ls_cast`, `ls_assign"
        function_of["fill"] = "ls_full"
        function_of["uniform"] = "ls_rand`, `ls_uniform_shape"
        function_of["normal"] = "ls_randn`, `ls_normal_shape"
        function_of["bernoulli"] = "ls_bernoulli_shape"
        function_of["argmin"] = "ls_argmin_dim"
        function_of["split"] = "ls_chunk"
        function_of["gather"] = "ls_take_along_dim"
    }
    /^\/\* ---- .* ---- \*\/$/ {
        title = $0
        sub(/^\/\* ---- /, "", title)
        sub(/ ---- \*\/$/, "", title)
        printf "\n## %s\n\n", toupper(substr(title, 1, 1)) substr(title, 2)
        print "| operator | what it computes | kind | autocast | gradient |"
        print "|---|---|---|---|---|"
    }
    /^LS_OP\(/ {
        summary = $0
        sub(/^[^"]*"/, "", summary)
        sub(/"\)$/, "", summary)
        gsub(/\|/, "\\|", summary)
        sub(/^LS_OP\(/, "")
        split($0, column, /, */)
        gradient = column[4] == "none" ? "" : column[4] == "parts" ? "parts" : "own"
        called = column[1] in function_of ? " (`" function_of[column[1]] "`)" : ""
        printf "| `%s`%s | %s | %s | %s | %s |\n", column[1], called, summary, tolower(column[2]), tolower(column[3]), gradient
    }' include/lockstep/ops.def
