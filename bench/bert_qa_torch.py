"""bert_qa_torch.py - the PyTorch and Transformers side of bert_qa.py, with memory settings tuned by the environment.

    bert_qa_torch.py train-bert base|large LAYERS DTYPE padded|unpadded LENGTHS STEPS    milliseconds of a step, peak MiB
    bert_qa_torch.py features QUESTIONS VOCABULARY                                       milliseconds
    bert_qa_torch.py first-step MODEL QUESTIONS                                          prints a line after the step

Like `lockstep_bench --train-bert` and `--features`, and `qa --do_train`. Transformers cannot skip padding, so unpadded means padded
to the longest of a batch. With --ipex as the last argument, through Intel's extension."""
import json
import os
import pathlib
import re
import sys
import time

LONGEST, STRIDE = 384, 128


def train_bert(size, layers, dtype, filling, lengths, steps):
    import torch
    import torch.distributed as dist
    from transformers import BertConfig, BertForQuestionAnswering
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    cores = sorted(os.sched_getaffinity(0))
    share = cores[rank * len(cores) // world:(rank + 1) * len(cores) // world]
    os.sched_setaffinity(0, share)
    torch.set_num_threads(len(share))
    wide = {} if size == "base" else {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
    net = BertForQuestionAnswering(BertConfig(num_hidden_layers=int(layers), **wide)).train()
    adamw = torch.optim.AdamW(net.parameters(), lr=3e-5, fused=not ipex)
    half = dtype == "bf16"
    if ipex:
        import intel_extension_for_pytorch
        net, adamw = intel_extension_for_pytorch.optimize(net, optimizer=adamw, dtype=torch.bfloat16 if half else torch.float32)
    if world > 1:
        dist.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    words = torch.tensor([int(n) for n in lengths.split(",")][rank::world])
    longest = int(words.max()) if filling == "unpadded" else LONGEST
    ids, starts = torch.randint(1000, 30000, (len(words), longest)), torch.arange(len(words)) * 3 + 1
    mask = (torch.arange(longest) < words[:, None]).long()
    best = 1e30
    for step in range(int(steps) + 1):
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = net(input_ids=ids, attention_mask=mask, start_positions=starts, end_positions=starts).loss
        loss.backward()
        adamw.step()
        adamw.zero_grad()
        if step:
            best = min(best, time.perf_counter() - began)
    if rank == 0:
        peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())
        print(f"{1e3 * best:.6g} {int(peak[1]) / 1024:.6g}")
    if world > 1:
        dist.destroy_process_group()


def encoded(questions, vocabulary):
    """Windows of a file, with the offsets of tokens that belong to the text."""
    from tokenizers import BertWordPieceTokenizer
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=True)
    tokenizer.enable_truncation(LONGEST, stride=STRIDE, strategy="only_second")
    articles = json.loads(pathlib.Path(questions).read_text())["data"]
    pairs = [(q["question"].lstrip(), p["context"]) for a in articles for p in a["paragraphs"] for q in p["qas"]]
    found = []
    for whole in tokenizer.encode_batch(pairs):
        for e in [whole, *whole.overflowing]:
            places = [place if of == 1 else None for place, of in zip(e.offsets, e.sequence_ids)]
            found.append((e.ids, e.type_ids, places))
    return found


def features(questions, vocabulary):
    began = time.perf_counter()
    encoded(questions, vocabulary)
    print(f"{1e3 * (time.perf_counter() - began):.6g}")


def first_step(model, questions):
    import torch
    from transformers import BertForQuestionAnswering
    windows = encoded(questions, os.path.join(model, "vocab.txt"))
    net = BertForQuestionAnswering.from_pretrained(model).float().train()
    adamw = torch.optim.AdamW(net.parameters(), lr=5e-5)
    chosen = [windows[i] for i in torch.randperm(len(windows))[:8].tolist()]
    longest = max(len(ids) for ids, _, _ in chosen)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _, _ in chosen])
    mask, starts = (ids != 0).long(), torch.arange(8)
    loss = net(input_ids=ids, attention_mask=mask, start_positions=starts, end_positions=starts).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    adamw.step()
    print(f"step 1: loss {loss.item()}", flush=True)


ipex = sys.argv[-1] == "--ipex"
tasks = {"train-bert": train_bert, "features": features, "first-step": first_step}
tasks[sys.argv[1]](*sys.argv[2:len(sys.argv) - ipex])
