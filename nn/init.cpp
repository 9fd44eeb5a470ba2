#include <etna/nn/init.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

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

Tensor kaiming_uniform_(Tensor x, double a) {
  double in = fans(x, "kaiming_uniform_").in;
  double bound = in > 0 ? std::sqrt(2 / (1 + a * a)) * std::sqrt(3 / in) : 0;
  return uniform_(std::move(x), -bound, bound);
}

}  // namespace etna::nn::init
