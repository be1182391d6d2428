"""gpu_torch.py bert|resnet [--batch N] [--frozen] [--compile] - the PyTorch side of gpu.py: training steps on a GPU.

Like gpu_bert: BERT-large for question answering in bf16, 384 words, dropout, gradients clipped, fused AdamW. Like resnet_step: ResNet-50d
in f16, channels last, bytes normalised on the GPU, fused Adam. Prints milliseconds of a step, the most memory in GiB, and seconds from
the start of the process to the end of the first step."""
import argparse
import os
import time

import torch
from torch import nn

WARM_UP, STEPS = 8, 20


class Bottleneck(nn.Module):
    """Of ResNet-50d: the stride is in the 3x3 convolution, and the shortcut averages before its 1x1."""

    def __init__(self, wide, narrow, stride):
        super().__init__()
        conv = lambda i, o, k, s=1: [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)]
        self.path = nn.Sequential(*conv(wide, narrow, 1), nn.ReLU(True), *conv(narrow, narrow, 3, stride), nn.ReLU(True),
                                  *conv(narrow, 4 * narrow, 1))
        pool = [nn.AvgPool2d(2, 2)] if stride > 1 else []
        self.shortcut = nn.Sequential(*pool, *conv(wide, 4 * narrow, 1)) if pool or wide != 4 * narrow else nn.Identity()

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


class Resnet50d(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, channels = [], 3
        for width, stride in (32, 2), (32, 1), (64, 1):
            layers += [nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)]
            channels = width
        layers.append(nn.MaxPool2d(3, 2, 1))
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
                channels = 4 * (64 << stage)
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        return self.fc(self.features(x))


def bert(args):
    from transformers import BertConfig, BertForQuestionAnswering
    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    config._attn_implementation = "sdpa"
    net = BertForQuestionAnswering(config).cuda().train()
    adam = torch.optim.AdamW(net.parameters(), lr=3e-5, weight_decay=0.01, fused=True)
    run = torch.compile(net) if args.compile else net
    ids = torch.randint(1000, 30000, (args.batch, 384), device="cuda")
    mask, starts = torch.ones_like(ids), torch.arange(1, args.batch + 1, device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(input_ids=ids, attention_mask=mask, token_type_ids=ids % 2, start_positions=starts, end_positions=starts).loss
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1)
        adam.step()
        adam.zero_grad()
    return step


def resnet(args):
    net = Resnet50d(37).cuda().to(memory_format=torch.channels_last).train()
    if args.frozen:
        net.features.requires_grad_(False)
    adam = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    run = torch.compile(net) if args.compile else net
    photos = torch.randint(0, 256, (args.batch, 3, 224, 224), device="cuda", dtype=torch.uint8).to(memory_format=torch.channels_last)
    labels = torch.arange(args.batch, device="cuda") * 37 // args.batch
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1)

    def step():
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(run((photos.float() / 255 - mean) / std), labels)
        scaler.scale(loss).backward()
        scaler.step(adam)
        scaler.update()
        adam.zero_grad()
    return step


def seconds_since_start():
    began = float(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["bert", "resnet"])
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    step = globals()[args.model](args)
    step()
    torch.cuda.synchronize()
    first = seconds_since_start()
    for _ in range(WARM_UP):
        step()
    best = 1e30
    for _ in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - began) / STEPS)
    print(f"{1e3 * best:.2f} ms a step; {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB; first step after {first:.2f} s")


main()
