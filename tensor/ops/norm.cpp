#include <fmt/format.h>

#include <etna/tensor/norm/norm.h>
#include <etna/tensor/ops.h>

// layer_norm and rms_norm over the last dimension. Backward takes the row's moments again from x, which it reads anyway, rather
// than keep them. Kernels: tensor/norm/cpu.cpp and shaders/norm.comp.
namespace etna {
namespace {

using norm::Attributes;
using norm::BackwardAttributes;

void check(const OpCall& call, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: x is {} {}, it must be floating; convert it first, e.g. with .to(f32)",
                                 call.op.name, name(x.dtype()), str(x.shape())));
  }
  if (x.dim() == 0)
    throw ShapeError(fmt::format("{}: x has no dimension to normalize over; use x.reshape({{1}})", call.op.name));
}

void check_parameter(const OpCall& call, const Tensor& x, const Tensor& w, const char* what) {
  if (!w.defined()) return;
  if (!is_floating(w.dtype()))
    throw DtypeError(fmt::format("{}: the {} is {}, it must be floating", call.op.name, what, name(w.dtype())));
  if (w.dim() != 1 || w.shape()[0] != x.shape().back()) {
    throw ShapeError(fmt::format("{}: the {} is {}, x is {}; the {} must be [{}], the size of x's last dimension",
                                 call.op.name, what, str(w.shape()), str(x.shape()), what, x.shape().back()));
  }
}

std::vector<OutputSpec> infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  check(call, x);
  check_parameter(call, x, call.in[1], "weight");
  if (!call.as<Attributes>().rms) check_parameter(call, x, call.in[2], "bias");
  return {{x.shape(), x.dtype()}};
}

std::vector<OutputSpec> backward_infer(const OpCall& call) {
  const Tensor &g = call.in[0], &x = call.in[1];
  auto a = call.as<BackwardAttributes>();
  check(call, x);
  check_parameter(call, x, call.in[2], "weight");
  if (g.shape() != x.shape())
    throw ShapeError(fmt::format("{}: the gradient is {}, x is {}; they must have one shape", call.op.name,
                                 str(g.shape()), str(x.shape())));
  std::vector<OutputSpec> specs = {{x.shape(), x.dtype()}};
  Shape row = {x.shape().back()};
  if (a.wants_weight) specs.push_back({row, a.weight_dtype});
  if (a.wants_bias) specs.push_back({row, a.bias_dtype});
  return specs;
}

DType compute_dtype(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }

/// x normalized, and what it was divided by turned over.
struct Normed {
  Tensor value, scale;
  Normed(const Tensor& x, bool rms, double eps) {
    Tensor centered = rms ? x : x - mean(x, {-1}, true);
    scale = rsqrt(mean(square(centered), {-1}, true) + eps);
    value = centered * scale;
  }
};

TensorList reference(const OpCall& call) {
  auto a = call.as<Attributes>();
  DType t = compute_dtype(call.in[0]);
  Tensor y = Normed(call.in[0].to(t), a.rms, a.eps).value;
  if (call.in[1].defined()) y = y * call.in[1].to(t);
  if (!a.rms && call.in[2].defined()) y = y + call.in[2].to(t);
  return {y.to(call.in[0].dtype())};
}

TensorList backward_reference(const OpCall& call) {
  auto a = call.as<BackwardAttributes>();
  const Tensor &given_x = call.in[1], &weight = call.in[2];
  DType t = compute_dtype(given_x);
  Tensor g = call.in[0].to(t), x = given_x.to(t);
  Normed normed(x, a.rms, a.eps);
  Tensor scaled = weight.defined() ? g * weight.to(t) : g;
  Tensor dx = scaled - normed.value * mean(scaled * normed.value, {-1}, true);
  if (!a.rms) dx = dx - mean(scaled, {-1}, true);
  TensorList out = {(dx * normed.scale).to(given_x.dtype())};
  Shape row = {x.shape().back()};
  if (a.wants_weight) out.push_back(sum_to(g * normed.value, row).to(a.weight_dtype));
  if (a.wants_bias) out.push_back(sum_to(g, row).to(a.bias_dtype));
  return out;
}

const OpDef kLayerNormBackward = {.name = "layer_norm_backward",
                                  .infer = backward_infer,
                                  .cpu = norm::backward_cpu,
                                  .vulkan = norm::backward_vulkan,
                                  .reference = backward_reference};
const OpDef kRmsNormBackward = {.name = "rms_norm_backward",
                                .infer = backward_infer,
                                .cpu = norm::backward_cpu,
                                .vulkan = norm::backward_vulkan,
                                .reference = backward_reference};

TensorList vjp(const VjpCall& call) {
  auto a = call.as<Attributes>();
  const Tensor& weight = call.in[1];
  BackwardAttributes b{a.eps, a.rms, call.needs[1], !a.rms && call.needs[2]};
  if (b.wants_weight) b.weight_dtype = weight.dtype();
  if (b.wants_bias) b.bias_dtype = call.in[2].dtype();
  TensorList found =
      apply(a.rms ? kRmsNormBackward : kLayerNormBackward, {call.grad[0], call.in[0], weight}, Attrs::of(b));
  TensorList grads(call.in.size());
  grads[0] = found[0];
  if (b.wants_weight) grads[1] = found[1];
  if (b.wants_bias) grads[2] = found.back();
  return grads;
}

const OpDef kLayerNorm = {.name = "layer_norm",
                          .infer = infer,
                          .cpu = norm::forward_cpu,
                          .vulkan = norm::forward_vulkan,
                          .reference = reference,
                          .vjp = vjp,
                          .saved = Saved::inputs};
const OpDef kRmsNorm = {.name = "rms_norm",
                        .infer = infer,
                        .cpu = norm::forward_cpu,
                        .vulkan = norm::forward_vulkan,
                        .reference = reference,
                        .vjp = vjp,
                        .saved = Saved::inputs};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return apply1(kLayerNorm, {x, weight, bias}, Attrs::of(Attributes{eps, false}));
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return apply1(kRmsNorm, {x, weight}, Attrs::of(Attributes{eps, true}));
}

std::span<const OpDef* const> ops_in_norm() {
  static const OpDef* const list[] = {&kLayerNorm, &kRmsNorm, &kLayerNormBackward, &kRmsNormBackward};
  return list;
}

}  // namespace etna
