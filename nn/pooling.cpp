#include <etna/nn/pooling.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

#define ETNA_POOLING_MODULES(N)                                                                               \
  Tensor MaxPool##N::forward(const Tensor& x) const {                                                         \
    return max_pool##N(x, kernel_size, options.stride, options.padding, options.dilation, options.ceil_mode); \
  }                                                                                                           \
  MaxPooled MaxPool##N::forward_with_indices(const Tensor& x) const {                                         \
    return max_pool##N##_with_indices(x, kernel_size, options);                                               \
  }                                                                                                           \
  Tensor MaxUnpool##N::forward(const Tensor& x, const Tensor& indices, Dims output_size) const {              \
    return max_unpool##N(x, indices, kernel_size, stride, padding, output_size);                              \
  }                                                                                                           \
  Tensor AdaptiveAvgPool##N::forward(const Tensor& x) const { return adaptive_avg_pool##N(x, output_size); }  \
  Tensor AdaptiveMaxPool##N::forward(const Tensor& x) const { return adaptive_max_pool##N(x, output_size); }  \
  MaxPooled AdaptiveMaxPool##N::forward_with_indices(const Tensor& x) const {                                 \
    return adaptive_max_pool##N##_with_indices(x, output_size);                                               \
  }                                                                                                           \
  Tensor LPPool##N::forward(const Tensor& x) const { return lp_pool##N(x, norm_type, kernel_size, stride, ceil_mode); }
ETNA_POOLING_MODULES(1d)
ETNA_POOLING_MODULES(2d)
ETNA_POOLING_MODULES(3d)
#undef ETNA_POOLING_MODULES

Tensor AvgPool1d::forward(const Tensor& x) const {
  if (divisor_override) throw ShapeError("AvgPool1d: divisor_override is for two and three dimensions");
  return avg_pool1d(x, kernel_size, stride, padding, ceil_mode, count_include_pad);
}
Tensor AvgPool2d::forward(const Tensor& x) const {
  return avg_pool2d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}
Tensor AvgPool3d::forward(const Tensor& x) const {
  return avg_pool3d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}

}  // namespace etna::nn
