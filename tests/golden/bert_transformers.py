#!/usr/bin/env python3
"""Models of full width against Transformers: logits, gradients, and what was saved here opened there.

    bert_transformers.py PROGRAM        (bert_program.c)
"""
import pathlib
import subprocess
import sys
import tempfile

import need_transformers

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

BATCH, LENGTH = 2, 24
LOGITS, GRADIENTS = 1e-4, 1e-3


def cases():
    base = dict(num_hidden_layers=3, vocab_size=5000)  # full width; more layers tell no more
    bert = tf.BertConfig(**base, num_labels=3)
    yield "encoder", tf.BertModel(tf.BertConfig(**base))
    yield "classes", tf.BertForSequenceClassification(bert)
    yield "answers", tf.BertForQuestionAnswering(tf.BertConfig(**base, hidden_act="relu"))
    yield "words", tf.BertForMaskedLM(bert)
    yield "answers", tf.RobertaForQuestionAnswering(tf.RobertaConfig(**base, max_position_embeddings=514))
    yield "classes", tf.DistilBertForSequenceClassification(tf.DistilBertConfig(n_layers=3, vocab_size=5000))
    yield "answers", tf.BertForQuestionAnswering(tf.BertConfig())  # all twelve layers
    for folder in need_transformers.minilm():  # real weights
        yield "encoder", tf.BertModel.from_pretrained(folder)


def inputs(task, model):
    ids = torch.randint(5, model.config.vocab_size, (BATCH, LENGTH))
    mask = torch.ones_like(ids)
    mask[1, 17:] = 0
    ids[mask == 0] = model.config.pad_token_id
    batch = {"input_ids": ids, "attention_mask": mask}
    if task == "classes":
        batch["labels"] = torch.randint(model.config.num_labels, (BATCH,))
    elif task == "words":
        batch["labels"] = torch.where(torch.rand(BATCH, LENGTH) < 0.3, ids, -100)
    elif task == "answers":
        batch["start_positions"], batch["end_positions"] = torch.tensor([3, 5]), torch.tensor([4, 16])
    return batch


def run_there(task, model, batch):
    model.eval()
    model.zero_grad()
    result = model(**batch)
    logits = {"encoder": "last_hidden_state", "answers": "start_logits"}.get(task, "logits")
    loss = result.last_hidden_state.square().mean() if task == "encoder" else result.loss
    loss.backward()
    return result[logits].detach(), loss.detach()


def save(model, folder, form):
    """As Transformers saves today, in shards, or as it did before safetensors."""
    model.save_pretrained(folder, max_shard_size="20MB" if form == "shards" else "5GB")
    if form == "bin":
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()


def compare(program, task, model, folder, form):
    name = type(model).__name__
    save(model, folder, form)
    batch = inputs(task, model)
    save_file(batch, folder / "inputs.safetensors")
    subprocess.run([program, folder, task], check=True)
    ours = load_file(folder / "outputs.safetensors")
    logits, loss = run_there(task, model, batch)
    worst = (ours["logits"] - logits).abs().max().item()
    assert worst <= LOGITS * max(1, logits.abs().max().item()), f"{name}: logits differ by {worst}"
    assert abs(ours["loss"].item() - loss.item()) <= LOGITS * loss.item(), f"{name}: loss {ours['loss']} and {loss}"
    differences = {}
    for key, value in model.named_parameters():
        if value.grad is None or value.grad.norm() == 0:
            continue
        rounding = 1e-6 * loss.item()  # gradients that would be 0 in exact numbers
        differences[key] = ((ours[key] - value.grad).norm() / (value.grad.norm() + rounding / GRADIENTS)).item()
    key = max(differences, key=differences.get)
    assert differences[key] <= GRADIENTS, f"{name}: gradient of {key} differs by {differences[key]}"
    opened, info = type(model).from_pretrained(folder / "saved", output_loading_info=True)
    assert not any(info.values()), f"{name}: {info}"
    again, _ = run_there(task, opened, batch)
    assert torch.equal(again, logits), f"{name}: saved weights are others"
    print(f"{name}: logits to {worst:.1e}, gradients to {differences[key]:.1e}")


torch.manual_seed(1)
tf.logging.set_verbosity_error()
tf.logging.disable_progress_bar()
for number, (task, model) in enumerate(cases()):
    with tempfile.TemporaryDirectory() as folder:
        compare(sys.argv[1], task, model, pathlib.Path(folder), ("one file", "shards", "bin")[number % 3])
