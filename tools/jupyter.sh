#!/bin/sh
# jupyter.sh FOLDER - Jupyter's client, nbconvert and conformance suite from PyPI, for the tests of notebooks.
#
# Silent when they are there already; exit status 77, with the reason, where they cannot be had.
set -eu
folder=$1
[ ! -d "$folder/jupyter_kernel_test" ] || exit 0
python3 -m pip --version >/dev/null 2>&1 || { echo "notebooks are not tested: pip is not installed"; exit 77; }
rm -rf "$folder"
mkdir -p "$folder"
echo "jupyter: fetching jupyter_client, nbconvert and jupyter_kernel_test from PyPI (15 MB)"
python3 -m pip --disable-pip-version-check --timeout 10 --retries 1 install -q --target "$folder/new" \
    jupyter_client==8.10.0 nbconvert==7.17.2 jupyter_kernel_test==0.7.0 >"$folder/log" 2>&1 ||
    { echo "notebooks are not tested: $(tail -n 1 "$folder/log")"; exit 77; }
mv "$folder"/new/* "$folder" # only when all of it is there
rmdir "$folder/new"
