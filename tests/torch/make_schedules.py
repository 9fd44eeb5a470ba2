"""Learning rates of PyTorch's schedules over 100 steps, for two groups."""
import warnings

import torch
from torch.optim import lr_scheduler as s
from torch.optim.swa_utils import SWALR, AveragedModel

import figures

warnings.filterwarnings("ignore")
STEPS = 100


def rates(make, metrics=None):
    ps = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [ps[0]], "lr": 0.5}, {"params": [ps[1]], "lr": 0.02}], lr=0.1)
    schedule, found = make(optimizer), []
    for t in range(STEPS):
        found.append([g["lr"] for g in optimizer.param_groups])
        optimizer.step()
        schedule.step(metrics[t]) if metrics else schedule.step()
    return torch.tensor(found, dtype=torch.float64)


def cyclic(**options):
    return lambda o: s.CyclicLR(o, base_lr=[0.5, 0.02], max_lr=[1.5, 0.06], cycle_momentum=False, **options)


def one_cycle(**options):
    return lambda o: s.OneCycleLR(o, max_lr=[0.5, 0.02], total_steps=STEPS + 1, cycle_momentum=False, **options)


metrics = [1 / (1 + t) if t < 20 else 0.05 + 0.001 * (t % 7) if t < 60 else 0.04 for t in range(STEPS)]
cases = {
    "step": rates(lambda o: s.StepLR(o, 30)),
    "multi_step": rates(lambda o: s.MultiStepLR(o, [10, 30, 80], gamma=0.5)),
    "exponential": rates(lambda o: s.ExponentialLR(o, 0.95)),
    "cosine": rates(lambda o: s.CosineAnnealingLR(o, 100)),
    "cosine_warm_restarts": rates(lambda o: s.CosineAnnealingWarmRestarts(o, 10)),
    "cosine_warm_restarts growing": rates(lambda o: s.CosineAnnealingWarmRestarts(o, 10, T_mult=2)),
    "one_cycle": rates(one_cycle()),
    "one_cycle linear": rates(one_cycle(anneal_strategy="linear", pct_start=0.4, div_factor=10, final_div_factor=100)),
    "one_cycle three_phase": rates(one_cycle(three_phase=True)),
    "cyclic": rates(cyclic(step_size_up=10)),
    "cyclic triangular2": rates(cyclic(step_size_up=10, step_size_down=20, mode="triangular2")),
    "cyclic exp_range": rates(cyclic(step_size_up=15, mode="exp_range", gamma=0.97)),
    "polynomial": rates(lambda o: s.PolynomialLR(o, total_iters=60, power=2)),
    "linear": rates(lambda o: s.LinearLR(o, start_factor=0.25, total_iters=40)),
    "constant": rates(lambda o: s.ConstantLR(o, factor=0.3, total_iters=12)),
    "lambda": rates(lambda o: s.LambdaLR(o, lambda t: 1 / (1 + t))),
    "multiplicative": rates(lambda o: s.MultiplicativeLR(o, lambda t: 0.9 + 0.001 * t)),
    "sequential": rates(lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 1000), s.ExponentialLR(o, 0.9)], [20])),
    "chained": rates(lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 5), s.ExponentialLR(o, 0.9)])),
    "plateau": rates(lambda o: s.ReduceLROnPlateau(o, patience=4, factor=0.5, cooldown=3, min_lr=0.001), metrics),
    "plateau max": rates(lambda o: s.ReduceLROnPlateau(o, "max", patience=6, threshold=0.01, threshold_mode="abs"),
                         metrics),
}

cases["swalr"] = rates(lambda o: SWALR(o, swa_lr=[0.05, 0.2]))
cases["swalr linear"] = rates(lambda o: SWALR(o, swa_lr=0.05, anneal_epochs=30, anneal_strategy="linear"))
cases["swalr at once"] = rates(lambda o: SWALR(o, swa_lr=0.05, anneal_epochs=0))


def momenta(make, adam=False):
    p = [torch.nn.Parameter(torch.zeros(1))]
    optimizer = torch.optim.Adam(p, lr=0.1) if adam else torch.optim.SGD(p, lr=0.1, momentum=0.9)
    schedule, found = make(optimizer), []
    for _ in range(STEPS):
        group = optimizer.param_groups[0]
        found.append(group["betas"][0] if adam else group["momentum"])
        optimizer.step()
        schedule.step()
    return torch.tensor(found, dtype=torch.float64)


momentum_cases = {
    "one_cycle": momenta(lambda o: s.OneCycleLR(o, 0.1, total_steps=STEPS + 1)),
    "one_cycle linear": momenta(lambda o: s.OneCycleLR(o, 0.1, total_steps=STEPS + 1, anneal_strategy="linear",
                                                       base_momentum=0.5, max_momentum=0.99)),
    "one_cycle three_phase": momenta(lambda o: s.OneCycleLR(o, 0.1, total_steps=STEPS + 1, three_phase=True)),
    "one_cycle adam": momenta(lambda o: s.OneCycleLR(o, 0.1, total_steps=STEPS + 1), adam=True),
    "cyclic": momenta(lambda o: s.CyclicLR(o, 0.1, 0.3, step_size_up=10)),
    "cyclic triangular2": momenta(lambda o: s.CyclicLR(o, 0.1, 0.3, step_size_up=10, step_size_down=20,
                                                       mode="triangular2", base_momentum=0.6)),
    "cyclic exp_range": momenta(lambda o: s.CyclicLR(o, 0.1, 0.3, step_size_up=15, mode="exp_range", gamma=0.97)),
}

torch.manual_seed(3)
weights = torch.randn(6, 4, dtype=torch.float64)
model = torch.nn.Linear(3, 1, bias=True).double()


def averages(**options):
    average, found = AveragedModel(model, **options), []
    for row in weights:
        with torch.no_grad():
            model.weight.copy_(row[:3].reshape(1, 3))
            model.bias.copy_(row[3:])
        average.update_parameters(model)
        found.append(torch.cat([average.module.weight.detach().flatten(), average.module.bias.detach()]))
    return torch.stack(found)


ema = {"avg_fn": lambda average, value, n: 0.9 * average + 0.1 * value}
figures.save("schedules", {"cases": cases, "momenta": momentum_cases, "metrics": metrics, "weights": weights,
                           "swa": averages(), "ema": averages(**ema)})
