#!/usr/bin/env python3
"""Make the golden values that the tests compare with: run by hand where PyTorch and safetensors are installed.

    python3 tests/golden/make.py            all files
    python3 tests/golden/make.py layers     one of: layers losses functions optim train autocast
"""
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

HERE = pathlib.Path(__file__).parent


def save(name, tensors):
    tensors = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
    save_file(tensors, HERE / name, metadata={"torch": torch.__version__})
    (HERE / name).chmod(0o644)


# ---- layers: forward and all gradients ----


class Function(nn.Module):
    """A function as a module without parameters."""

    def __init__(self, function, is_loss=True):
        super().__init__()
        self.function = function
        self.is_loss = is_loss

    def forward(self, *inputs):
        return self.function(*inputs)


class Attention(nn.MultiheadAttention):
    """Batch first, mask true where attended, output only."""

    def __init__(self, features, heads, causal=False, **options):
        super().__init__(features, heads, batch_first=True, **options)
        self.causal = causal

    def forward(self, *x):
        mask = x[1] if len(x) == 2 else x[3] if len(x) == 4 else None
        query, key, value = x[:3] if len(x) > 2 else (x[0],) * 3
        if self.causal:
            size = query.shape[1], key.shape[1]
            mask = torch.ones(size, dtype=torch.bool).tril()
        hidden = None if mask is None else ~mask
        return super().forward(query, key, value, attn_mask=hidden, need_weights=False)[0]


