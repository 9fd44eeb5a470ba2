"""Resized pictures."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(5)
x = torch.rand(2, 5, 7, dtype=torch.float32)
out = {"x": x.double(), "cases": {}}
for name, size in {"smaller": (3, 4), "larger": (9, 8), "mixed": (2, 13), "one": (1, 1), "same": (5, 7)}.items():
    out["cases"][name] = {
        "height": size[0], "width": size[1],
        "bilinear": F.interpolate(x[None], size, mode="bilinear", align_corners=False)[0].double(),
        "nearest": F.interpolate(x[None], size, mode="nearest")[0].double(),
    }
figures.save("images", out)
