#!/bin/sh
# hf_tokenizers.sh FOLDER - Hugging Face's tokenizers from PyPI, for the test that compares ours with it.
#
# Silent when it is there already; exit status 77, with the reason, where it cannot be had.
set -eu
folder=$1
[ ! -d "$folder/tokenizers" ] || exit 0
python3 -m pip --version >/dev/null 2>&1 || { echo "the tokenizer is not compared: pip is not installed"; exit 77; }
mkdir -p "$folder"
echo "hf_tokenizers: fetching tokenizers from PyPI (3 MB)"
python3 -m pip --disable-pip-version-check --timeout 10 --retries 1 install -q --no-deps --target "$folder" \
    tokenizers==0.23.3 >"$folder/log" 2>&1 || { echo "the tokenizer is not compared: $(tail -n 1 "$folder/log")"; exit 77; }