def layer_cases():
    r = torch.randn
    yield "linear", nn.Linear(5, 3), [r(4, 5)]
    yield "linear_no_bias", nn.Linear(5, 3, bias=False), [r(2, 3, 5)]
    for name, activation in [("relu", nn.ReLU()), ("gelu", nn.GELU()), ("gelu_tanh", nn.GELU("tanh")),
                             ("silu", nn.SiLU()), ("tanh", nn.Tanh()), ("sigmoid", nn.Sigmoid())]:
        yield f"linear_{name}", nn.Sequential(nn.Linear(5, 3), activation), [r(4, 5)]
        yield name, activation, [r(3, 7) * 2]
    yield "softplus", nn.Softplus(beta=1.5), [r(3, 7) * 2]
    yield "elu", nn.ELU(alpha=0.7), [r(3, 7)]
    yield "leaky_relu", nn.LeakyReLU(0.2), [r(3, 7)]
    yield "softmax", nn.Softmax(1), [r(3, 7, 2)]
    yield "log_softmax", nn.LogSoftmax(-1), [r(3, 7)]
    yield "flatten", nn.Flatten(), [r(2, 3, 4)]
    yield "conv2d", nn.Conv2d(3, 4, 3), [r(2, 3, 6, 5)]
    yield "conv2d_stride", nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), [r(2, 3, 7, 6)]
    yield "conv2d_dilation", nn.Conv2d(2, 3, 3, padding=2, dilation=2), [r(1, 2, 6, 7)]
    yield "conv2d_groups", nn.Conv2d(4, 6, 3, padding=1, groups=2), [r(2, 4, 5, 5)]
    yield "conv2d_depthwise", nn.Conv2d(4, 4, 3, padding=1, groups=4), [r(2, 4, 5, 5)]
    yield "conv2d_1x1", nn.Conv2d(5, 3, 1), [r(2, 5, 4, 4)]
    yield "conv2d_hw", nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0)), [r(2, 2, 6, 5)]
    yield "conv_transpose2d", nn.ConvTranspose2d(3, 2, 3), [r(2, 3, 4, 5)]
    yield "conv_transpose2d_stride", nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), [
        r(2, 4, 4, 3)]
    for name, module, x in [("batch_norm", nn.BatchNorm2d(3), r(4, 3, 5, 4) * 2 + 1),
                            ("batch_norm_1d", nn.BatchNorm1d(5, eps=1e-3, momentum=0.3), r(6, 5)),
                            ("batch_norm_plain", nn.BatchNorm2d(3, affine=False), r(4, 3, 2, 2)),
                            ("batch_norm_eval", nn.BatchNorm2d(3), r(4, 3, 5, 4))]:
        for parameter in module.parameters():
            nn.init.uniform_(parameter, 0.5, 1.5)
        module.running_mean.normal_()
        module.running_var.uniform_(0.5, 2)
        yield name, module.train(not name.endswith("eval")), [x]
    for name, module, x in [("layer_norm", nn.LayerNorm(6), r(2, 3, 6)),
                            ("layer_norm_2d", nn.LayerNorm([3, 4], eps=1e-3), r(2, 3, 4)),
                            ("layer_norm_plain", nn.LayerNorm(6, elementwise_affine=False), r(4, 6)),
                            ("group_norm", nn.GroupNorm(2, 6), r(2, 6, 3, 3))]:
        for parameter in module.parameters():
            nn.init.uniform_(parameter, 0.5, 1.5)
        yield name, module, [x]
    yield "embedding", nn.Embedding(7, 4), [torch.randint(7, (3, 5))]
    yield "embedding_padding", nn.Embedding(7, 4, padding_idx=0), [torch.tensor([[0, 3, 6, 0], [1, 0, 3, 3]])]
    yield "max_pool2d", nn.MaxPool2d(3, stride=2, padding=1), [r(2, 3, 7, 6)]
    yield "max_pool2d_ceil", nn.MaxPool2d(2, ceil_mode=True), [r(2, 3, 5, 5)]
    yield "avg_pool2d", nn.AvgPool2d(2), [r(2, 3, 6, 4)]
    yield "avg_pool2d_padding", nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), [r(2, 3, 6, 5)]
    yield "adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 3)), [r(2, 3, 5, 7)]
    yield "upsample_nearest", nn.Upsample(scale_factor=2, mode="nearest"), [r(2, 3, 3, 4)]
    yield "upsample_bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), [r(2, 3, 3, 4)]
    yield "upsample_corners", nn.Upsample(scale_factor=3, mode="bilinear", align_corners=True), [r(1, 2, 3, 4)]
    yield "attention", Attention(8, 2), [r(2, 5, 8)]
    yield "attention_no_bias", Attention(8, 4, bias=False), [r(2, 5, 8)]
    yield "attention_causal", Attention(8, 2, causal=True), [r(2, 5, 8)]
    mask = torch.rand(5, 5) > 0.4
    mask.fill_diagonal_(True)
    yield "attention_mask", Attention(8, 2), [r(2, 5, 8), mask]
    yield "attention_cross", Attention(8, 2), [r(2, 5, 8), r(2, 3, 8), r(2, 3, 8)]
    for name, options in [("transformer", {}), ("transformer_gelu", {"activation": "gelu", "norm_first": True})]:
        yield name, nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True, **options), [r(2, 5, 8)]
    yield "sequential", nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                      nn.Linear(12, 4)), [r(3, 2, 6, 6)]
    yield "conv1d", nn.Conv1d(3, 4, 3, stride=2, padding=1), [r(2, 3, 9)]
    yield "conv1d_groups", nn.Conv1d(4, 6, 3, dilation=2, groups=2, bias=False), [r(2, 4, 8)]
    norm = nn.RMSNorm(6)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    yield "rms_norm", norm, [r(2, 3, 6)]
    yield "rms_norm_plain", nn.RMSNorm(6, eps=1e-3, elementwise_affine=False), [r(4, 6)]


