#include <etna/nn/normalization.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

LayerNorm::LayerNorm(std::int64_t dim, double eps)
    : weight(ones({checked_size("LayerNorm", "dim", dim)})), bias(zeros({dim})), eps(eps) {
  register_parameter("weight", &LayerNorm::weight);
  register_parameter("bias", &LayerNorm::bias);
}

Tensor LayerNorm::forward(const Tensor& x) const { return layer_norm(x, weight, bias, eps); }

std::string LayerNorm::extra_repr() const {
  return fmt::format("({},), eps={}, elementwise_affine=True", weight.size(0), eps);
}

std::unique_ptr<Module> LayerNorm::another() const { return std::make_unique<LayerNorm>(weight.size(0), eps); }

}  // namespace etna::nn
