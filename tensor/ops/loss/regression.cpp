#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <etna/tensor/ops/loss/internal/reduction.h>

// Regression losses.
namespace etna {
namespace {

using namespace loss;

Tensor distance(const char* op, const Tensor& given, const Tensor& target) {
  require_same(op, given, target);
  const Tensor x = widened(op, given);
  return abs(x - target.to(x.dtype()));
}

/// d²/2 up to the bound, then a straight line with the same derivative.
Tensor bounded_square(const Tensor& d, double bound) {
  const Tensor near = minimum(d, bound);
  return near * (d - near * 0.5);
}

}  // namespace

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return reduced(distance("l1_loss", x, target), reduction, result_dtype(x));
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta) {
  if (!(beta >= 0)) throw Error(fmt::format("smooth_l1_loss: beta is {}; it must not be negative", beta));
  const Tensor d = distance("smooth_l1_loss", x, target);
  return reduced(beta == 0 ? d : bounded_square(d, beta) / beta, reduction, result_dtype(x));
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  if (!(delta > 0)) throw Error(fmt::format("huber_loss: delta is {}; it must be positive", delta));
  return reduced(bounded_square(distance("huber_loss", x, target), delta), reduction, result_dtype(x));
}

Tensor gaussian_nll_loss(const Tensor& given, const Tensor& target, const Tensor& given_var, bool full, double eps,
                         Reduction reduction) {
  constexpr const char* op = "gaussian_nll_loss";
  require_same(op, given, target);
  const Tensor x = widened(op, given);
  Tensor var = widened(op, given_var).to(x.dtype());
  if (var.dim() + 1 == x.dim()) var = var.unsqueeze(-1);
  bool fits = var.dim() == x.dim();
  for (int i = 0; fits && i < x.dim(); ++i) fits = var.size(i) == x.size(i) || (i + 1 == x.dim() && var.size(i) == 1);
  if (!fits) {
    throw ShapeError(fmt::format("{}: x is {} and var {}; wanted is x's shape, or with a last dimension of 1 or none",
                                 op, str(x.shape()), str(given_var.shape())));
  }
  const Tensor fixed = detail::alias(var), bounded = var + (clamp(fixed, eps, {}) - fixed);
  Tensor losses = (log(bounded) + square(x - target.to(x.dtype())) / bounded) * 0.5;
  if (full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, reduction, result_dtype(given));
}

Tensor poisson_nll_loss(const Tensor& given, const Tensor& target, bool log_input, bool full, double eps,
                        Reduction reduction) {
  constexpr const char* op = "poisson_nll_loss";
  require_same(op, given, target);
  const Tensor x = widened(op, given), t = target.to(x.dtype());
  Tensor losses = log_input ? exp(x) - t * x : x - t * log(x + eps);
  if (full) {
    const Tensor large = t > 1.0, safe = where(large, t, 1.0);
    const Tensor stirling = safe * log(safe) - safe + log(safe * (2 * std::numbers::pi)) * 0.5;
    losses = losses + where(large, stirling, 0.0);
  }
  return reduced(losses, reduction, result_dtype(given));
}

}  // namespace etna
