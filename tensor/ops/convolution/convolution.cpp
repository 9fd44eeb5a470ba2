#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/internal/geometry.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>

// A convolution and its two gradients, each an op whose gradients are the other two.
namespace etna {
namespace convolution {
namespace {

void check_dtypes(const OpCall& call, int operands) {
  const char* op = public_name(call.as<ConvolutionAttrs>());
  for (int i = 0; i < operands; ++i) {
    const Tensor& x = call.in[static_cast<std::size_t>(i)];
    if (!is_floating(x.dtype())) {
      throw DtypeError(fmt::format("{}: operand {} holds {}, convolutions take f64, f32, f16 or bf16; call .to(f32)",
                                   op, i + 1, name(x.dtype())));
    }
    if (x.dtype() != call.in[0].dtype()) {
      throw DtypeError(fmt::format("{}: operand 1 holds {}, operand {} holds {}; bring both to one dtype", op,
                                   name(call.in[0].dtype()), i + 1, name(x.dtype())));
    }
  }
}

void check_bias(const OpCall& call, std::int64_t channels) {
  const Tensor& bias = call.in[2];
  if (!bias.defined()) return;
  const char* op = public_name(call.as<ConvolutionAttrs>());
  if (bias.dim() != 1 || bias.size(0) != channels) {
    throw ShapeError(fmt::format("{}: the bias is {}, the result has {} channels; it must be [{}]", op,
                                 str(bias.shape()), channels, channels));
  }
  if (!is_floating(bias.dtype())) {
    throw DtypeError(fmt::format("{}: the bias holds {}, it must be floating", op, name(bias.dtype())));
  }
}

DType sum_dtype(DType t) { return item_size(t) == 2 ? f32 : t; }

// ---- y from x and weight

std::vector<OutputSpec> convolution_infer(const OpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor &x = call.in[0], &weight = call.in[1];
  check_dtypes(call, 2);
  const Three y = result_sizes(public_name(s), s, spatial(x.shape()), spatial(weight.shape()));
  check_bias(call, weight.size(0));
  return {{channels_last(x.size(0), y, weight.size(0)), x.dtype()}};
}

Geometry forward_geometry(const OpCall& call, const Tensor& y) {
  return geometry(call.as<ConvolutionAttrs>(), call.in[0].shape(), y.shape(), spatial(call.in[1].shape()));
}
void convolution_cpu(const OpCall& call, std::span<Tensor> out) {
  convolve_cpu(call, forward_geometry(call, out[0]), out[0]);
}
bool convolution_gpu(const OpCall& call, std::span<Tensor> out) {
  return convolve_gpu(call, forward_geometry(call, out[0]), out[0]);
}
TensorList convolution_reference(const OpCall& call) {
  return {convolve_composed(call.in[0], call.in[1], call.in[2], call.as<ConvolutionAttrs>())};
}
TensorList convolution_vjp(const VjpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  Tensor g = call.grad[0].to(call.in[0].dtype());
  if (g.device().is_cpu()) g = g.contiguous();  // both gradients read contiguous memory
  Tensor dx, dweight, dbias;
  if (call.needs[0]) dx = input_gradient(g, call.in[1], {}, s);
  if (call.needs[1]) dweight = weight_gradient(call.in[0], g, s);
  if (call.needs[2]) dbias = gemm::bias_gradient(g);
  return {dx, dweight, dbias};
}

const OpDef kConvolution = {.name = "convolution",
                            .infer = convolution_infer,
                            .cpu = convolution_cpu,
                            .gpu = convolution_gpu,
                            .reference = convolution_reference,
                            .vjp = convolution_vjp,
                            .saved = Saved::inputs,
                            .saved_inputs = 1u << 0 | 1u << 1};

// ---- the gradient by x, from y's gradient and weight: a transposed convolution

std::vector<OutputSpec> convolution_input_infer(const OpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor &g = call.in[0], &weight = call.in[1];
  check_dtypes(call, 2);
  const std::int64_t channels = checked_product(weight.size(-1), s.groups, public_name(s));
  check_bias(call, channels);
  return {{channels_last(g.size(0), s.extent, channels), g.dtype()}};
}

Geometry input_geometry(const OpCall& call, const Tensor& x) {
  return geometry(call.as<ConvolutionAttrs>(), x.shape(), call.in[0].shape(), spatial(call.in[1].shape()));
}
void convolution_input_cpu(const OpCall& call, std::span<Tensor> out) {
  input_gradient_cpu(call, input_geometry(call, out[0]), out[0]);
}
bool convolution_input_gpu(const OpCall& call, std::span<Tensor> out) {
  return input_gradient_gpu(call, input_geometry(call, out[0]), out[0]);
}
TensorList convolution_input_reference(const OpCall& call) {
  return {input_gradient_composed(call.in[0], call.in[1], call.in[2], call.as<ConvolutionAttrs>())};
}
TensorList convolution_input_vjp(const VjpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor u = call.grad[0].to(call.in[0].dtype());
  Tensor dg, dweight, dbias;
  if (call.needs[0]) dg = convolve(u, call.in[1], {}, s);
  if (call.needs[1]) dweight = weight_gradient(u, call.in[0], s);
  if (call.needs[2]) dbias = gemm::bias_gradient(u);
  return {dg, dweight, dbias};
}

const OpDef kConvolutionInput = {.name = "convolution_input",
                                 .infer = convolution_input_infer,
                                 .cpu = convolution_input_cpu,
                                 .gpu = convolution_input_gpu,
                                 .reference = convolution_input_reference,
                                 .vjp = convolution_input_vjp,
                                 .saved = Saved::inputs,
                                 .saved_inputs = 1u << 0 | 1u << 1};

// ---- the gradient by weight, from x and y's gradient

std::vector<OutputSpec> convolution_weight_infer(const OpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor &x = call.in[0], &g = call.in[1];
  check_dtypes(call, 2);
  return {{channels_last(g.size(-1), s.kernel, x.size(-1) / s.groups), sum_dtype(x.dtype())}};
}

Geometry weight_geometry(const OpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  return geometry(s, call.in[0].shape(), call.in[1].shape(), s.kernel);
}
void convolution_weight_cpu(const OpCall& call, std::span<Tensor> out) {
  weight_gradient_cpu(call, weight_geometry(call), out[0]);
}
bool convolution_weight_gpu(const OpCall& call, std::span<Tensor> out) {
  return weight_gradient_gpu(call, weight_geometry(call), out[0]);
}
TensorList convolution_weight_reference(const OpCall& call) {
  return {weight_gradient_composed(call.in[0], call.in[1], call.as<ConvolutionAttrs>())};
}
TensorList convolution_weight_vjp(const VjpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor u = call.grad[0].to(call.in[0].dtype());
  Tensor dx, dg;
  if (call.needs[0]) dx = input_gradient(call.in[1], u, {}, s);
  if (call.needs[1]) dg = convolve(call.in[0], u, {}, s);
  return {dx, dg};
}

const OpDef kConvolutionWeight = {.name = "convolution_weight",
                                  .infer = convolution_weight_infer,
                                  .cpu = convolution_weight_cpu,
                                  .gpu = convolution_weight_gpu,
                                  .reference = convolution_weight_reference,
                                  .vjp = convolution_weight_vjp,
                                  .saved = Saved::inputs};

/// [.., groups · n] as [groups, .., n], for one matmul per group.
Tensor by_groups(const Tensor& x, std::int64_t groups) {
  const std::int64_t n = x.size(-1) / groups, rows = x.numel() / std::max<std::int64_t>(1, x.size(-1));
  return x.reshape({rows, groups, n}).permute({1, 0, 2});
}
/// [N, pixels, taps, C] as [groups, N · pixels, taps · channels of a group].
Tensor patches_by_groups(const Tensor& patches, std::int64_t groups) {
  const std::int64_t rows = patches.size(0) * patches.size(1), taps = patches.size(2), n = patches.size(3) / groups;
  return patches.reshape({rows, taps, groups, n}).permute({2, 0, 1, 3}).reshape({groups, rows, taps * n});
}
/// [K, kernel..., channels of a group] as [groups, K of a group, taps · channels of a group].
Tensor weight_by_groups(const Tensor& weight, std::int64_t groups) {
  const Three kernel = spatial(weight.shape());
  return weight.reshape({groups, weight.size(0) / groups, kernel[0] * kernel[1] * kernel[2] * weight.size(-1)});
}

ConvolutionAttrs with_kernel(ConvolutionAttrs s, const Tensor& weight) {
  s.kernel = spatial(weight.shape());
  return s;
}

}  // namespace

Tensor convolve_composed(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& given) {
  const ConvolutionAttrs s = with_kernel(given, weight);
  const Three y = result_sizes(public_name(s), s, spatial(x.shape()), s.kernel);
  const Shape shape = channels_last(x.size(0), y, weight.size(0));
  if (numel(shape) == 0) return zeros(shape, {x.dtype(), x.device()});
  Tensor t =
      matmul(patches_by_groups(im2col(x, s), s.groups), weight_by_groups(weight, s.groups).t(), sum_dtype(x.dtype()));
  t = t.permute({1, 0, 2}).reshape(shape);
  return (bias.defined() ? t + bias : t).to(x.dtype());
}

Tensor input_gradient_composed(const Tensor& g, const Tensor& weight, const Tensor& bias,
                               const ConvolutionAttrs& given) {
  const ConvolutionAttrs s = with_kernel(given, weight);
  const std::int64_t c = weight.size(-1) * s.groups, taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const Shape shape = channels_last(g.size(0), s.extent, c);
  if (numel(shape) == 0) return zeros(shape, {g.dtype(), g.device()});
  const Three y = spatial(g.shape());
  Tensor patches = matmul(by_groups(g, s.groups), weight_by_groups(weight, s.groups), sum_dtype(g.dtype()));
  patches = patches.reshape({s.groups, g.size(0), y[0] * y[1] * y[2], taps, weight.size(-1)}).permute({1, 2, 3, 0, 4});
  const Tensor t = col2im(patches.reshape({g.size(0), y[0] * y[1] * y[2], taps, c}), s);
  return (bias.defined() ? t + bias : t).to(g.dtype());
}

Tensor weight_gradient_composed(const Tensor& x, const Tensor& g, const ConvolutionAttrs& s) {
  const Shape shape = channels_last(g.size(-1), s.kernel, x.size(-1) / s.groups);
  if (numel(shape) == 0 || g.numel() == 0) return zeros(shape, {sum_dtype(x.dtype()), x.device()});
  return matmul(by_groups(g, s.groups).t(), patches_by_groups(im2col(x, s), s.groups), sum_dtype(x.dtype()))
      .reshape(shape);
}

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& s) {
  TensorList in = {x, weight, bias};
  detail::bring_to_one_dtype(in, 1u << 2);
  return apply(kConvolution, in, Attrs::of(s))[0];
}
Tensor input_gradient(const Tensor& g, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& s) {
  TensorList in = {g, weight, bias};
  detail::bring_to_one_dtype(in, 1u << 2);
  return apply(kConvolutionInput, in, Attrs::of(s))[0];
}
Tensor weight_gradient(const Tensor& x, const Tensor& g, const ConvolutionAttrs& s) {
  return apply1(kConvolutionWeight, {x, g}, Attrs::of(s));
}

}  // namespace convolution

std::span<const OpDef* const> ops_in_convolution() {
  using namespace convolution;
  static const OpDef* const list[] = {&kConvolution, &kConvolutionInput, &kConvolutionWeight};
  return list;
}

}  // namespace etna
