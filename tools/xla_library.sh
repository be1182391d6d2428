#!/bin/sh
# xla_library.sh FOLDER - XLA for the CPU from PyPI, for the tests of device xla.
#
# Silent when it is there already; exit status 77, with the reason, where it is unavailable.
set -eu
folder=$1
library=xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so
[ ! -f "$folder/$library" ] || exit 0
machine=$(uname -m)
case $machine in
x86_64) sum=55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc ;;
aarch64) sum=8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9 ;;
*) echo "device xla is not tested: there is no xla-cpu-pjrt for $machine" && exit 77 ;;
esac
echo "xla_library: fetching xla-cpu-pjrt from PyPI (60 MB)"
why=$("$(dirname "$0")/wheel.sh" "$folder" $library xla-cpu-pjrt==0.0.1 "$sum" --platform "manylinux_2_27_$machine") ||
    { echo "device xla is not tested: $why"; exit 77; }
