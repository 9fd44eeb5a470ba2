"""100 steps of every optimizer on two small parameters, from given gradients."""
import math

import torch

import figures

torch.manual_seed(2)
STEPS = 100
SHAPES = [(3, 5), (7,)]
start = [torch.randn(s, dtype=torch.float64) for s in SHAPES]
bias = [torch.randn(s, dtype=torch.float64) for s in SHAPES]


def gradient(x, b, t):
    """A curved bowl that moves; the test computes the same."""
    return x * 0.5 + b * math.cos(0.7 * t) + 0.1


def run(make, record=(1, 2, 10, 100), only=(0, 1)):
    """Parameters after the recorded steps. `make` returns step(list of parameters with .grad)."""
    parameters = [start[i].clone().requires_grad_() for i in only]
    step = make(parameters)
    found = {}
    for t in range(1, STEPS + 1):
        for k, i in enumerate(only):
            parameters[k].grad = gradient(parameters[k].detach(), bias[i], t)
        step()
        if t in record:
            found[str(t)] = [p.detach().clone() for p in parameters]
    return found


def torch_optimizer(cls, **options):
    return run(lambda ps: cls(ps, **options).step)


def groups(cls, first, second, **options):
    """Two groups, one for each parameter, with settings of their own."""
    return run(lambda ps: cls([{"params": [ps[0]], **first}, {"params": [ps[1]], **second}], **options).step)


def own(rule, only=(0, 1)):
    """`rule(p, g, state, t)` returns the new parameter."""
    def make(ps):
        states, count = [{} for _ in ps], [0]

        def step():
            count[0] += 1
            with torch.no_grad():
                for p, s in zip(ps, states):
                    p.copy_(rule(p.clone(), p.grad, s, count[0]))
        return step
    return run(make, only=only)


def moments(g, s, b1, b2):
    s["m"] = b1 * s.get("m", torch.zeros_like(g)) + (1 - b1) * g
    s["v"] = b2 * s.get("v", torch.zeros_like(g)) + (1 - b2) * g * g
    return s["m"], s["v"]


def nadam(lr, b1, b2, momentum_decay, decay):
    """PyTorch 2's. (1.13 multiplies the product for the next step by mu twice.)"""
    def rule(p, g, s, t):
        g = g + decay * p
        m, v = moments(g, s, b1, b2)
        now, after = (b1 * (1 - 0.5 * 0.96 ** (i * momentum_decay)) for i in (t, t + 1))
        s["product"] = s.get("product", 1) * now
        root = (v / (1 - b2 ** t)).sqrt() + 1e-8
        return p - lr * ((1 - now) / (1 - s["product"]) * g + after / (1 - s["product"] * after) * m) / root
    return rule


def lion(lr, b1, b2, decay):
    def rule(p, g, s, t):
        m = s.get("m", torch.zeros_like(g))
        p = p - lr * (torch.sign(b1 * m + (1 - b1) * g) + decay * p)
        s["m"] = b2 * m + (1 - b2) * g
        return p
    return rule


def lamb(lr, b1, b2, eps, decay):
    def rule(p, g, s, t):
        m, v = moments(g, s, b1, b2)
        u = m / (1 - b1 ** t) / ((v / (1 - b2 ** t)).sqrt() + eps) + decay * p
        a, b = p.norm(), u.norm()
        return p - lr * (a / b if a > 0 and b > 0 else 1) * u
    return rule


def adafactor(lr, beta2_decay, eps1, eps2, d, decay):
    def rule(p, g, s, t):
        share, rho = t ** beta2_decay, min(lr, 1 / math.sqrt(t))
        alpha = max(eps2, p.norm().item() / math.sqrt(p.numel())) * rho
        p = p * (1 - lr * decay)
        if g.dim() > 1:
            r = (g * g).mean(-1, keepdim=True)
            c = (g * g).mean(-2, keepdim=True)
            s["r"] = torch.lerp(s.get("r", torch.zeros_like(r)), r, share)
            s["c"] = torch.lerp(s.get("c", torch.zeros_like(c)), c, share)
            v = s["r"] @ s["c"] / s["r"].mean(-2, keepdim=True).clamp(min=eps1)
        else:
            s["v"] = torch.lerp(s.get("v", torch.zeros_like(g)), g * g, share)
            v = s["v"]
        u = v.clamp(min=eps1 * eps1).rsqrt() * g
        return p - alpha / max(1.0, u.norm().item() / (math.sqrt(u.numel()) * d)) * u
    return rule


