"""xla.py BUILD [--layers N] [--width N] [--batch N] [--length N] [--steps N] [--rounds N] [--python PROGRAM] - a training step of BERT by
XLA on the CPU: Lockstep's beside JAX's, and beside our own CPU device.

BUILD holds bench/xla_bert; PROGRAM is a Python that has JAX (pip install jax), by default this one. All run in turn, N rounds of them, and
the best of each counts: milliseconds of a step, and seconds that compiling took. Ratios are to JAX."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SIZES = (("layers", 12), ("width", 768), ("batch", 8), ("length", 128), ("steps", 10))
LINE = re.compile(r"([\d.]+) ms a step, compiled in (-?[\d.]+) s")


def measure(command):
    """Milliseconds of a step and seconds of compiling; None, and a line that says why, if the command fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "LOCKSTEP_XLA_CACHE": "off"})
    found = LINE.search(done.stdout)
    if done.returncode == 0 and found:
        return float(found[1]), float(found[2])
    print(f"{command[0]}: {(done.stdout.strip().splitlines() or ['it printed nothing'])[-1]}", file=sys.stderr)
    return None


def row(title, best, peer):
    """Our CPU device compiles nothing: it has one number."""
    cells = [f"{number:.2f}" for number in best] or ["-"]
    ratios = [f"{own / other:.2f}" for own, other in zip(best, peer)]
    print("|", " | ".join([title, *cells, *[""] * (2 - len(cells)), *ratios, *[""] * (2 - len(ratios))]), "|")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    for name, default in SIZES:
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    sizes = [word for name, _ in SIZES for word in ("--" + name, str(getattr(args, name)))]
    own = [str(args.build / "bench" / "xla_bert"), *sizes, "--device"]
    commands = {"JAX": [args.python, str(HERE / "xla_jax.py"), *sizes], "device xla": [*own, "xla"], "device cpu": [*own, "cpu"]}
    results = {title: [] for title in commands}
    for _ in range(args.rounds):
        for title, command in commands.items():
            results[title].append(measure(command))
    best = {title: [min(numbers) for numbers in zip(*filter(None, measured))] for title, measured in results.items()}
    best["device cpu"] = best["device cpu"][:1]
    print(f"BERT of {args.layers} layers of {args.width}, {args.batch} sequences of {args.length} words:\n")
    print("| | ms a step | s to compile | step, of JAX's | compiling, of JAX's |\n|---|---|---|---|---|")
    for title in commands:
        row(title, best[title], best["JAX"])
    sys.exit(not best["device xla"])


main()
