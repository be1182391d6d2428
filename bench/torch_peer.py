"""torch_peer.py [--ipex] - the same items with PyTorch: a server that reads names on stdin and answers with values, like
lockstep_bench. With --ipex it uses modules and optimisers of Intel's extension."""
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from peers import REPEAT, UNITS

ipex = None
if "--ipex" in sys.argv:
    import intel_extension_for_pytorch as ipex

PRODUCTS = {
    "bert-base proj fwd NT": (4608, 768, 768, 0, 1), "bert-base qkv fwd NT": (4608, 2304, 768, 0, 1),
    "bert-base ffn1 fwd NT": (4608, 3072, 768, 0, 1), "bert-base ffn2 fwd NT": (4608, 768, 3072, 0, 1),
    "bert-base ffn1 dgrad NN": (4608, 768, 3072, 0, 0), "bert-base ffn1 wgrad TN": (3072, 768, 4608, 1, 0),
    "bert-base proj wgrad TN": (768, 768, 4608, 1, 0), "bert-large proj fwd NT": (4608, 1024, 1024, 0, 1),
    "bert-large ffn1 fwd NT": (4608, 4096, 1024, 0, 1), "bert-large ffn2 fwd NT": (4608, 1024, 4096, 0, 1),
    "bert-large ffn1 wgrad TN": (4096, 1024, 4608, 1, 0), "attention QK one head": (384, 384, 64, 0, 1),
    "attention PV one head": (384, 64, 384, 0, 0),
}
CONVOLUTIONS = {
    "stem 7x7": (3, 64, 224, 7, 2), "s1 1x1 64-64": (64, 64, 56, 1, 1), "s1 3x3 64": (64, 64, 56, 3, 1),
    "s1 1x1 64-256": (64, 256, 56, 1, 1), "s1 1x1 256-64": (256, 64, 56, 1, 1), "s2 3x3 128 /2": (128, 128, 56, 3, 2),
    "s2 1x1 512-128": (512, 128, 28, 1, 1), "s2 3x3 128": (128, 128, 28, 3, 1), "s2 1x1 128-512": (128, 512, 28, 1, 1),
    "s3 1x1 1024-256": (1024, 256, 14, 1, 1), "s3 3x3 256": (256, 256, 14, 3, 1),
    "s3 1x1 256-1024": (256, 1024, 14, 1, 1),
    "s4 1x1 2048-512": (2048, 512, 7, 1, 1), "s4 3x3 512": (512, 512, 7, 3, 1), "s4 1x1 512-2048": (512, 2048, 7, 1, 1),
}
CHANNELS_LAST = torch.channels_last


def best(call, budget=0.25, limit=5):
    """Seconds of the fastest call. The first two allocate memory and do one-time work; at least five count, unless they take
    longer than `limit` seconds."""
    begin, n = time.perf_counter(), 0
    call()
    if time.perf_counter() - begin < limit:
        call()
    fastest, begin = 1e30, time.perf_counter()
    while n < 2 or n < 5 and time.perf_counter() - begin < limit or time.perf_counter() - begin < budget:
        t = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - t)
        n += 1
    return fastest


def tuned(net, optimizer, dtype):
    """Module and optimiser, converted for training by Intel's extension if requested."""
    if not ipex:
        return net, optimizer
    return ipex.optimize(net.train(), optimizer=optimizer, dtype=dtype)


def product(dtype, case):
    m, n, k, a_turned, b_turned = PRODUCTS[case]
    a = torch.randn(k, m, dtype=dtype).t() if a_turned else torch.randn(m, k, dtype=dtype)
    b = torch.randn(n, k, dtype=dtype).t() if b_turned else torch.randn(k, n, dtype=dtype)
    with torch.no_grad():
        return 2e-9 * m * n * k / best(lambda: a @ b)


