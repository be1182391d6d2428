#!/usr/bin/env python3
"""Make what the tests of pictures compare with: run by hand where torchvision and Pillow are installed.

    python3 tests/golden/make_images.py [PETS]

Writes small pictures of every kind to tests/golden/images/, and to images.safetensors their pixels as Pillow sees them
and what torchvision's transforms make of them. For the photos in PETS (pets_orig/images), which are not in the tree, it
keeps sums and some pixels of each result. Random steps use Lockstep's own random numbers, computed here anew.
"""
import io
import math
import pathlib
import struct
import sys
import zlib

import numpy as np
import PIL
import torch
import torchvision.transforms.functional as F
from PIL import Image, ImageOps
from safetensors.torch import save_file
from torchvision.transforms import InterpolationMode as Mode

HERE = pathlib.Path(__file__).parent
KEY = 77  # of the random numbers; the number of the sample is the picture's


# ---- Lockstep's random numbers ----

def philox(key, counter):
    c, k = [counter & 0xffffffff, counter >> 32, 0, 0], [key & 0xffffffff, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xffffffff, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def bits(sample, step, block=0):
    return philox(KEY, sample * 256 + step * 16 + block)


def uniform(word):
    return (word >> 8) * 2.0**-24


def between(word, low, high):
    return low + (high - low) * uniform(word)


# ---- torchvision's transforms with these numbers ----

def random_resized_crop(image, sample, step, size, scale=(0.08, 1), ratio=(3 / 4, 4 / 3), filter=Mode.BILINEAR):
    width, height = image.size
    for attempt in range(10):
        word = bits(sample, step, attempt)
        area = width * height * between(word[0], *scale)
        aspect = math.exp(between(word[1], math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top, left = word[2] * (height - h + 1) >> 32, word[3] * (width - w + 1) >> 32
            return F.resized_crop(image, top, left, h, w, (size, size), filter)
    w, h = width, height
    if width / height < ratio[0]:
        h = round(w / ratio[0])
    elif width / height > ratio[1]:
        w = round(h * ratio[1])
    return F.resized_crop(image, (height - h) // 2, (width - w) // 2, h, w, (size, size), filter)


def color_jitter(image, sample, step, strength):
    order, word, sequence = bits(sample, step), bits(sample, step, 1), [0, 1, 2, 3]
    for i in (3, 2, 1):
        k = order[i] * (i + 1) >> 32
        sequence[i], sequence[k] = sequence[k], sequence[i]
    adjust = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for what in sequence:
        s = strength[what]
        image = adjust[what](image, between(word[what], *((-s, s) if what == 3 else (max(0, 1 - s), 1 + s))))
    return image


def flip(image, sample, step, turned=F.hflip):
    return turned(image) if uniform(bits(sample, step)[0]) < 0.5 else image


# The table of tests/data/image.c, in its order.
TRANSFORMS = {
    "as it is": lambda x, n: x,
    "resize": lambda x, n: F.resize(x, (224, 224)),
    "random resized crop": lambda x, n: random_resized_crop(x, n, 0, 224),
    "shorter side and middle": lambda x, n: F.center_crop(F.resize(x, 256), 224),
    "cubic and flip": lambda x, n: flip(random_resized_crop(x, n, 0, 160, (0.3, 1), filter=Mode.BICUBIC), n, 1),
    "middle with black": lambda x, n: F.center_crop(x, (450, 37)),
    "lanczos": lambda x, n: F.resize(x, (97, 131), Mode.LANCZOS),
    "hamming": lambda x, n: F.resize(x, (300, 301), Mode.HAMMING),
    "box": lambda x, n: F.resize(x, (64, 64), Mode.BOX),
    "nearest": lambda x, n: F.resize(x, (97, 131), Mode.NEAREST),
    "jitter": lambda x, n: color_jitter(F.resize(x, (128, 128)), n, 1, (0.4, 0.4, 0.4, 0.1)),
    "rotation": lambda x, n: F.rotate(F.resize(x, (128, 100)), between(bits(n, 1)[0], -30, 30), fill=[10, 200, 30]),
    "smooth rotation": lambda x, n: flip(
        F.center_crop(F.rotate(x, between(bits(n, 0)[0], -180, 180), Mode.BILINEAR), 100), n, 2, F.vflip),
    "gray": lambda x, n: F.rgb_to_grayscale(F.resize(x, 150, Mode.BICUBIC), 3),
}
SAMPLES = 16  # pixels kept of each result of a photo


# ---- Small pictures of every kind ----

def drawing(width, height):
    """Smooth colours with texture on top."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(5).integers(-30, 30, (height, width, 3))
    colours = np.stack([128 + 100 * np.sin(x / 5), 128 + 100 * np.cos(y / 4 + x / 9), 4 * x + 2 * y], -1)
    return np.clip(colours + noise, 0, 255).astype(np.uint8)


def exif(orientation, order):
    number = ">" if order == b"MM" else "<"
    directory = struct.pack(number + "HHHIHHI", 1, 0x112, 3, 1, orientation, 0, 0)
    return order + struct.pack(number + "HI", 42, 8) + directory


def png(rows, depth, color, palette=b"", interlaced=False, extra=b""):
    """rows: samples [height, width, channels]."""
    height, width, channels = rows.shape

    def packed(part):
        data = b""
        for row in part:
            if depth == 16:
                data += b"\0" + row.astype(">u2").tobytes()
            else:
                flat = row.reshape(-1)
                number = "".join(format(int(v), f"0{depth}b") for v in flat)
                size = -(-len(number) // 8)
                data += b"\0" + int(number.ljust(size * 8, "0"), 2).to_bytes(size, "big")
        return data

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    parts = [rows[y::dy, x::dx] for x, y, dx, dy in passes] if interlaced else [rows]
    data = b"".join(packed(p) for p in parts if p.size)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))
    if palette:
        out += chunk(b"PLTE", palette)
    return out + extra + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def pictures():
    rgb = drawing(23, 19)
    image, wide = Image.fromarray(rgb), Image.fromarray(drawing(45, 35))

    def jpeg(picture, **options):
        out = io.BytesIO()
        picture.save(out, "jpeg", **{"quality": 90, **options})
        return out.getvalue()

    for name, sampling in (("444", 0), ("422", 1), ("420", 2)):
        yield f"{name}.jpg", jpeg(wide, subsampling=sampling)
    yield "gray.jpg", jpeg(wide.convert("L"))
    yield "progressive.jpg", jpeg(wide, subsampling=2, progressive=True)
    yield "restart.jpg", jpeg(wide, subsampling=2, restart_marker_blocks=3)
    yield "optimized.jpg", jpeg(wide, subsampling=1, optimize=True, quality=97)
    yield "rgb.jpg", jpeg(image, keep_rgb=True)
    yield "cmyk.jpg", jpeg(image.convert("CMYK"))
    yield "trailing.jpg", jpeg(image) + b"something else" * 9
    for orientation in range(1, 9):
        order = b"MM" if orientation % 2 else b"II"
        yield f"turn{orientation}.jpg", jpeg(image, exif=b"Exif\0\0" + exif(orientation, order))

    colors = rgb.reshape(-1, 3)
    gray = np.array(image.convert("L"))
    for depth in (1, 2, 4, 8):
        levels = (gray >> 8 - depth)[..., None]
        yield f"gray{depth}.png", png(levels, depth, 0)
        yield f"palette{depth}.png", png(levels, depth, 3, colors[:1 << depth].tobytes())
    yield "rgb8.png", png(rgb, 8, 2)
    yield "rgb16.png", png(rgb.astype(int) * 255, 16, 2)
    yield "gray_alpha.png", png(np.stack([gray, 255 - gray], -1), 8, 4)
    yield "rgba8.png", png(np.concatenate([rgb, gray[..., None]], -1), 8, 6)
    yield "rgba16.png", png(np.concatenate([rgb, gray[..., None]], -1).astype(int) * 257, 16, 6)
    yield "interlaced.png", png(rgb, 8, 2, interlaced=True)
    yield "interlaced_palette.png", png((gray >> 6)[..., None], 2, 3, colors[:4].tobytes(), interlaced=True)
    data = exif(6, b"MM")
    extra = struct.pack(">I", len(data)) + b"eXIf" + data + struct.pack(">I", zlib.crc32(b"eXIf" + data))
    yield "turn6.png", png(rgb, 8, 2, extra=extra)


def pixels(image):
    return torch.from_numpy(np.array(image))


def small():
    out = {}
    (HERE / "images").mkdir(exist_ok=True)
    for name, data in pictures():
        (HERE / "images" / name).write_bytes(data)
        image = Image.open(io.BytesIO(data))
        if name.startswith("turn"):
            image = ImageOps.exif_transpose(image)
        out[f"small/{name}"] = pixels(image.convert("RGB"))
    return out


def photos(folder):
    sums, samples, names = [], [], sorted(p.name for p in folder.glob("*.jpg"))
    for number, name in enumerate(names):
        image = Image.open(folder / name).convert("RGB")
        for transform in TRANSFORMS.values():
            result = np.array(transform(image, number)).reshape(-1, 3)
            sums.append(result.astype(np.int64).sum(0))
            samples.append(result[[(2 * i + 1) * len(result) // (2 * SAMPLES) for i in range(SAMPLES)]])
    shape = len(names), len(TRANSFORMS)
    return {"photos/sums": torch.tensor(np.array(sums)).reshape(*shape, 3),
            "photos/samples": torch.tensor(np.array(samples)).reshape(*shape, SAMPLES, 3)}


values = small()
if len(sys.argv) > 1:
    values.update(photos(pathlib.Path(sys.argv[1])))
save_file({k: v.contiguous() for k, v in values.items()}, HERE / "images.safetensors",
          metadata={"pillow": PIL.__version__})
(HERE / "images.safetensors").chmod(0o644)
