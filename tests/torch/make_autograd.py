"""Derivatives of functions by torch.autograd.functional."""
import torch
from torch.autograd import functional

import figures

torch.manual_seed(1)
x = torch.randn(3, dtype=torch.float64)
w = torch.randn(2, 3, dtype=torch.float64)
v = torch.randn(2, dtype=torch.float64)
vx = torch.randn(3, dtype=torch.float64)
vw = torch.randn(2, 3, dtype=torch.float64)


def f(x, w):
    return torch.tanh(w @ x) * x.sum()


def g(x, w):
    return (torch.tanh(w @ x) ** 2).sum() * x[0]


out = {
    "x": x, "w": w, "v": v, "vx": vx, "vw": vw,
    "vjp": functional.vjp(f, (x, w), v)[1],
    "jvp": functional.jvp(f, (x, w), (vx, vw))[1],
    "jacobian": functional.jacobian(f, (x, w)),
    "hessian": functional.hessian(g, (x, w)),
    "hvp": functional.hvp(g, (x, w), (vx, vw))[1],
    "vhp": functional.vhp(g, (x, w), (vx, vw))[1],
}
figures.save("autograd", out)
