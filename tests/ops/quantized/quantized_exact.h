#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/quant/quantized_tensor.h>
#include <ops/numerics.h>
#include <quant/random_points.h>

/// Weights in block formats, and what a product with them is in f64.
namespace etna::quantized {

using numerics::values;

inline QuantizedTensor weight(std::string_view name, std::int64_t rows, std::int64_t columns, unsigned seed = 1) {
  const quant::BlockFormat& format = quant::format_named(name);
  if (format.can_quantize()) return quantize(values({rows, columns}, seed, f32), format);
  const std::vector<std::byte> blocks = quant::random_points(format, rows * columns, seed);
  return {format, {rows, columns}, from_bytes(blocks.data(), {std::ssize(blocks)}, u8)};
}

/// Formats of weights: all but integers and f64.
inline std::vector<const quant::BlockFormat*> weight_formats() {
  std::vector<const quant::BlockFormat*> list;
  for (const quant::BlockFormat& format : quant::block_formats())
    if (format.can_quantize() || format.elements > 1) list.push_back(&format);
  return list;
}

/// The blocks at an address that is `bytes` behind an aligned one.
inline QuantizedTensor misaligned(const QuantizedTensor& w, std::int64_t bytes) {
  const std::int64_t n = w.blocks().numel();
  Tensor room = zeros({n + bytes}, {u8, w.device()});
  room.slice(0, bytes, n + bytes).copy_(w.blocks());
  return {w.format(), w.shape(), room.slice(0, bytes, n + bytes)};
}

/// A linear layer in f64, and the sum of the magnitudes of what is added, to which errors are relative.
struct Exact {
  std::vector<double> y, magnitude;
};

inline double gated(Activation gate, double a) {
  if (gate == Activation::silu) return a / (1 + std::exp(-a));
  if (gate == Activation::gelu_tanh) return 0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
  return a > 0 ? a * a : 0;
}

inline Exact exact(const Tensor& x, const std::vector<QuantizedTensor>& weights, const LinearOptions& o) {
  const std::vector<double> xs = x.to_vector<double>();
  const auto given = [](const Tensor& t) { return t.defined() ? t.to_vector<double>() : std::vector<double>(); };
  const std::vector<double> bias = given(o.bias), norm = given(o.norm), residual = given(o.residual);
  const auto k = static_cast<std::size_t>(x.size(-1)), m = k == 0 ? 0 : xs.size() / k;
  std::vector<double> w;
  for (const QuantizedTensor& q : weights) {
    const std::vector<double> part = dequantize(q.to(kCPU)).to_vector<double>();
    w.insert(w.end(), part.begin(), part.end());
  }
  const std::size_t all = w.size() / k, n = o.gate == Activation::none ? all : all / 2;
  Exact e;
  for (std::size_t i = 0; i < m; ++i) {
    double squares = 0;
    for (std::size_t j = 0; j < k; ++j) squares += xs[i * k + j] * xs[i * k + j];
    const double scale = norm.empty() ? 1 : 1 / std::sqrt(squares / static_cast<double>(k) + o.eps);
    const auto product = [&](std::size_t r, double& magnitude) {
      double sum = bias.empty() ? 0 : bias[r];
      magnitude = std::abs(sum);
      for (std::size_t j = 0; j < k; ++j) {
        const double term = xs[i * k + j] * (norm.empty() ? 1 : norm[j] * scale) * w[r * k + j];
        sum += term;
        magnitude += std::abs(term);
      }
      return sum;
    };
    for (std::size_t r = 0; r < n; ++r) {
      double magnitude = 0, other = 0, y = product(r, magnitude);
      if (o.gate != Activation::none) {
        const double b = product(r + n, other), a = y;
        y = gated(o.gate, a) * b;
        const double derivative = o.gate == Activation::relu_squared ? 2 * std::abs(a) : 1.2;
        magnitude = derivative * magnitude * std::abs(b) + std::abs(gated(o.gate, a)) * other;
      }
      if (!residual.empty()) y += residual[i * n + r];
      e.y.push_back(y);
      e.magnitude.push_back(magnitude + (residual.empty() ? 0 : std::abs(residual[i * n + r])));
    }
  }
  return e;
}

inline LinearOptions on_gpu(LinearOptions o) {
  for (Tensor* t : {&o.bias, &o.norm, &o.residual}) {
    if (t->defined()) *t = t->to(kVulkan);
  }
  return o;
}

inline Tensor fused_linear(const Tensor& x, std::span<const QuantizedTensor> weights, const LinearOptions& options) {
  return linear(x, weights, options).y;
}
inline Tensor fused_linear(const Tensor& x, const QuantizedTensor& weight, const LinearOptions& options) {
  return fused_linear(x, std::span(&weight, 1), options);
}

inline std::vector<QuantizedTensor> on_gpu(const std::vector<QuantizedTensor>& weights) {
  std::vector<QuantizedTensor> there;
  for (const QuantizedTensor& w : weights) there.push_back(w.to(kVulkan));
  return there;
}

}  // namespace etna::quantized
