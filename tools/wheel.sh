#!/bin/sh
# wheel.sh FOLDER FILE PACKAGE==VERSION SHA256 [options of pip download] - a library out of a wheel of PyPI: FOLDER/FILE.
#
# Nothing is left of an interrupted call. Exit status 77, with the reason as the only line, where it is unavailable.
set -eu
folder=$1
file=$2
package=$3
sum=$4
shift 4
skip()
{
    echo "$1"
    exit 77
}
python3 -m pip --version >/dev/null 2>&1 || skip "pip is not installed"
rm -rf "$folder/new"
mkdir -p "$folder/new"
python3 -m pip --disable-pip-version-check --timeout 10 --retries 1 download -q --no-deps --only-binary=:all: "$@" \
    -d "$folder/new" "$package" >"$folder/log" 2>&1 || skip "$(tail -n 1 "$folder/log")"
wheel=$(ls "$folder"/new/*.whl)
echo "$sum  $wheel" | sha256sum -c --quiet - >/dev/null 2>&1 || skip "$(basename "$wheel") has another SHA-256"
python3 -m zipfile -e "$wheel" "$folder/new/unpacked"
top=${file%%/*}
rm -rf "${folder:?}/$top"
mv "$folder/new/unpacked/$top" "$folder/$top" # when the library is there, it is whole
rm -r "$folder/new"
