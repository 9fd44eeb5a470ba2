#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

// layer_norm and rms_norm over the last dimension, of x or of x + delta. Backward recomputes the row's moments instead
// of storing them, since it reads the normalized tensor anyway. If other ops use the sum too, the same kernel adds
// their gradient: it is the gradient of both x and delta. Kernels: tensor/ops/normalization/cpu.cpp and
// shaders/normalization/norm.comp.
namespace etna {
namespace {

using NormAttrs = normalization::NormAttrs;
using NormBackwardAttrs = normalization::NormBackwardAttrs;
using normalization::check_parameter;

void norm_check(const OpCall& call, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: x is {} {}, it must be floating; convert it first, e.g. with .to(f32)",
                                 call.op.name, name(x.dtype()), str(x.shape())));
  }
  if (x.dim() == 0)
    throw ShapeError(fmt::format("{}: x has no dimension to normalize over; use x.reshape({{1}})", call.op.name));
}

/// True if delta has x's shape, or that of its last dimensions.
bool repeats_to(const Tensor& delta, const Tensor& x) {
  bool fits = delta.dim() > 0 && delta.dim() <= x.dim();
  for (int d = 1; fits && d <= delta.dim(); ++d) fits = delta.shape()[delta.dim() - d] == x.shape()[x.dim() - d];
  return fits;
}

bool no_wider(const Tensor& delta, const Tensor& x) {
  return is_floating(delta.dtype()) && promote(x.dtype(), delta.dtype()) == x.dtype();
}

void check_delta(const OpCall& call, const Tensor& x, const Tensor& delta) {
  if (!repeats_to(delta, x)) {
    throw ShapeError(fmt::format("{}: delta is {}, x is {}; delta must have x's shape or that of its last dimensions",
                                 call.op.name, str(delta.shape()), str(x.shape())));
  }
  if (!no_wider(delta, x))
    throw DtypeError(fmt::format("{}: x is {}, delta is {}; delta must be floating and no wider than x", call.op.name,
                                 name(x.dtype()), name(delta.dtype())));
}

std::vector<OutputSpec> any_norm_infer(const OpCall& call) {
  auto a = call.as<NormAttrs>();
  normalization::Inputs in(call);
  norm_check(call, in.x);
  if (a.adds) check_delta(call, in.x, in.delta);
  check_parameter(call, in.x, in.weight, "weight");
  check_parameter(call, in.x, in.bias, "bias");
  std::vector<OutputSpec> specs;
  if (a.adds) specs.push_back({in.x.shape(), in.x.dtype()});
  specs.push_back({in.x.shape(), a.out});
  return specs;
}

std::vector<OutputSpec> any_norm_backward_infer(const OpCall& call) {
  const Tensor& x = call.in[1];
  auto a = call.as<NormBackwardAttrs>();
  norm_check(call, x);
  check_parameter(call, x, call.in[2], "weight");
  for (const Tensor& g : {call.in[0], call.in[3]}) {
    if (g.defined() && g.shape() != x.shape())
      throw ShapeError(fmt::format("{}: the gradient is {}, x is {}; they must have one shape", call.op.name,
                                   str(g.shape()), str(x.shape())));
  }
  std::vector<OutputSpec> specs = {{x.shape(), x.dtype()}};
  Shape row = {x.shape().back()};
  if (a.wants_weight) specs.push_back({row, a.weight_dtype});
  if (a.wants_bias) specs.push_back({row, a.bias_dtype});
  if (a.wants_delta) specs.push_back({x.shape(), a.delta_dtype});
  return specs;
}

