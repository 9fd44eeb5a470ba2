#include <etna/nn/convolution.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/nn/module.h>
#include <etna/tensor/ops/resample/resample.h>

namespace etna::nn {
namespace {

struct PaddingRule {
  std::string_view name;
  PadMode mode;
};
constexpr PaddingRule kPaddingRules[] = {{"zeros", PadMode::constant},
                                         {"reflect", PadMode::reflect},
                                         {"replicate", PadMode::replicate},
                                         {"circular", PadMode::circular}};

const PaddingRule& rule_of(const char* name, std::string_view mode) {
  for (const PaddingRule& rule : kPaddingRules) {
    if (rule.name == mode) return rule;
  }
  throw Error(fmt::format(
      "{}: padding_mode \"{}\" is unknown; \"zeros\", \"reflect\", \"replicate\" and \"circular\" are known", name,
      mode));
}

bool all_are(const Dims& dims, std::int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d == value; });
}

/// Options whose padding_mode does not point into the caller's memory.
ConvOptions kept(const char* name, ConvOptions options) {
  options.padding_mode = rule_of(name, options.padding_mode).name;
  if (options.padding.mode == Padding::Mode::same && !all_are(options.stride, 1)) {
    throw Error(
        fmt::format("{}: padding \"same\" has no meaning with stride {}; give numbers", name, str(options.stride)));
  }
  return options;
}
ConvTransposeOptions kept(const char* name, ConvTransposeOptions options) {
  if (options.padding_mode != "zeros") {
    throw Error(fmt::format("{}: padding_mode \"{}\" is not possible; a transposed convolution has \"zeros\" only",
                            name, options.padding_mode));
  }
  options.padding_mode = "zeros";
  return options;
}

/// One number for each dimension. @throws ShapeError naming `name`
Dims spread(const char* name, const char* argument, const Dims& dims, int spatial) {
  if (dims.rank() == 1) return Dims::filled(spatial, dims[0]);
  if (dims.rank() == spatial) return dims;
  throw ShapeError(fmt::format("{}: {} {} has {} numbers, it takes {} or one for all", name, argument, str(dims),
                               dims.rank(), spatial));
}

/// [first, second / groups, kernel...]. @throws ShapeError naming `name`
Shape weight_shape(const char* name, std::int64_t first, std::int64_t second, std::int64_t groups, const Dims& kernel) {
  if (groups < 1 || first < 1 || second < 1 || first % groups != 0 || second % groups != 0) {
    throw ShapeError(fmt::format("{}: {} and {} channels in {} groups; both must be multiples of groups, and above 0",
                                 name, first, second, groups));
  }
  Shape shape = {first, second / groups};
  for (const std::int64_t size : kernel) shape.push_back(checked_size(name, "kernel_size", size, 1));
  return shape;
}

}  // namespace

ConvBase::ConvBase(const char* name, std::int64_t in, std::int64_t out, const Dims& kernel, int spatial,
                   const ConvOptions& options)
    : in_channels(in), out_channels(out), kernel_size(spread(name, "kernel_size", kernel, spatial)) {
  if (options.padding_mode != "zeros" && options.padding.mode == Padding::Mode::numbers)
    spread(name, "padding", options.padding.sizes, spatial);
  initialize(weight_shape(name, out, in, options.groups, kernel_size), options.bias);
}

ConvBase::ConvBase(const char* name, std::int64_t in, std::int64_t out, const Dims& kernel, int spatial,
                   const ConvTransposeOptions& options)
    : in_channels(in), out_channels(out), kernel_size(spread(name, "kernel_size", kernel, spatial)) {
  initialize(weight_shape(name, in, out, options.groups, kernel_size), options.bias);
}

void ConvBase::initialize(const Shape& shape, bool with_bias) {
  weight = init::kaiming_uniform_(empty(shape), std::sqrt(5.0));
  // PyTorch takes the bias's fan-in from the weight's second dimension for transposed layers, too.
  const auto fan_in = static_cast<double>(weight.numel() / weight.size(0));
  if (with_bias) bias = init::uniform_(empty({out_channels}), -1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
  register_parameter("weight", &ConvBase::weight);
  register_parameter("bias", &ConvBase::bias);
}

Tensor ConvBase::padded(const Tensor& x, const ConvOptions& options) const {
  std::vector<std::int64_t> pads;  // the last dimension first
  for (int d = kernel_size.rank() - 1; d >= 0; --d) {
    const auto of = [&](const Dims& dims) { return dims[dims.rank() == 1 ? 0 : d]; };
    if (options.padding.mode == Padding::Mode::same) {
      const std::int64_t both = checked_product(of(options.dilation), kernel_size[d] - 1, "padding");
      pads.push_back(both / 2), pads.push_back(both - both / 2);
    } else {
      pads.insert(pads.end(), 2, of(options.padding.sizes));
    }
  }
  return pad(x, pads, rule_of("padding", options.padding_mode).mode);
}

std::string ConvBase::repr_with(const ConvOptions& o) const {
  const int spatial = kernel_size.rank();
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in_channels, out_channels,
                                 tuple_of(kernel_size, spatial), tuple_of(o.stride, spatial));
  if (o.padding.mode == Padding::Mode::same)
    text += ", padding=same";
  else if (!all_are(o.padding.sizes, 0))
    text += ", padding=" + tuple_of(o.padding.sizes, spatial);
  if (!all_are(o.dilation, 1)) text += ", dilation=" + tuple_of(o.dilation, spatial);
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  if (!o.bias) text += ", bias=False";
  if (o.padding_mode != "zeros") text += fmt::format(", padding_mode={}", o.padding_mode);
  return text;
}

