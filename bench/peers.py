"""peers.py - the competitors. A peer answers `ask(name)` with a value, or None if it has none; `takes(name)` says whether it
supports an item. All of them run until `end()`.

Servers load once and read questions as lines on stdin. MPIs are started for every value."""
import os
import pathlib
import shutil
import subprocess
import sys

here = pathlib.Path(__file__).parent
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_ARENA_MAX": "1"}
# How often small all-reduces are repeated for one value, as in comm.c.
REPEAT = {"1 MiB": 4, "64 KiB": 20, "4 KiB": 100}
UNITS = {"MB": 10**6, "MiB": 1 << 20, "KiB": 1 << 10}


class Server:
    """A server process that answers lines."""

    def __init__(self, command, takes=lambda name: True, hello="nothing", **extra):
        self.takes = takes
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **extra})
        self.hello = hello

    def ask(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        return float(answer) if answer not in ("", "-") else None

    def load(self):
        self.ask(self.hello)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Mpi:
    """All-reduce with this MPI implementation, or with oneCCL between its processes; MPI has no bf16."""

    def __init__(self, build, flavour, compiler, launcher, libraries=(), half=False, **extra):
        self.program = build / "bench" / f"mpi_peer_{flavour}"
        self.command = [*launcher, "-n", "2", str(self.program)]
        self.environment = {**os.environ, **extra}
        self.items = tuple(f"comm/{dtype}/all-reduce" for dtype in (["f32", "bf16"] if half else ["f32"]))
        subprocess.run([*compiler, "-O2", "-o", str(self.program), str(here / "mpi_peer.c"), *libraries], check=True)

    def takes(self, name):
        return name.startswith(self.items)

    def ask(self, name):
        dtype, (size, unit) = name.split("/")[1], name.split("/")[2].split()[1:3]
        count = int(size) * UNITS[unit]
        done = subprocess.run([*self.command, str(count), str(REPEAT.get(f"{size} {unit}", 1)), "0.25", dtype],
                              capture_output=True, text=True, timeout=120, env=self.environment)
        if done.returncode:
            return None
        seconds = float(done.stdout.split()[-1])
        return seconds * 1e9 if unit == "KiB" else count * 1e-9 / seconds

    def load(self):
        pass

    def end(self):
        pass


def python_with(module, *candidates):
    """The first of these interpreters that has a module."""
    for python in candidates:
        if python and shutil.which(python) and not subprocess.run([python, "-c", f"import {module}"],
                                                                  capture_output=True).returncode:
            return python


def torch_python(current):
    """An interpreter that has PyTorch."""
    return python_with("torch", os.environ.get("PYTHON_TORCH"), current)


def intel(build):
    """Intel MPI and oneCCL from pip (impi-devel, oneccl-devel), beside the interpreter of PyTorch or of its extension."""
    found = {}
    for python in (os.environ.get("PYTHON_TORCH"), os.environ.get("PYTHON_IPEX")):
        root = pathlib.Path(python).parent.parent if python else pathlib.Path("/nowhere")
        libraries, launcher, ccl = root / "lib", root / "bin" / "mpiexec.hydra", root / "include" / "oneapi" / "ccl.h"
        if not launcher.exists() or not (root / "include" / "mpi.h").exists() or not (libraries / "libmpi.so.12").exists():
            continue
        options = [f"-I{root / 'include'}", f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed"]
        settings = {"I_MPI_ROOT": str(root), "I_MPI_FABRICS": "shm", "I_MPI_PIN_DOMAIN": "core"}
        mpi = str(libraries / "libmpi.so.12")
        if "intel mpi" not in found:
            found["intel mpi"] = Mpi(build, "intel", ["cc", *options], [str(launcher)], [mpi], **settings)
        if "oneccl" not in found and ccl.exists():  # its header is C++; it finds its parts by the path of libraries
            found["oneccl"] = Mpi(build, "oneccl", ["c++", "-DWITH_ONECCL", *options, "-x", "c++"], [str(launcher)],
                                  ["-x", "none", mpi, str(libraries / "libccl.so.2")], half=True, CCL_ROOT=str(root),
                                  CCL_PLUGIN="ONECCL_LEGACY_CPU", LD_LIBRARY_PATH=str(libraries), **settings)
    return found


def find(build, python, all_threads, say):
    """Lockstep first, then all others that are installed; `say` reports the missing ones."""
    program = str(build / "bench" / "lockstep_bench")
    peers = {"lockstep": Server([program]),
             "openblas": Server([program, "--openblas"], lambda name: name.startswith("gemm/f32"))}
    for flavour, launcher in {"mpich": ["mpiexec.hydra"], "openmpi": ["mpirun.openmpi", "--allow-run-as-root",
                                                                     "--oversubscribe"]}.items():
        if shutil.which(f"mpicc.{flavour}") and shutil.which(launcher[0]):
            peers[flavour] = Mpi(build, flavour, [f"mpicc.{flavour}"], [*launcher, "--bind-to", "core"])
        else:
            say(f"{flavour} is not installed (Debian's lib{flavour}-dev and {'mpich' if flavour == 'mpich' else 'openmpi-bin'})")

    peers.update(intel(build))
    for name, package in {"intel mpi": "impi-devel", "oneccl": "oneccl-devel"}.items():
        if name not in peers:
            say(f"{name} is not installed (pip install {package} beside PYTHON_TORCH or PYTHON_IPEX)")

    def torch_takes(name):
        # PyTorch's kernels use all cores regardless of settings, so it takes part only if all of them are used;
        # torchvision decodes in one thread.
        threads = name.rsplit("/", 1)[1]
        if name.startswith(("peak/", "tokenize/")):
            return False
        return threads == ("1" if name.startswith("image/") else all_threads) or name.startswith("overhead/")
    if python:
        script = [python, str(here / "torch_peer.py")]
        peers["torch"] = Server(script, torch_takes, "overhead/f32/nothing/1")
        # Memory settings do not help gloo.
        peers["torch tuned"] = Server(script, lambda name: torch_takes(name) and not name.startswith("comm/"),
                                      "overhead/f32/nothing/1", **TUNED)
    ipex = python_with("intel_extension_for_pytorch", os.environ.get("PYTHON_IPEX"))
    if ipex:
        computes = ("attention", "block", "conv", "gemm", "model")
        peers["ipex"] = Server([ipex, str(here / "torch_peer.py"), "--ipex"],
                               lambda name: torch_takes(name) and name.split("/")[0] in computes, "overhead/f32/nothing/1", **TUNED)
    else:
        say("Intel's extension for PyTorch is not here (PYTHON_IPEX names an interpreter that has intel-extension-for-pytorch)")
    tokenizers = python_with("tokenizers", os.environ.get("PYTHON_TOKENIZERS"), sys.executable)
    if tokenizers:
        peers["tokenizers"] = Server([tokenizers, str(here / "tokenizers_peer.py")],
                                     lambda name: name.startswith("tokenize/") and name.endswith("/1"),
                                     RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    else:
        say("tokenizers is not installed (pip install tokenizers; PYTHON_TOKENIZERS names another interpreter)")
    if not python:
        say("PyTorch is not installed (pip install torch; PYTHON_TORCH names another interpreter)")
    return peers


def items(build):
    """The items of lockstep_bench: name, unit, peak to compare with, threads."""
    return [line.split("\t") for line in subprocess.run([str(build / "bench" / "lockstep_bench"), "--list"], check=True,
                                                        capture_output=True, text=True).stdout.splitlines()]
