#!/bin/sh
# libtpu.sh FOLDER - Google's compiler for TPUs from PyPI, for make test-tpu. It needs no TPU.
#
# Its licence is not ours to give: whoever calls this accepts Google's terms. It must not be passed on, neither in
# packages nor in what a build leaves behind for others. Silent when it is there already; exit status 77, with the
# reason, where it is unavailable.
set -eu
folder=$1
library=libtpu/libtpu.so
[ ! -f "$folder/$library" ] || exit 0
echo "libtpu: fetching it from PyPI (205 MB). It is Google's, under the agreement for Google Cloud Platform"
echo "libtpu: (https://cloud.google.com/terms), which you accept by using it. Do not redistribute it."
why=$("$(dirname "$0")/wheel.sh" "$folder" $library libtpu==0.0.51 \
    aeb662a3174a89fd9a94ac64c965a72f43c65436f5546abbcb8968c9d9552631 \
    --platform manylinux_2_31_x86_64 --python-version 3.12 --implementation cp --abi cp312) ||
    { echo "programs are not compiled for TPUs: $why"; exit 77; }
