#!/bin/sh
# xla_library.sh FOLDER - XLA for the CPU from PyPI, for the tests of device xla.
#
# Silent when it is there already; exit status 77, with the reason, where it is unavailable.
set -eu
folder=$1
[ ! -f "$folder/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so" ] || exit 0
skip()
{
    echo "device xla is not tested: $1"
    exit 77
}
python3 -m pip --version >/dev/null 2>&1 || skip "pip is not installed"
machine=$(uname -m)
case $machine in
x86_64) sum=55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc ;;
aarch64) sum=8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9 ;;
*) skip "there is no xla-cpu-pjrt for $machine" ;;
esac
mkdir -p "$folder"
echo "xla_library: fetching xla-cpu-pjrt from PyPI (60 MB)"
python3 -m pip --disable-pip-version-check --timeout 10 --retries 1 download -q --no-deps --only-binary=:all: \
    --platform "manylinux_2_27_$machine" -d "$folder" xla-cpu-pjrt==0.0.1 >"$folder/log" 2>&1 ||
    skip "$(tail -n 1 "$folder/log")"
wheel=$(ls "$folder"/xla_cpu_pjrt-*.whl)
echo "$sum  $wheel" | sha256sum -c --quiet - >/dev/null 2>&1 || skip "$wheel has another SHA-256"
rm -rf "$folder/new" "$folder/xla_plugins"
python3 -m zipfile -e "$wheel" "$folder/new" # beside: when the library is there, it is whole
mv "$folder/new/xla_plugins" "$folder/xla_plugins"
rm -r "$folder/new" "$wheel"
