"""Pooling, padding, interpolation, sampling, batch norm and its relatives, with gradients."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(2)


def draw(*shape):
    """Of few digits, so that the file holds the very numbers."""
    return torch.round(torch.randn(*shape, dtype=torch.float64) * 1e4) / 1e4


x1, x2, x3 = draw(2, 2, 9), draw(2, 4, 4, 5), draw(1, 2, 4, 3, 5)
grid = torch.round(torch.rand(2, 3, 4, 2, dtype=torch.float64) * 3e4 - 1.5e4) / 1e4
theta2, theta3 = draw(2, 2, 3), draw(1, 3, 4)
weight, bias = draw(4), draw(4)
tied = torch.tensor([[1.0, 3, 3, float("nan"), 2, 2, float("-inf"), float("-inf"), 0]], dtype=torch.float64)
inputs = dict(x1=x1, x2=x2, x3=x3, grid=grid, theta2=theta2, theta3=theta3, weight=weight, bias=bias)
for value in inputs.values():
    value.requires_grad_()


def normed(x, **options):
    mean, var = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    y = F.batch_norm(x, mean, var, weight, bias, **options)
    return torch.cat([y.flatten(), mean, var])


calls = {
    "max_pool1d": (lambda: F.max_pool1d(x1, 3, 2, 1, 2, True), [x1]),
    "max_pool2d": (lambda: F.max_pool2d(x2, (3, 2), (2, 1), (1, 0)), [x2]),
    "max_pool3d": (lambda: F.max_pool3d(x3, 2, 2, 1), [x3]),
    "max_unpool2d": (lambda: F.max_unpool2d(*F.max_pool2d(x2, 2, 1, return_indices=True), 2, 1), [x2]),
    "avg_pool1d": (lambda: F.avg_pool1d(x1, 4, 3, 2, True), [x1]),
    "avg_pool2d": (lambda: F.avg_pool2d(x2, (3, 2), (2, 3), (1, 1), True, False), [x2]),
    "avg_pool2d_divisor": (lambda: F.avg_pool2d(x2, 3, 2, 1, divisor_override=5), [x2]),
    "avg_pool3d": (lambda: F.avg_pool3d(x3, (3, 2, 2), 2, 1, True), [x3]),
    "adaptive_avg_pool1d": (lambda: F.adaptive_avg_pool1d(x1, 4), [x1]),
    "adaptive_avg_pool2d": (lambda: F.adaptive_avg_pool2d(x2, (3, None)), [x2]),
    "adaptive_avg_pool3d": (lambda: F.adaptive_avg_pool3d(x3, (5, 2, 3)), [x3]),
    "adaptive_max_pool2d": (lambda: F.adaptive_max_pool2d(x2, (3, 4)), [x2]),
    "adaptive_max_pool3d": (lambda: F.adaptive_max_pool3d(x3, (3, 3, 2)), [x3]),
    "lp_pool1d": (lambda: F.lp_pool1d(x1, 2, 3, 2, True), [x1]),
    "lp_pool2d": (lambda: F.lp_pool2d(x2, 4, (2, 3), ceil_mode=True), [x2]),
    "pad_constant": (lambda: F.pad(x2, (1, -2, -1, 3, 0, 1), value=2.5), [x2]),
    "pad_reflect": (lambda: F.pad(x2, (4, 2, 0, 3), "reflect"), [x2]),
    "pad_replicate": (lambda: F.pad(x3, (3, 1, 0, 2, 1, 7), "replicate"), [x3]),
    "pad_circular": (lambda: F.pad(x2, (5, 3, 2, 4), "circular"), [x2]),
    "nearest": (lambda: F.interpolate(x2, (7, 3)), [x2]),
    "nearest_scale": (lambda: F.interpolate(x1, scale_factor=1.7), [x1]),
    "nearest_exact": (lambda: F.interpolate(x3, (3, 7, 4), mode="nearest-exact"), [x3]),
    "linear": (lambda: F.interpolate(x1, 5, mode="linear"), [x1]),
    "bilinear": (lambda: F.interpolate(x2, scale_factor=(2.3, 0.6), mode="bilinear"), [x2]),
    "bilinear_recomputed": (
        lambda: F.interpolate(x2, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True), [x2]),
    "bilinear_corners": (lambda: F.interpolate(x2, (7, 1), mode="bilinear", align_corners=True), [x2]),
    "trilinear": (lambda: F.interpolate(x3, (6, 2, 5), mode="trilinear"), [x3]),
    "bicubic": (lambda: F.interpolate(x2, (7, 3), mode="bicubic"), [x2]),
    "bicubic_corners": (lambda: F.interpolate(x2, (3, 8), mode="bicubic", align_corners=True), [x2]),
    "area": (lambda: F.interpolate(x2, (2, 8), mode="area"), [x2]),
    "affine_grid": (lambda: F.affine_grid(theta2, (2, 1, 3, 4), align_corners=False), [theta2]),
    "affine_grid_corners": (lambda: F.affine_grid(theta2, (2, 1, 3, 1), align_corners=True), [theta2]),
    "affine_grid_volume": (lambda: F.affine_grid(theta3, (1, 1, 2, 3, 2), align_corners=False), [theta3]),
    "pixel_shuffle": (lambda: F.pixel_shuffle(x2, 2), [x2]),
    "pixel_unshuffle": (lambda: F.pixel_unshuffle(x2[..., 1:], 2), [x2]),
    "channel_shuffle": (lambda: F.channel_shuffle(x2.detach(), 2) + 0 * x2, []),
    "batch_norm": (lambda: normed(x2, training=True, momentum=0.3), [x2, weight, bias]),
    "batch_norm_eval": (lambda: normed(x2 * 1e2, training=False, eps=1e-3), [x2, weight, bias]),
    "instance_norm": (lambda: F.instance_norm(x2, weight=weight, bias=bias), [x2, weight, bias]),
    "group_norm": (lambda: F.group_norm(x2, 2, weight, bias), [x2, weight, bias]),
    "local_response_norm": (lambda: F.local_response_norm(x2, 3, 0.5, 0.6, 1.5), [x2]),
    "local_response_norm_even": (lambda: F.local_response_norm(x1, 4), [x1]),
}
for mode in ("bilinear", "nearest"):
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            calls[f"grid_sample_{mode}_{padding}_{int(corners)}"] = (
                lambda m=mode, p=padding, c=corners: F.grid_sample(x2, grid, m, p, c),
                [x2, grid] if mode == "bilinear" else [x2])

out = {"inputs": inputs, "tied": tied, "cases": {}}
values, indices = F.max_pool1d(tied, 3, 1, 1, return_indices=True)
out["tied_values"], out["tied_indices"] = values, indices
out["max_indices"] = F.max_pool3d(x3, 2, 2, 1, return_indices=True)[1]
out["adaptive_indices"] = F.adaptive_max_pool2d(x2, (3, 4), return_indices=True)[1]
names = {id(value): name for name, value in inputs.items()}
for name, (call, sources) in calls.items():
    y = call()
    seed = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    gradients = torch.autograd.grad(y, sources, seed, allow_unused=True) if sources else []
    out["cases"][name] = {
        "value": y,
        "gradients": {names[id(s)]: g for s, g in zip(sources, gradients) if g is not None},
    }


def short(value):
    """Six digits are below the tolerance."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return torch.tensor([float(f"{v:.6g}") for v in value.detach().flatten().tolist()],
                            dtype=torch.float64).reshape(value.shape)
    if isinstance(value, dict):
        return {key: short(item) for key, item in value.items()}
    return value


figures.save("vision", short(out))
