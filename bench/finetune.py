"""finetune.py BUILD --model FOLDER [options] - fine-tune for real, beside Transformers: scores of several seeds, and times.

SST-2 (6,000 sentences), MRPC, and SQuAD (4,370 questions, answers to 1,000), with the model in FOLDER: config.json, weights and
vocab.txt of a small BERT. Prints tables, also in OUT/finetune.json: the scores of all seeds, their means and standard errors, and the
time of the first seed, which has the machine to itself; the others run several at a time.

    finetune.py build --model minilm                                 seeds 1 to 5, on the CPU
    finetune.py build --model minilm --device gpu                    both on the GPU
    finetune.py build --model minilm --seeds 1 --processes 2         times of two processes
    finetune.py build --model minilm --seeds 2,3 --share             scores alone
    finetune.py build --model minilm --quick                         few texts and two seeds, only as a smoke test

Both sides use bf16, or f32 with --f32, and the same texts, weights, optimiser and schedule (finetune_torch.py)."""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time

import jobs
import peers

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--model", required=True)
parser.add_argument("--data", type=pathlib.Path, default=here.parents[1] / "shared" / "data")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("finetune"))
parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
parser.add_argument("--processes", type=int, default=1, help="processes of each training")
parser.add_argument("--seeds", help="one training of each task for each; without it 1,2,3,4,5, or 1,2 with --quick")
parser.add_argument("--share", action="store_true", help="the first seed shares the machine with the others")
parser.add_argument("--tasks", default="qa,mrpc,sst2")
parser.add_argument("--quick", action="store_true")
parser.add_argument("--f32", action="store_true")
parser.add_argument("--without-peer", action="store_true")
parser.add_argument("--limit", type=float, default=540, help="seconds after which unfinished trainings are ignored")
args = parser.parse_args()
deadline = time.perf_counter() + args.limit
tasks = args.tasks.split(",")
for what, folder, needed in [("model", args.model, "config.json"),
                             *(("data", args.data, "squad" if task == "qa" else "glue") for task in tasks)]:
    if not pathlib.Path(folder, needed).exists():
        parser.error(f"--{what} {folder}: there is no {needed} in that folder")
DTYPE = "no" if args.f32 else "bf16"
EPOCHS = {"sst2": "3", "mrpc": "3", "qa": "2"} if not args.quick else {"sst2": "1", "mrpc": "1", "qa": "1"}
# As in finetune_torch.py.
COMMON = ["--mixed_precision", DTYPE, "--warmup_ratio", "0.1"]
GLUE = ["--learning_rate", "5e-5", "--per_device_train_batch_size", "16", "--max_length", "128", *COMMON]
QA = ["--learning_rate", "1e-4", "--per_device_train_batch_size", "12", "--max_seq_length", "384", "--doc_stride", "128",
      "--save_steps", "0", "--do_train", "--do_eval", *COMMON]
SENTENCES, QUESTIONS = (48, 10) if args.quick else (6000, 1000)
SEEDS = [int(seed) for seed in (args.seeds or ("1,2" if args.quick else "1,2,3,4,5")).split(",")]
# The GPU: an error where there is none. The CPU: hide the GPU from both sides.
ON = {"LOCKSTEP_DEVICE": "cuda"} if args.device == "gpu" else {"CUDA_VISIBLE_DEVICES": ""}
# Cores of a training that shares the machine with others.
CORES = {"qa": 2, "mrpc": 2, "sst2": 2} if args.device == "gpu" else {"qa": 3, "mrpc": 1, "sst2": 1}


