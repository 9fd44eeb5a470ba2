"""Sorting, order statistics, running results, search and counting."""
import torch

import figures

torch.manual_seed(4)
nan, inf = float("nan"), float("inf")
x = torch.randn(4, 3, 6, dtype=torch.float64)
ties = torch.randint(0, 4, (5, 7)).to(torch.float64)
odd = torch.tensor([[1.0, nan, -inf, 0.0, inf, nan, -2.0], [3.0, 3.0, -0.0, 0.0, 1.0, -inf, 2.0],
                    [nan] * 7], dtype=torch.float64)
zeros = torch.tensor([[2.0, 0.0, 3.0, -1.0, 4.0], [1.5, 2.0, 0.0, 3.0, 0.0], [-1.0, 2.0, 0.5, 3.0, 1.0]],
                     dtype=torch.float64)
integers = torch.randint(-5, 5, (3, 8))
out = {"x": x, "ties": ties, "odd": odd, "zeros": zeros, "integers": integers, "cases": []}


def case(name, given, call):
    """`call` returns values, or values and indices."""
    leaf = globals()[given].clone()
    if leaf.is_floating_point():
        leaf.requires_grad_()
    result = call(leaf)
    values, indices = (result, None) if isinstance(result, torch.Tensor) else (result[0], result[1])
    entry = {"name": name, "given": given, "value": values}
    if indices is not None:
        entry["indices"] = indices
    if values.requires_grad and given not in ("odd",):
        entry["seed"] = torch.randn(values.shape, dtype=torch.float64)
        (entry["gradient"],) = torch.autograd.grad(values, leaf, entry["seed"])
    out["cases"].append(entry)


for given in ("x", "ties", "odd", "integers"):
    for dim in (0, 1):
        for down in (False, True):
            case(f"sort {dim} {int(down)}", given,
                 lambda t: torch.sort(t, dim=dim, descending=down, stable=True))
    case("cummax", given, lambda t: torch.cummax(t, 1))
    case("cummin", given, lambda t: torch.cummin(t, 0))
    case("median", given, lambda t: torch.median(t))
    if given != "ties":
        case("median 1", given, lambda t: (torch.median(t, 1).values))
    if given != "integers":
        case("nanmedian", given, lambda t: torch.nanmedian(t))
        case("nanmedian 1", given, lambda t: torch.nanmedian(t, 1, keepdim=True).values)
for given in ("x", "integers"):
    case("cumprod", given, lambda t: torch.cumprod(t, 1))
case("cumprod", "zeros", lambda t: torch.cumprod(t, 1))
case("cumprod 0", "zeros", lambda t: torch.cumprod(t, 0))
case("logcumsumexp", "x", lambda t: torch.logcumsumexp(t, 1))
case("logcumsumexp", "zeros", lambda t: torch.logcumsumexp(t, 0))
case("msort", "x", torch.msort)
for largest in (False, True):
    case(f"topk {int(largest)}", "x", lambda t: torch.topk(t, 2, 1, largest))
    case(f"topk_last {int(largest)}", "x", lambda t: torch.topk(t, 6, -1, largest))
case("kthvalue", "x", lambda t: torch.kthvalue(t, 3, -1))
case("kthvalue keep", "x", lambda t: torch.kthvalue(t, 2, 0, True))
case("max", "x", lambda t: torch.max(t, 1))
case("min", "odd", lambda t: torch.min(t, 1))
case("max", "odd", lambda t: torch.max(t, 1))
case("mode", "ties", lambda t: torch.mode(t, 1).values)
for given in ("x", "odd"):
    for kind in ("linear", "lower", "higher", "midpoint", "nearest"):
        case(f"quantile {kind}", given, lambda t: torch.quantile(t, 0.3, 1, interpolation=kind))
        if given == "odd" and kind in ("linear", "midpoint"):
            continue  # PyTorch has NaN for an infinity alone
        case(f"nanquantile {kind}", given, lambda t: torch.nanquantile(t, 0.5, 0, True, interpolation=kind))
case("quantile list", "x", lambda t: torch.quantile(t, torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64), 2))
case("quantile list keep", "x", lambda t: torch.quantile(t, torch.tensor([0.1, 0.5], dtype=torch.float64), 0, True))
case("quantile all", "x", lambda t: torch.quantile(t, 0.7))
case("unique", "ties", lambda t: torch.unique(t.detach()))
case("histc", "x", lambda t: torch.histc(t.detach(), 7, -1, 1))
case("histc own", "x", lambda t: torch.histc(t.detach(), 5))

bounds = torch.sort(torch.randn(9, dtype=torch.float64)).values
bounds[4] = bounds[3]
rows = torch.sort(torch.randn(4, 3, 5, dtype=torch.float64), -1).values
wanted = torch.cat([bounds[2:6], torch.tensor([-9.0, 9.0, nan], dtype=torch.float64)])
values, inverse, counts = torch.unique(integers, return_inverse=True, return_counts=True)
runs, run_inverse, run_counts = torch.unique_consecutive(ties.reshape(-1).sort().values, return_inverse=True,
                                                         return_counts=True)
numbers = torch.tensor([1, 0, 4, 1, 1])
weights = torch.randn(5, dtype=torch.float64)
out.update(bounds=bounds, rows=rows, wanted=wanted,
           search=[torch.searchsorted(bounds, wanted), torch.searchsorted(bounds, wanted, right=True),
                   torch.searchsorted(rows, x), torch.bucketize(x, bounds, right=True)],
           unique=[values, inverse, counts], runs=[runs, run_inverse, run_counts], numbers=numbers, weights=weights,
           bincount=[torch.bincount(numbers), torch.bincount(numbers, weights, 7)])
figures.save("sorting", out)
