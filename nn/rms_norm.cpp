#include <etna/nn/normalization.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

RMSNorm::RMSNorm(std::int64_t dim, double eps) : weight(ones({checked_size("RMSNorm", "dim", dim)})), eps(eps) {
  register_parameter("weight", &RMSNorm::weight);
}

Tensor RMSNorm::forward(const Tensor& x) const { return rms_norm(x, weight, eps); }

std::string RMSNorm::extra_repr() const {
  return fmt::format("({},), eps={}, elementwise_affine=True", weight.size(0), eps);
}

std::unique_ptr<Module> RMSNorm::another() const { return std::make_unique<RMSNorm>(weight.size(0), eps); }

}  // namespace etna::nn
