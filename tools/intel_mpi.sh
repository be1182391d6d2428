#!/bin/sh
# intel_mpi.sh FOLDER - Intel MPI's runtime from PyPI, for the tests: FOLDER/mpiexec starts processes under it.
#
# Takes what starts processes and carries their messages, some 50 MB of 320. The plug-in for MPICH finds Intel's library by
# the name of MPICH's, whose interface it has. Silent when it is there already; exit status 77, with the reason, where it
# cannot be had.
set -eu
folder=$1
[ ! -x "$folder/mpiexec" ] || exit 0
[ "$(uname -m)" = x86_64 ] || { echo "Intel MPI is made for x86-64 only"; exit 77; }
python3 -m pip --version >/dev/null 2>&1 || { echo "Intel MPI is not tested: pip is not installed"; exit 77; }

rm -rf "$folder"
mkdir -p "$folder/wheels" "$folder/bin" "$folder/lib"
echo "intel_mpi: fetching impi-rt from PyPI (130 MB)"
python3 -m pip --disable-pip-version-check --timeout 10 --retries 1 download -q --no-deps --dest "$folder/wheels" \
    impi-rt==2021.18.1 >"$folder/log" 2>&1 || { echo "Intel MPI is not tested: $(tail -n 1 "$folder/log")"; exit 77; }

python3 - "$folder" <<'PYTHON'
import glob, os, re, sys, zipfile
wanted = re.compile(r"\.data/data/(bin/(?:mpiexec\.hydra|hydra_\w+)|opt/mpi/etc/.*"
                    r"|lib/lib(?:mpi\.so\.12|fabric\.so\.1|tcp-fi\.so|shm-fi\.so|rxm-fi\.so))$")
for wheel in glob.glob(sys.argv[1] + "/wheels/*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            match = wanted.search(name)
            if not match or name.endswith("/"):
                continue
            path = os.path.join(sys.argv[1], match.group(1))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as to:
                to.write(archive.read(name))
            os.chmod(path, 0o755)
PYTHON
rm -r "$folder/wheels"
ln -sf libmpi.so.12 "$folder/lib/libmpich.so.12"
here=$(cd "$folder" && pwd)
cat >"$folder/mpiexec" <<EOF
#!/bin/sh
export I_MPI_ROOT="$here" FI_PROVIDER_PATH="$here/lib" LD_LIBRARY_PATH="$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "$here/bin/mpiexec.hydra" "\$@"
EOF
chmod +x "$folder/mpiexec"
