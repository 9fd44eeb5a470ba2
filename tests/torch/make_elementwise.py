"""Elementwise functions, activations and composed reductions, with gradients."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(2)
inf, nan = float("inf"), float("nan")


def leaf(t):
    return t.double().requires_grad_()


inputs = {
    "x": leaf(torch.rand(4, 6) * 6 - 3),
    "y": leaf(torch.rand(4, 6) * 6 - 3),
    "p": leaf(torch.rand(4, 6) * 2 + 0.4),
    "u": leaf(torch.rand(4, 6) * 1.8 - 0.9),
    "g": leaf(torch.rand(4, 6) * 3 + 1.2),
    "z": leaf(torch.tensor([[0., 1, -2, 0, 3, 0], [0, 0, 0, 0, 0, 0], [2, 2, 2, 2, 2, 2], [1, -1, 1, -1, 1, 0]])),
    "n": leaf(torch.tensor([[nan, 1, -2, inf], [nan, nan, 3, -inf], [nan, nan, nan, nan]])),
    "w": leaf(torch.rand(6) * 0.5),
}
unary = {
    "x": {"floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "frac": torch.frac,
          "exp2": torch.exp2, "expm1": torch.expm1, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
          "asinh": torch.asinh, "erfc": torch.erfc, "sinc": torch.sinc, "selu": F.selu, "relu6": F.relu6,
          "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "mish": F.mish, "softsign": F.softsign,
          "logsigmoid": F.logsigmoid, "leaky_relu": F.leaky_relu, "elu": F.elu, "celu": F.celu,
          "hardtanh": F.hardtanh, "softshrink": F.softshrink, "hardshrink": F.hardshrink,
          "tanhshrink": F.tanhshrink, "glu": F.glu, "rrelu": F.rrelu},
    "p": {"log2": torch.log2, "log10": torch.log10},
    "u": {"tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh, "erfinv": torch.erfinv},
    "g": {"acosh": torch.acosh},
    "n": {"nan_to_num": torch.nan_to_num, "nansum": torch.nansum},
    "z": {"sinc": torch.sinc},
}
other = {
    "fmod": (["x", "p"], torch.fmod), "remainder": (["x", "y"], torch.remainder),
    "atan2": (["x", "y"], torch.atan2), "hypot": (["x", "y"], torch.hypot), "copysign": (["x", "y"], torch.copysign),
    "logaddexp": (["x", "y"], torch.logaddexp), "xlogy": (["x", "p"], torch.xlogy),
    "elu 0.7": (["x"], lambda x: F.elu(x, 0.7)), "celu 0.7": (["x"], lambda x: F.celu(x, 0.7)),
    "leaky_relu 0.3": (["x"], lambda x: F.leaky_relu(x, 0.3)),
    "hardtanh z": (["z"], lambda z: F.hardtanh(z, 0, 2)), "relu6 z": (["z"], F.relu6),
    "clamp z": (["z"], lambda z: torch.clamp(z, 0, 2)), "threshold z": (["z"], lambda z: F.threshold(z, 0, 5)),
    "softplus 2 3": (["x"], lambda x: F.softplus(x, 2, 3)), "softmin 0": (["x"], lambda x: F.softmin(x, 0)),
    "prelu": (["x", "w"], F.prelu), "glu 0": (["x"], lambda x: F.glu(x, 0)),
    "clamp tensors": (["x", "u", "p"], torch.clamp),
    "lerp 0.3": (["x", "y"], lambda x, y: torch.lerp(x, y, 0.3)),
    "lerp 0.8": (["x", "y"], lambda x, y: torch.lerp(x, y, 0.8)),
    "lerp": (["x", "y", "p"], torch.lerp),
    "addcmul": (["x", "y", "p"], lambda x, y, p: torch.addcmul(x, y, p, value=0.5)),
    "addcdiv": (["x", "y", "p"], lambda x, y, p: torch.addcdiv(x, y, p, value=0.5)),
    "std": (["x"], lambda x: torch.std(x, 1)), "std all": (["x"], torch.std),
    "std z": (["z"], lambda z: torch.std(z, 1)),
    "var_mean": (["x"], lambda x: torch.var_mean(x, 0)[0] + torch.var_mean(x, 0)[1]),
    "amax z": (["z"], lambda z: torch.amax(z, 1)), "amin z": (["z"], lambda z: torch.amin(z, 0)),
    "nan_to_num 1 2 3": (["n"], lambda n: torch.nan_to_num(n, 1, 2, 3)),
    "nanmean": (["n"], lambda n: torch.nanmean(n[:2, :3], 1)),
    "round 2": (["x"], lambda x: torch.round(x, decimals=2)),
    "div floor": (["x", "y"], lambda x, y: torch.div(x, y, rounding_mode="floor")),
    "div trunc": (["x", "y"], lambda x, y: torch.div(x, y, rounding_mode="trunc")),
}
for p in (0, 1, 2, 3, 1.5, 0.5, inf, -inf):
    for source in ("x", "z"):
        other[f"norm {p} {source}"] = ([source], lambda t, p=p: torch.linalg.vector_norm(t, p, 1))
for source, functions in unary.items():
    for name, function in functions.items():
        other[name + " " + source] = ([source], function)

out = {"inputs": inputs, "cases": {}}
for name, (names, function) in other.items():
    operands = [inputs[n] for n in names]
    y = function(*operands)
    seed = torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).reshape(y.shape)
    gradients = torch.autograd.grad(y, operands, seed, allow_unused=True) if y.requires_grad else [None] * len(names)
    figure = {"inputs": names, "value": y}
    figure["gradients"] = [torch.zeros_like(o) if g is None else g for o, g in zip(operands, gradients)]
    out["cases"][name] = figure

edge = torch.tensor([0, -0., 1, -1, 2.5, -2.5, inf, -inf, nan], dtype=torch.float64)
a, b = edge[:, None].expand(9, 9), edge[None].expand(9, 9)
whole = torch.tensor([7, -7, 8, -8, 1, 0])
by = torch.tensor([3, -3, 2, 5])
out["edges"] = {"edge": edge, "whole": whole, "by": by, "cases": {
    "remainder": torch.remainder(a, b), "fmod": torch.fmod(a, b),
    "atan2": torch.atan2(a, b), "hypot": torch.hypot(a, b), "xlogy": torch.xlogy(a, b),
    "logaddexp": torch.logaddexp(a, b), "copysign": torch.copysign(a, b), "isclose": torch.isclose(a, b),
    "isclose nan": torch.isclose(a, b, equal_nan=True), "floor": torch.floor(edge), "round": torch.round(edge),
    "isinf": torch.isinf(edge), "signbit": torch.signbit(edge), "any": torch.any(edge), "all": torch.all(edge),
    "count_nonzero": torch.count_nonzero(edge), "isin": torch.isin(edge, edge[2:5]),
    "hardshrink": F.hardshrink(edge), "elu": F.elu(edge), "relu6": F.relu6(edge), "mish": F.mish(edge),
    "logsigmoid": F.logsigmoid(edge), "softsign": F.softsign(edge), "threshold": F.threshold(edge, 0, 7),
    "hardtanh": F.hardtanh(edge), "expm1": torch.expm1(edge), "asinh": torch.asinh(edge), "sinc": torch.sinc(edge),
    "erfc": torch.erfc(edge), "selu": F.selu(edge), "leaky_relu": F.leaky_relu(edge),
    "integer remainder": torch.remainder(whole[:, None], by), "integer fmod": torch.fmod(whole[:, None], by),
    "integer floor": torch.div(whole[:, None], by, rounding_mode="floor"),
    "integer trunc": torch.div(whole[:, None], by, rounding_mode="trunc"),
    "and": whole[:, None] & by, "or": whole[:, None] | by, "xor": whole[:, None] ^ by, "not": ~whole,
    "left": whole[:, None] << torch.tensor([0, 3, 5, 1]), "right": whole[:, None] >> torch.tensor([0, 3, 5, 1]),
    "linspace": torch.linspace(-2, 3, 7, dtype=torch.float64),
    "linspace 1": torch.linspace(-2, 3, 1, dtype=torch.float64),
    "logspace": torch.logspace(-1, 2, 4, 2, dtype=torch.float64), "eye": torch.eye(3, 5, dtype=torch.float64),
}}
figures.save("elementwise", out)
