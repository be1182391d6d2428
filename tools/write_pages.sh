#!/bin/sh
# write_pages.sh LOCKSTEP FOLDER - write the manual pages and completion scripts of the command as they are installed,
# into FOLDER/share.
set -eu
lockstep=$1
share=$2/share
rm -rf "$share"
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d"

"$lockstep" help --man >"$share/man/man1/lockstep.1"
for name in $("$lockstep" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    "$lockstep" help --man "$name" >"$share/man/man1/lockstep-$name.1"
done
"$lockstep" completion bash >"$share/bash-completion/completions/lockstep"
"$lockstep" completion zsh >"$share/zsh/vendor-completions/_lockstep"
"$lockstep" completion fish >"$share/fish/vendor_completions.d/lockstep.fish"