/// Replaces `s = x + delta` and the norm of s.
bool fuse_add(fusion::Calls calls, fusion::Fused& fused) {
  const fusion::Call &add = calls[0], &norm = calls[1];
  const Tensor& sum = add.out[0];
  auto a = norm.attrs.as<NormAttrs>();
  if (!add.in[0].defined() || !add.in[1].defined() || !normalization::reads_only_first(norm, sum)) return false;
  auto is_stream = [&](const Tensor& x) { return x.shape() == sum.shape() && x.dtype() == sum.dtype(); };
  const std::size_t x = is_stream(add.in[0]) ? 0 : 1;
  if (!is_stream(add.in[x]) || !repeats_to(add.in[1 - x], sum) || !no_wider(add.in[1 - x], sum)) return false;
  a.adds = true;
  fused.in = {add.in[x], add.in[1 - x]};
  fused.in.insert(fused.in.end(), norm.in.begin() + 1, norm.in.end());
  fused.attrs = Attrs::of(a);
  fused.out = {sum, norm.out[0]};
  return true;
}
constexpr FusionPattern kAddThenLayerNorm[] = {{"add layer_norm", fuse_add}},
                        kAddThenRmsNorm[] = {{"add rms_norm", fuse_add}};

/// Replaces a norm's gradient dx, the addition of the gradient that bypasses the norm, and a cast of the result to the
/// dtype of the residual stream's other summand.
bool fuse_backward(fusion::Calls calls, fusion::Fused& fused) {
  const fusion::Call &norm = calls[0], &last = calls.back();
  auto b = norm.attrs.as<NormBackwardAttrs>();
  const Tensor& dx = norm.out[0];
  if (b.wants_delta) return false;
  Tensor more, sum;
  if (std::string_view(calls[1].op->name) == "add") {
    more = fusion::added_to(calls, 1), sum = calls[1].out[0];
    if (!more.defined() || !is_floating(more.dtype()) || norm.in[3].defined() || more.shape() != dx.shape() ||
        sum.dtype() != dx.dtype() || fusion::rounds_when_stored(dx) || !fusion::dead(calls, 0)) {
      return false;
    }
    for (const Tensor& y : norm.out) {
      if (more.storage() == y.storage()) return false;
    }
  }
  fused.in = norm.in;
  fused.out = norm.out;
  if (more.defined()) fused.in[3] = more, fused.out[0] = sum;
  if (std::string_view(last.op->name) == "cast") {
    if (!is_floating(last.out[0].dtype())) return false;
    b.wants_delta = true;
    b.delta_dtype = last.out[0].dtype();
    fused.out.push_back(last.out[0]);
  }
  fused.attrs = Attrs::of(b);
  return true;
}
constexpr FusionPattern kLayerNormBackwardThen[] = {{"layer_norm_backward add cast", fuse_backward},
                                                    {"layer_norm_backward add", fuse_backward},
                                                    {"layer_norm_backward cast", fuse_backward}},
                        kRmsNormBackwardThen[] = {{"rms_norm_backward add cast", fuse_backward},
                                                  {"rms_norm_backward add", fuse_backward},
                                                  {"rms_norm_backward cast", fuse_backward}};

DType norm_compute_dtype(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }

/// The normalized x, and the reciprocal of its divisor.
struct Normed {
  Tensor value, scale;
  Normed(const Tensor& x, bool rms, double eps) {
    Tensor centered = rms ? x : x - mean(x, {-1}, true);
    scale = rsqrt(mean(square(centered), {-1}, true) + eps);
    value = centered * scale;
  }
};

TensorList any_norm_reference(const OpCall& call) {
  auto a = call.as<NormAttrs>();
  normalization::Inputs in(call);
  DType t = norm_compute_dtype(in.x);
  Tensor x = a.adds ? in.x + in.delta : in.x;
  Tensor y = Normed(x.to(t), a.rms, a.eps).value;
  if (in.weight.defined()) y = y * in.weight.to(t);
  if (in.bias.defined()) y = y + in.bias.to(t);
  y = y.to(a.out);
  return a.adds ? TensorList{x, y} : TensorList{y};
}

