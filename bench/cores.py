"""cores.py BUILD [--before BUILD] [--cores N] [--seconds S] [filter ...] - compare one core with one core where others share
the machine.

On such a machine the same program may take half as long again a second later, and no pair of values tells 2 %. But a
disturbance does not last, nor does it meet all cores: here every core has its own Lockstep, another build of it and PyTorch,
which measure one item after the other in turn, and the best of all values of all cores counts. The same program twice then
agrees within 1 to 3 %, the more the shorter its calls are. Cores measure at the same time and share caches and memory, so
items that wait for these are slower than alone. `python3 bench/run.py` compares all cores of a machine that has none but you."""
import argparse
import os
import pathlib
import subprocess
import threading
import time

import peers

options = argparse.ArgumentParser(usage=__doc__.splitlines()[0].partition(" - ")[0])
options.add_argument("build", type=pathlib.Path)
options.add_argument("--before", type=pathlib.Path)
options.add_argument("--cores", type=int, default=max(1, len(os.sched_getaffinity(0)) - 2))
options.add_argument("--seconds", type=float, default=120)
options.add_argument("filter", nargs="*", default=[""])
chosen = options.parse_intermixed_args()
cores = sorted(os.sched_getaffinity(0))[:chosen.cores]
python = peers.torch_python("python3")
ONE = {**peers.TUNED, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def program(build):
    return str(build.resolve() / "bench" / "lockstep_bench")


def on(core, *command):
    return ["taskset", "-c", str(core), *command]


def competitors(core):
    """Who -> its server on that core."""
    commands = {"lockstep": [program(chosen.build)]}
    if chosen.before:
        commands["before"] = [program(chosen.before)]
    if python:
        commands["torch"] = [python, str(peers.here / "torch_peer.py")]
    return {who: peers.Server(on(core, *command), **ONE) for who, command in commands.items()}


listed = subprocess.run(on(cores[0], program(chosen.build), "--list"), check=True, capture_output=True, text=True).stdout
items = [line.split("\t") for line in listed.splitlines() if not line.startswith(("peak/", "comm/"))]
items = [(name, unit) for name, unit, _, threads in items if threads == "1" and any(f in name for f in chosen.filter)]
values = {name: {} for name, _ in items}  # name -> who -> all its values
end = time.monotonic() + chosen.seconds


def measure(number, core):
    """Ask the servers of a core in turn until time is over; cores begin with different items, and rounds with different
    servers."""
    servers = list(competitors(core).items())
    at = number * len(items) // len(cores)
    while time.monotonic() < end:
        name = items[at % len(items)][0]
        for who, server in servers:
            value = server.ask(name)
            if value is not None:
                values[name].setdefault(who, []).append(value)
        servers = servers[1:] + servers[:1]
        at += 1
    for _, server in servers:
        server.end()


workers = [threading.Thread(target=measure, args=pair) for pair in enumerate(cores)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(f"{'item':50} {'unit':8} {'lockstep':>9}   others (lockstep is N times as fast), on {len(cores)} cores")
for name, unit in items:
    lower = unit in ("ms", "ns")
    best = {who: (min if lower else max)(values[name][who]) for who in ("lockstep", "before", "torch") if who in values[name]}
    mine = best.pop("lockstep", None)
    if mine is None:
        print(f"{name:50} was not reached: more --seconds")
        continue
    print(f"{name:50} {unit:8} {mine:9.4g}   " +
          "  ".join(f"{who} {value:.4g} ({value / mine if lower else mine / value:.2f}x)" for who, value in best.items()) +
          f"  [best of {min(map(len, values[name].values()))}]")
