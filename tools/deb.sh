#!/bin/sh
# deb.sh FOLDER - build the Debian packages of this tree into FOLDER, and let lintian look at them: an error of its is one.
#
# Where cmake/cuda.cmake would find nvcc, the plug-in for GPUs is among them, unless CUDA=no. Works on a copy in
# FOLDER/lockstep, which is kept, so that the next call compiles only what changed.
set -eu
cd "$(dirname "$0")/.."
folder=$1
tree=$folder/lockstep
files=$folder/files.txt # of the copy, as of the last call
export LC_ALL=C
[ -f "$files" ] || rm -rf "$tree"
rm -rf "$tree/debian" # with it the stamps of the build before
mkdir -p "$tree"

version=$(sed -n 's/^#define LS_VERSION_[A-Z]* *\([0-9]*\)$/\1/p' include/lockstep/version.h | paste -sd .)
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z --deleted | sort -zu >"$files.deleted"
    git ls-files -z --cached --others --exclude-standard | sort -zu | comm -z -23 - "$files.deleted" >"$files.new"
    rm "$files.deleted"
else
    find . -path ./build -prune -o -type f -print0 | sort -z >"$files.new"
fi
[ ! -f "$files" ] || comm -z -23 "$files" "$files.new" | (cd "$tree" && xargs -0r rm -f --)
tar c --null -T "$files.new" -f "$folder/tree.tar"
tar x -C "$tree" -f "$folder/tree.tar"
rm "$folder/tree.tar"
mv "$files.new" "$files"
cat >"$tree/debian/changelog" <<END
lockstep ($version) UNRELEASED; urgency=medium

  * CHANGELOG.md says what is new.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(LC_ALL=C date -uR -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")
END

has_nvcc()
{
    PATH=$PATH:${CUDA_PATH:-}/bin:${CUDA_HOME:-}/bin:/usr/local/cuda/bin
    command -v "${CUDACXX:-nvcc}" >/dev/null
}
profiles=
[ "${CUDA:-yes}" = no ] || ! (has_nvcc) || profiles=-Ppkg.lockstep.cuda
rm -f "$folder"/*.deb "$folder"/*.changes "$folder"/*.buildinfo
log=$folder/log.txt
(cd "$tree" && dpkg-buildpackage -b -nc -us -uc $profiles) >"$log" 2>&1 || { tail -40 "$log"; exit 1; }
lintian --fail-on error --tag-display-limit 0 "$folder"/lockstep_*.changes
ls -l "$folder"/*.deb
