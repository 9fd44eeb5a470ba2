#!/usr/bin/env python3
"""The CNN of examples/fashion_mnist in PyTorch: seconds an epoch and test accuracy, to stand beside Etna's.

usage: torch_fashion_mnist.py [--device cuda|cpu] [--data FOLDER] [--epochs 6] [--precision f32|bf16]
The same model, batches, schedule and augmentation; the data lies on the device. TF32 is off.
"""
import argparse
import gzip
import math
import pathlib
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--precision", default="f32")
args = parser.parse_args()
torch.manual_seed(1)
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
folder = pathlib.Path(args.data)


def load(name, skip):
    with gzip.open(folder / name) as file:
        return torch.frombuffer(bytearray(file.read()[skip:]), dtype=torch.uint8)


def pictures(part):
    x = load(part + "-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).to(args.device).float()
    y = load(part + "-labels-idx1-ubyte.gz", 8).to(args.device).long()
    return (x / 255 - 0.2860) / 0.3530, y


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.conv3, self.norm3 = nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128)
        self.dropout, self.out = nn.Dropout(0.3), nn.Linear(128 * 49, 10)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        h = F.max_pool2d(F.relu(self.norm2(self.conv2(h))), 2)
        return self.out(self.dropout(F.relu(self.norm3(self.conv3(h))).flatten(1)))


x, y = pictures("train")
test_x, test_y = pictures("t10k")
model = Cnn().to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02, fused=args.device == "cuda")
batch, count = 128, x.shape[0]
steps = count // batch * args.epochs
warmup = steps // 10


def rate(i):
    return min(1, (i + 1) / warmup) * (0.001 + 0.999 * (1 + math.cos(math.pi * min(i / steps, 1))) / 2)


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
for epoch in range(1, args.epochs + 1):
    if args.device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    model.train()
    total = torch.zeros((), device=args.device)
    order = torch.randperm(count, device=args.device)
    for i in range(count // batch):
        rows = order[i * batch:(i + 1) * batch]
        picture = x[rows]
        mirror = torch.rand(batch, 1, 1, 1, device=args.device) < 0.5
        picture = torch.where(mirror, picture.flip(3), picture)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            loss = F.cross_entropy(model(picture), y[rows])
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
    mean = total.item() / (count // batch)
    seconds = time.perf_counter() - begin
    model.eval()
    with torch.no_grad():
        guesses = torch.cat([model(test_x[a:a + 1000]).argmax(1) for a in range(0, 10000, 1000)])
    right = (guesses == test_y).sum().item()
    print(f"epoch {epoch}: loss {mean:.4f}, test accuracy {right / 100:.2f} %, {seconds:.2f} s of training", flush=True)