def loss_cases():
    r = torch.randn
    labels = torch.tensor([1, 4, 0, 2, 4, 3])
    some = torch.tensor([1, -100, 0, 2, -100, 3])
    weight = torch.rand(5) + 0.5
    pixels = torch.randint(5, (2, 3, 2))

    def loss(function, **options):
        return Function(lambda x, *rest: function(x, *rest, **options))

    entropy = F.cross_entropy
    yield "cross_entropy", loss(entropy), [r(6, 5), labels]
    yield "cross_entropy_ignore", loss(entropy), [r(6, 5), some]
    yield "cross_entropy_ignore_4", loss(entropy, ignore_index=4), [r(6, 5), labels]
    yield "cross_entropy_smooth", loss(entropy, label_smoothing=0.1), [r(6, 5), some]
    yield "cross_entropy_weight", Function(lambda x, t, w: entropy(x, t, w)), [r(6, 5), some, weight]
    yield "cross_entropy_weight_smooth", Function(lambda x, t, w: entropy(x, t, w, label_smoothing=0.2)), [
        r(6, 5), labels, weight]
    yield "cross_entropy_sum", loss(entropy, reduction="sum"), [r(6, 5), some]
    yield "cross_entropy_none", loss(entropy, reduction="none"), [r(6, 5), labels]
    yield "cross_entropy_pixels", loss(entropy), [r(2, 5, 3, 2), pixels]
    yield "nll", loss(F.nll_loss), [F.log_softmax(r(6, 5), 1), some]
    yield "mse", loss(F.mse_loss), [r(4, 3), r(4, 3)]
    yield "mse_sum", loss(F.mse_loss, reduction="sum"), [r(4, 3), r(4, 3)]
    yield "l1", loss(F.l1_loss), [r(4, 3), r(4, 3)]
    yield "smooth_l1", loss(F.smooth_l1_loss), [r(4, 3) * 2, r(4, 3)]
    yield "smooth_l1_beta", loss(F.smooth_l1_loss, beta=0.3), [r(4, 3), r(4, 3)]
    bce = F.binary_cross_entropy_with_logits
    yield "bce", loss(bce), [r(4, 3), torch.rand(4, 3)]
    yield "bce_pos_weight", Function(lambda x, t, p: bce(x, t, pos_weight=p)), [r(4, 3), torch.rand(4, 3),
                                                                                  torch.rand(3) + 0.5]


def function_cases():
    r = torch.randn
    numbers = torch.tensor([[-3, 2, 0, 7], [2, 5, -2, 9]])
    mask = torch.tensor([True, False, True, True, False])
    infinity = torch.tensor([[1.0, float("-inf"), 2.0], [3.0, 0.5, 1e4]])

    def function(call, *inputs):
        return Function(lambda *x: call(*x).float(), is_loss=False), list(inputs)

    yield "eq_scalar", *function(lambda x: x == 2, numbers.clone())
    yield "ne_scalar", *function(lambda x: x != 2, numbers.clone())
    yield "lt_scalar", *function(lambda x: x < 0.5, numbers.clone())
    yield "le_scalar", *function(lambda x: x <= 2, numbers.clone())
    yield "gt_scalar", *function(lambda x: x > 0.5, r(3, 7))
    yield "ge_scalar", *function(lambda x: x >= 2, numbers.to(torch.uint8))
    yield "where_scalar", *function(lambda x, m: torch.where(m, x, 0.5), r(3, 5), mask.clone())
    yield "masked_fill", *function(lambda x, m: x.masked_fill(m, -1e9), r(3, 5), mask.clone())
    yield "lerp", *function(lambda a, b: torch.lerp(a, b, 0.3), r(3, 5), r(5))
    yield "lerp_far", *function(lambda a, b: torch.lerp(a, b, 1.5), r(3, 5), r(3, 5))
    yield "remainder", *function(torch.remainder, r(4, 5) * 3, r(4, 5))
    yield "remainder_scalar", *function(lambda x: torch.remainder(x, -0.7), r(4, 5) * 3)
    yield "remainder_whole", *function(torch.remainder, numbers.clone(), torch.tensor([3, -3, 5, 4]))
    yield "logsumexp", *function(lambda x: torch.logsumexp(x, 1, keepdim=True), r(3, 7, 2) * 50)
    yield "logsumexp_infinite", *function(lambda x: torch.logsumexp(x, -1), infinity)
    yield "any", *function(lambda x: x.any(1), torch.tensor([[0.0, 0.0], [0.0, float("nan")], [1.0, 0.0]]))
    yield "all", *function(lambda x: x.all(0, keepdim=True), torch.tensor([[1, 0, 3], [2, 1, 0], [3, 3, 3]]))
    yield "flip", *function(lambda x: x.flip(0, 2), r(3, 2, 4))
    yield "roll", *function(lambda x: x.roll(5, 1), r(3, 4, 2))
    yield "roll_back", *function(lambda x: x.roll(-1, -1), r(3, 4))
    yield "repeat", *function(lambda x: x.repeat(2, 3, 1, 2), r(2, 3, 2))
    yield "tril", *function(lambda x: x.tril(-1), r(2, 4, 5))
    yield "triu", *function(lambda x: x.triu(1), r(5, 3))
    yield "scatter", *function(lambda x, i, s: x.scatter(1, i, s), r(3, 5), torch.tensor([[4, 0], [1, 3]]), r(2, 2))
    yield "scatter_scalar", *function(lambda x, i: x.scatter(0, i, 2.5), r(3, 5), torch.tensor([[2, 0, 2], [2, 1, 0]]))
    yield "one_hot", *function(lambda i: F.one_hot(i, 6), torch.tensor([[5, 0], [2, 2]]))
    yield "bincount", *function(lambda i: torch.bincount(i, minlength=9), torch.tensor([5, 0, 2, 5, 5, 7]))
    einsum = torch.einsum
    yield "einsum_attention", *function(lambda q, k: einsum("bhqd,bhkd->bhqk", q, k), r(2, 3, 5, 4), r(2, 3, 6, 4))
    yield "einsum_dots", *function(lambda a, b: einsum("...ij,...jk", a, b), r(3, 1, 5, 4), r(2, 4, 3))
    yield "einsum_sum", *function(lambda x: einsum("ijk->ki", x), r(3, 5, 4))
    yield "einsum_letters", *function(lambda a, b: einsum("bA,Ac", a, b), r(3, 4), r(4, 2))
    yield "einsum_mixed", *function(lambda a, b, c: einsum("zij,iz,k->jzk", a, b, c), r(3, 5, 4), r(5, 3), r(2))
    yield "conv1d", *function(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3, dilation=2), r(2, 3, 11),
                              r(4, 3, 3), r(4))
    yield "conv1d_groups", *function(lambda x, w: F.conv1d(x, w, groups=2), r(2, 4, 9), r(6, 2, 3))
    yield "rms_norm", *function(lambda x, w: F.rms_norm(x, w.shape, w, eps=1e-6), r(2, 3, 5), r(3, 5))


