"""finetune_torch.py MODEL TASK SEED DTYPE EPOCHS FILES... - the trainings of examples/glue.c and examples/qa.c in Transformers.

The same texts, weights, optimiser, schedule and precision; on a GPU if there is one, or by several processes on CPUs under
torchrun.

    finetune_torch.py MODEL sst2 1 bf16 3 train.tsv dev.tsv
    finetune_torch.py MODEL qa 1 bf16 3 train.json dev.json FOLDER

prints "trained on cuda in SECONDS s" and the scores. For qa it writes FOLDER/answers.json, for `qa --evaluate`."""
import csv
import json
import math
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import transformers
from tokenizers import BertWordPieceTokenizer

# As in finetune.py.
RATE, BATCH, LONGEST = {"qa": (1e-4, 12, 384)}.get(sys.argv[2], (5e-5, 16, 128))
WARMUP, STRIDE, BEST, LONGEST_ANSWER = 0.1, 128, 20, 30
COLUMNS = {"sst2": ("sentence", None, "label"), "mrpc": ("#1 String", "#2 String", "Quality")}

folder, task = pathlib.Path(sys.argv[1]), sys.argv[2]
seed, half, epochs, files = int(sys.argv[3]), sys.argv[4] == "bf16", int(sys.argv[5]), sys.argv[6:]
device = "cuda" if torch.cuda.is_available() else "cpu"
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if world > 1:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[rank * len(cores) // world:(rank + 1) * len(cores) // world])
    dist.init_process_group("gloo")
transformers.logging.set_verbosity_error()
tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
tokenizer.enable_truncation(LONGEST, stride=STRIDE if task == "qa" else 0,
                            strategy="only_second" if task == "qa" else "longest_first")


def of_this_process(order):
    """Its part; some are repeated so that all parts have the same length."""
    order = list(order)
    return (order + order[:-len(order) % world])[rank::world]


def of_all_processes(items):
    if world == 1:
        return items
    parts = [None] * world
    dist.all_gather_object(parts, items)
    return [item for part in parts for item in part]


def batches(samples, size, order):
    """Tokens, padded to the longest of a batch, and the samples they belong to."""
    for begin in range(0, len(order), size):
        chosen = [samples[i] for i in order[begin:begin + size]]
        longest = max(len(s["ids"]) for s in chosen)

        def table(values):
            return torch.tensor([v + [0] * (longest - len(v)) for v in values]).to(device)
        yield {"input_ids": table([s["ids"] for s in chosen]), "token_type_ids": table([s["types"] for s in chosen]),
               "attention_mask": table([[1] * len(s["ids"]) for s in chosen])}, chosen


def forward(model, words, **labels):
    with torch.autocast(device, torch.bfloat16, enabled=half):
        return model(**words, **{name: torch.tensor(values).to(device) for name, values in labels.items()})


def train(model, samples, labels_of):
    kept = ("bias", "orm.weight")
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith(kept)], "weight_decay": 0.0},
              {"params": [p for n, p in model.named_parameters() if not n.endswith(kept)]}]
    adamw = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.0, fused=True)
    steps = epochs * math.ceil(len(of_this_process(range(len(samples)))) / BATCH)
    schedule = transformers.get_linear_schedule_with_warmup(adamw, math.ceil(WARMUP * steps), steps)
    model.train()
    net = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    shuffler = torch.Generator().manual_seed(seed)  # the same in all processes; what they drop out is not
    torch.manual_seed(seed + 1000 * rank)
    began = time.perf_counter()
    for _ in range(epochs):
        for words, chosen in batches(samples, BATCH, of_this_process(torch.randperm(len(samples), generator=shuffler).tolist())):
            forward(net, words, **labels_of(chosen)).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adamw.step()
            schedule.step()
            adamw.zero_grad()
    if device == "cuda":
        torch.cuda.synchronize()
    if rank == 0:
        print(f"trained on {device} in {time.perf_counter() - began:.3f} s", flush=True)
    return model.eval()


