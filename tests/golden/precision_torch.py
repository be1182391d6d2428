#!/usr/bin/env python3
"""BERT-base and resnet50d in f32, bf16 and f16 against PyTorch on the same device.

    precision_torch.py PROGRAM [--device cuda|cpu] [--quick]        (precision_program.c)

Both sides are held against PyTorch in f64: an error may be MARGIN times the larger of those that PyTorch makes in two ways, and
both are printed. In half precision these are autocast and a model that is converted as a whole: here products and what is added up
from layer to layer are of the half type, but parameters are f32. In f32 they are pictures in planes and with channels last, which
are summed up in different orders; errors up to CLOSE are right in any case. (Those of resnet50d's gradients are larger: rounding
decides on which side of 0 some inputs of ReLUs are.)
"""
import argparse
import copy
import os
import pathlib
import subprocess
import sys
import tempfile

import need_transformers

import torch
import torch.nn.functional as F
import transformers as tf
from safetensors.torch import load_file, save_file
from torch import nn

CLOSE, MARGIN = 1e-4, 1.5
LOSS_SCALE = 1024  # as in precision_program.c
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

# ---- resnet50d, with the names of timm ----


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride > 1 or inside != 4 * width:
            pool = nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False) if stride > 1 else nn.Identity()
            self.downsample = nn.Sequential(pool, nn.Conv2d(inside, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.downsample else x))


class ResNet50d(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
                                   nn.Conv2d(32, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
                                   nn.Conv2d(32, 64, 3, 1, 1, bias=False))
        self.bn1 = nn.BatchNorm2d(64)
        inside = 64
        for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            layers = []
            for block in range(blocks):
                layers.append(Bottleneck(inside, width, 2 if block == 0 and stage else 1))
                inside = 4 * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inside, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet(folder, quick):
    model = ResNet50d(10)
    for name, parameter in model.named_parameters():
        if name.endswith("bn3.weight"):
            nn.init.constant_(parameter, 0.25)  # blocks add little each: gradients of what is added at random are noise
    save_file(model.state_dict(), folder / "model.safetensors")
    size = 64 if quick else 160
    batch = {"images": torch.randn(8, 3, size, size), "labels": torch.arange(8)}
    return model.train(), batch


def resnet_loss(model, batch):
    logits = model(batch["images"])
    logits = logits.double() if logits.dtype == torch.float64 else logits.float()
    return logits, F.cross_entropy(logits, batch["labels"])


# ---- BERT-base ----


def bert(folder, quick):
    model = tf.BertForQuestionAnswering(tf.BertConfig(num_hidden_layers=3 if quick else 12))
    model.save_pretrained(folder)
    length = 24 if quick else 128
    ids, mask = torch.randint(5, 30000, (4, length)), torch.ones(4, length, dtype=torch.int64)
    mask[1, length // 2:] = 0
    ids[mask == 0] = 0
    batch = {"input_ids": ids, "attention_mask": mask, "start_positions": torch.tensor([3, 5, 7, 1]),
             "end_positions": torch.tensor([4, 8, 9, 11])}
    return model.eval(), batch


def bert_loss(model, batch):
    out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    wide = torch.float64 if out.start_logits.dtype == torch.float64 else torch.float32
    starts, ends = out.start_logits.to(wide), out.end_logits.to(wide)
    loss = F.cross_entropy(starts, batch["start_positions"]) + F.cross_entropy(ends, batch["end_positions"])
    return torch.stack((starts, ends)), loss / 2


# ---- comparison ----


def there(make_loss, model, batch, device, dtype, autocast=None, order=torch.contiguous_format):
    """Results and gradients of PyTorch, of a model in `dtype`, in f64 numbers on the host."""
    model = copy.deepcopy(model).to(device, dtype, memory_format=order)
    batch = {name: x.to(device, dtype, memory_format=order) if x.is_floating_point() else x.to(device)
             for name, x in batch.items()}
    with torch.autocast(device, autocast, enabled=autocast is not None):
        results, loss = make_loss(model, batch)
    (loss * LOSS_SCALE).backward()
    gradients = {name: p.grad.double().cpu() for name, p in model.named_parameters() if p.grad is not None}
    return results.detach().double().cpu(), gradients


def here(program, folder, name, precision, device):
    subprocess.run([program, folder, name, precision], check=True, env=os.environ | {"LOCKSTEP_DEVICE": device})
    values = {key: value.double() for key, value in load_file(folder / "outputs.safetensors").items()}
    return values.pop("results"), values


def errors(outcome, exact):
    """Of the results, relative to the largest; of all gradients together; and of the worst that is not small among them."""
    (results, gradients), (exact_results, exact_gradients) = outcome, exact
    missing = exact_gradients.keys() - gradients.keys()
    assert not missing, f"no gradient for {sorted(missing)}"
    total = sum(g.square().sum() for g in exact_gradients.values()).sqrt()
    off = {name: (gradients[name] - g).norm() for name, g in exact_gradients.items()}
    worst = max((off[name] / g.norm()).item() for name, g in exact_gradients.items() if g.norm() > 1e-3 * total)
    whole = sum(x.square() for x in off.values()).sqrt() / total
    return {"results": ((results - exact_results).abs().max() / exact_results.abs().max()).item(), "gradients": whole.item(),
            "worst gradient": worst}


def compare(program, name, make, make_loss, args):
    mistakes = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, batch = make(folder, args.quick)
        save_file(batch, folder / "inputs.safetensors")
        exact = there(make_loss, model, batch, args.device, torch.float64)
        for precision, dtype in TYPES.items():
            if dtype == torch.float16 and args.device == "cpu":
                continue  # too slow there
            ways = [(dtype, None), (dtype, None, torch.channels_last)]
            if dtype != torch.float32:
                ways = [(torch.float32, dtype), (dtype, None)]
            torch_is = [errors(there(make_loss, model, batch, args.device, *way), exact) for way in ways]
            ours = errors(here(program, folder, name, precision, args.device), exact)
            for what, error in ours.items():
                limit = max(CLOSE if dtype == torch.float32 else 0, *(MARGIN * errors_there[what] for errors_there in torch_is))
                good = error <= limit
                mistakes += not good
                print(f"{'ok   ' if good else 'WRONG'} {name} {precision:4} {what:14} {error:.1e} from f64, PyTorch",
                      *(f"{errors_there[what]:.1e}" for errors_there in torch_is), flush=True)
    return mistakes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="three layers, small pictures: for a CPU")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    mistakes = compare(args.program, "bert", bert, bert_loss, args)
    mistakes += compare(args.program, "resnet50d", resnet, resnet_loss, args)
    sys.exit(mistakes > 0)


main()
