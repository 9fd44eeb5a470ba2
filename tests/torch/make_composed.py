"""Differences, covariances, blocks and splits, reductions by index, samples of grids, distinct slices, eigenvalues of
matrices that are not symmetric: functions composed of other ops."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(6)
L = torch.linalg


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def flat(parts):
    return torch.cat([p.reshape(-1) for p in parts])


def reduced(reduce, include):
    index = torch.tensor([2, 0, 2, 1])
    return lambda x, s: torch.index_reduce(x, 1, index, s, reduce, include_self=include)


def grid(mode, padding, corners):
    return lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=corners)


def eig_free(a):
    l, v = L.eig(a)
    size = (v.real ** 2 + v.imag ** 2)
    cubes = (l ** 3).sum(-1, keepdim=True).real.expand(a.shape[:-1])
    return torch.stack([cubes, size.sum(-1), (size * l.real.unsqueeze(-2)).sum(-1)], -2)


at = torch.tensor([0.0, 0.5, 1.75, 2, 4.25], dtype=torch.float64)
fweights, aweights = torch.tensor([1, 3, 2, 1, 2]), torch.tensor([0.5, 1, 2, 0.25, 1], dtype=torch.float64)
volume_grid = torch.rand(2, 3, 2, 2, 3, dtype=torch.float64) * 3 - 1.5
image_grid = torch.rand(2, 3, 4, 2, dtype=torch.float64) * 3 - 1.5
reflectors, tau = torch.geqrf(draw(2, 4, 3))
CASES = {
    "diff": (lambda x: torch.diff(x), [draw(3, 5)]),
    "diff twice": (lambda x: torch.diff(x, n=2, dim=0), [draw(4, 3)]),
    "diff all": (lambda x: torch.diff(x, n=9, dim=0), [draw(4, 3)]),
    "diff joined": (lambda x, a, b: torch.diff(x, prepend=a, append=b), [draw(3, 2), draw(3, 1), draw(3, 2)]),
    "gradient": (lambda x: flat(torch.gradient(x)), [draw(3, 5)]),
    "gradient spacing": (lambda x: flat(torch.gradient(x, spacing=[2.0, 0.5], edge_order=2)), [draw(3, 5)]),
    "gradient dim": (lambda x: flat(torch.gradient(x, spacing=0.5, dim=1)), [draw(4, 2)]),
    "gradient coordinates": (lambda x: flat(torch.gradient(x, spacing=[at], dim=-1)), [draw(2, 5)]),
    "gradient coordinates 2": (lambda x: flat(torch.gradient(x, spacing=[at], dim=-1, edge_order=2)), [draw(2, 5)]),
    "trapezoid": (lambda y: torch.trapezoid(y, dx=0.5), [draw(3, 5)]),
    "trapezoid x": (lambda y, x: torch.trapezoid(y, x), [draw(3, 5), at]),
    "trapezoid x dim": (lambda y, x: torch.trapezoid(y, x, dim=0), [draw(5, 2), draw(5, 2)]),
    "cumulative_trapezoid": (lambda y: torch.cumulative_trapezoid(y, dim=0), [draw(4, 3)]),
    "cumulative_trapezoid x": (lambda y, x: torch.cumulative_trapezoid(y, x), [draw(3, 5), at]),
    "cov": (torch.cov, [draw(3, 5)]),
    "cov list": (torch.cov, [draw(5)]),
    "cov weights": (lambda x: torch.cov(x, correction=1, fweights=fweights, aweights=aweights), [draw(3, 5)]),
    "cov fweights": (lambda x: torch.cov(x, correction=0, fweights=fweights), [draw(3, 5)]),
    "corrcoef": (lambda x: torch.corrcoef(x) * (1 - torch.eye(3, dtype=torch.float64)), [draw(3, 5)]),
    "dist": (lambda a, b: torch.dist(a, b), [draw(2, 3), draw(3)]),
    "dist 3": (lambda a, b: torch.dist(a, b, 3), [draw(2, 3), draw(2, 3)]),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.5), [draw(3, 2, 2)]),
    "renorm 1": (lambda x: torch.renorm(x, 1, -1, 2), [draw(3, 4)]),
    "block_diag": (lambda a, b, c: torch.block_diag(a, b, c), [draw(2, 3), draw(2), draw(1, 1)]),
    "diagflat": (lambda x: torch.diagflat(x, -1), [draw(2, 2)]),
    "combinations": (lambda x: torch.combinations(x, 3), [draw(5)]),
    "combinations replaced": (lambda x: torch.combinations(x, 2, True), [draw(4)]),
    "combinations 1": (lambda x: torch.combinations(x, 1), [draw(4)]),
    "tensor_split": (lambda x: flat([p * (i + 1) for i, p in enumerate(torch.tensor_split(x, 3, 1))]), [draw(2, 7)]),
    "tensor_split at": (lambda x: flat([p * (i + 1) for i, p in enumerate(torch.tensor_split(x, (1, -2, 4, 99), 1))]),
                        [draw(2, 7)]),
    "broadcast": (lambda a, b: sum(torch.broadcast_tensors(a, b)), [draw(2, 1), draw(3)]),
    "householder_product": (L.householder_product, [reflectors, tau]),
    "eig": (eig_free, [draw(2, 4, 4)]),
}
for reduce in ("prod", "mean", "amax", "amin"):
    for include in (True, False):
        CASES[f"index_reduce {reduce} {include}"] = (reduced(reduce, include), [draw(2, 4, 2), draw(2, 4, 2)])
for padding in ("zeros", "border", "reflection"):
    for corners in (True, False):
        CASES[f"grid bicubic {padding} {corners}"] = (grid("bicubic", padding, corners), [draw(2, 2, 4, 5), image_grid])
        CASES[f"grid volume {padding} {corners}"] = (grid("bilinear", padding, corners),
                                                     [draw(2, 2, 3, 4, 2), volume_grid])
CASES["grid volume nearest"] = (grid("nearest", "zeros", False), [draw(2, 2, 3, 4, 2), volume_grid])

out = {"cases": {}}
for name, (function, inputs) in CASES.items():
    inputs = [x.clone().requires_grad_() for x in inputs]
    value = function(*inputs)
    seed = torch.linspace(0.5, 1.5, value.numel(), dtype=torch.float64).reshape(value.shape)
    grads = torch.autograd.grad(value, inputs, seed, allow_unused=True)
    out["cases"][name] = {"inputs": inputs, "value": value, "seed": seed,
                          "gradients": [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads)]}

x = torch.tensor([[[2, 1, 2], [0, 1, 0]], [[1, 1, 2], [0, 0, 0]], [[2, 1, 2], [0, 1, 0]], [[1, 1, 2], [0, 0, 0]]])
out["unique"] = {"x": x, "dims": []}
for dim in (0, 1, 2):
    for consecutive in (False, True):
        found = (torch.unique_consecutive if consecutive else torch.unique)(
            x, return_inverse=True, return_counts=True, dim=dim)
        out["unique"]["dims"].append({"dim": dim, "consecutive": consecutive, "found": list(found)})
figures.save("composed", out)
