"""Losses and distances with gradients, every option, unreduced and reduced."""
import torch
import torch.nn.functional as F

import figures

torch.manual_seed(4)
f64 = torch.float64
out = {}


def case(name, f, inputs, others=(), reductions=("none", "mean", "sum")):
    """`f(inputs, others, reduction)`. Gradients are of Σ loss · seed, with the first reduction, and of the second."""
    inputs = [x.to(f64).requires_grad_() for x in inputs]
    entry = {"inputs": inputs, "others": list(others), "values": {}, "gradients": {}}
    for r in reductions:
        y = f(*inputs, *others, r)
        entry["values"][r] = y
        if r != "sum" or len(reductions) == 1:
            seed = torch.linspace(0.5, 1.5, max(1, y.numel()), dtype=f64).reshape(y.shape) if r == "none" \
                else torch.ones_like(y)
            entry["gradients"][r] = torch.autograd.grad(y, inputs, seed, allow_unused=False)
    out[name] = entry


def r(*shape):
    return torch.randn(*shape, dtype=f64)


def p(*shape):
    return torch.rand(*shape, dtype=f64)


def bits(*shape):
    return torch.randint(0, 2, shape).to(f64)


def signs(*shape):
    return bits(*shape) * 2 - 1


x, y = r(3, 4), r(3, 4)
prob, yes = p(3, 4) * 0.98 + 0.01, bits(3, 4)
w, row = p(3, 4) + 0.5, p(4) + 0.5
bce, logits = F.binary_cross_entropy, F.binary_cross_entropy_with_logits
case("bce", lambda a, t, q: bce(a, t, reduction=q), [prob], [yes])
case("bce weight", lambda a, t, v, q: bce(a, t, weight=v, reduction=q), [prob, p(3, 4)], [row])
edges = torch.tensor([0.0, 1.0, 0.0, 1.0, 1e-3, 1 - 1e-3], dtype=f64)
out["bce edges"] = {"x": edges, "t": torch.tensor([0, 1, 1, 0, 1, 0], dtype=f64),
                    "value": bce(edges, torch.tensor([0, 1, 1, 0, 1, 0], dtype=f64), reduction="none")}
case("logits", lambda a, t, q: logits(a, t, reduction=q), [x], [yes])
case("logits weight", lambda a, t, v, u, q: logits(a, t, v, reduction=q, pos_weight=u), [x, p(3, 4)], [w, row])
huge = torch.tensor([1e4, -1e4, 1e4, -1e4, 100, -100], dtype=f64)
case("logits huge", lambda a, t, q: logits(a, t, reduction=q), [huge], [torch.tensor([1, 0, 0, 1, 1, 1], dtype=f64)])
t = p(3, 4)
t[0, 0] = 0
case("kl_div", lambda a, b, q: F.kl_div(a, b, reduction=q), [F.log_softmax(x, 1)], [t], ("none", "mean", "sum"))
case("kl_div batchmean", lambda a, b, q: F.kl_div(a, b, reduction=q), [F.log_softmax(x, 1)], [t], ("batchmean",))
case("kl_div log_target", lambda a, b, q: F.kl_div(a, b, reduction=q, log_target=True), [x, F.log_softmax(y, 1)])
case("l1", lambda a, b, q: F.l1_loss(a, b, reduction=q), [x, y])
case("smooth_l1", lambda a, b, q: F.smooth_l1_loss(a, b, reduction=q), [x, y])
case("smooth_l1 beta", lambda a, b, q: F.smooth_l1_loss(a, b, reduction=q, beta=0.3), [x, y])
case("smooth_l1 zero", lambda a, b, q: F.smooth_l1_loss(a, b, reduction=q, beta=0), [x, y])
case("huber", lambda a, b, q: F.huber_loss(a, b, reduction=q, delta=0.7), [x, y])
cel, vectors = F.cosine_embedding_loss, [r(4, 5), r(4, 5)]
case("cosine_embedding", lambda a, b, c, q: cel(a, b, c, reduction=q), vectors, [signs(4)])
case("cosine_embedding margin", lambda a, b, c, q: cel(a, b, c, margin=0.2, reduction=q), vectors,
     [torch.tensor([1.0, -1, -1, -1], dtype=f64)])