def differentiable(module, index, tensor):
    """The targets and weights of losses get no gradient."""
    return tensor.is_floating_point() and not (isinstance(module, Function) and module.is_loss and index > 0)


def make_cases(file, cases):
    out = {}
    for name, module, inputs in cases:
        for key, value in module.state_dict().items():
            out[f"{name}/state/{key}"] = value.clone()
        for i, x in enumerate(inputs):
            out[f"{name}/in{i}"] = x.clone()
            if differentiable(module, i, x):
                x.requires_grad_()
        y = module(*inputs)
        out[f"{name}/out"] = y
        if y.requires_grad:
            out[f"{name}/seed"] = seed = torch.randn_like(y)
            (y * seed).sum().backward()
        for key, value in module.named_buffers():
            out[f"{name}/after/{key}"] = value
        for i, x in enumerate(inputs):
            if x.grad is not None:
                out[f"{name}/grad{i}"] = x.grad
        for key, value in module.named_parameters():
            out[f"{name}/grad/{key}"] = value.grad
    save(file, out)


def layers():
    torch.manual_seed(1)
    make_cases("layers.safetensors", layer_cases())


def losses():
    torch.manual_seed(2)
    make_cases("losses.safetensors", loss_cases())


def functions():
    torch.manual_seed(5)
    make_cases("functions.safetensors", function_cases())


# ---- optimisers and schedules: 50 steps of each with each ----

STEPS = 50

OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd_dampening": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, dampening=0.3, weight_decay=0.01),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd_maximize": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.02),
    "rmsprop_momentum": lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, momentum=0.8, weight_decay=0.1),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=0.02, centered=True),
    "rmsprop_centered_momentum": lambda p: torch.optim.RMSprop(
        p, lr=0.02, alpha=0.9, momentum=0.8, weight_decay=0.1, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "adagrad_decay": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.05, weight_decay=0.1, maximize=True),
    "adamw_decay": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.3, maximize=True),
}

