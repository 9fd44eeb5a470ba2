"""x[...] for many kinds of indices: values, gradients and writes. And the ops that write by index."""
import itertools

import numpy as np
import torch

import figures

torch.manual_seed(3)


def short(t):
    """Numbers of few digits."""
    return torch.round(t * 8) / 8


x = short(torch.randn(4, 3, 5, dtype=torch.float64))
mask1 = torch.tensor([True, False, True, True])
mask2 = torch.randn(4, 3) > 0
mask3 = torch.randn(4, 3, 5) > 0.5
col = torch.tensor([2, 0, 1])
pair = torch.tensor([[0, -1], [3, 1]])
one = torch.tensor(2)
s = slice
ALL = s(None)
indices = [
    (1,), (-1, ALL, 2), (s(1, 3),), (s(None, None, 2), ALL, s(1, -1)), (..., 0), (None, 1), (1, None, ..., None),
    (ALL, None, 2), (s(-3, None), ..., s(None, -2)), (s(2, 2),), (s(3, 1),),
    (col,), (pair,), (ALL, col), (ALL, ALL, col), (..., col), (ALL, torch.tensor([[0, 2], [-1, 1]])),
    (col, col), (col, ALL, col), (col, 1), (1, col), (col, s(0, 2)), (s(0, 2), col, 1), (1, ALL, col),
    (torch.tensor([[0], [3]]), col), (torch.tensor([[0], [3]]), ALL, col), (ALL, torch.tensor([[0], [1]]), col),
    (None, col), (col, None), (col, None, col), (None, col, col), (col, None, 1), (one,), (one, col), (one, ALL, col),
    (ALL, one, col), (col, ..., one), (mask1,), (mask2,), (mask3,), (ALL, torch.tensor([True, False, True])),
    (mask1, 0), (mask1, ALL, s(1, 4, 2)), (mask1, col), (mask1, ALL, col),
    (s(1, None), torch.tensor([True, True, False])),
    (torch.tensor([], dtype=torch.int64),), (torch.zeros(4, dtype=torch.bool),), (True,), (False,), (ALL, True),
    (torch.tensor([1, 1, 1, 0]),), (torch.tensor([1, 1]), s(None, None, 2)),
]


def plain(entry):
    if isinstance(entry, bool):
        return {"bool": entry}
    if isinstance(entry, int):
        return {"int": entry}
    if isinstance(entry, slice):
        return {"slice": [entry.start, entry.stop, 1 if entry.step is None else entry.step]}
    if entry is None:
        return {"none": 0}
    if entry is Ellipsis:
        return {"ellipsis": 0}
    return {"tensor": entry}


cases = []
for index in indices:
    leaf = x.clone().requires_grad_()
    y = leaf[index]
    seed = short(torch.randn(y.shape, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(y, leaf, seed)
    # Writes: the last of several wins here; PyTorch leaves that open, so values of one place are equal.
    places = torch.arange(x.numel()).reshape(x.shape)[index]
    values = places.to(torch.float64) / 4 if places.numel() else torch.zeros(y.shape, dtype=torch.float64)
    put, added = x.clone(), x.clone()
    put[index] = values
    added.index_put_(tuple(torch.arange(x.numel()).reshape(x.shape)[index].reshape(-1) // d % n
                           for d, n in ((15, 4), (5, 3), (1, 5))), seed.reshape(-1), accumulate=True)
    cases.append({"index": [plain(e) for e in index], "value": y, "seed": seed, "gradient": gradient,
                  "values": values, "put": put, "added": added})

backwards = []
for index in [(s(None, None, -1),), (s(3, 0, -2),), (ALL, s(None, None, -2)), (s(-1, -4, -1), 1, s(4, None, -3)),
              (s(0, 3, -1),), (..., s(None, 1, -1)), (s(2, -100, -1), s(100, None, -1))]:
    values = x.numpy()[index]
    put = x.numpy().copy()
    put[index] = np.arange(values.size).reshape(values.shape)
    backwards.append({"index": [plain(e) for e in index], "value": torch.from_numpy(values.copy()),
                      "put": torch.from_numpy(put)})

writes = []
source = ((torch.randperm(60) - 30) / 8 + 1 / 16).to(torch.float64).reshape(4, 3, 5)  # equal to nothing else
index = torch.stack([torch.randperm(5) for _ in range(12)]).reshape(4, 3, 5)
twice = torch.randint(0, 3, (4, 3, 5))
seed = short(torch.randn(4, 3, 5, dtype=torch.float64))


def write(name, call, *leaves):
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    y = call(*leaves)
    gradients = torch.autograd.grad(y, leaves, seed, allow_unused=True)
    writes.append({"name": name, "value": y,
                   "gradients": [torch.zeros_like(l) if g is None else g for g, l in zip(gradients, leaves)]})


write("scatter", lambda a, b: a.scatter(2, index, b), x, source)
write("scatter_part", lambda a, b: a.scatter(2, index[:3, :2, :2], b[:3, :2, :2]), x, source)
write("scatter_number", lambda a: a.scatter(1, twice[:, :1], 2.5), x)
write("scatter_add", lambda a, b: a.scatter_add(1, twice, b), x, source)
for reduce, own in itertools.product(["sum", "prod", "mean", "amax", "amin"], [True, False]):
    write(f"scatter_reduce_{reduce}_{int(own)}",
          lambda a, b: a.scatter_reduce(1, twice, b, reduce=reduce, include_self=own), x, source)
rows = torch.tensor([2, 0, 2])
write("index_add", lambda a, b: a.index_add(0, rows, b[:3], alpha=0.5), x, source)
write("index_add_middle", lambda a, b: a.index_add(1, rows, b, alpha=1), x, source)
write("index_copy", lambda a, b: a.index_copy(1, torch.tensor([2, 0]), b[:, :2]), x, source)
write("index_fill", lambda a: a.index_fill(2, torch.tensor([1, 4]), -1.5), x)
write("masked_scatter", lambda a, b: a.masked_scatter(mask3, b), x, source)
flat = torch.randperm(60)[:20].reshape(4, 5) - 30
write("put", lambda a, b: a.put(flat, b.reshape(-1)[:20].reshape(4, 5)), x, source)
write("put_accumulate", lambda a, b: a.put(flat // 2, b.reshape(-1)[:20].reshape(4, 5), accumulate=True), x, source)
write("take", lambda a: torch.take(a, flat.reshape(-1)[:1]) * torch.ones(4, 3, 5, dtype=torch.float64), x)
write("take_along_dim", lambda a: torch.take_along_dim(a, twice, 1), x)
write("masked_select", lambda a: torch.masked_select(a, mask3).sum() * torch.ones(4, 3, 5, dtype=torch.float64), x)

figures.save("indexing", {"x": x, "source": source, "index": index, "twice": twice, "rows": rows, "flat": flat,
                          "mask3": mask3, "seed": seed, "cases": cases, "backwards": backwards, "writes": writes,
                          "nonzero": torch.nonzero(mask3), "take": torch.take(x, flat)})