case("cosine_embedding one", lambda a, b, c, q: cel(a, b, c, reduction=q), [r(5), r(5)], [torch.tensor(1.0, dtype=f64)])
case("margin_ranking", lambda a, b, c, q: F.margin_ranking_loss(a, b, c, reduction=q), [x, y], [signs(3, 4)])
case("margin_ranking margin", lambda a, b, c, q: F.margin_ranking_loss(a, b, c, margin=0.5, reduction=q), [x, y],
     [signs(3, 4)])
case("hinge_embedding", lambda a, b, q: F.hinge_embedding_loss(a, b, reduction=q), [x], [signs(3, 4)])
case("hinge_embedding margin", lambda a, b, q: F.hinge_embedding_loss(a, b, margin=0.4, reduction=q), [x], [signs(3, 4)])
three = [r(4, 5), r(4, 5), r(4, 5)]
for name, options in {"triplet": {}, "triplet swap": {"swap": True, "margin": 2.0}, "triplet p": {"p": 3.0},
                      "triplet p1": {"p": 1.0, "eps": 1e-3}}.items():
    case(name, lambda a, b, c, q: F.triplet_margin_loss(a, b, c, reduction=q, **options), three)
k = torch.tensor([2, 0, 3])
case("multi_margin", lambda a, b, q: F.multi_margin_loss(a, b, reduction=q), [x], [k])
case("multi_margin p", lambda a, b, v, q: F.multi_margin_loss(a, b, p=2, margin=0.7, weight=v, reduction=q), [x],
     [k, row])
labels = torch.tensor([[2, 0, -1, 1], [-1, 1, 1, 1], [0, 1, 2, 3]])
case("multilabel_margin", lambda a, b, q: F.multilabel_margin_loss(a, b, reduction=q), [x], [labels])
case("multilabel_soft_margin", lambda a, b, q: F.multilabel_soft_margin_loss(a, b, reduction=q), [x], [yes])
case("multilabel_soft_margin weight", lambda a, b, v, q: F.multilabel_soft_margin_loss(a, b, weight=v, reduction=q), [x],
     [yes, row])
case("soft_margin", lambda a, b, q: F.soft_margin_loss(a, b, reduction=q), [x], [signs(3, 4)])
var = p(3, 4) + 0.1
case("gaussian_nll", lambda a, b, v, q: F.gaussian_nll_loss(a, b, v, reduction=q), [x, y, var])
case("gaussian_nll full", lambda a, b, v, q: F.gaussian_nll_loss(a, b, v, full=True, eps=0.5, reduction=q),
     [x, y, p(3, 1)])
case("gaussian_nll rows", lambda a, b, v, q: F.gaussian_nll_loss(a, b, v, reduction=q), [x, y, p(3) + 0.1])
count = torch.randint(0, 5, (3, 4)).to(f64)
case("poisson_nll", lambda a, b, q: F.poisson_nll_loss(a, b, reduction=q), [x], [count])
case("poisson_nll full", lambda a, b, q: F.poisson_nll_loss(a, b, log_input=False, full=True, reduction=q), [p(3, 4) + 0.2],
     [count])


def focal(a, b, alpha, gamma, q):
    """torchvision's sigmoid_focal_loss."""
    s, ce = torch.sigmoid(a), F.binary_cross_entropy_with_logits(a, b, reduction="none")
    loss = ce * (1 - (s * b + (1 - s) * (1 - b))) ** gamma
    if alpha >= 0:
        loss = (alpha * b + (1 - alpha) * (1 - b)) * loss
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[q]


case("focal", lambda a, b, q: focal(a, b, 0.25, 2, q), [x], [yes])
case("focal gamma", lambda a, b, q: focal(a, b, -1, 1.5, q), [x], [yes])


def dice(a, b, q):
    loss = 1 - (2 * (a * b).sum((1, 2)) + 1) / (a.sum((1, 2)) + b.sum((1, 2)) + 1)
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[q]