def convolution(dtype, case):
    name, way = case.rsplit(" ", 1)
    channels, outputs, size, kernel, stride = CONVOLUTIONS[name]
    x = torch.randn(8, channels, size, size, dtype=dtype).to(memory_format=CHANNELS_LAST)
    w = torch.randn(outputs, channels, kernel, kernel, dtype=dtype).to(memory_format=CHANNELS_LAST)
    with torch.no_grad():
        y = F.conv2d(x, w, stride=stride, padding=kernel // 2)
        flop = 2.0 * 8 * y.shape[2] * y.shape[3] * outputs * channels * kernel * kernel
        if way == "fwd":
            return flop * 1e-9 / best(lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2))
        wants = [way == "dgrad", way == "wgrad", False]
        return flop * 1e-9 / best(lambda: torch.ops.aten.convolution_backward(
            y, x, w, None, [stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1, wants))


def memory_pass(dtype, case):
    size = torch.finfo(dtype).bits // 8
    if case == "adamw":
        p = torch.full((32 << 20,), 0.5)
        p.grad = torch.full_like(p, 0.5)
        step = torch.optim.AdamW([p], lr=1e-3, fused=True).step
        return 28e-9 * p.numel() / best(step)
    name, way = case.rsplit(" ", 1)
    image, logits = name == "batch norm", name == "cross entropy"
    if image:
        x = torch.randn(64, 256, 56, 56, dtype=dtype).to(memory_format=CHANNELS_LAST)
    else:
        x = torch.randn(*((1600, 30522) if logits else (65536, 768)), dtype=dtype)
    passes = {"layer norm": (2, 3), "softmax": (2, 3), "gelu": (2, 3), "batch norm": (3, 5),
              "cross entropy": (1, 2)}[name]
    features = 256 if image else 768
    weight, bias = torch.ones(features, dtype=dtype), torch.zeros(features, dtype=dtype)
    target = torch.arange(1600) if logits else None
    forward = {
        "layer norm": lambda x: F.layer_norm(x, (768,), weight, bias),
        "softmax": lambda x: F.softmax(x, 1),
        "gelu": F.gelu,
        "batch norm": lambda x: F.batch_norm(x, None, None, weight, bias, training=True),
        "cross entropy": lambda x: F.cross_entropy(x, target),
    }[name]
    if way == "fwd":
        with torch.no_grad():
            return passes[0] * x.numel() * size * 1e-9 / best(lambda: forward(x))
    x.requires_grad_()
    for t in (weight, bias):
        t.requires_grad_()
    y = forward(x)
    dy = torch.ones_like(y)
    inputs = [x] if name in ("softmax", "gelu", "cross entropy") else [x, weight, bias]
    return passes[1] * x.numel() * size * 1e-9 / best(lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True))


def attention(dtype, case):
    q, k, v = (torch.randn(12, 12, 384, 64, dtype=dtype, requires_grad=True) for _ in range(3))
    dy = torch.randn(12, 12, 384, 64, dtype=dtype)
    padding = case.endswith("half padding")
    mask = (torch.arange(384) < 192).expand(12, 1, 384, 384) if padding else None

    def call():
        F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.1).backward(dy)
        q.grad = k.grad = v.grad = None
    return 14e-9 * 12 * 12 * 384 * 384 * 64 / (4 if padding else 1) / best(call)


