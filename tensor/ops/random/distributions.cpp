#include <etna/tensor/ops/random/random.h>

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Distributions composed of the uniform, normal and exponential numbers of random.cpp.
namespace etna {
namespace {

void distributions_require_floating(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: the tensor holds {}, it must be floating", op, name(x.dtype())));
  }
}

/// Options of the drawn numbers: f64 for f64 tensors, else f32, so that f16 and bf16 are rounded once, at the end.
TensorOptions drawn_for(const Tensor& x) { return {x.dtype() == f64 ? f64 : f32, x.device()}; }

void distributions_require_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) throw ShapeError(fmt::format("{}: p is {}, a probability lies in [0, 1]", op, p));
}

/// True if the host may read the values now: they need no wait for a device, and no step is being recorded.
bool readable(const Tensor& x) { return x.device().is_cpu() && !capturing(); }

void require_probabilities(const char* op, const Tensor& p) {
  if (!readable(p)) return;
  for (double value : p.to_vector<double>()) distributions_require_probability(op, value);
}

void require_deviation(const char* op, double std) {
  if (!(std >= 0)) throw ShapeError(fmt::format("{}: the standard deviation is {}, it must not be negative", op, std));
}

/// Uniform numbers that stay below 1 after rounding to x's dtype.
Tensor uniform_for(const Tensor& x) {
  return item_size(x.dtype()) == 2 ? rand(x.shape(), {x.dtype(), x.device()}).to(f32) : rand(x.shape(), drawn_for(x));
}

/// The first position whose cumulative weight exceeds a uniform number, by bisection. Positions are f32 until the end:
/// that is exact up to 2^24 and needs no 64-bit integers.
Tensor drawn_with_replacement(const Tensor& weights, std::int64_t count) {
  const std::int64_t rows = weights.size(0), classes = weights.size(1);
  const Tensor steps = cumsum(weights, 1), total = steps.slice(1, classes - 1, classes);
  // Stays below the total even if the multiplication rounds up, so the search never passes the last positive weight.
  const Tensor target = minimum(rand({rows, count}, drawn_for(weights)) * total,
                                total * (weights.dtype() == f64 ? 1 - 0x1p-52 : 1 - 0x1p-23));
  Tensor at = zeros({rows, count}, {f32, weights.device()});
  std::int64_t step = 1;
  while (step * 2 <= classes) step *= 2;
  for (; step > 0; step /= 2) {
    const Tensor next = at + static_cast<double>(step);
    const Tensor inside = le(next, static_cast<double>(classes));
    const Tensor index = clamp(next - 1.0, 0, static_cast<double>(classes - 1)).to(i32);
    at = where(inside & le(gather(steps, 1, index), target), next, at);
  }
  return clamp(at, 0, static_cast<double>(classes - 1)).to(i64);
}

void distributions_check_weights(const Tensor& weights) {
  if (!readable(weights)) return;
  const std::vector<double> values = weights.to_vector<double>();
  const auto classes = static_cast<std::size_t>(weights.size(-1));
  for (std::size_t first = 0; classes > 0 && first < values.size(); first += classes) {
    double total = 0;
    for (std::size_t k = first; k < first + classes; ++k) {
      if (!(values[k] >= 0 && std::isfinite(values[k])))
        throw ShapeError(fmt::format("multinomial: weight {} of row {} is {}; weights are finite and not negative",
                                     k - first, first / classes, values[k]));
      total += values[k];
    }
    if (total == 0) throw ShapeError(fmt::format("multinomial: all weights of row {} are 0", first / classes));
  }
}

}  // namespace

Tensor bernoulli(const Tensor& p) {
  distributions_require_floating("bernoulli", p);
  require_probabilities("bernoulli", p);
  const GradMode off(false);
  const TensorOptions drawn = drawn_for(p);
  return lt(rand(p.shape(), drawn), p.to(drawn.dtype)).to(p.dtype());
}

Tensor bernoulli(const Tensor& x, double p) {
  distributions_require_floating("bernoulli", x);
  distributions_require_probability("bernoulli", p);
  const GradMode off(false);
  return lt(rand(x.shape(), drawn_for(x)), p).to(x.dtype());
}

