#!/bin/sh
# format.sh [--check] - lay out all C sources with clang-format; --check only names those that differ.
# Tables (*.def) are aligned by hand and left alone.
set -eu
cd "$(dirname "$0")/.."

folders=$(for folder in include src plugins cli notebook examples tests bench; do [ ! -d $folder ] || echo $folder; done)
files=$(find $folders -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh')
if [ "${1:-}" = --check ]; then
    clang-format --dry-run --Werror $files
else
    clang-format -i $files
fi
