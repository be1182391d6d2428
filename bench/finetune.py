"""finetune.py BUILD --model FOLDER [--data FOLDER] [--out FOLDER] [--quick] [--f32] - compare fine-tuning with Transformers.

SST-2 (6,000 sentences) and MRPC with five seeds each, SQuAD (4,370 questions, answers to 1,000) with three: scores, their means
and standard errors, in OUT/finetune.json and as a table. FOLDER contains config.json, weights and vocab.txt of a small BERT. All
trainings run in parallel, each on its own cores; those of Transformers (finetune_torch.py) on a GPU if there is one. They use
bf16, or f32 on machines without it. --quick: few texts and two seeds, only as a smoke test."""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time

import peers

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--model", required=True)
parser.add_argument("--data", type=pathlib.Path, default=here.parents[1] / "shared" / "data")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("finetune"))
parser.add_argument("--quick", action="store_true")
parser.add_argument("--f32", action="store_true")
parser.add_argument("--without-peer", action="store_true")
parser.add_argument("--limit", type=float, default=540, help="seconds after which unfinished trainings are ignored")
args = parser.parse_args()
DTYPE = "no" if args.f32 else "bf16"
EPOCHS = {"sst2": "3", "mrpc": "3", "qa": "2"} if not args.quick else {"sst2": "1", "mrpc": "1", "qa": "1"}
# As in finetune_torch.py.
COMMON = ["--mixed_precision", DTYPE, "--warmup_ratio", "0.1"]
GLUE = ["--learning_rate", "5e-5", "--per_device_train_batch_size", "16", "--max_length", "128", *COMMON]
QA = ["--learning_rate", "1e-4", "--per_device_train_batch_size", "12", "--max_seq_length", "384", "--doc_stride", "128",
      "--save_steps", "0", *COMMON]
SENTENCES, QUESTIONS = (48, 10) if args.quick else (6000, 1000)
SEEDS = {"sst2": range(1, 3), "mrpc": range(1, 3), "qa": range(1, 3)} if args.quick else {
    "sst2": range(1, 6), "mrpc": range(1, 6), "qa": range(1, 4)}


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
    return {"sst2": (every_nth_line(glue / "SST-2/train.tsv", args.out / "sst2.tsv", SENTENCES),
                     every_nth_line(glue / "SST-2/dev.tsv", args.out / "sst2_dev.tsv", 40 if few else 872)),
            "mrpc": (every_nth_line(glue / "MRPC/train.tsv", args.out / "mrpc.tsv", 48 if few else 10**9),
                     every_nth_line(glue / "MRPC/dev.tsv", args.out / "mrpc_dev.tsv", 40 if few else 10**9)),
            "qa": (every_nth_question(squad / "train-v1.1-first12articles.json", args.out / "qa.json", 24 if few else 10**9),
                   every_nth_question(squad / "dev-v1.1.json", args.out / "qa_dev.json", QUESTIONS))}


class Job:
    """A command on some cores; `output` is its output."""

    def __init__(self, name, cores, command):
        self.name, self.cores, self.command = name, cores, command
        self.log, self.process = args.out / f"{name}.log", None

    def start(self, on):
        self.on, self.began = on, time.time()
        threads = {"LOCKSTEP_NUM_THREADS": str(len(on)), "OMP_NUM_THREADS": str(len(on))}
        self.process = subprocess.Popen(["taskset", "-c", ",".join(map(str, on)), *self.command],
                                        stdout=open(self.log, "w"), stderr=subprocess.STDOUT,
                                        env={**os.environ, **threads, "TOKENIZERS_PARALLELISM": "false"})

    def ended(self):
        if self.process.poll() is None:
            return False
        seconds = time.time() - self.began
        print(f"{self.name}: {seconds:.0f} s on {len(self.on)} core{'s' * (len(self.on) > 1)}"
              f"{'' if self.process.returncode == 0 else ', FAILED, see ' + str(self.log)}", file=sys.stderr, flush=True)
        return True

    def done(self):
        return self.process is not None and self.process.returncode == 0

    @property
    def output(self):
        return self.log.read_text()


def run_side_by_side(jobs):
    free, waiting, running, began = sorted(os.sched_getaffinity(0)), list(jobs), [], time.time()
    most = len(free)
    while waiting or running:
        for job in list(waiting):
            wanted = min(job.cores, most)
            if len(free) >= wanted:
                job.start([free.pop(0) for _ in range(wanted)])
                running.append(job)
                waiting.remove(job)
        time.sleep(0.2)
        if time.time() - began > args.limit:
            waiting = []
            for job in running:
                job.process.terminate()
                job.process.wait()
        for job in [j for j in running if j.ended()]:
            running.remove(job)
            free = sorted(free + job.on)


