"""cores.py BUILD [--before BUILD] [--cores N] [--each N] [--seconds S] [filter ...] - compare on one core, or a few, where
others share the machine.

On such a machine the same program may take half as long again a second later, and no pair of values tells 2 %. But a
disturbance does not last, nor does it meet all cores: here every core, or every EACH of them, has its own Lockstep, another
build of it and PyTorch, which measure one item after the other in turn, and the best of all values counts. The same program
twice then agrees within 1 to 3 %, the more the shorter its calls are. In parentheses: how many times as fast Lockstep is by
the best values, and by the medians, which also tell who suffers more from company. Cores measure at the same time and share
caches and memory, so items that wait for these are slower than alone. `python3 bench/run.py` compares all cores of a machine
that has none but you."""
import argparse
import os
import pathlib
import statistics
import subprocess
import threading
import time

import load
import peers

options = argparse.ArgumentParser(usage=__doc__.splitlines()[0].partition(" - ")[0])
options.add_argument("build", type=pathlib.Path)
options.add_argument("--before", type=pathlib.Path)
options.add_argument("--cores", type=int, default=max(1, len(os.sched_getaffinity(0)) - 2))
options.add_argument("--each", type=int, default=1)
options.add_argument("--seconds", type=float, default=120)
options.add_argument("filter", nargs="*", default=[""])
chosen = options.parse_intermixed_args()
cores = sorted(os.sched_getaffinity(0))[:max(chosen.cores, chosen.each)]
places = [cores[at:at + chosen.each] for at in range(0, len(cores) - chosen.each + 1, chosen.each)]
python = peers.torch_python("python3")
WIDE = {**peers.TUNED, "OMP_NUM_THREADS": str(chosen.each), "MKL_NUM_THREADS": str(chosen.each)}


def program(build):
    return str(build.resolve() / "bench" / "lockstep_bench")


def at_place(place, *command):
    return ["taskset", "-c", ",".join(map(str, place)), *command]


def competitors(place):
    """Who -> its server there."""
    commands = {"lockstep": [program(chosen.build)]}
    if chosen.before:
        commands["before"] = [program(chosen.before)]
    if python:
        commands["torch"] = [python, str(peers.here / "torch_peer.py")]
    return {who: peers.Server(at_place(place, *command), hello="overhead/f32/nothing/1", **WIDE)
            for who, command in commands.items()}


listed = subprocess.run(at_place(places[0], program(chosen.build), "--list"), check=True, capture_output=True, text=True).stdout
items = [line.split("\t") for line in listed.splitlines() if not line.startswith(("peak/", "comm/"))]
items = [(name, unit) for name, unit, _, threads in items
         if threads == str(chosen.each) and any(f in name for f in chosen.filter)]
values = {name: {} for name, _ in items}  # name -> who -> all its values
load.take_priority()
end = time.monotonic() + chosen.seconds


def measure(number, place):
    """Ask the servers of a place in turn until time is over; places begin with different items, and rounds with different
    servers."""
    servers = list(competitors(place).items())
    for _, server in servers:
        server.load()
    at = number * len(items) // len(places)
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


workers = [threading.Thread(target=measure, args=pair) for pair in enumerate(places)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(f"{'item':50} {'unit':8} {'lockstep':>9}   others (lockstep is N times as fast: best, median), "
      f"on {len(places)} x {chosen.each} cores")
for name, unit in items:
    lower = unit in ("ms", "ns")
    of = values[name]
    if "lockstep" not in of:
        print(f"{name:50} was not reached: more --seconds")
        continue

    def times(other, take):
        mine, theirs = take(of["lockstep"]), take(of[other])
        return theirs / mine if lower else mine / theirs

    best = min if lower else max
    print(f"{name:50} {unit:8} {best(of['lockstep']):9.4g}   " +
          "  ".join(f"{who} {best(of[who]):.4g} ({times(who, best):.2f}x, {times(who, statistics.median):.2f}x)"
                    for who in ("before", "torch") if who in of) +
          f"  [best of {min(map(len, of.values()))}]")
