"""Layers and functions: padding modes, fused norms, update_bn, adaptive softmax, distances, and what layers print."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from torch.optim.swa_utils import update_bn

import figures

torch.manual_seed(8)
f64 = torch.float64


def short(*shape):
    """Numbers of three decimals, which take little room."""
    return torch.round(torch.randn(shape, dtype=f64) * 1000) / 1000


def rounded(module):
    """The module in f64, its state rounded to three decimals."""
    module = module.double()
    with torch.no_grad():
        for x in module.state_dict().values():
            if x.is_floating_point():
                x.copy_(torch.round(x * 1000) / 1000)
    return module


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def layer_case(module, x):
    module = rounded(module)
    x = x.clone().requires_grad_()
    y = module(x)
    seed = short(*y.shape)
    names, parameters = zip(*module.named_parameters())
    found = torch.autograd.grad(y, (x, *parameters), seed)
    return {"state": state(module), "inputs": [x], "output": y, "seed": seed, "input_gradients": [found[0]],
            "gradients": dict(zip(names, found[1:]))}


def function_case(f, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    seed = short(*y.shape)
    return {"inputs": inputs, "value": y, "seed": seed, "gradients": torch.autograd.grad(y, inputs, seed)}


out = {"padding": {
    "reflect 1d": layer_case(nn.Conv1d(2, 3, 3, padding=2, padding_mode="reflect"), short(2, 2, 5)),
    "replicate 1d": layer_case(nn.Conv1d(2, 2, 2, padding="same", padding_mode="replicate"), short(1, 2, 4)),
    "circular 1d": layer_case(nn.Conv1d(2, 2, 3, stride=2, padding=1, padding_mode="circular", bias=False),
                              short(1, 2, 5)),
    "reflect 2d": layer_case(nn.Conv2d(2, 2, (3, 2), stride=(2, 1), padding=(1, 2), padding_mode="reflect", groups=2),
                             short(1, 2, 4, 3)),
    "replicate 2d": layer_case(nn.Conv2d(1, 2, 3, padding=1, dilation=2, padding_mode="replicate"), short(1, 1, 4, 5)),
    "circular 2d": layer_case(nn.Conv2d(1, 2, (2, 4), padding="same", padding_mode="circular"), short(2, 1, 3, 4)),
    "reflect 3d": layer_case(nn.Conv3d(1, 1, 2, padding=1, padding_mode="reflect"), short(1, 1, 2, 3, 2)),
    "replicate 3d": layer_case(nn.Conv3d(1, 1, 2, padding=(0, 1, 2), padding_mode="replicate"), short(1, 1, 2, 2, 2)),
    "circular 3d": layer_case(nn.Conv3d(1, 1, 3, padding=1, padding_mode="circular"), short(1, 1, 2, 2, 2)),
}}

x, y, z = short(4, 3), short(4, 3), short(4, 3)
out["functions"] = {
    "normalize": function_case(lambda a: F.normalize(a), x),
    "normalize p1 dim0": function_case(lambda a: F.normalize(a, p=1, dim=0), x),
    "normalize p3": function_case(lambda a: F.normalize(a, p=3, dim=-1, eps=0.5), x * 0.5),
    "normalize small": function_case(lambda a: F.normalize(a, eps=10), x),
    "pdist": function_case(lambda a: F.pdist(a), x),
    "pdist p1": function_case(lambda a: F.pdist(a, 1), x),
    "pdist p3": function_case(lambda a: F.pdist(a, 3), x),
    "pdist inf": function_case(lambda a: F.pdist(a, float("inf")), x),
    "bilinear": function_case(F.bilinear, short(2, 2, 3), short(2, 2, 2), short(4, 3, 2), short(4)),
    "triplet": function_case(lambda a, b, c: F.triplet_margin_with_distance_loss(a, b, c, reduction="none"), x, y, z),
    "triplet cosine": function_case(
        lambda a, b, c: F.triplet_margin_with_distance_loss(
            a, b, c, distance_function=lambda u, v: 1 - F.cosine_similarity(u, v), margin=0.5, swap=True), x, y, z),
}

layer = rounded(nn.AdaptiveLogSoftmaxWithLoss(8, 11, [3, 6], div_value=2, head_bias=True))
x, target = short(6, 8).requires_grad_(), torch.tensor([0, 5, 10, 2, 6, 3])
result = layer(x, target)
names, parameters = zip(*layer.named_parameters())
found = torch.autograd.grad(result.loss, (x, *parameters))
out["adaptive"] = {"state": state(layer), "inputs": [x], "target": target, "output": result.output,
                   "loss": result.loss, "log_prob": layer.log_prob(x), "predict": layer.predict(x),
                   "input_gradients": [found[0]], "gradients": dict(zip(names, found[1:]))}


def fused(layer, norm, x, fuse, **options):
    layer, norm = rounded(layer).eval(), norm.double().eval()
    with torch.no_grad():
        norm.running_mean.copy_(short(norm.num_features))
        norm.running_var.copy_(short(norm.num_features).abs() + 0.5)
        if norm.affine:
            norm.weight.copy_(short(norm.num_features))
            norm.bias.copy_(short(norm.num_features))
        one = fuse(layer, norm, **options)
        return {"layer": state(layer), "norm": state(norm), "x": x, "output": norm(layer(x)), "weight": one.weight,
                "bias": one.bias}


out["fused"] = {
    "conv": fused(nn.Conv2d(4, 6, 2, groups=2), nn.BatchNorm2d(6), short(1, 4, 3, 3), fuse_conv_bn_eval),
    "bare": fused(nn.Conv1d(2, 3, 2, bias=False), nn.BatchNorm1d(3, affine=False), short(2, 2, 4),
                  fuse_conv_bn_eval),
    "transposed": fused(nn.ConvTranspose2d(2, 3, 2), nn.BatchNorm2d(3, eps=0.1), short(1, 2, 2, 2),
                        fuse_conv_bn_eval, transpose=True),
    "linear": fused(nn.Linear(3, 4), nn.BatchNorm1d(4), short(2, 3), fuse_linear_bn_eval),
}

net = rounded(nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2),
                            nn.BatchNorm1d(2, momentum=0.3)))
batches = [short(4, 2, 4), short(3, 2, 4), short(2, 2, 4)]
before = state(net)
update_bn(batches, net)
out["update_bn"] = {"before": before, "batches": batches, "after": state(net)}

print_me = {
    "conv2d": nn.Conv2d(3, 64, 7, 2, 3), "conv1d": nn.Conv1d(4, 6, 3, padding="same", padding_mode="reflect"),
    "conv3d": nn.Conv3d(4, 6, (1, 2, 3), dilation=2, groups=2, bias=False),
    "conv_transpose2d": nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
    "conv_transpose1d": nn.ConvTranspose1d(4, 6, 3, dilation=2, bias=False),
    "unfold": nn.Unfold(3, padding=(1, 2)), "fold": nn.Fold((4, 5), 3), "batch_norm": nn.BatchNorm2d(3, 1e-3, None),
    "instance_norm": nn.InstanceNorm1d(3), "group_norm": nn.GroupNorm(2, 4), "lrn": nn.LocalResponseNorm(2),
    "max_pool2d": nn.MaxPool2d(3, 2, 1), "max_pool1d": nn.MaxPool1d(2), "max_unpool2d": nn.MaxUnpool2d(2),
    "max_unpool1d": nn.MaxUnpool1d(2, 3), "avg_pool1d": nn.AvgPool1d(3), "avg_pool2d": nn.AvgPool2d((3, 2), padding=1),
    "adaptive_avg": nn.AdaptiveAvgPool2d((None, 3)), "adaptive_max": nn.AdaptiveMaxPool1d(3),
    "lp_pool2d": nn.LPPool2d(2, 3), "lp_pool1d": nn.LPPool1d(1.5, 3, 2), "zero_pad": nn.ZeroPad2d(1),
    "reflection_pad": nn.ReflectionPad1d((1, 2)), "replication_pad": nn.ReplicationPad3d(2),
    "constant_pad": nn.ConstantPad2d((1, 2, 3, 4), 3.5), "upsample": nn.Upsample(scale_factor=2),
    "upsample size": nn.Upsample((3, 4), mode="bilinear"), "nearest": nn.UpsamplingNearest2d(scale_factor=2),
    "pixel_shuffle": nn.PixelShuffle(2), "channel_shuffle": nn.ChannelShuffle(2), "flatten": nn.Flatten(),
    "unflatten": nn.Unflatten(1, (2, 3)), "dropout": nn.FeatureAlphaDropout(0.5), "elu": nn.ELU(),
    "hardtanh": nn.Hardtanh(), "softshrink": nn.Softshrink(), "rrelu": nn.RReLU(), "softmax2d": nn.Softmax2d(),
    "softmax": nn.Softmax(1), "loss": nn.MSELoss(), "adaptive": nn.AdaptiveLogSoftmaxWithLoss(8, 11, [3, 6], 2.0),
}
out["printed"] = {name: repr(module) for name, module in print_me.items()}
figures.save("layers", out)
