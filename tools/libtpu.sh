#!/bin/sh
# libtpu.sh FOLDER - Google's compiler for TPUs from PyPI, for make test-tpu. It needs no TPU.
#
# Its licence is not ours to give: whoever calls this accepts Google's terms. It must not be passed on, neither in
# packages nor in what a build leaves behind for others. Silent when it is there already; exit status 77, with the
# reason, where it is unavailable.
set -eu
folder=$1
[ ! -f "$folder/libtpu/libtpu.so" ] || exit 0
skip()
{
    echo "programs are not compiled for TPUs: $1"
    exit 77
}
python3 -m pip --version >/dev/null 2>&1 || skip "pip is not installed"
mkdir -p "$folder"
echo "libtpu: fetching it from PyPI (205 MB). It is Google's, under the agreement for Google Cloud Platform"
echo "libtpu: (https://cloud.google.com/terms), which you accept by using it. Do not redistribute it."
python3 -m pip --disable-pip-version-check --timeout 10 --retries 1 download -q --no-deps --only-binary=:all: \
    --platform manylinux_2_31_x86_64 --python-version 3.12 --implementation cp --abi cp312 -d "$folder" \
    libtpu==0.0.51 >"$folder/log" 2>&1 || skip "$(tail -n 1 "$folder/log")"
wheel=$(ls "$folder"/libtpu-*.whl)
python3 -m zipfile -e "$wheel" "$folder"
rm "$wheel"
