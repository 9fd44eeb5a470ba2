#include <etna/nn/init.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::nn::init {
namespace {

struct Fans {
  double in, out;
};

/// Inputs and outputs of one unit of a weight [out, in, ...]; further sizes (of a kernel) multiply both.
Fans fans(const Tensor& x, const char* name) {
  if (x.dim() < 2) {
    throw ShapeError(
        fmt::format("{}: {} has no fan-in and fan-out; at least two dimensions are wanted", name, str(x.shape())));
  }
  auto out = static_cast<double>(x.size(0)), in = static_cast<double>(x.size(1));
  double each = out * in > 0 ? static_cast<double>(x.numel()) / (out * in) : 1;
  return {in * each, out * each};
}

}  // namespace

Tensor constant_(Tensor x, double value) {
  GradMode off(false);
  return x.fill_(value);
}
Tensor zeros_(Tensor x) { return constant_(std::move(x), 0); }
Tensor ones_(Tensor x) { return constant_(std::move(x), 1); }

Tensor uniform_(Tensor x, double low, double high) {
  GradMode off(false);
  return x.copy_(rand(x.shape(), {f32, x.device()}) * (high - low) + low);
}

Tensor normal_(Tensor x, double mean, double std) {
  GradMode off(false);
  return x.copy_(randn(x.shape(), {f32, x.device()}) * std + mean);
}

Tensor xavier_uniform_(Tensor x, double gain) {
  Fans fan = fans(x, "xavier_uniform_");
  double bound = fan.in + fan.out > 0 ? gain * std::sqrt(6 / (fan.in + fan.out)) : 0;
  return uniform_(std::move(x), -bound, bound);
}

Tensor xavier_normal_(Tensor x, double gain) {
  Fans fan = fans(x, "xavier_normal_");
  double std = fan.in + fan.out > 0 ? gain * std::sqrt(2 / (fan.in + fan.out)) : 0;
  return normal_(std::move(x), 0, std);
}

double calculate_gain(std::string_view nonlinearity, std::optional<double> slope) {
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + std::pow(slope.value_or(0.01), 2)));
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2);
  if (nonlinearity == "selu") return 0.75;
  for (std::string_view one : {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                               "conv_transpose3d", "sigmoid"}) {
    if (nonlinearity == one) return 1;
  }
  throw Error(fmt::format("calculate_gain: '{}' is not linear, a convolution, sigmoid, tanh, relu, leaky_relu or selu",
                          nonlinearity));
}

namespace {
/// gain/√fan
double kaiming_std(const Tensor& x, const char* name, double a, FanMode mode, std::string_view nonlinearity) {
  const Fans both = fans(x, name);
  const double fan = mode == FanMode::fan_in ? both.in : both.out;
  return fan > 0 ? calculate_gain(nonlinearity, a) / std::sqrt(fan) : 0;
}

void require_matrix(const Tensor& x, const char* name) {
  if (x.dim() != 2) throw ShapeError(fmt::format("{}: {} is no matrix of two dimensions", name, str(x.shape())));
}
}  // namespace

Tensor kaiming_uniform_(Tensor x, double a, FanMode mode, std::string_view nonlinearity) {
  const Fans both = fans(x, "kaiming_uniform_");
  const double fan = mode == FanMode::fan_in ? both.in : both.out;
  const double bound = fan > 0 ? calculate_gain(nonlinearity, a) * std::sqrt(3 / fan) : 0;
  return uniform_(std::move(x), -bound, bound);
}

Tensor kaiming_normal_(Tensor x, double a, FanMode mode, std::string_view nonlinearity) {
  const double std = kaiming_std(x, "kaiming_normal_", a, mode, nonlinearity);
  return normal_(std::move(x), 0, std);
}

Tensor trunc_normal_(Tensor x, double mean, double std, double low, double high) {
  if (!(low <= high && std >= 0)) {
    throw ShapeError(
        fmt::format("trunc_normal_: [{}, {}] with the standard deviation {} is no distribution", low, high, std));
  }
  GradMode off(false);
  std::vector<double> values(static_cast<std::size_t>(x.numel()));
  std::vector<std::size_t> wanted(values.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
  // The interval may lie in a tail: what a hundred draws did not hit becomes uniform.
  for (int round = 0; round <= 100 && !wanted.empty(); ++round) {
    const Shape shape{static_cast<std::int64_t>(wanted.size())};
    const std::vector<double> drawn = (round < 100 ? randn(shape) : rand(shape)).to_vector<double>();
    std::vector<std::size_t> outside;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const double value = round < 100 ? mean + std * drawn[k] : low + (high - low) * drawn[k];
      if (value >= low && value <= high)
        values[wanted[k]] = value;
      else
        outside.push_back(wanted[k]);
    }
    wanted = std::move(outside);
  }
  return x.copy_(from_vector(values, x.shape()).to(x.dtype()).to(x.device()));
}

Tensor orthogonal_(Tensor x, double gain) {
  fans(x, "orthogonal_");
  if (x.numel() == 0) return x;
  GradMode off(false);
  const std::int64_t rows = x.size(0), columns = x.numel() / rows;
  const bool wide = rows < columns;
  const Tensor drawn = randn({rows, columns}, f64);
  const linalg::Qr qr = linalg::qr(wide ? drawn.t() : drawn);
  // With the signs of R's diagonal Q is uniform among orthogonal matrices (Mezzadri 2007).
  const std::int64_t k = std::min(rows, columns);
  const Tensor diagonal = qr.R.reshape({k * k}).slice(0, 0, k * k, k + 1);
  const Tensor q = qr.Q * where(lt(diagonal, 0.0), -1.0, ones_like(diagonal)) * gain;
  return x.copy_((wide ? q.t() : q).reshape(x.shape()).to(x.dtype()).to(x.device()));
}

Tensor eye_(Tensor x) {
  require_matrix(x, "eye_");
  GradMode off(false);
  return x.copy_(tril(triu(ones(x.shape(), {x.dtype(), x.device()}))));
}

Tensor dirac_(Tensor x, std::int64_t groups) {
  if (x.dim() < 3 || x.dim() > 5) {
    throw ShapeError(fmt::format("dirac_: {} is no weight of three to five dimensions", str(x.shape())));
  }
  if (groups < 1 || x.size(0) % groups != 0) {
    throw ShapeError(fmt::format("dirac_: {} groups do not divide {} outputs", groups, x.size(0)));
  }
  GradMode off(false);
  const std::int64_t each = x.size(0) / groups;
  Tensor y = zeros(x.shape());
  for (std::int64_t i = 0; i < x.size(0) && y.numel() > 0; ++i) {
    if (i % each >= x.size(1)) continue;
    Tensor at = y[i][i % each];
    while (at.dim() > 0) at = at[at.size(0) / 2];
    at.fill_(1);
  }
  return x.copy_(y.to(x.dtype()).to(x.device()));
}

Tensor sparse_(Tensor x, double sparsity, double std) {
  require_matrix(x, "sparse_");
  if (!(sparsity >= 0 && sparsity <= 1))
    throw ShapeError(fmt::format("sparse_: a share of {} is not in [0, 1]", sparsity));
  GradMode off(false);
  const std::int64_t rows = x.size(0),
                     dropped = static_cast<std::int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  Tensor y = randn(x.shape()) * std;
  for (std::int64_t j = 0; j < x.size(1); ++j) {
    for (std::int64_t i : randperm(rows).slice(0, 0, dropped).to_vector<std::int64_t>()) y[i][j].fill_(0);
  }
  return x.copy_(y.to(x.dtype()).to(x.device()));
}

}  // namespace etna::nn::init