schedules = torch.optim.lr_scheduler


def warmup_linear(step):
    return step / 10 if step < 10 else max(0.0, (45 - step) / (45 - 10))


def warmup_cosine(step):
    return step / 10 if step < 10 else max(0.0, 0.5 * (1 + math.cos(math.pi * (step - 10) / (60 - 10))))


SCHEDULES = {
    "constant": lambda o: None,
    "one_cycle": lambda o: schedules.OneCycleLR(o, 0.3, total_steps=60),
    "one_cycle_linear": lambda o: schedules.OneCycleLR(
        o, 0.3, epochs=6, steps_per_epoch=10, anneal_strategy="linear", three_phase=True, pct_start=0.4, div_factor=10,
        final_div_factor=100, base_momentum=0.7, max_momentum=0.9),
    "one_cycle_plain": lambda o: schedules.OneCycleLR(o, 0.3, total_steps=60, cycle_momentum=False),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 20, eta_min=0.001),
    "step": lambda o: schedules.StepLR(o, 7, gamma=0.5),
    "exponential": lambda o: schedules.ExponentialLR(o, 0.93),
    "lambda": lambda o: schedules.LambdaLR(o, lambda step: 1 / (1 + 0.1 * step)),
    "warmup_linear": lambda o: schedules.LambdaLR(o, warmup_linear),
    "warmup_cosine": lambda o: schedules.LambdaLR(o, warmup_cosine),
    "sequential": lambda o: schedules.SequentialLR(
        o, [schedules.LambdaLR(o, warmup_linear), schedules.CosineAnnealingLR(o, 30), schedules.ExponentialLR(o, 0.8)],
        milestones=[8, 30]),
}


def momentum_of(optimiser):
    group = optimiser.param_groups[0]
    return group["betas"][0] if "betas" in group else group.get("momentum", 0)


def optim():
    torch.manual_seed(3)
    start, gradients = torch.randn(5), torch.randn(STEPS, 5)
    out = {"start": start, "gradients": gradients}
    for optimiser_name, make_optimiser in OPTIMISERS.items():
        for schedule_name, make_schedule in SCHEDULES.items():
            if optimiser_name.startswith("adagrad") and schedule_name in ("one_cycle", "one_cycle_linear"):
                continue  # there is no momentum to cycle
            p = nn.Parameter(start.clone())
            optimiser = make_optimiser([p])
            schedule = make_schedule(optimiser)
            path, rates = [], []
            for gradient in gradients:
                p.grad = gradient.clone()
                rates.append([optimiser.param_groups[0]["lr"], momentum_of(optimiser)])
                optimiser.step()
                if schedule:
                    schedule.step()
                path.append(p.detach().clone())
            out[f"{optimiser_name}/{schedule_name}/path"] = torch.stack(path)
            if optimiser_name in ("sgd_momentum", "adam"):
                out[f"{optimiser_name}/{schedule_name}/rates"] = torch.tensor(rates, dtype=torch.float64)
    save("optim.safetensors", out)


# ---- small networks, 20 steps ----

TRAIN_STEPS = 20


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(12)
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(30, 16, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(10, 16) * 0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0, activation="gelu", batch_first=True) for _ in range(2))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 30)

    def forward(self, x):
        y = self.tokens(x) + self.positions
        for layer in self.layers:
            y = layer(y)
        return self.head(self.norm(y))


def run_training(out, name, model, batches, optimiser, schedule, max_norm=None):
    for key, value in model.state_dict().items():
        out[f"{name}/state/{key}"] = value.clone()
    for i, (x, t) in enumerate(batches):
        out[f"{name}/x{i}"], out[f"{name}/t{i}"] = x, t
    results, norms = [], []
    for step in range(TRAIN_STEPS):
        x, t = batches[step % len(batches)]
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, -2), t.flatten())
        optimiser.zero_grad()
        loss.backward()
        if max_norm:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
        optimiser.step()
        if schedule:
            schedule.step()
        results.append(loss.detach())
    out[f"{name}/losses"] = torch.stack(results)
    if norms:
        out[f"{name}/norms"] = torch.stack(norms)
    for key, value in model.state_dict().items():
        out[f"{name}/after/{key}"] = value


