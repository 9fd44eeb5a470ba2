"""Convolutions, transposed convolutions, unfold and fold, with gradients, second ones included."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(3)


def draw(*shape):
    return torch.round(torch.randn(*shape, dtype=torch.float64), decimals=4).requires_grad_()


def figure(call, *inputs):
    """The value, the gradients for a random seed, and those of their sum of squares."""
    y = call(*inputs)
    seed = torch.round(torch.randn_like(y), decimals=4)
    first = torch.autograd.grad(y, inputs, seed, create_graph=True)
    squares = sum((g * g).sum() for g in first)
    out = {"inputs": inputs, "value": y, "seed": seed, "gradients": first}
    if len(inputs) > 1:
        second = torch.autograd.grad(squares, inputs[:2])
        out["second"] = second
    return {key: rounded(value) for key, value in out.items()}


def rounded(value):
    """Fewer digits, for a smaller file; the checks need five."""
    if isinstance(value, torch.Tensor):
        return torch.round(value.detach(), decimals=6)
    return [rounded(item) for item in value]


x2, w2, b = draw(2, 4, 5, 4), draw(6, 4, 3, 2), draw(6)
cases = {
    "conv2d": figure(lambda x, w, b: F.conv2d(x, w, b), x2, w2, b),
    "conv2d_settings": figure(lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)), x2, w2, b),
    "conv2d_same": figure(lambda x, w, b: F.conv2d(x, w, b, 1, "same", (2, 1)), x2, w2, b),
    "conv2d_valid": figure(lambda x: F.conv2d(x, torch.ones(1, 4, 2, 2, dtype=x.dtype), None, 1, "valid"), x2),
    "conv2d_groups": figure(lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 2), x2, draw(6, 2, 3, 3), b),
    "conv2d_depthwise": figure(lambda x, w: F.conv2d(x, w, None, 2, 1, 1, 4), x2, draw(8, 1, 3, 3)),
    "conv2d_unbatched": figure(lambda x, w, b: F.conv2d(x, w, b, padding=1), draw(4, 5, 4), w2, b),
    "conv1d": figure(lambda x, w, b: F.conv1d(x, w, b, 2, 3, 2), draw(2, 3, 9), draw(6, 3, 4), b),
    "conv1d_unbatched": figure(lambda x, w: F.conv1d(x, w), draw(3, 9), draw(2, 3, 4)),
    "conv3d": figure(lambda x, w, b: F.conv3d(x, w, b, (1, 2, 1), (1, 0, 1)), draw(1, 2, 3, 5, 4),
                     draw(6, 2, 2, 3, 2), b),
    "conv_transpose1d": figure(lambda x, w, b: F.conv_transpose1d(x, w, b, 3, 1, 2, 1, 2),
                               draw(2, 3, 4), draw(3, 6, 3), b),
    "conv_transpose2d": figure(lambda x, w, b: F.conv_transpose2d(x, w, b), draw(2, 3, 3, 4), draw(3, 6, 2, 3), b),
    "conv_transpose2d_settings": figure(lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2),
                                        draw(2, 4, 3, 2), draw(4, 3, 3, 3), b),
    "conv_transpose2d_dilated": figure(lambda x, w: F.conv_transpose2d(x, w, None, 1, 0, 1, 1, 2),
                                       draw(3, 3, 4), draw(3, 2, 2, 2)),
    "conv_transpose3d": figure(lambda x, w, b: F.conv_transpose3d(x, w, b, (1, 2, 2), 1, (0, 1, 0)),
                               draw(1, 2, 3, 2, 2), draw(2, 6, 2, 3, 3), b),
    "unfold": figure(lambda x: F.unfold(x, (2, 3), 2, (1, 2), (2, 1)), draw(2, 3, 5, 4)),
    "unfold_unbatched": figure(lambda x: F.unfold(x, 2), draw(3, 4, 3)),
    "fold": figure(lambda x: F.fold(x, (5, 4), (2, 3), 1, (1, 0), (2, 1)), draw(2, 12, 6)),
}
figures.save("convolution", {"cases": cases})
