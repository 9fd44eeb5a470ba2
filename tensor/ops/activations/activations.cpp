#include <etna/tensor/ops/activations/activations.h>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/table.h>

// The functions of etna::Activation, composed activations, and default parameters of activations that are rows of
// elementwise.def.
namespace etna {

const char* name(Activation activation) { return activations::row_of(activation).op; }

std::optional<Activation> activation_named(std::string_view name) {
  for (const activations::Row& row : activations::kTable) {
    if (name == row.op) return row.activation;
  }
  return std::nullopt;
}

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      break;
#define ETNA_ACTIVATION(number, name, ...) \
  case Activation::name:                   \
    return name(x);
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
  }
  return x;
}

Tensor activation_backward(const Tensor& g, const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      break;
#define ETNA_ACTIVATION(number, name, ...) \
  case Activation::name:                   \
    return name##_backward(g, x);
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
  }
  return g;
}

Tensor leaky_relu(const Tensor& x) { return leaky_relu(x, 0.01); }
Tensor elu(const Tensor& x) { return elu(x, 1.0); }
Tensor celu(const Tensor& x) { return celu(x, 1.0); }
Tensor softshrink(const Tensor& x) { return softshrink(x, 0.5); }
Tensor hardshrink(const Tensor& x) { return hardshrink(x, 0.5); }

Tensor prelu(const Tensor& x, const Tensor& weight) {
  detail::require_defined("prelu", x, weight);
  const std::int64_t channels = x.dim() > 1 ? x.size(1) : 1;
  if (weight.numel() == 1) return leaky_relu(x, weight.reshape({}));
  if (weight.dim() != 1 || weight.size(0) != channels) {
    throw ShapeError(fmt::format("prelu: the weight {} must be [1], or [{}] for the channels in dimension 1 of {}",
                                 str(weight.shape()), channels, str(x.shape())));
  }
  Shape per_channel = {channels};
  for (int d = 2; d < x.dim(); ++d) per_channel.push_back(1);
  return leaky_relu(x, weight.reshape(per_channel));
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training) {
  detail::require_defined("rrelu", x);
  if (!(lower <= upper)) {
    throw ShapeError(fmt::format("rrelu: lower {} is not below upper {}", lower, upper));
  }
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  const DType t = is_floating(x.dtype()) ? x.dtype() : f32;
  return leaky_relu(x, rand(x.shape(), {t, x.device()}) * (upper - lower) + lower);
}

Tensor hardtanh(const Tensor& x, double lo, double hi) {
  detail::require_defined("hardtanh", x);
  if (!(lo <= hi)) throw ShapeError(fmt::format("hardtanh: the bounds {} and {} are not in order", lo, hi));
  if (!is_floating(x.dtype())) return clamp(x, lo, hi);
  const Tensor y = where(le(x, lo), lo, x);
  return where(ge(y, hi), hi, y);
}

Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }

Tensor threshold(const Tensor& x, double at, double value) {
  detail::require_defined("threshold", x);
  return where(le(x, at), value, x);
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  detail::require_defined("softplus", x);
  if (beta == 1 && threshold == 20) return softplus(x);
  const Tensor scaled = x * beta;
  return where(gt(scaled, threshold), x, softplus(scaled) / beta);
}

Tensor glu(const Tensor& x, std::int64_t dim) {
  detail::require_defined("glu", x);
  if (x.dim() == 0) throw ShapeError("glu: got a 0-d tensor; wanted at least one dimension");
  const std::int64_t size = x.size(dim);
  if (size % 2 != 0) {
    throw ShapeError(
        fmt::format("glu: dimension {} of {} has an odd size; it is split into two halves", dim, str(x.shape())));
  }
  return x.slice(dim, 0, size / 2) * sigmoid(x.slice(dim, size / 2, size));
}

Tensor softmin(const Tensor& x, std::int64_t dim) { return softmax(-x, dim); }

}  // namespace etna
