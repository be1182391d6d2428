"""gpu.py BUILD [--peers] [--seconds N] - one table of training steps on a GPU, Lockstep beside PyTorch.

BUILD holds bench/gpu_bert and bench/resnet_step; with --peers, gpu_torch.py runs beside them, eager and compiled, where torch (and for
BERT transformers) is installed. Times are milliseconds of a step, "start" seconds from the start of the process to the end of the first
step, memory what tensors held at most. Peers that would begin after N seconds are left out."""
import argparse
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ROWS = [
    ("BERT-large, 12 sequences", ["bench/gpu_bert", "--batch", "12"], ["bert", "--batch", "12"]),
    ("the same, SQuAD's lengths, padded", ["bench/gpu_bert", "--batch", "12", "--padded"], None),
    ("the same, without padding", ["bench/gpu_bert", "--batch", "12", "--unpadded"], None),
    ("BERT-large, 48 sequences", ["bench/gpu_bert", "--batch", "48"], ["bert", "--batch", "48"]),
    ("ResNet-50d, 64 photos", ["bench/resnet_step", "--batch", "64"], ["resnet", "--batch", "64"]),
    ("ResNet-50d, 256 photos", ["bench/resnet_step", "--batch", "256"], ["resnet", "--batch", "256"]),
    ("ResNet-50d frozen, 64 photos", ["bench/resnet_step", "--batch", "64", "--frozen"], ["resnet", "--batch", "64", "--frozen"]),
    ("ResNet-50d frozen, 256 photos", ["bench/resnet_step", "--batch", "256", "--frozen"], ["resnet", "--batch", "256", "--frozen"]),
]
LONGEST = 120  # seconds of a program
NUMBERS = {"ms": r"([\d.]+) ms (?:a|per) step", "GiB": r"([\d.]+) GiB", "start": r"first step after ([\d.]+) s"}


def measure(command):
    """The numbers that a program prints; if it fails, its last line instead."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"ms": "-", "why": f"it was ended after {LONGEST} s"}
    found = {name: re.search(pattern, done.stdout) for name, pattern in NUMBERS.items()}
    if done.returncode or not found["ms"]:
        lines = done.stdout.strip().splitlines() or ["it printed nothing"]
        return {"ms": "-", "why": lines[-1][:150]}
    return {name: match[1] for name, match in found.items() if match}


def own(build, words):
    extra = ["--mixed_precision", "fp16"] if "resnet" in words[0] else []
    return measure([str(build / words[0]), *words[1:], "--device", "cuda", *extra])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--seconds", type=float, default=400)
    args = parser.parse_args()
    began = time.monotonic()
    failed = []
    names = ["eager", "compiled"] if args.peers else []
    print("| a training step | ms | start, s | GiB |", *(f"PyTorch {name}, ms | start, s | GiB |" for name in names))
    print("|---|---|---|---|" + "---|---|---|" * len(names))
    results = [own(args.build, words) for _, words, _ in ROWS]
    peers = {}
    for name in names:  # all eager ones first: they are quick
        for title, _, words in ROWS:
            if words and time.monotonic() - began < args.seconds:
                compiled = ["--compile"] if name == "compiled" else []
                peers[title, name] = measure([sys.executable, str(HERE / "gpu_torch.py"), *words, *compiled])
    for (title, _, _), result in zip(ROWS, results):
        cells = [result] + [peers.get((title, name), {}) for name in names]
        failed += [f"{title}: {cell['why']}" for cell in cells if "why" in cell]
        text = " | ".join(" | ".join(cell.get(key, "") for key in ("ms", "start", "GiB")) for cell in cells)
        print(f"| {title} | {text} |")
    print(*failed, sep="\n")
    sys.exit(any("why" in result for result in results))


main()