def every_nth_line(path, to, count):
    """The header of a table and `count` of its rows, evenly spaced."""
    head, *rows = path.read_text(encoding="utf-8-sig").splitlines(True)
    step = max(1, len(rows) // count)
    to.write_text("".join([head, *rows[::step][:count]]))
    return str(to)


def every_nth_question(path, to, count):
    articles = json.loads(path.read_text())["data"]
    left = [q for a in articles for p in a["paragraphs"] for q in p["qas"]]
    kept = {q["id"] for q in left[::max(1, len(left) // count)][:count]}
    for article in articles:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [q for q in paragraph["qas"] if q["id"] in kept]
        article["paragraphs"] = [p for p in article["paragraphs"] if p["qas"]]
    to.write_text(json.dumps({"version": "1.1", "data": articles}))
    return str(to)


def prepare_files():
    """Task -> (training file, evaluation file)."""
    glue, squad, few = args.data / "glue", args.data / "squad", args.quick
    makers = {"sst2": lambda: (every_nth_line(glue / "SST-2/train.tsv", args.out / "sst2.tsv", SENTENCES),
                               every_nth_line(glue / "SST-2/dev.tsv", args.out / "sst2_dev.tsv", 40 if few else 872)),
              "mrpc": lambda: (every_nth_line(glue / "MRPC/train.tsv", args.out / "mrpc.tsv", 48 if few else 10**9),
                               every_nth_line(glue / "MRPC/dev.tsv", args.out / "mrpc_dev.tsv", 40 if few else 10**9)),
              "qa": lambda: (every_nth_question(squad / "train-v1.1-first12articles.json", args.out / "qa.json",
                                                24 if few else 10**9),
                             every_nth_question(squad / "dev-v1.1.json", args.out / "qa_dev.json", QUESTIONS))}
    return {task: makers[task]() for task in tasks}


def ours(task, seed):
    train, dev = files[task]
    name = f"lockstep_{task}_{seed}"
    launch = [] if args.processes == 1 else [str(args.build / "lockstep"), "launch", "-n", str(args.processes)]
    flags = ["--task_name", task, *GLUE] if task != "qa" else QA
    return jobs.Job(name, CORES[task], [
        *launch, str(args.build / "examples" / ("qa" if task == "qa" else "glue")), "--model_name_or_path", args.model, "--seed",
        str(seed), "--train_file", train, "--validation_file", dev, "--num_train_epochs", EPOCHS[task], "--output_dir",
        str(args.out / name), *flags], args.out / f"{name}.log", args.processes, **ON)


def theirs(task, seed):
    name = f"transformers_{task}_{seed}"
    launch = [] if args.processes == 1 else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                             str(args.processes)]
    (args.out / name).mkdir(exist_ok=True)
    return jobs.Job(name, CORES[task], [
        python, *launch, str(here / "finetune_torch.py"), args.model, task, str(seed), DTYPE, EPOCHS[task],
        *files[task], *([str(args.out / name)] if task == "qa" else [])], args.out / f"{name}.log", args.processes,
        TOKENIZERS_PARALLELISM="false", **(peers.TUNED if args.device == "cpu" else {}), **ON)


def answers_score(text):
    exact, f1 = re.findall(r"exact match ([\d.]+), F1 ([\d.]+)", text)[-1]
    return {"exact match": float(exact), "F1": float(f1)}


def our_scores(task, job):
    if task == "qa":
        return answers_score(job.output)
    accuracy, f1 = re.findall(r"accuracy ([\d.]+), F1 ([\d.]+)", job.output)[-1]
    return {"accuracy": float(accuracy), "F1": float(f1)}


def our_seconds(job):
    """Of training: those of each epoch's line, "train: 230 steps in 0:02, 115 steps/s" or "..., 1.3 s/step"."""
    return sum(float(count) / float(rate) if unit == "steps/s" else float(count) * float(rate)
               for count, rate, unit in re.findall(r"train: (\d+) steps in [\d:]+, ([\d.]+) (steps/s|s/step)", job.output))


def their_scores(task, job):
    if task != "qa":
        accuracy, f1 = re.findall(r"^accuracy ([\d.]+), F1 ([\d.]+)$", job.output, re.M)[-1]
        return {"accuracy": float(accuracy), "F1": float(f1)}
    score = [str(args.build / "examples" / "qa"), "--evaluate", str(args.out / job.name / "answers.json"), "--use_cpu"]
    done = subprocess.run([*score, "--validation_file", files["qa"][1], "--output_dir", str(args.out)], capture_output=True,
                          text=True)
    if done.returncode:
        print(f"{job.name}: its answers cannot be scored: {done.stderr.strip()}", file=sys.stderr)
        return {}
    return answers_score(done.stdout)


def their_seconds(job):
    device = "cuda" if args.device == "gpu" else "cpu"
    return float(re.findall(rf"^trained on {device} in ([\d.]+) s$", job.output, re.M)[0])


def mean_and_error(values):
    mean = sum(values) / len(values)
    spread = sum((v - mean) ** 2 for v in values)
    return mean, math.sqrt(spread / max(1, len(values) - 1) / len(values))


def print_times(times):
    """times: task -> who -> (seconds of training, seconds of the whole command)."""
    print(f"{'task':8} {'Lockstep: training, whole':>26} {'Transformers: training, whole':>30}   Lockstep is N times as fast")
    for task, of in times.items():
        cells = [f"{of[who][0]:.2f} s, {of[who][1]:.2f} s" if who in of else "-" for who in ("lockstep", "transformers")]
        faster = ", ".join(f"{t / l:.2f}" for l, t in zip(*of.values())) if len(of) == 2 else ""
        print(f"{task:8} {cells[0]:>26} {cells[1]:>30}   {faster}")


def print_scores(scores):
    """scores: (task, measure) -> who -> values."""
    print(f"{'task':8} {'score':12} {'Lockstep':>20} {'Transformers':>20}   difference in standard errors")
    for (task, measure), of in scores.items():
        summary = {who: mean_and_error(values) for who, values in of.items()}
        cells = ["{:.4f} ± {:.4f}".format(*summary[who]) if who in summary else "-" for who in ("lockstep", "transformers")]
        apart = ""
        if len(summary) == 2:
            (a, e), (b, f) = summary["lockstep"], summary["transformers"]
            apart = f"{(a - b) / math.hypot(e, f):+.1f}" if e or f else ""
        print(f"{task:8} {measure:12} {cells[0]:>20} {cells[1]:>20}   {apart}")


args.out.mkdir(parents=True, exist_ok=True)
files = prepare_files()
python = None if args.without_peer else peers.python_with("transformers", os.environ.get("PYTHON_TORCH"), sys.executable)
sides = {"lockstep": (ours, our_scores, our_seconds), **({"transformers": (theirs, their_scores, their_seconds)} if python else {})}
planned = [(who, task, make(task, seed)) for seed in SEEDS for task in tasks for who, (make, _, _) in sides.items()]
first = 0 if args.share else len(tasks) * len(sides)
jobs.run([job for _, _, job in planned[:first]], deadline, alone=True)
jobs.run([job for _, _, job in planned[first:]], deadline)

times, scores = {}, {}
for number, (who, task, job) in enumerate(planned):
    if not job.succeeded():
        continue
    _, scores_of, seconds_of = sides[who]
    if number < first:
        times.setdefault(task, {})[who] = (seconds_of(job), job.seconds)
    for measure, value in scores_of(task, job).items():
        scores.setdefault((task, measure), {}).setdefault(who, []).append(value)
(args.out / "finetune.json").write_text(json.dumps({
    "device": args.device, "processes": args.processes, "cores": len(os.sched_getaffinity(0)), "dtype": DTYPE, "seconds": times,
    "scores": {" ".join(key): of for key, of in scores.items()}}, indent=1) + "\n")
print(f"{args.device}, {args.processes} process{'es' * (args.processes > 1)}, {len(os.sched_getaffinity(0))} cores")
print_times(times)
print_scores(scores)
