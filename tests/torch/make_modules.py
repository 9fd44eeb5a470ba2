"""Parametrizations, Bilinear, EmbeddingBag, and what modules print."""
import torch
from torch import nn
from torch.nn.utils import spectral_norm, weight_norm

import figures

torch.manual_seed(5)


def short(*shape):
    """Numbers of three decimals, which take little room."""
    return torch.round(torch.randn(*shape, dtype=torch.float64) * 1000) / 1000


def result(module, inputs, y):
    seed = short(*y.shape)
    names, parameters = zip(*module.named_parameters())
    gradients = torch.autograd.grad(y, parameters, seed)
    return {"inputs": list(inputs), "output": y, "seed": seed, "gradients": dict(zip(names, gradients))}


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


out = {"cases": {}}
x = short(5, 3)
for name, dim in {"rows": 0, "columns": 1, "all": None}.items():
    layer = weight_norm(nn.Linear(3, 4).double(), dim=dim)
    before = state(layer)
    out["cases"]["weight_norm_" + name] = {"state": before, **result(layer, [x], layer(x))}
for name, training in {"training": True, "evaluating": False}.items():
    layer = spectral_norm(nn.Linear(3, 4).double(), n_power_iterations=2).train(training)
    before = state(layer)
    case = {"state": before, **result(layer, [x], layer(x))}
    case["u"] = layer.weight_u
    out["cases"]["spectral_norm_" + name] = case
layer = nn.Bilinear(3, 2, 4).double()
y = short(5, 2)
out["cases"]["bilinear"] = {"state": state(layer), **result(layer, [x, y], layer(x, y))}

index = torch.tensor([1, 0, 4, 4, 2, 3, 1])
offsets = torch.tensor([0, 3, 3, 5])
for mode in ("sum", "mean", "max"):
    for padding in (None, 4):
        bag = nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding).double()
        name = f"bag_{mode}" + ("" if padding is None else "_padding")
        out["cases"][name] = {"state": state(bag), **result(bag, [index, offsets], bag(index, offsets))}
        rows = index[:6].reshape(2, 3)
        out["cases"][name + "_rows"] = {"state": state(bag), **result(bag, [rows], bag(rows))}
bag = nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True).double()
factors = short(7)
ends = torch.tensor([0, 2, 7])
out["cases"]["bag_factors"] = {"state": state(bag), **result(bag, [index, ends, factors],
                                                             bag(index, ends, per_sample_weights=factors))}

print_me = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.LayerNorm(3), nn.Dropout(0.25)),
                         nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), nn.GRU(3, 4, bias=False),
                         nn.Identity(), nn.GELU(), nn.SiLU(), nn.Embedding(5, 3), nn.Dropout2d(0.5),
                         nn.AlphaDropout(0.5), nn.Bilinear(3, 2, 4), nn.EmbeddingBag(5, 3),
                         nn.ModuleDict({"a": nn.Linear(1, 1, False)}))
out["printed"] = repr(print_me)
figures.save("modules", out)
