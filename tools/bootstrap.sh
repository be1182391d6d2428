#!/bin/sh
# bootstrap.sh GROUP... - install what is missing on Debian or Ubuntu: groups build, test, bench, fuzz, format, tidy,
# deb.
#
# Silent when nothing is missing. Otherwise says what it installs, asks nothing, and needs to be root or to have sudo
# without a password. Where it cannot install, it names the packages; only what the build itself needs is fatal.
set -eu

required=
optional=

# need PATH PACKAGE... - the packages that bring a command or file that must be there
need()
{
    { command -v "$1" || test -e "$1"; } >/dev/null 2>&1 && return
    shift
    required="$required $*"
}

# want PATH PACKAGE... - the same for one without which some features, tests or rivals are left out
want()
{
    { command -v "$1" || test -e "$1"; } >/dev/null 2>&1 && return
    shift
    optional="$optional $*"
}

for group in "$@"; do
    case $group in
    build)
        need cc gcc libc6-dev
        need cmake cmake
        need ninja ninja-build
        need pkg-config pkg-config
        want /usr/include/jpeglib.h libjpeg-dev
        want /usr/include/png.h libpng-dev
        want /usr/include/zlib.h zlib1g-dev
        want /usr/include/zmq.h libzmq3-dev # notebooks
        want /usr/include/ucp/api/ucp.h libucx-dev # between hosts: without it the tests of training there are skipped
        ;;
    test)
        want c++ g++
        want python3 python3
        python3 -m pip --version >/dev/null 2>&1 || optional="$optional python3-pip" # fetches Jupyter and tokenizers
        want ip iproute2 # several hosts on one machine: without it their tests are skipped
        want mpiexec.hydra mpich # both: 16 MB to fetch, 85 MB on the disk
        want mpirun.openmpi openmpi-bin
        want mpicc.openmpi libopenmpi-dev # both: 8 MB to fetch, 62 MB on the disk
        want mpicc.mpich libmpich-dev
        want clang-format clang-format
        want node nodejs # runs Perfetto; 22 MB to fetch, 95 MB on the disk
        case $(uname -m) in
        aarch64)
            want x86_64-linux-gnu-gcc gcc-x86-64-linux-gnu
            want /usr/x86_64-linux-gnu/include/stdio.h libc6-dev-amd64-cross
            want qemu-x86_64 qemu-user
            ;;
        x86_64)
            want aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
            want /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
            want qemu-aarch64 qemu-user
            ;;
        esac
        ;;
    bench)
        want "/usr/include/$(uname -m)-linux-gnu/cblas.h" libopenblas-dev
        want mpicc.mpich libmpich-dev mpich
        want mpicc.openmpi libopenmpi-dev openmpi-bin
        want ip iproute2
        need python3 python3
        ;;
    fuzz)
        want clang clang
        want "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null || echo none)" libclang-rt-14-dev
        ;;
    deb)
        need dh debhelper
        need dpkg-buildpackage dpkg-dev
        need fakeroot fakeroot
        need lintian lintian
        need mpicc.openmpi libopenmpi-dev
        need mpicc.mpich libmpich-dev
        need /usr/include/jpeglib.h libjpeg-dev
        need /usr/include/png.h libpng-dev
        need /usr/include/zlib.h zlib1g-dev
        need /usr/include/zmq.h libzmq3-dev
        need /usr/include/ucp/api/ucp.h libucx-dev
        ;;
    format) need clang-format clang-format ;;
    tidy) need clang-tidy clang-tidy ;;
    *)
        echo "bootstrap: no group $group" >&2
        exit 2
        ;;
    esac
done

packages=$(echo $required $optional)
[ -n "$packages" ] || exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if ! command -v apt-get >/dev/null 2>&1; then
    problem="there is no apt-get here"
elif [ -n "$as_root" ] && ! sudo -n true 2>/dev/null; then
    problem="not root, and sudo is missing or wants a password"
else
    problem="apt-get failed"
    echo "bootstrap: installing $packages"
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if $apt update >"$log" 2>&1 && $apt install -y --no-install-recommends $packages >"$log" 2>&1; then
        touch "$(dirname "$0")/../CMakeLists.txt" # folders that are configured look again for what is there now
        exit 0
    fi
    cat "$log" >&2
fi

echo "bootstrap: cannot install packages: $problem" >&2
echo "bootstrap: missing, by their Debian names: $packages" >&2
echo "bootstrap: on Debian or Ubuntu: sudo apt-get install $packages" >&2
[ -z "$required" ] || exit 1
echo "bootstrap: going on without: what needs them is skipped" >&2
