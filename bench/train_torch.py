"""train_torch.py NETWORK BATCH SIZE DTYPE SECONDS - `lockstep_bench --train` in PyTorch: alone, or with DDP over gloo under
torchrun. One thread and one core each. For bf16 uses f32 if that is faster. Prints the images per second of all
processes."""
import os
import sys
import time

rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})

import timm
import torch
import torch.distributed as dist
import torch.nn.functional as F

from torch_peer import trains_in_half

network, batch, size, dtype, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
torch.set_num_threads(1)
half = dtype == "bf16" and trains_in_half()
if world > 1:
    dist.init_process_group("gloo")
net = timm.create_model(network, num_classes=37).to(memory_format=torch.channels_last)
if world > 1:
    net = torch.nn.parallel.DistributedDataParallel(net)
adam = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
x, label = torch.rand(batch, 3, size, size).to(memory_format=torch.channels_last), torch.arange(batch) // 2
best, begin, step, more = 1e30, 0.0, 0, True
last = time.perf_counter()
while more:
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = F.cross_entropy(net((x - mean) / deviation), label)
    loss.backward()
    adam.step()
    adam.zero_grad()
    now = time.perf_counter()
    if step == 2:
        begin = now
    if step > 2:
        best = min(best, now - last)
    more = step < 3 or now - begin < seconds
    if world > 1:
        word = torch.tensor(more)
        dist.broadcast(word, 0)
        more = bool(word)
    last, step = now, step + 1
if rank == 0:
    print(f"{batch * world / best:.6g}")
if world > 1:
    dist.destroy_process_group()