TensorList any_norm_backward_reference(const OpCall& call) {
  auto a = call.as<NormBackwardAttrs>();
  const Tensor &given_x = call.in[1], &weight = call.in[2];
  DType t = norm_compute_dtype(given_x);
  Tensor g = call.in[0].to(t), x = given_x.to(t);
  Normed normed(x, a.rms, a.eps);
  Tensor scaled = weight.defined() ? g * weight.to(t) : g;
  Tensor dx = scaled - normed.value * mean(scaled * normed.value, {-1}, true);
  if (!a.rms) dx = dx - mean(scaled, {-1}, true);
  dx = dx * normed.scale;
  if (call.in[3].defined()) dx = dx + call.in[3].to(t);
  TensorList out = {dx.to(given_x.dtype())};
  Shape row = {x.shape().back()};
  if (a.wants_weight) out.push_back(sum_to(g * normed.value, row).to(a.weight_dtype));
  if (a.wants_bias) out.push_back(sum_to(g, row).to(a.bias_dtype));
  if (a.wants_delta) out.push_back(dx.to(a.delta_dtype));
  return out;
}

const OpDef kLayerNormBackward = {.name = "layer_norm_backward",
                                  .infer = any_norm_backward_infer,
                                  .cpu = normalization::backward_cpu,
                                  .gpu = normalization::backward_gpu,
                                  .reference = any_norm_backward_reference,
                                  .replaces = kLayerNormBackwardThen};
const OpDef kRmsNormBackward = {.name = "rms_norm_backward",
                                .infer = any_norm_backward_infer,
                                .cpu = normalization::backward_cpu,
                                .gpu = normalization::backward_gpu,
                                .reference = any_norm_backward_reference,
                                .replaces = kRmsNormBackwardThen};

TensorList any_norm_vjp(const VjpCall& call) {
  auto a = call.as<NormAttrs>();
  const std::size_t weight = a.adds ? 2 : 1, bias = weight + 1;
  const Tensor& grad = call.grad.back();
  const Tensor grad_sum = a.adds ? call.grad[0] : Tensor();
  TensorList grads(call.in.size());
  if (grad.defined()) {
    NormBackwardAttrs b{a.eps, a.rms, call.needs[weight], !a.rms && call.needs[bias]};
    // An f16 or bf16 delta gets the sum's gradient in its own dtype, unless it was repeated over rows: then the
    // gradient is summed below.
    b.wants_delta =
        a.adds && call.needs[1] && call.in[1].dtype() != call.in[0].dtype() && call.in[1].shape() == call.in[0].shape();
    if (b.wants_delta) b.delta_dtype = call.in[1].dtype();
    if (b.wants_weight) b.weight_dtype = call.in[weight].dtype();
    if (b.wants_bias) b.bias_dtype = call.in[bias].dtype();
    TensorList found = normalization::gradients(grad, a.adds ? call.out[0] : call.in[0], call.in[weight], grad_sum, b);
    grads[0] = found[0];
    if (b.wants_weight) grads[weight] = found[1];
    if (b.wants_bias) grads[bias] = found[b.wants_weight ? 2 : 1];
    if (b.wants_delta) grads[1] = found.back();
  } else {
    grads[0] = grad_sum;
  }
  if (a.adds && call.needs[1] && !grads[1].defined()) {
    grads[1] = sum_to(grads[0], call.in[1].shape()).to(call.in[1].dtype());
  }
  return grads;
}

const OpDef kLayerNorm = {.name = "layer_norm",
                          .infer = any_norm_infer,
                          .cpu = normalization::forward_cpu,
                          .gpu = normalization::forward_gpu,
                          .reference = any_norm_reference,
                          .vjp = any_norm_vjp,
                          .saved = Saved::inputs};
const OpDef kRmsNorm = {.name = "rms_norm",
                        .infer = any_norm_infer,
                        .cpu = normalization::forward_cpu,
                        .gpu = normalization::forward_gpu,
                        .reference = any_norm_reference,
                        .vjp = any_norm_vjp,
                        .saved = Saved::inputs};
