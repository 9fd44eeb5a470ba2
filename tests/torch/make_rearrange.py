"""Functions that move, repeat and regroup elements, with gradients."""
import torch

import figures

x = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).requires_grad_()
m = torch.arange(12, dtype=torch.float64).reshape(3, 4).requires_grad_()
v = torch.arange(3, dtype=torch.float64).requires_grad_()
w = (torch.arange(2, dtype=torch.float64) + 5).requires_grad_()
inputs = {"x": x, "m": m, "v": v, "w": w}
counts = torch.tensor([2, 0, 3])
cases = {
    "flip": x.flip(0, 2), "fliplr": torch.fliplr(m), "flipud": torch.flipud(m),
    "roll": x.roll((1, -6), (0, 2)), "roll_flat": x.roll(7),
    "rot90": torch.rot90(x, 1, (1, 2)), "rot90_back": torch.rot90(m, -1), "rot180": torch.rot90(m, 2),
    "movedim": torch.movedim(x, (0, 1), (-1, 0)), "swapaxes": torch.swapaxes(x, 0, -1),
    "diagonal": x.diagonal(-1, 2, 1), "diagonal_above": m.diagonal(2), "diag": torch.diag(v, -1),
    "diag_of": torch.diag(m, 1), "diag_embed": torch.diag_embed(m, 1, 0, -1), "diag_embed_last": torch.diag_embed(v),
    "repeat": m.repeat(2, 1, 3), "repeat_nothing": m.repeat(1, 0), "tile": torch.tile(x, (2, 1)),
    "repeat_interleave": m.repeat_interleave(2, 1), "repeat_interleave_flat": m.repeat_interleave(3),
    "repeat_interleave_counts": m.repeat_interleave(counts, 0),
    "narrow": x.narrow(1, -2, 1), "unbind": x.unbind(1)[2], "unflatten": m.unflatten(1, (2, -1)),
    "unfold": x.unfold(2, 3, 1), "unfold_apart": x.unfold(0, 1, 2), "unfold_between": m.unfold(0, 2, 1),
    "unfold_rest": m.unfold(-1, 2, 3),
    "atleast_3d": torch.atleast_3d(m) + torch.atleast_3d(v).sum(),
    "hstack": torch.hstack((v, w)), "hstack_matrices": torch.hstack((m, m[:, :1])),
    "vstack": torch.vstack((m[:, :3], v)), "dstack": torch.dstack((v, v * 2)),
    "column_stack": torch.column_stack((v, m)),
    "meshgrid": torch.meshgrid(v, w, indexing="ij")[1], "meshgrid_xy": torch.meshgrid(v, w, indexing="xy")[0],
    "cartesian_prod": torch.cartesian_prod(v, w, v),
}
out = {"inputs": inputs, "counts": counts, "cases": {}}
index = torch.tensor([[2, 0], [1, 4]])
out["index"], out["one_hot"] = index, torch.nn.functional.one_hot(index)
out["one_hot_six"] = torch.nn.functional.one_hot(index, 6)
for name, y in cases.items():
    seed = torch.arange(y.numel(), dtype=torch.float64).reshape(y.shape) % 7
    gradients = torch.autograd.grad(y, list(inputs.values()), seed, allow_unused=True, retain_graph=True)
    out["cases"][name] = {"value": y, "gradients": {n: g for n, g in zip(inputs, gradients) if g is not None}}
figures.save("rearrange", out)