def classified(path):
    text, second, label = COLUMNS[task]
    with open(path, encoding="utf-8-sig") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            e = tokenizer.encode(row[text], row[second] if second else None)
            yield {"ids": e.ids, "types": e.type_ids, "label": int(row[label])}


def classify():
    train_set, dev = (list(classified(path)) for path in files[:2])
    model = transformers.BertForSequenceClassification.from_pretrained(folder, num_labels=2).float().to(device)
    train(model, train_set, lambda chosen: {"labels": [s["label"] for s in chosen]})
    pairs = []
    with torch.no_grad():
        for words, chosen in batches(dev, 32, range(rank, len(dev), world)):
            guesses = forward(model, words).logits.argmax(-1).tolist()
            pairs += [(s["label"], guess) for s, guess in zip(chosen, guesses)]
    pairs = of_all_processes(pairs)
    right = sum(label == guess for label, guess in pairs)
    hits = sum(label and guess for label, guess in pairs)
    if rank == 0:
        f1 = 2 * hits / max(1, sum(label + guess for label, guess in pairs))
        print(f"accuracy {right / len(pairs):.4f}, F1 {f1:.4f}", flush=True)


def place(offsets, first, last, begin, end):
    """The first and last token of an answer at characters begin .. end; (0, 0) if it is not in the window."""
    if offsets[first][0] > begin or offsets[last][1] < end:
        return 0, 0
    return (max(t for t in range(first, last + 1) if offsets[t][0] <= begin),
            min(t for t in range(first, last + 1) if offsets[t][1] >= end))


def windows(path):
    articles = json.loads(pathlib.Path(path).read_text())["data"]
    for paragraph in (p for a in articles for p in a["paragraphs"]):
        for question in paragraph["qas"]:
            whole = tokenizer.encode(question["question"].lstrip(), paragraph["context"])
            answer = question["answers"][0]
            for e in [whole, *whole.overflowing]:
                context = [i for i, s in enumerate(e.sequence_ids) if s == 1]
                begin = answer["answer_start"]
                yield {"ids": e.ids, "types": e.type_ids, "offsets": e.offsets, "context": context,
                       "id": question["id"], "text": paragraph["context"],
                       "place": place(e.offsets, context[0], context[-1], begin, begin + len(answer["text"]))}


def answer():
    train_set, dev = (list(windows(path)) for path in files[:2])
    model = transformers.BertForQuestionAnswering.from_pretrained(folder).float().to(device)
    train(model, train_set, lambda chosen: {"start_positions": [s["place"][0] for s in chosen],
                                            "end_positions": [s["place"][1] for s in chosen]})
    found = []  # question, sum of logits, text
    with torch.no_grad():
        for words, chosen in batches(dev, 32, range(rank, len(dev), world)):
            out = forward(model, words)
            best_of = [logits.float().topk(min(BEST, logits.shape[1])) for logits in (out.start_logits, out.end_logits)]
            lists = [x.tolist() for best in best_of for x in (best.indices, best.values)]
            for s, starts, start_values, ends, end_values in zip(chosen, *lists):
                inside = set(s["context"])
                for i, start in zip(starts, start_values):
                    for j, end in zip(ends, end_values):
                        if i in inside and j in inside and i <= j < i + LONGEST_ANSWER:
                            text = s["text"][s["offsets"][i][0]:s["offsets"][j][1]]
                            found.append((s["id"], start + end, text))
    best = {s["id"]: (-math.inf, "") for s in dev}
    for question, score, text in of_all_processes(found):
        best[question] = max(best[question], (score, text))
    if rank == 0:
        pathlib.Path(files[2], "answers.json").write_text(json.dumps({question: text for question, (_, text) in best.items()}))


torch.manual_seed(seed)
(answer if task == "qa" else classify)()
