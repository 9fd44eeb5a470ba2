#include <fmt/format.h>

#include <etna/tensor/ops/loss/internal/reduction.h>

// Losses of probabilities and of binary targets.
namespace etna {
namespace {

using namespace loss;

/// max(log x, -100). Below 1e-12 the derivative is 1e12, so that it stays finite at 0.
Tensor bounded_log(const Tensor& x) {
  const Tensor usual = x >= 1e-12, safe = where(usual, x, 1.0), fixed = detail::alias(x);
  const Tensor small = clamp(log(fixed), -100.0, {}) + (x - fixed) * 1e12;
  return where(usual, log(safe), small);
}

/// target · log σ(x) + (1 - target) · log σ(-x), negated
Tensor logits_losses(const Tensor& x, const Tensor& target, const Tensor& pos_weight) {
  if (!pos_weight.defined()) return softplus(x) - target * x;
  const Tensor positive = target * pos_weight.to(x.dtype());
  return (1.0 - target) * x + (1.0 - target + positive) * softplus(-x);
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& given, const Tensor& target, const Tensor& weight, Reduction reduction) {
  constexpr const char* op = "binary_cross_entropy";
  require_same(op, given, target);
  const Tensor x = widened(op, given), t = target.to(x.dtype());
  const Tensor losses = -(t * bounded_log(x) + (1.0 - t) * bounded_log(1.0 - x));
  return reduced(weighted(op, losses, weight), reduction, result_dtype(given));
}

Tensor binary_cross_entropy_with_logits(const Tensor& given, const Tensor& target, const Tensor& weight,
                                        Reduction reduction, const Tensor& pos_weight) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  require_same(op, given, target);
  const Tensor x = widened(op, given);
  const Tensor losses = logits_losses(x, target.to(x.dtype()), pos_weight);
  if (losses.shape() != x.shape()) {
    throw ShapeError(
        fmt::format("{}: the pos_weight {} does not broadcast to {}", op, str(pos_weight.shape()), str(x.shape())));
  }
  return reduced(weighted(op, losses, weight), reduction, result_dtype(given));
}

Tensor sigmoid_focal_loss(const Tensor& given, const Tensor& target, double alpha, double gamma, Reduction reduction) {
  constexpr const char* op = "sigmoid_focal_loss";
  require_same(op, given, target);
  if (!(gamma >= 0)) throw Error(fmt::format("{}: gamma is {}; it must not be negative", op, gamma));
  const Tensor x = widened(op, given), t = target.to(x.dtype());
  const Tensor missing = sigmoid(x) * (1.0 - t) + sigmoid(-x) * t;  // 1 - pₜ, without subtracting close numbers
  Tensor losses = logits_losses(x, t, {});
  losses = losses * (gamma == 2 ? square(missing) : pow(missing, gamma));
  if (alpha >= 0) losses = losses * (t * alpha + (1.0 - t) * (1 - alpha));
  return reduced(losses, reduction, result_dtype(given));
}

Tensor dice_loss(const Tensor& given, const Tensor& target, double smooth, Reduction reduction) {
  constexpr const char* op = "dice_loss";
  require_same(op, given, target);
  if (given.dim() == 0) throw ShapeError("dice_loss: x is 0-d, wanted [N, ...]");
  const Tensor x = widened(op, given), t = target.to(x.dtype());
  Dims inner;
  for (int i = 1; i < x.dim(); ++i) inner.push_back(i);
  const auto total = [&](const Tensor& y) { return inner.empty() ? y : sum(y, inner); };
  const Tensor losses = 1.0 - (total(x * t) * 2.0 + smooth) / (total(x) + total(t) + smooth);
  return reduced(losses, reduction, result_dtype(given));
}

Tensor kl_div(const Tensor& given, const Tensor& target, KLReduction reduction, bool log_target) {
  constexpr const char* op = "kl_div";
  require_same(op, given, target);
  const Tensor x = widened(op, given), t = target.to(x.dtype());
  Tensor losses;
  if (log_target) {
    losses = exp(t) * (t - x);
  } else {
    const Tensor nothing = t == 0.0;  // 0 · log 0 is 0
    losses = masked_fill(t * log(masked_fill(t, nothing, 1.0)), nothing, 0.0) - t * x;
  }
  if (reduction != KLReduction::batchmean) {
    const Reduction plain = reduction == KLReduction::none   ? Reduction::none
                            : reduction == KLReduction::mean ? Reduction::mean
                                                             : Reduction::sum;
    return reduced(losses, plain, result_dtype(given));
  }
  const double batch = x.dim() == 0 ? 1 : static_cast<double>(x.size(0));
  return reduced(sum(losses) / batch, Reduction::none, result_dtype(given));
}

}  // namespace etna
