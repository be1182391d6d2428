#!/bin/sh
# gen_ops_doc.sh - write docs/ops.md, the list of operators, from ops.def to standard output.
set -eu
cd "$(dirname "$0")/.."

cat <<'END'
# Operators

Made from `include/lockstep/ops.def` by `make docs`; do not edit.

- **Kind**: *kernel* runs on the device; *view* makes a new view of the same memory; *built* is put together from other
  operators; *grad* is called by gradients only; *update* writes its inputs in place; *collective* is run by several
  processes together.
- **Autocast**: what a mixed-precision scope does to floating inputs. *half* casts them to the scope's type, *f32*
  widens them, *widest* brings all to the widest among them, *same* leaves them alone.
- **Gradient**: *own* where the operator has a gradient of its own, *parts* where it follows from the operators it is
  built from; empty where there is none.
END

awk '
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
        gradient = column[4] != "none" ? "own" : column[2] == "BUILT" ? "parts" : ""
        printf "| `%s` | %s | %s | %s | %s |\n", column[1], summary, tolower(column[2]), tolower(column[3]), gradient
    }' include/lockstep/ops.def
