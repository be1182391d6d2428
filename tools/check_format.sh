#!/bin/sh
# check_format.sh - `make format` would change nothing. Checked with version 14 of clang-format only: others lay out
# some lines differently. What must hold everywhere, the width of lines and tabs, is up to check_files.sh.
set -eu
cd "$(dirname "$0")/.."

clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "clang-format 14 is missing"; exit 77; }
tools/format.sh --check