// For x + delta, backward needs only the sum, not x or delta.
const OpDef kAddLayerNorm = {.name = "add_layer_norm",
                             .infer = any_norm_infer,
                             .cpu = normalization::forward_cpu,
                             .gpu = normalization::forward_gpu,
                             .reference = any_norm_reference,
                             .vjp = any_norm_vjp,
                             .saved = Saved::both,
                             .saved_inputs = 1u << 2,
                             .saved_outputs = 1u << 0,
                             .replaces = kAddThenLayerNorm};
const OpDef kAddRmsNorm = {.name = "add_rms_norm",
                           .infer = any_norm_infer,
                           .cpu = normalization::forward_cpu,
                           .gpu = normalization::forward_gpu,
                           .reference = any_norm_reference,
                           .vjp = any_norm_vjp,
                           .saved = Saved::both,
                           .saved_inputs = 1u << 2,
                           .saved_outputs = 1u << 0,
                           .replaces = kAddThenRmsNorm};

AddedNorm norm_added(const OpDef& op, TensorList in, NormAttrs a) {
  if (is_floating(in[0].dtype()) && is_floating(in[1].dtype())) in[0] = in[0].to(promote(in[0].dtype(), in[1].dtype()));
  a.out = normalization::out_dtype(in[0]);
  TensorList out = apply(op, in, Attrs::of(a));
  return {out[0], out[1]};
}

}  // namespace

bool normalization::reads_only_first(const fusion::Call& norm, const Tensor& x) {
  if (norm.in[0].impl() != x.impl()) return false;
  return std::none_of(norm.in.begin() + 1, norm.in.end(),
                      [&](const Tensor& w) { return w.defined() && w.storage() == x.storage(); });
}

void normalization::check_parameter(const OpCall& call, const Tensor& x, const Tensor& w, const char* what) {
  if (!w.defined()) return;
  if (!is_floating(w.dtype()))
    throw DtypeError(fmt::format("{}: the {} is {}, it must be floating", call.op.name, what, name(w.dtype())));
  if (w.dim() != 1 || w.shape()[0] != x.shape().back()) {
    throw ShapeError(fmt::format("{}: the {} is {}, x is {}; the {} must be [{}], the size of x's last dimension",
                                 call.op.name, what, str(w.shape()), str(x.shape()), what, x.shape().back()));
  }
}

TensorList normalization::gradients(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& more,
                                    const NormBackwardAttrs& wanted) {
  return apply(wanted.rms ? kRmsNormBackward : kLayerNormBackward, {grad, x, weight, more}, Attrs::of(wanted));
}

DType normalization::out_dtype(const Tensor& x) { return x.dtype() == f32 ? autocast_dtype() : x.dtype(); }

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  detail::require_defined("layer_norm", x);
  return apply1(kLayerNorm, {x, weight, bias}, Attrs::of(NormAttrs{eps, false, false, normalization::out_dtype(x)}));
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  detail::require_defined("rms_norm", x);
  return apply1(kRmsNorm, {x, weight}, Attrs::of(NormAttrs{eps, true, false, normalization::out_dtype(x)}));
}
AddedNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, const Tensor& bias, double eps) {
  detail::require_defined("add_layer_norm", x, delta);
  return norm_added(kAddLayerNorm, {x, delta, weight, bias}, {eps, false, true});
}
AddedNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, double eps) {
  detail::require_defined("add_rms_norm", x, delta);
  return norm_added(kAddRmsNorm, {x, delta, weight}, {eps, true, true});
}

std::span<const OpDef* const> ops_in_norm() {
  static const OpDef* const list[] = {&kLayerNorm,  &kRmsNorm,           &kAddLayerNorm,
                                      &kAddRmsNorm, &kLayerNormBackward, &kRmsNormBackward};
  return list;
}

}  // namespace etna