class Bottleneck(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(4 * width, width, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(width)
        self.conv3 = torch.nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = torch.nn.BatchNorm2d(4 * width)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return F.relu(self.bn3(self.conv3(y)) + x, inplace=True)


def block(dtype, case):
    if case.startswith("bert"):
        net = torch.nn.TransformerEncoderLayer(768, 12, 3072, 0.1, "gelu", batch_first=True)
        x = torch.randn(12, 384, 768, dtype=dtype, requires_grad=True)
        dy = torch.randn(12, 384, 768, dtype=dtype)
    else:
        stage = int(case.rsplit(" ", 1)[1]) - 1
        width, size = 64 << stage, 56 >> stage
        net = Bottleneck(width).to(memory_format=CHANNELS_LAST)
        x = torch.randn(16, 4 * width, size, size, dtype=dtype).to(memory_format=CHANNELS_LAST).requires_grad_()
        dy = torch.randn(16, 4 * width, size, size, dtype=dtype).to(memory_format=CHANNELS_LAST)

    net, _ = tuned(net, torch.optim.SGD(net.parameters(), lr=1e-3), dtype)

    def call():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            y = net(x)
        y.backward(dy.to(y.dtype))
        net.zero_grad(set_to_none=True)
        x.grad = None
    return 1e3 * best(call)


def bert_call(dtype, case):
    """A function that makes one training step of two layers of BERT-base."""
    from transformers import BertConfig, BertForQuestionAnswering
    net = BertForQuestionAnswering(BertConfig(num_hidden_layers=2)).train()
    adamw = torch.optim.AdamW(net.parameters(), lr=3e-5, fused=not ipex)
    net, adamw = tuned(net, adamw, dtype)
    words = 192 if case.endswith("half padding") else 384
    ids, starts = torch.randint(1000, 30000, (12, 384)), torch.arange(1, 37, 3)
    mask = (torch.arange(384) < words).long().expand(12, 384).contiguous()

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = net(input_ids=ids, attention_mask=mask, start_positions=starts, end_positions=starts).loss
        loss.backward()
        adamw.step()
        adamw.zero_grad()
    return step


def model_call(dtype, case, batch):
    """A function that makes one training step, or evaluates a batch."""
    frozen, evaluation = case.endswith("frozen"), case.endswith("evaluation")
    import timm
    net = timm.create_model("resnet50d", num_classes=37).to(memory_format=CHANNELS_LAST)
    if frozen:
        net.requires_grad_(False)
        net.get_classifier().requires_grad_(True)
    adam = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-3, fused=not ipex)
    net, adam = tuned(net, adam, dtype)
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    x, label = torch.rand(batch, 3, 224, 224).to(memory_format=CHANNELS_LAST), torch.arange(batch) // 2

    def evaluate():
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            net.eval()((x - mean) / deviation)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = F.cross_entropy(net((x - mean) / deviation), label)
        loss.backward()
        adam.step()
        adam.zero_grad()
    return evaluate if evaluation else step


def model(dtype, case):
    """A training step, or an evaluation. For bf16, the faster of bf16 and f32: on some machines gradients of convolutions in
    bf16 take minutes, so a step with few photos decides whether the full one is tried."""
    if case.startswith("bert"):
        return 1e3 * min(best(bert_call(t, case), limit=10) for t in {dtype, torch.float32})
    few, all_photos = 4, 64
    types = [dtype]
    if dtype == torch.bfloat16:
        seconds = {t: best(model_call(t, case, few), limit=1) for t in (torch.float32, torch.bfloat16)}
        types = [t for t in seconds if seconds[t] < 2 * min(seconds.values())]
    return 1e3 * min(best(model_call(t, case, all_photos), limit=10) for t in types)


def overhead(dtype, case):
    x, one = torch.ones(16, requires_grad=True), torch.ones(16)

    def call():
        y = x
        for _ in range(1000):
            y = y + one
        y.sum().backward()
        x.grad = None
    return 1e6 * best(call)


def file(dtype, case):
    from safetensors.torch import load_file, save_file
    tensors = {f"layer{i}.weight": torch.randn(512, 768) for i in range(64)}
    tensors.update({f"layer{i}.bias": torch.randn(256) for i in range(64, 164)})
    folder = os.environ.get("TMPDIR", "/tmp")
    path = f"{folder}/safetensors_bench_{os.getpid()}.safetensors"
    save_file(tensors, path)

    def sync(name):
        descriptor = os.open(name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def save():
        save_file(tensors, path)

    def save_on_disk():
        save_file(tensors, path)
        sync(path)
        sync(folder)

    def load():
        for name, tensor in load_file(path).items():
            tensors[name].copy_(tensor)
    seconds = best({"save": save, "save, on disk": save_on_disk, "load": load}[case])
    os.unlink(path)
    return 1e-9 * sum(4 * t.numel() for t in tensors.values()) / seconds


def loader(dtype, case):
    """Time per sample of a shuffled pass over tensors in memory."""
    from torch.utils.data import DataLoader, TensorDataset
    samples, workers = 16384, 2 if case.endswith("workers") else 0
    dataset = TensorDataset(torch.rand(samples, int(case.split()[0])), torch.ones(samples, dtype=torch.int64))
    batches = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    return 1e9 * best(lambda: sum(len(y) for _, y in batches)) / samples


def image(dtype, case):
    """Photos per second through torchvision's transforms of Pillow images."""
    import io
    import os
    import pathlib

    from PIL import Image
    from torchvision import transforms as T
    data = os.environ.get("LOCKSTEP_TEST_DATA", pathlib.Path(__file__).parents[2] / "shared" / "data")
    photos = [path.read_bytes() for path in sorted(pathlib.Path(data, "pets_orig", "images").glob("*.jpg"))]
    steps = {"random crop 224": [T.RandomResizedCrop(224)], "resize 224": [T.Resize((224, 224))],
             "shorter 256, middle 224": [T.Resize(256), T.CenterCrop(224)]}[case]
    transform = T.Compose([*steps, T.ToTensor()])

    def call():
        torch.manual_seed(1)
        for photo in photos * 2:
            transform(Image.open(io.BytesIO(photo)).convert("RGB"))
    return 2 * len(photos) / best(call)


FIRST_STEP = """
import torch, timm
net = timm.create_model("resnet10t", num_classes=6, stem_width=16, channels=(32, 64, 128, 256))
adam = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.rand(32, 3, 64, 64), torch.arange(32) * 6 // 32
torch.nn.functional.cross_entropy(net(x), y).backward()
adam.step()
"""


def program(dtype, case):
    """From the start of a process to the end of its first training step."""
    if case != "demo net, start to first step":
        raise KeyError(case)
    return 1e3 * best(lambda: subprocess.run([sys.executable, "-c", FIRST_STEP], check=True))


def gloo(rank, file, dtype, count, repeat, answer):
    """One of two processes that reduce an array repeatedly; rank 0 reports the best time."""
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    x = torch.zeros(count, dtype=dtype)
    fastest = 1e30
    for _ in range(max(5, min(500, int(2e8 / (count * x.element_size()))) // repeat)):
        t = time.perf_counter()
        for _ in range(repeat):
            dist.all_reduce(x)
        fastest = min(fastest, (time.perf_counter() - t) / repeat)
    if rank == 0:
        answer.put(fastest)
    dist.destroy_process_group()


def comm(dtype, case):
    """gloo has no shared memory: the same numbers for in place and copied."""
    import tempfile
    size, unit = case.split()[1:3]
    count = int(size) * UNITS[unit] // dtype.itemsize
    repeat = REPEAT.get(f"{size} {unit}", 1)
    context = torch.multiprocessing.get_context("fork")
    answer = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=gloo, args=(r, folder + "/meet", dtype, count, repeat, answer))
                 for r in range(2)]
        for rank in ranks:
            rank.start()
        seconds = answer.get(timeout=120)
        for rank in ranks:
            rank.join()
    return seconds * 1e9 if unit == "KiB" else count * dtype.itemsize * 1e-9 / seconds


FAMILIES = {"comm": comm, "gemm": product, "conv": convolution, "pass": memory_pass, "attention": attention, "block": block,
            "model": model, "overhead": overhead, "file": file, "image": image,
            "loader": loader, "program": program}


def serve():
    for line in sys.stdin:
        parts = line.strip().split("/")
        family, dtype, case, threads = parts[0], parts[1], "/".join(parts[2:-1]), int(parts[-1])
        torch.set_num_threads(threads)
        try:
            value = FAMILIES[family]({"f32": torch.float32, "bf16": torch.bfloat16}[dtype], case)
            print(f"{value:.6g}", flush=True)
        except (ImportError, KeyError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{line.strip()}: {error}", file=sys.stderr)
            print("-", flush=True)


if __name__ == "__main__":
    serve()
