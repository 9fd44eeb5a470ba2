#include <etna/nn/convolution.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/nn/init.h>

namespace etna::nn {
namespace {

/// [first, second / groups, kernel...]. @throws ShapeError naming `name`
Shape weight_shape(const char* name, std::int64_t first, std::int64_t second, std::int64_t groups, const Dims& kernel,
                   int dims) {
  if (groups < 1 || first < 1 || second < 1 || first % groups != 0 || second % groups != 0) {
    throw ShapeError(fmt::format("{}: {} and {} channels in {} groups; both must be multiples of groups, and above 0",
                                 name, first, second, groups));
  }
  if (kernel.rank() != 1 && kernel.rank() != dims) {
    throw ShapeError(fmt::format("{}: kernel_size {} has {} numbers, it takes {} or one for all", name, str(kernel),
                                 kernel.rank(), dims));
  }
  Shape shape = {first, second / groups};
  for (int d = 0; d < dims; ++d) {
    const std::int64_t size = kernel[kernel.rank() == 1 ? 0 : d];
    if (size < 1) throw ShapeError(fmt::format("{}: kernel_size {} must be at least 1", name, str(kernel)));
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

ConvBase::ConvBase(const char* name, Shape shape, std::int64_t out_channels, bool with_bias,
                   std::string_view padding_mode) {
  if (padding_mode != "zeros") {
    throw Error(
        fmt::format("{}: padding_mode \"{}\" is not one that the layer knows; it pads with \"zeros\". Pad x by "
                    "another rule before the layer, and give the layer no padding",
                    name, padding_mode));
  }
  weight = init::kaiming_uniform_(empty(shape), std::sqrt(5.0));
  // PyTorch takes the bias's fan-in from the weight's second dimension for transposed layers, too.
  const auto fan_in = static_cast<double>(weight.numel() / weight.size(0));
  if (with_bias) bias = init::uniform_(empty({out_channels}), -1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

#define ETNA_CONV(NAME, DIMS, FUNCTION)                                                                               \
  NAME::NAME(std::int64_t in, std::int64_t out, const Dims& kernel_size, const ConvOptions& given)                    \
      : ConvBase("nn::" #NAME, weight_shape("nn::" #NAME, out, in, given.groups, kernel_size, DIMS), out, given.bias, \
                 given.padding_mode),                                                                                 \
        options(given) {}                                                                                             \
  Tensor NAME::forward(const Tensor& x) const {                                                                       \
    return FUNCTION(x, weight, bias, options.stride, options.padding, options.dilation, options.groups);              \
  }
ETNA_CONV(Conv1d, 1, conv1d)
ETNA_CONV(Conv2d, 2, conv2d)
ETNA_CONV(Conv3d, 3, conv3d)
#undef ETNA_CONV

#define ETNA_CONV_TRANSPOSE(NAME, DIMS, FUNCTION)                                                                     \
  NAME::NAME(std::int64_t in, std::int64_t out, const Dims& kernel_size, const ConvTransposeOptions& given)           \
      : ConvBase("nn::" #NAME, weight_shape("nn::" #NAME, in, out, given.groups, kernel_size, DIMS), out, given.bias, \
                 given.padding_mode),                                                                                 \
        options(given) {}                                                                                             \
  Tensor NAME::forward(const Tensor& x) const {                                                                       \
    return FUNCTION(x, weight, bias, options.stride, options.padding, options.output_padding, options.groups,         \
                    options.dilation);                                                                                \
  }
ETNA_CONV_TRANSPOSE(ConvTranspose1d, 1, conv_transpose1d)
ETNA_CONV_TRANSPOSE(ConvTranspose2d, 2, conv_transpose2d)
ETNA_CONV_TRANSPOSE(ConvTranspose3d, 3, conv_transpose3d)
#undef ETNA_CONV_TRANSPOSE

Unfold::Unfold(const Dims& kernel_size, const Dims& dilation, const Dims& padding, const Dims& stride)
    : kernel_size_(kernel_size), dilation_(dilation), padding_(padding), stride_(stride) {}
Tensor Unfold::forward(const Tensor& x) const { return unfold(x, kernel_size_, dilation_, padding_, stride_); }

Fold::Fold(const Dims& output_size, const Dims& kernel_size, const Dims& dilation, const Dims& padding,
           const Dims& stride)
    : output_size_(output_size), kernel_size_(kernel_size), dilation_(dilation), padding_(padding), stride_(stride) {}
Tensor Fold::forward(const Tensor& x) const {
  return fold(x, output_size_, kernel_size_, dilation_, padding_, stride_);
}

}  // namespace etna::nn
