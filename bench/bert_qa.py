"""bert_qa.py BUILD [--model FOLDER] [--quick] [--layers N] - benchmark training BERT for question answering, and peers.

Steps of BERT-base on 12 x 384 tokens in bf16 and f32, with one process and with two that divide the batch: full windows, and the
lengths of SQuAD's windows, padded and not; peak memory of one process, for BERT-base and BERT-large; tokenization, features of
SQuAD's dev set, and the time from the start of a program to its first step (with the model in FOLDER). All competitors run in
turn, and the best of several rounds counts; PyTorch has its memory settings tuned. Intel's extension takes part if PYTHON_IPEX has
it. Uses the CPU cores that the caller allows (taskset). --quick: one round, three layers for timings."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

import commands
import load
import peers

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--model")
parser.add_argument("--data", type=pathlib.Path, default=here.parents[1] / "shared" / "data")
parser.add_argument("--quick", action="store_true")
parser.add_argument("--layers", type=int, help="layers of BERT-base for timings")
parser.add_argument("--without-peers", action="store_true")
parser.add_argument("--only", default="", help="rows whose names contain this pattern")
args = parser.parse_args()
if args.model and not pathlib.Path(args.model, "config.json").exists():
    parser.error(f"--model {args.model}: a folder with config.json, weights and vocab.txt of a BERT is needed")
build = args.build.resolve()
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # all on the CPU
rounds, steps = (1, 2) if args.quick else (3, 3)
layers = args.layers or (3 if args.quick else 12)
threads = len(os.sched_getaffinity(0))
LIMIT = 600  # seconds after which a command is given up
# Lengths of twelve windows of at most 384 tokens, from the middle of each twelfth of SQuAD's; their mean is that of all.
# Two processes, which take every other one, get nearly the same number of tokens.
SQUAD = "73,97,126,112,141,155,187,172,206,233,330,265"
FULL = ",".join(["384"] * 12)

bench = str(build / "bench" / "lockstep_bench")
torch_script = str(here / "bert_qa_torch.py")
python = None if args.without_peers else peers.torch_python(sys.executable)
ipex = None if args.without_peers else peers.python_with("intel_extension_for_pytorch", os.environ.get("PYTHON_IPEX"))


def numbers(command, **environment):
    """A function that runs a command and returns the numbers in its last line of output."""
    def measure():
        text = commands.output(command, limit=LIMIT, **environment)
        return [float(word) for word in text.splitlines()[-1].split()] if text and text.strip() else None
    return measure


def training(size, depth, dtype, filling, lengths, count, processes=1):
    case = [size, str(depth), dtype, filling, lengths, str(count)]
    launch = [] if processes == 1 else [str(build / "lockstep"), "launch", "-n", str(processes)]
    torchrun = [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    share = {"OMP_NUM_THREADS": str(max(1, threads // processes))}
    found = {"lockstep": numbers([*launch, bench, "--train-bert", *case])}
    if python:
        found["torch"] = numbers([python, *torchrun, torch_script, "train-bert", *case], **share, **peers.TUNED)
    if ipex:
        found["ipex"] = numbers([ipex, *torchrun, torch_script, "train-bert", *case, "--ipex"], **share, **peers.TUNED)
    return found


def until_first_step(command, **environment):
    """Milliseconds until a program reports that its first step is done; it is terminated then."""
    def measure():
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env={**os.environ, **environment}) as process:
            done = any(line.startswith("step 1:") for line in process.stdout)
            taken = 1e3 * (time.perf_counter() - began)
            process.kill()
        return [taken] if done else None
    return measure


def tokenizing(width):
    """GB/s of contexts; servers run until the last question."""
    name = f"tokenize/u8/SQuAD contexts/{width}"
    data = {"LOCKSTEP_TEST_DATA": str(args.data)}
    found = {"lockstep": peers.Server([bench], **data)}
    with_tokenizers = peers.python_with("tokenizers", os.environ.get("PYTHON_TOKENIZERS"), python, sys.executable)
    if with_tokenizers:
        found["tokenizers"] = peers.Server([with_tokenizers, str(here / "tokenizers_peer.py")], RAYON_NUM_THREADS=str(width),
                                           TOKENIZERS_PARALLELISM="true" if width > 1 else "false", **data)

    def asked(server):
        value = server.ask(name)
        return [1e3 * value] if value else None
    return {who: (lambda s=server: asked(s)) for who, server in found.items()}


def in_rounds(competitors, count, better):
    best = {}
    for _ in range(count):
        for who, measure in competitors.items():
            values = measure()
            if values:
                best[who] = [better(a, b) for a, b in zip(best[who], values)] if who in best else values
    return best


def row(name, unit, best, which, higher, others):
    """Print a line of the table: each value, and how many times as good Lockstep is (for memory: its fraction of the peer's)."""
    if "lockstep" not in best:
        print(f"{name:62} could not be measured", flush=True)
        return
    mine, cells = best["lockstep"][which], []
    for who, values in best.items():
        if who != "lockstep":
            ratio = mine / values[which] if higher or unit == "MiB" else values[which] / mine
            cells.append(f"{who} {values[which]:.4g} ({ratio:.2f}x{' of it' if unit == 'MiB' else ''})")
    disturbed = f"  [others took {others:.0%} of a core]" if others > 0.1 else ""
    print(f"{name:62} {unit:5} {mine:9.4g}   {'  '.join(cells)}{disturbed}", flush=True)


def is_wanted(name):
    return re.search(args.only, name) is not None


def measure(name, unit, competitors, which=0, count=rounds, higher=False):
    """Measure a row: number `which` of each competitor's output."""
    if not is_wanted(name):
        return
    with load.Watch() as watch:
        best = in_rounds(competitors, count, max if higher else min)
    row(name, unit, best, which, higher, watch.others)


print(f"{'of ' + str(threads) + ' cores':62} {'unit':5} {'lockstep':>9}   peers (lockstep is N times as fast)")
for dtype in ("bf16", "f32"):
    for filling, lengths, words in (("padded", FULL, "all words"), ("padded", SQUAD, "SQuAD's lengths, padded"),
                                    ("unpadded", SQUAD, "SQuAD's lengths, unpadded")):
        for processes in (1, 2):
            measure(f"step/{dtype}/bert-base of {layers} layers 12x384, {words}/{processes} process{'es' * (processes > 1)}", "ms",
                    training("base", layers, dtype, filling, lengths, steps, processes))
for size, depth in (("base", 12), ("large", 24)):
    for dtype in ("bf16",) if args.quick else ("bf16", "f32"):
        measure(f"memory/{dtype}/bert-{size} 12x384, all words", "MiB", training(size, depth, dtype, "padded", FULL, 1), 1, 1)
for width in sorted({1, threads}):
    name = f"tokenize/SQuAD's contexts, {width} thread{'s' * (width > 1)}"
    if is_wanted(name):
        measure(name, "MB/s", tokenizing(width), higher=True)
dev, train = args.data / "squad/dev-v1.1.json", args.data / "squad/train-v1.1-first12articles.json"
vocabulary = args.data / "bert_tokenizer/bert-base-uncased-vocab.txt"
if dev.exists():
    measure("features/SQuAD's dev set, from its file", "ms", {
        "lockstep": numbers([bench, "--features", str(dev), str(vocabulary)]),
        **({"tokenizers": numbers([python, torch_script, "features", str(dev), str(vocabulary)])} if python else {})})
if args.model and train.exists():
    ours = [str(build / "examples" / "qa"), "--model_name_or_path", args.model, "--do_train", "--train_file", str(train),
            "--logging_steps", "1", "--output_dir", str(build / "bench" / "qa")]
    measure("start to first step/qa of the model in --model", "ms", {
        "lockstep": until_first_step(ours),
        **({"torch": until_first_step([python, torch_script, "first-step", args.model, str(train)], **peers.TUNED)} if python else {})})
