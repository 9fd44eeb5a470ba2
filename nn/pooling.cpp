#include <etna/nn/pooling.h>

#include <fmt/format.h>

#include <etna/nn/module.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

/// A stride that was left out is the kernel's size.
const Dims& stride_of(const Dims& stride, const Dims& kernel_size) { return stride.empty() ? kernel_size : stride; }

std::string integral_as_int(double value) {
  return value == static_cast<double>(static_cast<std::int64_t>(value)) ? fmt::format("{}", value) : repr_of(value);
}

}  // namespace

#define ETNA_POOLING_MODULES(N, DIMS)                                                                                  \
  Tensor MaxPool##N::forward(const Tensor& x) const {                                                                  \
    return max_pool##N(x, kernel_size, options.stride, options.padding, options.dilation, options.ceil_mode);          \
  }                                                                                                                    \
  MaxPooled MaxPool##N::forward_with_indices(const Tensor& x) const {                                                  \
    return max_pool##N##_with_indices(x, kernel_size, options);                                                        \
  }                                                                                                                    \
  std::string MaxPool##N::extra_repr() const {                                                                         \
    return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}", repr_of(kernel_size),       \
                       repr_of(stride_of(options.stride, kernel_size)), repr_of(options.padding),                      \
                       repr_of(options.dilation), repr_of(options.ceil_mode));                                         \
  }                                                                                                                    \
  std::unique_ptr<Module> MaxPool##N::another() const {                                                                \
    return std::make_unique<MaxPool##N>(kernel_size, options.stride, options.padding, options.dilation,                \
                                        options.ceil_mode);                                                            \
  }                                                                                                                    \
  Tensor MaxUnpool##N::forward(const Tensor& x, const Tensor& indices, Dims output_size) const {                       \
    return max_unpool##N(x, indices, kernel_size, stride, padding, output_size);                                       \
  }                                                                                                                    \
  Tensor MaxUnpool##N::operator()(const Tensor& x, const Tensor& indices, Dims output_size) const {                    \
    if (!hooked()) return forward(x, indices, output_size);                                                            \
    return call_hooked({x, indices},                                                                                   \
                       [&](const TensorList& in) { return TensorList{forward(in[0], in[1], output_size)}; })[0];       \
  }                                                                                                                    \
  std::string MaxUnpool##N::extra_repr() const {                                                                       \
    return fmt::format("kernel_size={}, stride={}, padding={}", tuple_of(kernel_size, DIMS),                           \
                       tuple_of(stride_of(stride, kernel_size), DIMS), tuple_of(padding, DIMS));                       \
  }                                                                                                                    \
  std::unique_ptr<Module> MaxUnpool##N::another() const {                                                              \
    return std::make_unique<MaxUnpool##N>(kernel_size, stride, padding);                                               \
  }                                                                                                                    \
  std::string AvgPool##N::extra_repr() const {                                                                         \
    const auto repr = [](const Dims& dims) { return DIMS == 1 ? tuple_of(dims, 1) : repr_of(dims); };                  \
    return fmt::format("kernel_size={}, stride={}, padding={}", repr(kernel_size),                                     \
                       repr(stride_of(stride, kernel_size)), repr(padding));                                           \
  }                                                                                                                    \
  std::unique_ptr<Module> AvgPool##N::another() const {                                                                \
    return std::make_unique<AvgPool##N>(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override); \
  }                                                                                                                    \
  Tensor AdaptiveAvgPool##N::forward(const Tensor& x) const { return adaptive_avg_pool##N(x, output_size); }           \
  std::string AdaptiveAvgPool##N::extra_repr() const { return "output_size=" + repr_of(output_size, -1); }             \
  std::unique_ptr<Module> AdaptiveAvgPool##N::another() const {                                                        \
    return std::make_unique<AdaptiveAvgPool##N>(output_size);                                                          \
  }                                                                                                                    \
  Tensor AdaptiveMaxPool##N::forward(const Tensor& x) const { return adaptive_max_pool##N(x, output_size); }           \
  MaxPooled AdaptiveMaxPool##N::forward_with_indices(const Tensor& x) const {                                          \
    return adaptive_max_pool##N##_with_indices(x, output_size);                                                        \
  }                                                                                                                    \
  std::string AdaptiveMaxPool##N::extra_repr() const { return "output_size=" + repr_of(output_size, -1); }             \
  std::unique_ptr<Module> AdaptiveMaxPool##N::another() const {                                                        \
    return std::make_unique<AdaptiveMaxPool##N>(output_size);                                                          \
  }                                                                                                                    \
  Tensor LPPool##N::forward(const Tensor& x) const {                                                                   \
    return lp_pool##N(x, norm_type, kernel_size, stride, ceil_mode);                                                   \
  }                                                                                                                    \
  std::string LPPool##N::extra_repr() const {                                                                          \
    return fmt::format("norm_type={}, kernel_size={}, stride={}, ceil_mode={}", integral_as_int(norm_type),            \
                       repr_of(kernel_size), stride.empty() ? "None" : repr_of(stride), repr_of(ceil_mode));           \
  }                                                                                                                    \
  std::unique_ptr<Module> LPPool##N::another() const {                                                                 \
    return std::make_unique<LPPool##N>(norm_type, kernel_size, stride, ceil_mode);                                     \
  }
ETNA_POOLING_MODULES(1d, 1)
ETNA_POOLING_MODULES(2d, 2)
ETNA_POOLING_MODULES(3d, 3)
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
