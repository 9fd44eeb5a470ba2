"""Softmax, norms and reductions along rows, with gradients."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(1)
x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
weight = torch.randn(7, dtype=torch.float64)
bias = torch.randn(7, dtype=torch.float64)
seed = torch.randn(5, 7, dtype=torch.float64)

cases = {
    "softmax": F.softmax(x, -1),
    "log_softmax": F.log_softmax(x, 0),
    "layer_norm": F.layer_norm(x, (7,), weight, bias),
    "logsumexp": torch.logsumexp(x, 1, keepdim=True).expand(5, 7),
    "var": torch.var(x, 1, keepdim=True).expand(5, 7),
    "cumsum": torch.cumsum(x, 1),
}
out = {"x": x, "weight": weight, "bias": bias, "seed": seed, "cases": {}}
for name, y in cases.items():
    (gradient,) = torch.autograd.grad(y, x, seed)
    out["cases"][name] = {"value": y, "gradient": gradient}
figures.save("rows", out)
