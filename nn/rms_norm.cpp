#include <etna/nn/rms_norm.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

RMSNorm::RMSNorm(std::int64_t dim, double eps) : weight(ones({checked_size("RMSNorm", "dim", dim)})), eps(eps) {
  register_parameter("weight", weight);
}

Tensor RMSNorm::forward(const Tensor& x) const { return rms_norm(x, weight, eps); }

}  // namespace etna::nn
