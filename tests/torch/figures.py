"""Writes figures of PyTorch for the tests beside this file. Run with Debian's python3-torch: /usr/bin/python3."""
import json
import math
import pathlib

import torch

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16",
         torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}


def number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def tensor(t):
    t = t.detach()
    return {"shape": list(t.shape), "dtype": NAMES[t.dtype],
            "values": [number(v) for v in t.contiguous().flatten().tolist()]}


def save(name, figures):
    """`figures`: nested dicts and lists of tensors, numbers and words."""
    def plain(value):
        if isinstance(value, torch.Tensor):
            return tensor(value)
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return number(value)

    path = pathlib.Path(__file__).parent / (name + ".json")
    path.write_text(json.dumps(plain(figures), separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")
