"""run.py BUILD [--quick] [--polite] [filter ...] - benchmark Lockstep and its peers in turn, print a table, write BUILD/bench.json.

Only items are measured whose names contain a filter; rates of the machine itself (peak/) always are.

Each competitor measures one item at a time, in turn, and its best value counts. On a busy machine many values are too
low, so rounds go on for five seconds at least, and until three of them in a row have improved nobody's best by more
than a hundredth, but none begins after half a minute (with --quick, there is one). Peers (peers.py) are OpenBLAS,
MPICH, Open MPI, Intel MPI, oneCCL, PyTorch with its defaults and with tuned memory settings, and Intel's extension for
it, if they are installed. Whole commands (commands.py) are timed the same way: launchers, training with several
processes, sums between hosts. Everything runs with priority over other work on the machine if permitted (not with
--polite), and a row that was disturbed nevertheless is marked."""
import argparse
import json
import pathlib
import sys
import time

import commands
import load
import peers

parser = argparse.ArgumentParser(usage=__doc__.splitlines()[0].split(" - ")[0], allow_abbrev=False)
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("filters", nargs="*", default=[], metavar="filter")
parser.add_argument("--quick", action="store_true", help="one round of every item")
parser.add_argument("--polite", action="store_true", help="no priority over other work on this machine")
arguments = parser.parse_intermixed_args()
build, filters = arguments.build.resolve(), arguments.filters
if not (build / "bench" / "lockstep_bench").exists():
    sys.exit(f"run.py: {build} has no bench/lockstep_bench: `make bench` builds it")

SETTLED = 3  # rounds in a row without any better value that end a row
BETTER = 0.01  # improvements of less than that do not count
LEAST_SECONDS, MOST_SECONDS = (0, 0) if arguments.quick else (5, 30)  # that rounds of a row take
DISTURBED = 0.1  # fraction of a core taken by others above which a row is marked


def say(message):
    print(f"measuring without this peer: {message}", file=sys.stderr)


def wanted(items):
    return [i for i in items if i[0].startswith("peak/") or not filters or any(f in i[0] for f in filters)]


def in_rounds(pick, competitors):
    """The best value of every competitor that has one: who -> value; and the number of rounds."""
    best, last, settled, rounds, begin = {}, {}, 0, 0, time.monotonic()
    while not rounds or spent < LEAST_SECONDS or (settled < SETTLED and spent < MOST_SECONDS):
        settled, rounds = settled + 1, rounds + 1
        for who, value_of in competitors.items():
            value = value_of()
            if value is None:
                continue
            best[who] = pick(best.get(who, value), value)
            if who not in last or abs(best[who] - last[who]) > BETTER * last[who]:
                last[who], settled = best[who], 0
        spent = time.monotonic() - begin
    return best, rounds


peaks, results = {}, []


def row(name, unit, peak, threads, competitors):
    """Measure, print and keep one item; Lockstep's value."""
    lower_is_better = unit in ("ms", "ns")
    with load.Watch() as watch:
        best, rounds = in_rounds(min if lower_is_better else max, competitors)
    mine = best.pop("lockstep", None)
    if mine is None:
        print(f"{name:58} could not be measured")
        return
    if name.startswith("peak/"):
        peaks[peak, threads] = mine
    roof = peaks.get((peak, threads))
    fraction = mine / roof if roof and not name.startswith("peak/") else None
    ratios = {who: (value / mine if lower_is_better else mine / value) for who, value in best.items()}
    results.append({"name": name, "unit": unit, "lockstep": mine, "peers": best, "fraction_of_peak": fraction,
                    "others": round(watch.others, 2), "rounds": rounds})
    share = f"{fraction:8.0%}" if fraction else " " * 8
    print(f"{name:58} {unit:8} {mine:9.4g} {share} {rounds:6}   " +
          "  ".join(f"{who} {value:.4g} ({ratios[who]:.2f}x)" for who, value in best.items()) +
          (f"  [others took {watch.others:.0%} of a core]" if watch.others > DISTURBED else ""), flush=True)


items = peers.items(build)
python = peers.torch_python(sys.executable)
all_threads = max((i[3] for i in items), key=int)


def measure(items, priority):
    """Measure all of these with peers started for them. Items that start and wait for their own threads and processes must
    leave the system room to run these."""
    if all(i[0].startswith("peak/") for i in items):
        return
    if priority and not arguments.polite and not load.take_priority():
        print("measuring without priority over other work: that needs root", file=sys.stderr)
    everyone = peers.find(build, python, all_threads, say)
    for peer in everyone.values():
        peer.load()  # all peers load before anything is measured
    for name, unit, peak, threads in items:
        row(name, unit, peak, threads,
            {who: (lambda p=peer: p.ask(name)) for who, peer in everyone.items() if peer.takes(name)})
    for peer in everyone.values():
        peer.end()
    load.give_priority_back()


computes = ("attention/", "block/", "conv/", "gemm/", "model/", "overhead/", "pass/", "peak/")
whole = commands.items(build, python, say)
if not any(f in i[0] for f in filters or [""] for i in [*items, *whole]):
    sys.exit(f"run.py: no item's name contains {' or '.join(filters)}: lockstep_bench --list shows them")
print(f"{'item':58} {'unit':8} {'lockstep':>9} {'of peak':>8} {'rounds':>6}   peers (lockstep is N times as fast)")
measure(wanted([i for i in items if i[0].startswith(computes)]), priority=True)
measure(wanted([i for i in items if not i[0].startswith(computes)]), priority=False)
for name, unit, competitors in wanted(whole):
    row(name, unit, "-", "2", competitors)

(build / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
print(f"written: {build / 'bench.json'}")
