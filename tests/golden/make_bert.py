#!/usr/bin/env python3
"""Golden values of BERT and its relatives: run by hand where PyTorch, Transformers and safetensors are installed.

    python3 tests/golden/make_bert.py

Small models of Transformers are trained for 20 steps in double precision; bert.c does the same. Their configurations
are those that Transformers writes.
"""
import pathlib

import torch
import transformers as tf
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
STEPS, BATCHES, WORDS, BATCH, LENGTH = 20, 2, 24, 3, 9

SIZES = dict(vocab_size=WORDS, max_position_embeddings=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
             hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12)
CONFIGS = {
    "bert": tf.BertConfig(**SIZES, num_labels=3, hidden_act="gelu_new"),
    "roberta": tf.RobertaConfig(**SIZES, num_labels=1, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5),
    "distilbert": tf.DistilBertConfig(vocab_size=WORDS, max_position_embeddings=12, dim=8, n_layers=1, n_heads=2,
                                      hidden_dim=12, dropout=0.0, attention_dropout=0.0, qa_dropout=0.0,
                                      seq_classif_dropout=0.0, num_labels=4,
                                      problem_type="multi_label_classification"),
}
MODELS = {
    "bert": (tf.BertForSequenceClassification, tf.BertForQuestionAnswering, tf.BertForMaskedLM),
    "roberta": (tf.RobertaForSequenceClassification, tf.RobertaForQuestionAnswering, tf.RobertaForMaskedLM),
    "distilbert": (tf.DistilBertForSequenceClassification, tf.DistilBertForQuestionAnswering,
                   tf.DistilBertForMaskedLM),
}


def inputs(kind):
    """Words of different numbers, those left out in a gap too; both kinds of tokens where the model knows them."""
    padding = CONFIGS[kind].pad_token_id
    ids = torch.randint(2, WORDS, (BATCH, LENGTH))
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    mask[1, 4:] = 0
    mask[2, 3] = 0
    ids[mask == 0] = padding
    out = {"input_ids": ids, "attention_mask": mask}
    if kind == "bert":
        out["token_type_ids"] = (torch.arange(LENGTH) > 3).long().expand(BATCH, LENGTH).contiguous()
    return out


def labels(kind, task):
    if task == "answers":
        return {"start_positions": torch.tensor([1, 3, -2]), "end_positions": torch.tensor([LENGTH + 4, 3, 7])}
    if task == "words":
        targets = torch.randint(2, WORDS, (BATCH, LENGTH))
        targets[torch.rand(BATCH, LENGTH) < 0.6] = -100
        return {"labels": targets}
    shape = {"bert": (BATCH,), "roberta": (BATCH,), "distilbert": (BATCH, 4)}[kind]
    return {"labels": torch.randint(3, shape) if kind == "bert" else torch.rand(shape).round(decimals=1)}


def train(out, kind, task, model):
    name = f"{kind}/{task}"
    with torch.no_grad():
        for key, value in model.named_parameters():
            value.add_(0.1 * torch.randn_like(value))  # so that biases and norms are not 0 and 1
    for key, value in model.state_dict().items():
        out[f"{name}/state/{key}"] = value.clone()
    model = model.double().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    batches = []
    for i in range(BATCHES):
        batches.append(inputs(kind) | labels(kind, task))
        for key, value in batches[-1].items():
            out[f"{name}/{key}{i}"] = value.clone()
    losses = []
    for step in range(STEPS):
        batch = {k: v.double() if v.is_floating_point() else v for k, v in batches[step % BATCHES].items()}
        result = model(**batch)
        optimiser.zero_grad()
        result.loss.backward()
        if step == 0:
            logits = result.start_logits if task == "answers" else result.logits
            out[f"{name}/logits"] = logits.detach().float().clone()
            for key, value in model.named_parameters():
                out[f"{name}/grad/{key}"] = value.grad.float().clone()
        optimiser.step()
        losses.append(result.loss.detach())
    out[f"{name}/losses"] = torch.stack(losses).float()


def main():
    torch.manual_seed(7)
    out = {}
    for kind, config in CONFIGS.items():
        (HERE / "bert" / f"{kind}.json").write_text(config.to_json_string())
        for task, model in zip(("classes", "answers", "words"), MODELS[kind]):
            if task == "answers":
                config = type(config)(**(config.to_dict() | {"id2label": {0: "start", 1: "end"}}))
            train(out, kind, task, model(config))
    save_file(out, HERE / "bert.safetensors",
              metadata={"torch": torch.__version__, "transformers": tf.__version__})


main()
