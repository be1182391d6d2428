"""run.py BUILD [--quick] [filter ...] - measure Lockstep and its peers in turn, print a table, write BUILD/bench.json.

Each competitor is a process of its own that is asked for one item at a time, all of them in turn, several rounds; the
best value of each counts. Peers are OpenBLAS, and PyTorch as it comes and with its memory settings tuned, where `import
torch` works (PYTHON_TORCH names another interpreter to try)."""
import json
import os
import pathlib
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
quick = "--quick" in sys.argv
filters = [a for a in sys.argv[2:] if not a.startswith("--")]
rounds = 1 if quick else 3
program = str(build / "bench" / "lockstep_bench")
here = pathlib.Path(__file__).parent
tuned = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_ARENA_MAX": "1"}


def torch_python():
    for python in (os.environ.get("PYTHON_TORCH"), sys.executable):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python


def server(command, **extra):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, **extra})


def ask(process, name):
    process.stdin.write(name + "\n")
    process.stdin.flush()
    answer = process.stdout.readline().strip()
    return float(answer) if answer not in ("", "-") else None


items = [line.split("\t") for line in subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
         .stdout.splitlines()]
items = [i for i in items if i[0].startswith("peak/") or not filters or any(f in i[0] for f in filters)]
python = torch_python()
lockstep, openblas = server([program]), server([program, "--openblas"])
torches = {}
if python:
    script = str(here / "torch_peer.py")
    torches = {"torch": server([python, script]), "torch tuned": server([python, script], **tuned)}
else:
    print("PyTorch is not here (pip install torch brings it): measuring without it", file=sys.stderr)

# Everyone has loaded before anything is measured. PyTorch's kernels take all cores whatever it is told, so it takes
# part only where all of them are used.
for process in [lockstep, openblas, *torches.values()]:
    ask(process, "overhead/f32/nothing/1" if process in torches.values() else "nothing")
all_threads = max((i[3] for i in items), key=int)

peaks, results = {}, []
print(f"{'item':58} {'unit':8} {'lockstep':>9} {'of peak':>8}   peers (lockstep is N times as fast)")
for name, unit, peak, threads in items:
    lower_is_better = unit in ("ms", "ns")
    pick = min if lower_is_better else max
    competitors = {"lockstep": lockstep}
    if not name.startswith("peak/"):
        if name.startswith("gemm/f32"):
            competitors["openblas"] = openblas
        if name.startswith("image/"):  # torchvision decodes in one thread
            competitors.update(torches if threads == "1" else {})
        elif threads == all_threads or name.startswith("overhead/"):
            competitors.update(torches)
    best = {}
    for _ in range(rounds):
        for who, process in competitors.items():
            value = ask(process, name)
            if value is not None:
                best[who] = pick(best[who], value) if who in best else value
    mine = best.pop("lockstep", None)
    if mine is None:
        print(f"{name:58} could not be measured")
        continue
    if name.startswith("peak/"):
        peaks[peak, threads] = mine
    roof = peaks.get((peak, threads))
    fraction = mine / roof if roof and not name.startswith("peak/") else None
    ratios = {who: (value / mine if lower_is_better else mine / value) for who, value in best.items()}
    results.append({"name": name, "unit": unit, "lockstep": mine, "peers": best, "fraction_of_peak": fraction})
    share = f"{fraction:8.0%}" if fraction else " " * 8
    print(f"{name:58} {unit:8} {mine:9.4g} {share}   " +
          "  ".join(f"{who} {value:.4g} ({ratios[who]:.2f}x)" for who, value in best.items()), flush=True)

(build / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
for process in [lockstep, openblas, *torches.values()]:
    process.stdin.close()
    process.wait()
print(f"written: {build / 'bench.json'}")