Tensor normal(const Tensor& mean, const Tensor& std) {
  distributions_require_floating("normal", mean);
  distributions_require_floating("normal", std);
  const GradMode off(false);
  const DType t = promote(mean.dtype(), std.dtype());
  const Shape shape = broadcast(mean.shape(), std.shape(), "normal");
  const Tensor z = randn(shape, {t == f64 ? f64 : f32, mean.device().is_cpu() ? std.device() : mean.device()});
  return (z * std + mean).to(t);
}

Tensor normal(const Tensor& mean, double std) {
  distributions_require_floating("normal", mean);
  require_deviation("normal", std);
  const GradMode off(false);
  return (randn(mean.shape(), drawn_for(mean)) * std + mean).to(mean.dtype());
}

Tensor normal(double mean, const Tensor& std) {
  distributions_require_floating("normal", std);
  const GradMode off(false);
  return (randn(std.shape(), drawn_for(std)) * std + mean).to(std.dtype());
}

Tensor normal(double mean, double std, Shape shape, TensorOptions options) {
  require_deviation("normal", std);
  if (!is_floating(options.dtype)) {
    throw DtypeError(fmt::format("normal: got dtype {}; wanted a floating dtype", name(options.dtype)));
  }
  const GradMode off(false);
  return (randn(shape, {options.dtype == f64 ? f64 : f32, options.device}) * std + mean).to(options.dtype);
}

Tensor randperm(std::int64_t n, TensorOptions options) {
  if (n < 0) throw ShapeError(fmt::format("randperm: n is {}, it must not be negative", n));
  const GradMode off(false);
  // Keys of 64 random bits: two of a million keys are equal once in 40 million draws.
  const Tensor keys = randint(INT64_MIN, INT64_MAX, {1, n}, {i64, options.device});
  return detail::largest_first(keys, n).reshape({n}).to(options.dtype);
}

Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement) {
  distributions_require_floating("multinomial", weights);
  if (weights.dim() != 1 && weights.dim() != 2) {
    throw ShapeError(fmt::format("multinomial: the weights are {}, they must be [K] or [B, K]", str(weights.shape())));
  }
  const std::int64_t classes = weights.size(-1);
  if (num_samples < 1) throw ShapeError(fmt::format("multinomial: got num_samples {}; wanted at least 1", num_samples));
  if (classes == 0 || classes > (std::int64_t{1} << 24)) {
    throw ShapeError(fmt::format("multinomial: got {} classes; wanted 1 to 2^24", classes));
  }
  if (!replacement && num_samples > classes) {
    throw ShapeError(
        fmt::format("multinomial: {} samples of {} classes; set replacement = true for more samples than "
                    "classes",
                    num_samples, classes));
  }
  distributions_check_weights(weights);
  const GradMode off(false);
  const Tensor rows = (weights.dim() == 1 ? weights.unsqueeze(0) : weights).to(drawn_for(weights).dtype);
  // The classes that win a race of exponential clocks are a sample without replacement (Efraimidis & Spirakis 2006).
  if (replacement) {
    const Tensor index = drawn_with_replacement(rows, num_samples);
    return weights.dim() == 1 ? index.squeeze(0) : index;
  }
  const Tensor clocks = detail::standard_exponential(rows.shape(), {rows.dtype(), rows.device()});
  const Tensor index = detail::largest_first(rows / clocks, num_samples);
  return weights.dim() == 1 ? index.squeeze(0) : index;
}

Tensor& Tensor::uniform_(double low, double high) {
  distributions_require_floating("uniform_", *this);
  if (!(low <= high)) throw ShapeError(fmt::format("uniform_: [{}, {}) is no interval", low, high));
  return copy_(uniform_for(*this) * (high - low) + low);
}

Tensor& Tensor::normal_(double mean, double std) {
  distributions_require_floating("normal_", *this);
  require_deviation("normal_", std);
  return copy_(randn(shape(), drawn_for(*this)) * std + mean);
}

Tensor& Tensor::exponential_(double lambda) {
  distributions_require_floating("exponential_", *this);
  if (!(lambda > 0)) throw ShapeError(fmt::format("exponential_: lambda is {}, it must be positive", lambda));
  return copy_(detail::standard_exponential(shape(), drawn_for(*this)) * (1 / lambda));
}

Tensor& Tensor::bernoulli_(double p) {
  distributions_require_floating("bernoulli_", *this);
  return copy_(bernoulli(*this, p));
}

Tensor& Tensor::bernoulli_(const Tensor& p) {
  distributions_require_floating("bernoulli_", *this);
  return copy_(bernoulli(p.expand(shape())));
}

}  // namespace etna
