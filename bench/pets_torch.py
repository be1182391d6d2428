"""pets_torch.py FOLDER WEIGHTS [--full] [--epochs N] [--size 160] [--eval FILE] - the training of examples/pets.c in PyTorch.

The same photos, network, weights, optimiser and schedule, with memory settings tuned by the caller's environment: prints the
accuracy and the seconds of every epoch, and with --losses FILE writes the loss of every step. --eval names a file with the photos
to test on, one per line (`lockstep_bench --held-out FOLDER` prints those of examples/pets); the others are trained on."""
import argparse
import os
import re
import time

import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file
from torchvision import transforms

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("weights")
parser.add_argument("--full", action="store_true", help="train all layers, not only the classifier")
parser.add_argument("--f32", action="store_true")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--size", type=int, default=160)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--lr", type=float, default=3e-2)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--eval")
parser.add_argument("--losses")
args = parser.parse_args()

torch.manual_seed(42)
files = sorted(f for f in os.listdir(args.folder) if f.endswith(".jpg"))
label_of = lambda f: re.match(r"^(.*)_\d+\.jpg$", f).group(1)
classes = sorted({label_of(f) for f in files})
if args.eval:
    held_out = set(open(args.eval).read().split())
else:
    order = torch.randperm(len(files)).tolist()
    held_out = {files[i] for i in order[int(0.8 * len(files)):]}


class Photos(torch.utils.data.Dataset):
    def __init__(self, names, transform):
        self.names, self.transform = names, transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        image = Image.open(os.path.join(args.folder, self.names[i])).convert("RGB")
        return self.transform(image), classes.index(label_of(self.names[i]))


size = (args.size, args.size)
train_set = Photos([f for f in files if f not in held_out],
                   transforms.Compose([transforms.RandomResizedCrop(size, scale=(0.5, 1.0)), transforms.ToTensor()]))
eval_set = Photos([f for f in files if f in held_out], transforms.Compose([transforms.Resize(size), transforms.ToTensor()]))
train = torch.utils.data.DataLoader(train_set, batch_size=args.batch, shuffle=True, num_workers=args.workers)
evaluate = torch.utils.data.DataLoader(eval_set, batch_size=2 * args.batch, num_workers=args.workers)

model = torchvision.models.resnet50()
for stage in (model.layer2, model.layer3, model.layer4):  # the strides of the first published form
    stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
model.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(args.weights).items()}, strict=False)
model.fc = torch.nn.Linear(model.fc.in_features, len(classes))
if not args.full:
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("fc.")
model = model.to(memory_format=torch.channels_last)

adam = torch.optim.Adam(model.parameters(), lr=args.lr / 25)
cycle = torch.optim.lr_scheduler.OneCycleLR(adam, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(train))
mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
losses = []


def logits(x):
    x = ((x - mean) / std).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16, enabled=not args.f32):
        return model(x).float()


for epoch in range(args.epochs):
    began = time.time()
    model.train()
    for x, y in train:
        loss = torch.nn.functional.cross_entropy(logits(x), y)
        loss.backward()
        adam.step()
        cycle.step()
        adam.zero_grad()
        losses.append(loss.item())
    trained = time.time() - began
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in evaluate:
            right += (logits(x).argmax(-1) == y).sum().item()
    print(f"epoch {epoch}: {100 * right / len(eval_set):.2f}  train {trained:.1f} s, epoch {time.time() - began:.1f} s", flush=True)
if args.losses:
    open(args.losses, "w").write("step,loss\n" + "".join(f"{i + 1},{v}\n" for i, v in enumerate(losses)))
