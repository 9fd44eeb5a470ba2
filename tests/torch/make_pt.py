"""Files that torch.save() and numpy.save() wrote, in tests/torch/files/; tests/tensor/torch_file.cpp reads them."""
import collections
import os
import pickle
import random

import numpy as np
import torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files")
os.makedirs(FOLDER, exist_ok=True)
torch.manual_seed(3)


def save(name, value, **options):
    torch.save(value, os.path.join(FOLDER, name), **options)


DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}
save("dtypes.pt", {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in DTYPES.items()})

base = torch.arange(24, dtype=torch.float32)
save("views.pt", {
    "base": base,
    "matrix": base.view(4, 6),
    "transposed": base.view(4, 6).t(),
    "column": base.view(4, 6)[:, 2],
    "steps": base[3::5],
    "expanded": base[:3].view(3, 1).expand(3, 4),
    "number": torch.tensor(2.5),
    "empty": torch.empty(0, 4),
})

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.25)
for parameter in model.parameters():
    with torch.no_grad():
        parameter.copy_(torch.arange(parameter.numel(), dtype=torch.float32).reshape(parameter.shape) / 8)
model(torch.ones(5, 3)).sum().backward()
optimizer.step()
for parameter in model.parameters():
    with torch.no_grad():
        parameter.copy_(torch.arange(parameter.numel(), dtype=torch.float32).reshape(parameter.shape) / 8)
save("state_dict.pt", model.state_dict())
save("checkpoint.pth", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7, "loss": 0.125,
                        "best": None, "done": False, "name": "fünf", "sizes": torch.Size([2, 3]), "pair": (1, [2, 3]),
                        "big": 2**40, "negative": -3, "long": -2**62})
save("parameter.pt", [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(1), requires_grad=False)])
save("protocol4.pt", collections.OrderedDict(a=torch.arange(3), b="x" * 300), pickle_protocol=4)

# What must be refused.
save("module.pt", model)
save("complex.pt", torch.ones(2, dtype=torch.complex64))
save("short.pt", torch.ones(2, dtype=torch.int16))
save("random.pt", {"generator": random.Random(1)})
save("legacy.pt", torch.ones(2), _use_new_zipfile_serialization=False)
torch.jit.script(torch.nn.Linear(1, 1)).save(os.path.join(FOLDER, "script.pt"))


class Attack:
    def __reduce__(self):
        return os.system, ("touch /tmp/etna_pickle_was_executed",)


save("attack.pt", {"weight": torch.ones(1), "attack": Attack()})

numbers = np.arange(6).reshape(2, 3)
np.savez(os.path.join(FOLDER, "arrays.npz"),
         f64=numbers.astype("f8"), f32=numbers.astype("f4"), f16=numbers.astype("f2"), i64=numbers.astype("i8"),
         i32=numbers.astype("i4"), i16=(numbers - 3).astype("i2"), i8=numbers.astype("i1"), u8=numbers.astype("u1"),
         u16=(numbers + 65000).astype("u2"), u32=(numbers + 4294967000).astype("u4"), bool=numbers > 2,
         big=numbers.astype(">f4"), big64=numbers.astype(">i8"), columns=np.asfortranarray(numbers.astype("f4")),
         number=np.float32(2.5), empty=np.zeros((0, 4), "f4"),
         columns3=np.asfortranarray(np.arange(24, dtype="i4").reshape(2, 3, 4)))
np.savez_compressed(os.path.join(FOLDER, "compressed.npz"), zeros=np.zeros(3000, "f4"), seven=np.array([7]))
np.save(os.path.join(FOLDER, "complex.npy"), np.ones(2, "c8"))
np.save(os.path.join(FOLDER, "u64.npy"), np.ones(2, "u8"))
np.save(os.path.join(FOLDER, "objects.npy"), np.array([{}, None], dtype=object), allow_pickle=True)
np.save(os.path.join(FOLDER, "records.npy"), np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
print(sum(os.path.getsize(os.path.join(FOLDER, name)) for name in os.listdir(FOLDER)), "bytes")
