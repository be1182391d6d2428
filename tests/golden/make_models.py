#!/usr/bin/env python3
"""Golden values of whole networks, from timm: run by hand where PyTorch, timm and safetensors are installed.

    python3 tests/golden/make_models.py

Weights are not stored: they are a function of parameter name and index that models.c computes as well. Values are those
of timm in double precision, rounded.
"""
import math
import pathlib

import numpy as np
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
NAMES = [f"resnet{depth}" for depth in
         "10t 14t 18 18d 26 26d 26t 34 34d 50 50d 50t 101 101d 152 152d 200 200d".split()]
COMPUTED = ["resnet10t", "resnet18", "resnet50", "resnet50d"]
CLASSES, STEPS, SAMPLES = 10, 3, 6


def hash_text(text, value=0xCBF29CE484222325):
    """FNV-1a of 64 bits."""
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def noise(name, shape):
    """Uniform in [-1, 1): splitmix64 of the name's hash and the index."""
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        z = np.uint64(hash_text(name)) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1).reshape(shape)


def weight(name, shape):
    """What a parameter or buffer holds: f32 values."""
    u = noise(name, shape)
    if len(shape) > 1:
        u = u * math.sqrt(6.0 / math.prod(shape[1:]))
    elif name.endswith("running_var"):
        u = 1 + u / 4
    elif name.endswith("weight"):
        u = 0.25 + u / 16  # blocks add little each: gradients of what is added at random are noise
    else:
        u = u / 8
    return torch.from_numpy(u.astype(np.float32))


def fill(model):
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.dtype.is_floating_point:
                tensor.copy_(weight(name, tuple(tensor.shape)))
    return model.double()


def strides_v1(model):
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return model


def images(name, shape):
    return torch.from_numpy(noise(name, shape) * 2).float().double()


def sample(tensor):
    """Some elements, spread over all."""
    flat = tensor.detach().flatten()
    return flat[[i * (flat.numel() - 1) // (SAMPLES - 1) for i in range(SAMPLES)]]


def values(name, prefix, make):
    out = {}
    model = make().eval()
    with torch.no_grad():
        out["logits"] = model(images("evaluated", (2, 3, 75, 66)))
    model = make().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        labels = torch.arange(2) * 3 % CLASSES
        loss = F.cross_entropy(model(images(f"step{step}", (2, 3, 64, 64))), labels)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["gradients"] = torch.stack([sample(p.grad) for p in model.parameters()])
            out["norms"] = torch.stack([p.grad.norm() for p in model.parameters()])
        optimizer.step()
    out["losses"] = torch.tensor(losses)
    running = [b for n, b in model.named_buffers() if "running" in n]
    out["running"] = torch.stack([sample(b) for b in running])
    return {f"{prefix}/{key}": value.float().contiguous() for key, value in out.items()}


def names_line(name):
    with torch.device("meta"):
        model = timm.create_model(name)
    value = hash_text("")
    for key, tensor in model.state_dict().items():
        value = hash_text(f"{key}:{list(tensor.shape)}\n".replace(" ", ""), value)
    return f"{name} {len(model.state_dict())} {sum(p.numel() for p in model.parameters())} {value:016x}\n"


def main():
    (HERE / "models.txt").write_text("".join(names_line(name) for name in NAMES))
    tensors = {}
    for name in COMPUTED:
        tensors |= values(name, name, lambda: fill(timm.create_model(name, num_classes=CLASSES)))
    tensors |= values("resnet50", "resnet50v1",
                      lambda: strides_v1(fill(timm.create_model("resnet50", num_classes=CLASSES))))
    save_file(tensors, HERE / "models.safetensors", metadata={"torch": torch.__version__, "timm": timm.__version__})
    (HERE / "models.safetensors").chmod(0o644)


main()
