"""make_samples.py - write the sample files of the tests with PyTorch and NumPy: python tests/formats/make_samples.py

What they hold is repeated in tests/formats/torch.c."""
import pathlib
from collections import Counter, OrderedDict

import numpy
import torch

here = pathlib.Path(__file__).parent / "samples"
here.mkdir(exist_ok=True)

base = torch.arange(24.0).reshape(2, 3, 4)
state = OrderedDict(
    whole=base, turned=base.transpose(0, 2), part=base[1, :, 1:3], repeated=base[:, :1].expand(2, 5, 4),
    parameter=torch.nn.Parameter(torch.tensor([1.5, -2.5])), empty=torch.zeros(0, 3), number=torch.tensor(7),
    half=torch.tensor([1.5, 65504], dtype=torch.float16), brain=torch.tensor([1.5, 3e38], dtype=torch.bfloat16),
    yes=torch.tensor([True, False]), short=torch.tensor([-5, 300], dtype=torch.int16),
    pair=torch.tensor([1 + 2j, 3 - 4j]), nested={"list": [1, 2.5, True, None, "text", (3, torch.ones(2))], 5: -(2**40)},
    size=torch.Size([1, 2]), array=numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T, scalar=numpy.float64(3.5),
    type=torch.float32, device=torch.device("cpu"), counts=Counter([1, 1, 2]))
torch.save(state, here / "zip.pt")
torch.save(state, here / "legacy.pt", _use_new_zipfile_serialization=False)
torch.save(state, here / "protocol4.pt", pickle_protocol=4)
new = {"e4m3": torch.tensor([1.5, 448]).to(torch.float8_e4m3fn),
       "e5m2": torch.tensor([1.5, 57344]).to(torch.float8_e5m2),
       "u16": torch.tensor([1, 65535], dtype=torch.uint16), "u64": torch.tensor([1, 2**62], dtype=torch.uint64)}
torch.save(new, here / "types.pt")
model = torch.nn.BatchNorm1d(2)
torch.save(model.state_dict(), here / "state_dict.pt")
torch.save(model, here / "module.pt")
numpy.savez_compressed(here / "packed.npz", a=numpy.arange(1000, dtype=numpy.int16),
                       b=numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)), c=numpy.array(3, dtype=numpy.uint8))
numpy.save(here / "fortran.npy", numpy.asfortranarray(numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4)))
numpy.save(here / "big_endian.npy", numpy.arange(3, dtype=">f4"))
numpy.save(here / "objects.npy", numpy.array([None, {}], dtype=object), allow_pickle=True)