case("dice", dice, [p(3, 4, 2)], [bits(3, 4, 2)])
case("cosine_similarity", lambda a, b, q: F.cosine_similarity(a, b), [r(3, 4, 2), r(3, 4, 2)], (), ("none",))
case("cosine_similarity dim", lambda a, b, q: F.cosine_similarity(a, b, dim=-1), [r(3, 1, 4), r(2, 4)], (), ("none",))
case("cosine_similarity zero", lambda a, b, q: F.cosine_similarity(a, b, dim=0, eps=1e-2),
     [torch.full((4,), 1e-4, dtype=f64), r(4)], (), ("none",))
for power in (1, 2, 3, float("inf")):
    case(f"pairwise_distance {power}", lambda a, b, q: F.pairwise_distance(a, b, p=power), [x, y], (), ("none",))
    case(f"cdist {power}", lambda a, b, q: torch.cdist(a, b, p=power), [r(2, 3, 4), r(2, 2, 4)], (), ("none",))
case("pairwise_distance keepdim", lambda a, b, q: F.pairwise_distance(a, b, eps=1e-3, keepdim=True), [x, y], (),
     ("none",))
labels, ignored = torch.tensor([2, 0, 3]), torch.tensor([2, -100, 3])
ce = F.cross_entropy
case("cross_entropy weight", lambda a, b, v, q: ce(a, b, v, reduction=q), [x], [labels, row])
case("cross_entropy ignored", lambda a, b, v, q: ce(a, b, v, label_smoothing=0.2, reduction=q), [x], [ignored, row])
case("cross_entropy soft", lambda a, b, q: ce(a, b, reduction=q), [x, F.softmax(y, 1)])
case("cross_entropy soft weight", lambda a, b, v, q: ce(a, b, v, label_smoothing=0.1, reduction=q), [x],
     [F.softmax(y, 1), row])
image, pixels = r(2, 4, 3, 2), torch.randint(0, 4, (2, 3, 2))
pixels[0, 0, 0] = 1
case("cross_entropy image", lambda a, b, v, q: ce(a, b, v, ignore_index=1, reduction=q), [image], [pixels, row])
case("cross_entropy soft image", lambda a, b, v, q: ce(a, b, v, reduction=q), [image], [F.softmax(r(2, 4, 3, 2), 1), row])
case("cross_entropy one", lambda a, b, v, q: ce(a, b, v, reduction=q), [r(4)], [torch.tensor(1), row])
case("nll weight", lambda a, b, v, q: F.nll_loss(a, b, v, reduction=q), [F.log_softmax(x, 1)], [ignored, row])
case("nll image", lambda a, b, v, q: F.nll_loss(a, b, v, reduction=q), [image], [pixels, row])


def ctc(blank=0, zero=False, lengths=([6, 4, 5], [3, 1, 2])):
    def f(a, b, q):
        return F.ctc_loss(F.log_softmax(a, -1), b, torch.tensor(lengths[0]), torch.tensor(lengths[1]), blank=blank,
                          reduction=q, zero_infinity=zero)
    return f


case("ctc", ctc(), [r(6, 3, 5)], [torch.tensor([[1, 2, 2], [4, 1, 1], [3, 1, 4]])])
case("ctc blank", ctc(blank=4), [r(6, 3, 5)], [torch.tensor([[1, 0, 2], [3, 3, 3], [2, 2, 1]])])
case("ctc joined", ctc(), [r(6, 3, 5)], [torch.tensor([1, 2, 2, 4, 3, 3])])
case("ctc impossible", ctc(zero=True, lengths=([6, 1, 3], [3, 2, 2])), [r(6, 3, 5)],
     [torch.tensor([[1, 2, 3], [4, 1, 1], [3, 3, 4]])])
case("ctc empty", ctc(lengths=([6, 4, 5], [0, 1, 0])), [r(6, 3, 5)], [torch.tensor([[1], [4], [3]])])
case("ctc one", ctc(lengths=(6, 3)), [r(6, 5)], [torch.tensor([1, 1, 2])])
figures.save("loss", out)
