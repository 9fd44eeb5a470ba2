#include <etna/tensor/ops/random/random.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Dropout of channels, dropout for selu, and samples of classes, composed of the numbers of random.cpp.
namespace etna {
namespace {

void stochastic_require_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) throw ShapeError(fmt::format("{}: p is {}, a probability lies in [0, 1]", op, p));
}

void stochastic_require_floating(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: the input is {}, it must be floating", op, name(x.dtype())));
}

/// The first `kept` sizes of x, then ones.
Shape channels_of(const Tensor& x, int kept) {
  Shape channels = x.shape();
  for (int d = kept; d < channels.rank(); ++d) channels[d] = 1;
  return channels;
}

/// @param ranks accepted ranks, and whether the lower one lacks the batch
Tensor channel_dropout(const char* op, const Tensor& x, double p, bool training, int shorter, bool unbatched) {
  stochastic_require_floating(op, x);
  stochastic_require_probability(op, p);
  if (x.dim() != shorter && x.dim() != shorter + 1) {
    throw ShapeError(fmt::format("{}: x is {}; wanted {} or {} dimensions", op, str(x.shape()), shorter, shorter + 1));
  }
  if (!training || p == 0) return x;
  const int kept = x.dim() == shorter && unbatched ? 1 : 2;
  return x * dropout(ones(channels_of(x, kept), {x.dtype(), x.device()}), p);
}

/// @param noise_shape broadcasts to x's shape
Tensor dropout_for_selu(const Tensor& x, const Shape& noise_shape, double p) {
  if (p == 1) return x * 0.0;
  constexpr double kLimit = -1.7580993408473766;  // -scale · alpha of selu
  const double a = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit)), b = -a * kLimit * p;
  const bool half = item_size(x.dtype()) == 2;
  const Tensor wide = half ? x.to(f32) : x;
  // The same elements in every dtype.
  const Tensor kept = ne(dropout(ones(noise_shape, {f32, x.device()}), p), 0.0).to(wide.dtype());
  const Tensor y = wide * (kept * a) + ((1.0 - kept) * (a * kLimit) + b);
  return half ? y.to(x.dtype()) : y;
}

}  // namespace

Tensor dropout1d(const Tensor& x, double p, bool training) {
  return channel_dropout("dropout1d", x, p, training, 2, true);
}
Tensor dropout2d(const Tensor& x, double p, bool training) {
  return channel_dropout("dropout2d", x, p, training, 3, false);
}
Tensor dropout3d(const Tensor& x, double p, bool training) {
  return channel_dropout("dropout3d", x, p, training, 4, true);
}

Tensor locked_dropout(const Tensor& x, double p, bool training, std::int64_t dim) {
  stochastic_require_floating("locked_dropout", x);
  stochastic_require_probability("locked_dropout", p);
  Shape mask = x.shape();
  mask[wrap_dim(dim, x.dim(), "locked_dropout")] = 1;
  if (!training || p == 0) return x;
  return x * dropout(ones(mask, {x.dtype(), x.device()}), p);
}

Tensor embedding_dropout(const Tensor& index, const Tensor& weight, double p, bool training) {
  stochastic_require_floating("embedding_dropout", weight);
  stochastic_require_probability("embedding_dropout", p);
  const Tensor rows = embedding(weight, index);
  if (!training || p == 0) return rows;
  const Tensor kept = dropout(ones({weight.size(0), 1}, {weight.dtype(), weight.device()}), p);
  return rows * embedding(kept, index);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  stochastic_require_floating("alpha_dropout", x);
  stochastic_require_probability("alpha_dropout", p);
  return training && p > 0 ? dropout_for_selu(x, x.shape(), p) : x;
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  stochastic_require_floating("feature_alpha_dropout", x);
  stochastic_require_probability("feature_alpha_dropout", p);
  if (x.dim() < 2) {
    throw ShapeError(fmt::format("feature_alpha_dropout: x is {}; wanted [N, C, ...]", str(x.shape())));
  }
  return training && p > 0 ? dropout_for_selu(x, channels_of(x, 2), p) : x;
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, std::int64_t dim) {
  stochastic_require_floating("gumbel_softmax", logits);
  if (!(tau > 0)) throw Error(fmt::format("gumbel_softmax: tau is {}, it must be positive", tau));
  const int along = wrap_dim(dim, logits.dim(), "gumbel_softmax");
  const bool half = item_size(logits.dtype()) == 2;
  const Tensor wide = half ? logits.to(f32) : logits;
  const Tensor clocks = detail::standard_exponential(wide.shape(), {f32, wide.device()});
  const Tensor noise = -log(clocks.to(wide.dtype()));
  Tensor y = softmax((wide + noise) / tau, along);
  if (hard && y.numel() > 0) {
    const Tensor index = argmax(y.detach(), along, true);
    const Tensor one_hot = scatter(zeros_like(y.detach()), along, index, 1.0);
    y = y + (one_hot - y.detach());
  }
  return half ? y.to(logits.dtype()) : y;
}

}  // namespace etna