std::string ConvBase::repr_with(const ConvTransposeOptions& o) const {
  const int spatial = kernel_size.rank();
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in_channels, out_channels,
                                 tuple_of(kernel_size, spatial), tuple_of(o.stride, spatial));
  if (!all_are(o.padding, 0)) text += ", padding=" + tuple_of(o.padding, spatial);
  if (!all_are(o.dilation, 1)) text += ", dilation=" + tuple_of(o.dilation, spatial);
  if (!all_are(o.output_padding, 0)) text += ", output_padding=" + tuple_of(o.output_padding, spatial);
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  if (!o.bias) text += ", bias=False";
  return text;
}

#define ETNA_CONV(NAME, DIMS, FUNCTION)                                                             \
  NAME::NAME(std::int64_t in, std::int64_t out, const Dims& kernel, const ConvOptions& given)       \
      : ConvBase("nn::" #NAME, in, out, kernel, DIMS, given), options(kept("nn::" #NAME, given)) {} \
  Tensor NAME::forward(const Tensor& x) const {                                                     \
    const bool zeros = options.padding_mode == "zeros";                                             \
    return FUNCTION(zeros ? x : padded(x, options), weight, bias, options.stride,                   \
                    zeros ? options.padding : Padding(0), options.dilation, options.groups);        \
  }                                                                                                 \
  std::string NAME::extra_repr() const { return repr_with(options); }                               \
  std::unique_ptr<Module> NAME::another() const {                                                   \
    return std::make_unique<NAME>(in_channels, out_channels, kernel_size, options);                 \
  }
ETNA_CONV(Conv1d, 1, conv1d)
ETNA_CONV(Conv2d, 2, conv2d)
ETNA_CONV(Conv3d, 3, conv3d)
#undef ETNA_CONV

#define ETNA_CONV_TRANSPOSE(NAME, DIMS, FUNCTION)                                                             \
  NAME::NAME(std::int64_t in, std::int64_t out, const Dims& kernel, const ConvTransposeOptions& given)        \
      : ConvBase("nn::" #NAME, in, out, kernel, DIMS, given), options(kept("nn::" #NAME, given)) {}           \
  Tensor NAME::forward(const Tensor& x) const {                                                               \
    return FUNCTION(x, weight, bias, options.stride, options.padding, options.output_padding, options.groups, \
                    options.dilation);                                                                        \
  }                                                                                                           \
  std::string NAME::extra_repr() const { return repr_with(options); }                                         \
  std::unique_ptr<Module> NAME::another() const {                                                             \
    return std::make_unique<NAME>(in_channels, out_channels, kernel_size, options);                           \
  }
ETNA_CONV_TRANSPOSE(ConvTranspose1d, 1, conv_transpose1d)
ETNA_CONV_TRANSPOSE(ConvTranspose2d, 2, conv_transpose2d)
ETNA_CONV_TRANSPOSE(ConvTranspose3d, 3, conv_transpose3d)
#undef ETNA_CONV_TRANSPOSE

Unfold::Unfold(const Dims& kernel_size, const Dims& dilation, const Dims& padding, const Dims& stride)
    : kernel_size(kernel_size), dilation(dilation), padding(padding), stride(stride) {}
Tensor Unfold::forward(const Tensor& x) const { return unfold(x, kernel_size, dilation, padding, stride); }
std::string Unfold::extra_repr() const {
  return fmt::format("kernel_size={}, dilation={}, padding={}, stride={}", repr_of(kernel_size), repr_of(dilation),
                     repr_of(padding), repr_of(stride));
}
std::unique_ptr<Module> Unfold::another() const {
  return std::make_unique<Unfold>(kernel_size, dilation, padding, stride);
}

Fold::Fold(const Dims& output_size, const Dims& kernel_size, const Dims& dilation, const Dims& padding,
           const Dims& stride)
    : output_size(output_size), kernel_size(kernel_size), dilation(dilation), padding(padding), stride(stride) {}
Tensor Fold::forward(const Tensor& x) const { return fold(x, output_size, kernel_size, dilation, padding, stride); }
std::string Fold::extra_repr() const {
  return fmt::format("output_size={}, kernel_size={}, dilation={}, padding={}, stride={}", repr_of(output_size),
                     repr_of(kernel_size), repr_of(dilation), repr_of(padding), repr_of(stride));
}
std::unique_ptr<Module> Fold::another() const {
  return std::make_unique<Fold>(output_size, kernel_size, dilation, padding, stride);
}

}  // namespace etna::nn