def train():
    torch.manual_seed(4)
    out = {}
    mlp = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 5))
    batches = [(torch.randn(16, 10), torch.randint(5, (16,))) for _ in range(4)]
    run_training(out, "mlp", mlp, batches, torch.optim.Adam(mlp.parameters(), lr=0.01), None)

    cnn = Cnn()
    batches = [(torch.randn(8, 2, 8, 8), torch.randint(5, (8,))) for _ in range(4)]
    sgd = torch.optim.SGD(cnn.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    run_training(out, "cnn", cnn, batches, sgd, schedules.OneCycleLR(sgd, 0.1, total_steps=TRAIN_STEPS + 5))

    transformer = Transformer()
    batches = []
    for _ in range(4):
        x = torch.randint(1, 30, (4, 10))
        x[0, 7:] = 0
        t = x.roll(1, 1)
        t[0, 7:] = -100
        batches.append((x, t))
    adamw = torch.optim.AdamW(transformer.parameters(), lr=5e-3, weight_decay=0.1)
    schedule = schedules.LambdaLR(adamw, lambda step: step / 5 if step < 5 else max(0.0, (25 - step) / 20))
    run_training(out, "transformer", transformer, batches, adamw, schedule, max_norm=1.0)
    save("train.safetensors", out)


# ---- autocast: the type of results, for inputs of f32 and bf16 ----


def autocast():
    names = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64", torch.bool: "bool"}
    f, t = torch.float32, torch.tensor([0, 1])

    def rows(half):
        for given in (f, half):
            x, w, image = torch.randn(2, 4, dtype=given), torch.randn(4, 4), torch.randn(1, 2, 4, 4, dtype=given)
            yield "matmul", given, lambda: x @ w
            yield "linear", given, lambda: F.linear(x, w)
            yield "conv2d", given, lambda: F.conv2d(image, torch.randn(3, 2, 3, 3))
            yield "conv_transpose2d", given, lambda: F.conv_transpose2d(image, torch.randn(2, 3, 3, 3))
            q = torch.randn(1, 1, 4, 8, dtype=given)
            yield "attention", given, lambda: F.scaled_dot_product_attention(q, q, q)
            yield "add", given, lambda: x + x
            yield "mul", given, lambda: x * x
            yield "exp", given, lambda: x.exp()
            yield "relu", given, lambda: x.relu()
            yield "gelu", given, lambda: F.gelu(x)
            yield "sum", given, lambda: x.sum()
            yield "mean", given, lambda: x.mean()
            yield "softmax", given, lambda: x.softmax(-1)
            yield "log_softmax", given, lambda: x.log_softmax(-1)
            yield "layer_norm", given, lambda: F.layer_norm(x, [4])
            yield "max_pool2d", given, lambda: F.max_pool2d(image, 2)
            yield "cross_entropy", given, lambda: F.cross_entropy(x, t)
            yield "nll_loss", given, lambda: F.nll_loss(x, t)
            yield "mse_loss", given, lambda: F.mse_loss(x, x)
            yield "l1_loss", given, lambda: F.l1_loss(x, x)
            yield "smooth_l1_loss", given, lambda: F.smooth_l1_loss(x, x)
            yield "concat", given, lambda: torch.cat([x, w])
            yield "argmax", given, lambda: x.argmax(-1)
            yield "eq", given, lambda: x == x

    with open(HERE / "autocast.txt", "w") as out:
        for half in (torch.bfloat16, torch.float16):
            for op, given, call in rows(half):
                with torch.autocast("cpu", half):
                    result = call()
                out.write(f"{names[half]} {op} {names[given]} {names[result.dtype]}\n")


if __name__ == "__main__":
    for part in sys.argv[1:] or ["layers", "losses", "functions", "optim", "train", "autocast"]:
        globals()[part]()