def training(task, seed, program, cores, files, *flags):
    train, dev = files[task]
    name = f"lockstep_{task}_{seed}"
    return Job(name, cores, [str(args.build / "examples" / program), "--model_name_or_path", args.model, "--seed", str(seed),
                             "--train_file", train, "--validation_file", dev, "--num_train_epochs", EPOCHS[task],
                             "--output_dir", str(args.out / name), *flags])


def ours(files):
    """The jobs of Lockstep, longest first."""
    for seed in SEEDS["qa"]:
        yield training("qa", seed, "qa", 3, files, "--do_train", "--do_eval", *QA)
    for task in ("mrpc", "sst2"):
        for seed in SEEDS[task]:
            yield training(task, seed, "glue", 1, files, "--task_name", task, *GLUE)


def theirs(files, python):
    (args.out / "transformers_qa").mkdir(exist_ok=True)
    for task in ("qa", "mrpc", "sst2"):
        yield Job(f"transformers_{task}", 1, [python, str(here / "finetune_torch.py"), args.model, task,
                                              ",".join(map(str, SEEDS[task])), DTYPE, EPOCHS[task], *files[task],
                                              *([str(args.out / "transformers_qa")] if task == "qa" else [])])


def answers_score(text):
    exact, f1 = re.findall(r"exact match ([\d.]+), F1 ([\d.]+)", text)[-1]
    return {"exact match": float(exact), "F1": float(f1)}


def our_scores(job):
    task = job.name.split("_")[1]
    if task == "qa":
        return task, answers_score(job.output)
    accuracy, f1 = re.findall(r"accuracy ([\d.]+), F1 ([\d.]+)", job.output)[-1]
    return task, {"accuracy": float(accuracy), "F1": float(f1)}


def their_scores(job, files):
    task = job.name.split("_")[1]
    if task == "qa":
        for path in sorted((args.out / "transformers_qa").glob("*.json")):
            score = [str(args.build / "examples" / "qa"), "--evaluate", str(path), "--validation_file", files["qa"][1]]
            done = subprocess.run([*score, "--output_dir", str(args.out)], capture_output=True, text=True)
            yield task, answers_score(done.stdout)
    for line in re.findall(rf"^{task} \d+ ([\d.]+) ([\d.]+)$", job.output, re.M):
        yield task, {"accuracy": float(line[0]), "F1": float(line[1])}


def mean_and_error(values):
    mean = sum(values) / len(values)
    spread = sum((v - mean) ** 2 for v in values)
    return mean, math.sqrt(spread / max(1, len(values) - 1) / len(values))


def table(scores):
    """scores: (task, measure) -> who -> values."""
    print(f"{'task':8} {'score':12} {'Lockstep':>20} {'Transformers':>20}   difference in standard errors")
    for (task, measure), of in scores.items():
        cells, summary = [], {}
        for who in ("lockstep", "transformers"):
            if of.get(who):
                summary[who] = mean_and_error(of[who])
                cells.append(f"{summary[who][0]:.4f} ± {summary[who][1]:.4f}")
            else:
                cells.append("-")
        apart = ""
        if len(summary) == 2:
            (a, e), (b, f) = summary.values()
            apart = f"{(a - b) / max(math.hypot(e, f), 1e-9):+.1f}"
        print(f"{task:8} {measure:12} {cells[0]:>20} {cells[1]:>20}   {apart}")


args.out.mkdir(parents=True, exist_ok=True)
files = prepare_files()
python = None if args.without_peer else peers.python_with("transformers", os.environ.get("PYTHON_TORCH"), sys.executable)
own, other = list(ours(files)), list(theirs(files, python)) if python else []
run_side_by_side([j for j in own if "_qa_" in j.name] + other + [j for j in own if "_qa_" not in j.name])
scores = {}
found = [("lockstep", *our_scores(job)) for job in own if job.done()]
found += [("transformers", *s) for job in other if job.process for s in their_scores(job, files)]
for who, task, measures in found:
    for measure, value in measures.items():
        scores.setdefault((task, measure), {}).setdefault(who, []).append(value)
(args.out / "finetune.json").write_text(json.dumps({" ".join(key): of for key, of in scores.items()}, indent=1) + "\n")
table(scores)
