"""Special functions over wide ranges, at their poles and at infinities. The arguments are f32 numbers, so that what is
compared is the function, not the rounding of its argument."""
import math

import torch

import figures

torch.manual_seed(5)
inf, nan = math.inf, math.nan


def f32(values):
    return torch.as_tensor(values, dtype=torch.float32).to(torch.float64)


positive = f32(torch.cat([torch.logspace(-30, 30, 61, dtype=torch.float64), torch.linspace(0.05, 13, 120)]))
near_zeros = f32([1 - 1e-3, 1 - 1e-6, 1.0, 1 + 1e-6, 1 + 1e-3, 2 - 1e-3, 2 - 1e-6, 2.0, 2 + 1e-6, 2 + 1e-3])
negative = f32(torch.cat([-torch.logspace(-30, -1, 30, dtype=torch.float64), torch.linspace(-9.97, -0.03, 141)]))
either = f32(torch.cat([torch.linspace(-90, 90, 121), torch.logspace(-20, 0, 21, dtype=torch.float64)]))
unit = f32(torch.cat([torch.logspace(-20, -1, 20, dtype=torch.float64), torch.linspace(0.02, 0.98, 97)]))
orders = f32(torch.linspace(0.1, 12, 60))
edges = f32([0.0, -0.0, inf, -inf, nan, -1.0, -2.0, -7.0])

cases = {}


def add(name, function, x):
    cases[name] = {"inputs": [x], "value": function(x)}


for name, function in {"lgamma": torch.lgamma, "digamma": torch.digamma}.items():
    add(name + " positive", function, positive)
    add(name + " negative", function, negative)
add("lgamma zeros", torch.lgamma, near_zeros)
add("lgamma edges", torch.lgamma, edges)
add("digamma edges", torch.digamma, edges)
for n in (1, 2, 3, 5):
    add(f"polygamma {n}", lambda x: torch.polygamma(n, x), orders)
# At the poles PyTorch has large numbers.
add("polygamma 1 negative", lambda x: torch.polygamma(1, x), negative[30:][negative[30:] != negative[30:].round()])
add("mvlgamma 3", lambda x: torch.mvlgamma(x, 3), orders + 1)
add("i0", torch.i0, either)
add("i0 edges", torch.i0, f32([0.0, -0.0, nan, -7.0]))  # of infinity PyTorch has NaN
add("i1", torch.special.i1, either)
add("logit", torch.logit, unit)
add("logit eps", lambda x: torch.logit(x, 0.1), unit)
add("deg2rad", torch.deg2rad, either)
add("rad2deg", torch.rad2deg, either)
add("frexp mantissa", lambda x: torch.frexp(x)[0], f32([0, 1, 0.5, -0.75, 3, 1e-30, -1e30, 1e-40, 8, inf, -inf]))
add("frexp exponent", lambda x: torch.frexp(x)[1], f32([0, 1, 0.5, -0.75, 3, 1e-30, -1e30, 1e-40, 8]))

pairs = f32([0, -0.0, 1, -1, 2.5, inf, -inf, nan])
a, b = pairs[:, None].expand(8, 8), pairs[None].expand(8, 8)
for name, function in {"fmax": torch.fmax, "fmin": torch.fmin, "logaddexp2": torch.logaddexp2,
                       "float_power": torch.float_power}.items():
    cases[name] = {"inputs": [a, b], "value": function(a, b)}
cases["heaviside"] = {"inputs": [a[:7], b[:7]], "value": torch.heaviside(a[:7], b[:7])}  # of NaN PyTorch has 0
x, y = f32(torch.randn(40)), f32(torch.randn(40))
cases["ldexp"] = {"inputs": [x, torch.round(y * 40)], "value": torch.ldexp(x, torch.round(y * 40))}
p, q = torch.tensor([0, 12, -18, 7, 100]), torch.tensor([0, 18, 12, -3])
cases["gcd"] = {"inputs": [p[:, None], q], "value": torch.gcd(p[:, None], q)}
cases["lcm"] = {"inputs": [p[:, None], q], "value": torch.lcm(p[:, None], q)}
s = torch.tensor([0, 1, -1, 1e30, 1e-45, inf, -inf], dtype=torch.float32)
cases["nextafter"] = {"inputs": [s[:, None].double(), s.double()],
                      "value": torch.nextafter(s[:, None].expand(7, 7), s.expand(7, 7)).double()}

gradients = {}
for name, function, x in [
        ("lgamma", torch.lgamma, orders), ("digamma", torch.digamma, orders),
        ("polygamma 2", lambda x: torch.polygamma(2, x), orders), ("i0", torch.i0, f32(torch.linspace(-3, 3, 13))),
        ("logit", torch.logit, unit[20:]), ("logit eps", lambda x: torch.logit(x, 0.1), unit[20:]),
        ("mvlgamma 3", lambda x: torch.mvlgamma(x, 3), orders + 1)]:
    x = x.clone().requires_grad_()
    value = function(x)
    seed = torch.linspace(0.5, 1.5, value.numel(), dtype=torch.float64)
    gradients[name] = {"inputs": [x], "value": value, "seed": seed,
                       "gradients": [torch.autograd.grad(value, x, seed)[0]]}
x, y = f32(torch.randn(6)), f32(torch.randn(6))
for name, function in {"fmax": torch.fmax, "fmin": torch.fmin, "logaddexp2": torch.logaddexp2,
                       "ldexp": torch.ldexp}.items():
    u, v = x.clone().requires_grad_(), y.clone().requires_grad_()
    value = function(u, v)
    seed = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)
    gradients[name] = {"inputs": [u, v], "value": value, "seed": seed,
                       "gradients": list(torch.autograd.grad(value, [u, v], seed))}
figures.save("special", {"cases": cases, "gradients": gradients})
