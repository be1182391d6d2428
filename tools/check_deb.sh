#!/bin/sh
# check_deb.sh BUILD - every file that an installation of this build has is in exactly one Debian package, so that
# `make deb` neither fails nor leaves something out, and installs what the packages need to be built. Building them takes
# longer than a test may.
set -eu
build=$1
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR=$work/tree cmake --install "$build" --prefix /usr >"$work/log" || { cat "$work/log"; exit 1; }
(cd "$work/tree" && find . \( -type f -o -type l \) | sed 's,^\./,,; s,^usr/lib/\(cmake\|pkgconfig\|lockstep\|liblockstep\),usr/lib/any/\1,; s,^usr/lib64/,usr/lib/any/,') >"$work/files"

status=0
while read -r file; do
    packages=
    for list in debian/*.install; do
        while read -r pattern; do
            case $file in $pattern | $pattern/*) packages="$packages $(basename "$list" .install)" ;; esac
        done <"$list"
    done
    [ "$(echo $packages | wc -w)" = 1 ] || { echo "$file: in packages:${packages:- none}"; status=1; }
done <"$work/files"
for list in debian/*.install; do
    grep -q "^Package: $(basename "$list" .install)$" debian/control || { echo "$list: no such package in control"; status=1; }
done
needed=$(sed '/^Standards-Version:/,$d; /^Build-Depends:\|^ /!d; s/^Build-Depends://; s/([^)]*)//g; s/,//g' debian/control)
for package in $needed; do
    grep -qw -- "${package%-compat}" tools/bootstrap.sh || { echo "$package: tools/bootstrap.sh does not install it"; status=1; }
done

# XLA is opened while a program runs: a package that needed more than the C library could not be installed everywhere.
plugin=$(find "$work/tree" -name liblockstep-xla.so)
needed=$(objdump -p "$plugin" | sed -n 's/^ *NEEDED *//p' | grep -v '^lib\(c\|m\|dl\|pthread\)\.so\|^ld-linux' || true)
[ -z "$needed" ] || { echo "${plugin##*/} needs $needed"; status=1; }
exit $status