def muon(lr, momentum, nesterov, decay, match):
    def rule(p, g, s, t):
        s["b"] = torch.lerp(s.get("b", torch.zeros_like(g)), g, 1 - momentum)
        u = torch.lerp(g, s["b"], momentum) if nesterov else s["b"]
        tall = u.size(0) > u.size(1)
        u = u.T if tall else u
        u = u / u.norm().clamp(min=1e-7)
        for _ in range(5):
            a = u @ u.T
            u = 3.4445 * u + (-4.7750 * a + 2.0315 * a @ a) @ u
        u = u.T if tall else u
        rows, columns = g.shape
        scale = 0.2 * math.sqrt(max(rows, columns)) if match else math.sqrt(max(1, rows / columns))
        return p * (1 - lr * decay) - lr * scale * u
    return rule


o = torch.optim
cases = {
    "sgd": torch_optimizer(o.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "sgd maximize": torch_optimizer(o.SGD, lr=0.001, maximize=True),
    "adam": torch_optimizer(o.Adam, lr=0.05, weight_decay=0.1),
    "adam amsgrad": torch_optimizer(o.Adam, lr=0.05, betas=(0.8, 0.95), amsgrad=True),
    "adam maximize": torch_optimizer(o.Adam, lr=0.01, maximize=True, weight_decay=0.1),
    "adamw": torch_optimizer(o.AdamW, lr=0.05, weight_decay=0.1),
    "adamw amsgrad": torch_optimizer(o.AdamW, lr=0.05, weight_decay=0.1, amsgrad=True),
    "adagrad": torch_optimizer(o.Adagrad, lr=0.1, lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.5),
    "rmsprop": torch_optimizer(o.RMSprop, lr=0.01, weight_decay=0.1),
    "rmsprop momentum": torch_optimizer(o.RMSprop, lr=0.01, alpha=0.9, momentum=0.8),
    "rmsprop centered": torch_optimizer(o.RMSprop, lr=0.01, alpha=0.9, eps=1e-2, centered=True),
    "rmsprop centered momentum": torch_optimizer(o.RMSprop, lr=0.01, alpha=0.9, eps=1e-2, centered=True, momentum=0.5),
    "adadelta": torch_optimizer(o.Adadelta, lr=1.0, weight_decay=0.1),
    "adamax": torch_optimizer(o.Adamax, lr=0.05, weight_decay=0.1),
    "nadam": own(nadam(0.05, 0.9, 0.999, 4e-3, 0.1)),
    "nadam fast decay": own(nadam(0.05, 0.9, 0.999, 0.5, 0.0)),
    "radam": torch_optimizer(o.RAdam, lr=0.05, weight_decay=0.1),
    "radam short": torch_optimizer(o.RAdam, lr=0.05, betas=(0.8, 0.9)),
    "asgd": torch_optimizer(o.ASGD, lr=0.1, lambd=1e-2, t0=20, weight_decay=0.1),
    "rprop": torch_optimizer(o.Rprop, lr=0.01),
    "sgd groups": groups(o.SGD, {"momentum": 0.5, "lr": 0.02}, {"momentum": 0}, lr=0.1, momentum=0.9),
    "adamw groups": groups(o.AdamW, {"betas": (0.5, 0.9), "eps": 0.1}, {"weight_decay": 0.3}, lr=0.05),
    "rmsprop groups": groups(o.RMSprop, {"momentum": 0.5}, {"eps": 1e-2}, lr=0.01),
    "radam groups": groups(o.RAdam, {"betas": (0.8, 0.9)}, {"lr": 0.02}, lr=0.05),
    "lion": own(lion(0.01, 0.9, 0.99, 0.1)),
    "lamb": own(lamb(0.02, 0.9, 0.999, 1e-6, 0.01)),
    "adafactor": own(adafactor(0.05, -0.8, 2.0 ** -23, 1e-3, 1.0, 0.1)),
    "muon": own(muon(0.02, 0.95, True, 0.1, False), only=(0,)),
    "muon plain": own(muon(0.02, 0.9, False, 0.0, True), only=(0,)),
}


def bowl(x):
    """Rosenbrock's valley in pairs."""
    return (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def lbfgs(**options):
    x = start[1].clone().mul_(0.5).requires_grad_()
    optimizer, found = o.LBFGS([x], **options), []

    def closure():
        optimizer.zero_grad()
        loss = bowl(x)
        loss.backward()
        return loss
    for _ in range(4):
        loss = optimizer.step(closure)
        found.append({"loss": loss, "x": x.detach().clone()})
    return found


figures.save("optimizers", {
    "start": start, "bias": bias, "cases": cases,
    "lbfgs": {"wolfe": lbfgs(line_search_fn="strong_wolfe", max_iter=4),
              "wolfe short history": lbfgs(line_search_fn="strong_wolfe", max_iter=6, history_size=2),
              "plain": lbfgs(lr=0.1, max_iter=4)}})
