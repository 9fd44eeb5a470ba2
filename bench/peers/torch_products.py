#!/usr/bin/env python3
"""The matrix products and attention of bench_gpu in PyTorch, under the same names: microseconds a call and TFLOP/s.

Each is recorded as a CUDA graph of 20 calls, so that the host does not count; the median of seven spans is told.
usage: torch_products.py [--presets tiny,small,gpt2] [--dtypes f32,bf16,f16] [--json FILE]
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

PRESETS = {  # rows a step, width, feed-forward width, vocabulary, and batch, heads, length, head size of attention
    "tiny": (1024, 128, 512, 33278, (16, 4, 64, 32)),
    "small": (8192, 512, 2048, 33278, (32, 8, 256, 64)),
    "gpt2": (16384, 768, 3072, 50257, (16, 12, 1024, 64)),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def microseconds(call, calls=20):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    until = time.time() + 0.1
    while time.time() < until:
        graph.replay()
        torch.cuda.synchronize()
    spans = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        spans.append(begin.elapsed_time(end) * 1e3 / calls)
    return sorted(spans)[3]


def cases(preset, name, t):
    rows, dim, ffn, vocab, attention = PRESETS[preset]
    tensor = lambda *shape: torch.randn(*shape, device="cuda", dtype=t)
    layers = {"qkv": (dim, 3 * dim), "proj": (dim, dim), "up": (dim, ffn), "down": (ffn, dim), "head": (dim, vocab)}
    for layer, (k, n) in layers.items():
        x, weight, dy, bias = tensor(rows, k), tensor(n, k), tensor(rows, n), tensor(n) if layer != "head" else None
        flops = 2 * rows * n * k
        yield f"linear_{layer}/{name}", flops, lambda: F.linear(x, weight, bias)
        yield f"linear_{layer}_dx/{name}", flops, lambda: dy @ weight
        yield f"linear_{layer}_dw/{name}", flops, lambda: dy.t() @ x
    side = 1024 if dim <= 128 else 4096
    a, b = tensor(side, side), tensor(side, side)
    yield f"matmul_{side}/{name}", 2 * side**3, lambda: a @ b
    if name == "f16":
        return
    shapes = {"": attention}
    if preset == "gpt2" and name == "bf16":
        shapes |= {f"_{n}x{d}": (16384 // n, 2048 // d, n, d) for d in (64, 128) for n in (1024, 4096, 8192)}
    for label, shape in shapes.items():
        q, k, v = (tensor(*shape).requires_grad_() for _ in range(3))
        flops = 2 * shape[0] * shape[1] * shape[2] ** 2 * shape[3]
        with torch.no_grad():
            yield f"attention{label}/{name}", flops, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--presets", default="tiny,small,gpt2")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("highest")
    found = {}
    for preset in arguments.presets.split(","):
        for name in arguments.dtypes.split(","):
            for label, flops, call in cases(preset, name, DTYPES[name]):
                us = microseconds(call)
                found[f"{preset}/{label}"] = us
                print(f"{preset}/{label:28s} {us:10.2f} us {flops / us / 1e6:8.1f} TFLOP/s", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
