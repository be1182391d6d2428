#!/usr/bin/env python3
"""Trainings of BERT against Transformers: the losses of the same batches, step by step.

    bert_training.py PROGRAM LAUNCHER           (bert_program.c, lockstep)

Twenty steps of BERT-base with random weights for answers, by one process; a hundred steps of MiniLM on sentences of SST-2 by two,
where the package with its weights and the sentences are here. Nothing is dropped out.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import need_transformers

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

program, launcher = sys.argv[1:]
data = os.environ.get("LOCKSTEP_TEST_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data")


def random_batches(model, steps, batch=2, length=24):
    ids = torch.randint(5, model.config.vocab_size, (steps, batch, length))
    mask = torch.ones_like(ids)
    mask[:, 1, 17:] = 0
    places = torch.randint(0, 17, (2, steps, batch))
    return {"input_ids": ids * mask, "attention_mask": mask, "start_positions": places[0], "end_positions": places[1]}


def sentences(folder, steps, batch=8, longest=32):
    """Batches of SST-2; None where it is not here."""
    table = pathlib.Path(data, "glue/SST-2/train.tsv")
    if not table.exists():
        return None
    from tokenizers import BertWordPieceTokenizer
    tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding(length=longest)
    rows = [line.rstrip("\n").split("\t") for line in table.open()][1:steps * batch + 1]
    encoded = tokenizer.encode_batch([text for text, _ in rows])

    def table_of(values):
        return torch.tensor(values).reshape(steps, batch, -1)
    return {"input_ids": table_of([e.ids for e in encoded]), "attention_mask": table_of([e.attention_mask for e in encoded]),
            "labels": table_of([int(label) for _, label in rows]).reshape(steps, batch)}


def losses_there(model, batches, steps):
    adamw = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.eval()
    losses = []
    for step in range(steps):
        loss = model(**{name: values[step] for name, values in batches.items()}).loss
        loss.backward()
        adamw.step()
        adamw.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses)


def compare(task, model, batches, steps, processes, tolerance):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model.save_pretrained(folder)
        save_file({key: value.contiguous() for key, value in batches.items()}, folder / "inputs.safetensors")
        launch = [launcher, "launch", "-n", str(processes)] if processes > 1 else []
        subprocess.run([*launch, program, folder, task, "train"], check=True)
        ours = load_file(folder / "outputs.safetensors")["losses"]
    theirs = losses_there(model, batches, steps)
    worst = (ours - theirs).abs().max().item()
    where = f"{type(model).__name__}, {steps} steps by {processes}"
    assert len(ours) == steps and worst <= tolerance, f"{where}: losses differ by {worst}"
    print(f"{where}: losses {theirs[0]:.4f} to {theirs[-1]:.4f}, to {worst:.1e}")


torch.manual_seed(1)
tf.logging.set_verbosity_error()
tf.logging.disable_progress_bar()
base = tf.BertForQuestionAnswering(tf.BertConfig())
compare("answers", base, random_batches(base, 20), 20, 1, 1e-4)
for weights in need_transformers.minilm():
    texts = sentences(weights, 100)
    if texts:
        classes = tf.BertForSequenceClassification.from_pretrained(weights, num_labels=2).float()
        compare("classes", classes, texts, 100, 2, 1e-3)
