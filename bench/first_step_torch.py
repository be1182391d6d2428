"""first_step_torch.py - `lockstep_bench --first-step` in PyTorch with Accelerate: one step of a small network, in as many
processes as the launcher starts."""
import timm
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
net = timm.create_model("resnet10t", num_classes=6, stem_width=16, channels=(32, 64, 128, 256))
net, adam = accelerator.prepare(net, torch.optim.Adam(net.parameters(), lr=1e-3))
x, y = torch.rand(32, 3, 64, 64), torch.arange(32) * 6 // 32
accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
adam.step()
accelerator.end_training()
