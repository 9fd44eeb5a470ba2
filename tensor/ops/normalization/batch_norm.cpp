#include <etna/tensor/ops/normalization/internal/batch_norm.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

// The ops. Kernels: cpu.cpp and shaders/normalization/batch_norm.comp; public functions: functions.cpp. Backward reads
// the statistics that forward computed. Its reference recomputes them, since its own derivative goes through them.
namespace etna {
namespace {

using BatchNormAttrs = normalization::batch::BatchNormAttrs;
using BatchNormBackwardAttrs = normalization::batch::BatchNormBackwardAttrs;
using normalization::batch::BatchNormUpdateAttrs;
using normalization::batch::statistics_dtype;

void check_x(const OpCall& call, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: x is {} {}, it must be floating; convert it first, e.g. with .to(f32)",
                                 call.op.name, name(x.dtype()), str(x.shape())));
  }
  if (x.dim() != 3) throw ShapeError(fmt::format("{}: x is {}, not [A, C, B]", call.op.name, str(x.shape())));
}

void check_channels(const OpCall& call, const Tensor& x, const Tensor& w, const char* what) {
  if (!w.defined()) return;
  if (!is_floating(w.dtype()))
    throw DtypeError(fmt::format("{}: the {} is {}, it must be floating", call.op.name, what, name(w.dtype())));
  if (w.dim() != 1 || w.shape()[0] != x.shape()[1]) {
    throw ShapeError(fmt::format("{}: the {} is {}, x has {} channels; it must be [{}]", call.op.name, what,
                                 str(w.shape()), x.shape()[1], x.shape()[1]));
  }
}

std::vector<OutputSpec> batch_norm_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  check_x(call, x);
  constexpr const char* names[] = {"x", "weight", "bias", "mean", "variance"};
  for (std::size_t i = 1; i < 5; ++i) check_channels(call, x, call.in[i], names[i]);
  const Shape channels = {x.shape()[1]};
  return {{x.shape(), x.dtype()}, {channels, statistics_dtype(x)}, {channels, statistics_dtype(x)}};
}

std::vector<OutputSpec> batch_norm_backward_infer(const OpCall& call) {
  const auto a = call.as<BatchNormBackwardAttrs>();
  const Tensor &g = call.in[0], &x = call.in[1];
  check_x(call, x);
  if (g.shape() != x.shape()) {
    throw ShapeError(fmt::format("{}: the gradient is {}, x is {}; they must have one shape", call.op.name,
                                 str(g.shape()), str(x.shape())));
  }
  constexpr const char* names[] = {"g", "x", "weight", "mean", "variance"};
  for (std::size_t i = 2; i < 5; ++i) check_channels(call, x, call.in[i], names[i]);
  std::vector<OutputSpec> specs = {{x.shape(), x.dtype()}};
  const Shape channels = {x.shape()[1]};
  if (a.wants_weight) specs.push_back({channels, a.weight_dtype});
  if (a.wants_bias) specs.push_back({channels, a.bias_dtype});
  return specs;
}

/// [C] as [1, C, 1], which broadcasts to [A, C, B].
Tensor batch_norm_along(const Tensor& w, DType t) { return w.to(t).reshape({1, w.numel(), 1}); }

/// Mean and variance of channels of x [A, C, B], as [1, C, 1].
struct Moments {
  Tensor mean, variance;
  Moments(const Tensor& x) {  // NOLINT
    mean = etna::mean(x, {0, 2}, true);
    variance = etna::mean(square(x - mean), {0, 2}, true);
  }
  Moments(const Tensor& m, const Tensor& v) : mean(m), variance(v) {}
};

TensorList batch_norm_reference(const OpCall& call) {
  const auto a = call.as<BatchNormAttrs>();
  const Tensor &x = call.in[0], &weight = call.in[1], &bias = call.in[2];
  const DType t = statistics_dtype(x);
  const Tensor wide = x.to(t);
  const Moments m =
      a.training ? Moments(wide) : Moments(batch_norm_along(call.in[3], t), batch_norm_along(call.in[4], t));
  Tensor y = (wide - m.mean) * rsqrt(m.variance + a.eps);
  if (weight.defined()) y = y * batch_norm_along(weight, t);
  if (bias.defined()) y = y + batch_norm_along(bias, t);
  const Shape channels = {x.shape()[1]};
  return {y.to(x.dtype()), m.mean.reshape(channels), (a.training ? sqrt(m.variance) : m.variance).reshape(channels)};
}

TensorList batch_norm_backward_reference(const OpCall& call) {
  const auto a = call.as<BatchNormBackwardAttrs>();
  const Tensor &given = call.in[1], &weight = call.in[2];
  const DType t = statistics_dtype(given);
  const Tensor g = call.in[0].to(t), x = given.to(t);
  const Moments m = a.training ? Moments(x) : Moments(batch_norm_along(call.in[3], t), batch_norm_along(call.in[4], t));
  const Tensor rstd = rsqrt(m.variance + a.eps), normed = (x - m.mean) * rstd;
  Tensor dx = g;
  if (a.training) dx = g - mean(g, {0, 2}, true) - normed * mean(g * normed, {0, 2}, true);
  dx = dx * rstd;
  if (weight.defined()) dx = dx * batch_norm_along(weight, t);
  TensorList out = {dx.to(given.dtype())};
  if (a.wants_weight) out.push_back(sum(g * normed, {0, 2}).to(a.weight_dtype));
  if (a.wants_bias) out.push_back(sum(g, {0, 2}).to(a.bias_dtype));
  return out;
}

const OpDef kBatchNormBackward = {.name = "batch_norm_backward",
                                  .infer = batch_norm_backward_infer,
                                  .cpu = normalization::batch::backward_cpu,
                                  .gpu = normalization::batch::backward_gpu,
                                  .reference = batch_norm_backward_reference};

TensorList batch_norm_vjp(const VjpCall& call) {
  TensorList grads(call.in.size());
  if (!call.grad[0].defined()) return grads;
  const auto a = call.as<BatchNormAttrs>();
  BatchNormBackwardAttrs b{a.eps, a.training, call.needs[1], call.needs[2]};
  if (b.wants_weight) b.weight_dtype = call.in[1].dtype();
  if (b.wants_bias) b.bias_dtype = call.in[2].dtype();
  const TensorList out = apply(
      kBatchNormBackward,
      {call.grad[0], call.in[0], call.in[1], detail::alias(call.out[1]), detail::alias(call.out[2])}, Attrs::of(b));
  std::size_t next = 1;
  grads[0] = out[0];
  if (b.wants_weight) grads[1] = out[next++];
  if (b.wants_bias) grads[2] = out[next];
  return grads;
}

const OpDef kBatchNorm = {.name = "batch_norm",
                          .infer = batch_norm_infer,
                          .cpu = normalization::batch::forward_cpu,
                          .gpu = normalization::batch::forward_gpu,
                          .reference = batch_norm_reference,
                          .vjp = batch_norm_vjp,
                          .saved = Saved::both,
                          .saved_inputs = 0b11,
                          .saved_outputs = 0b110};

std::vector<OutputSpec> batch_norm_update_infer(const OpCall& call) {
  const Tensor &mean = call.in[0], &batches = call.in[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor& each = call.in[i];
    if (each.dim() != 1 || each.shape() != mean.shape() || !is_floating(each.dtype())) {
      throw ShapeError(fmt::format("batch_norm: running statistics {} {} and {} {}; all must be floating and [C]",
                                   name(mean.dtype()), str(mean.shape()), name(each.dtype()), str(each.shape())));
    }
  }
  std::vector<OutputSpec> specs = {{mean.shape(), mean.dtype(), 0}, {mean.shape(), call.in[1].dtype(), 1}};
  if (batches.defined()) {
    if (batches.dtype() != i64 || batches.numel() != 1)
      throw DtypeError(fmt::format("batch_norm: the number of batches is {} {}; it must be i64 and one number",
                                   name(batches.dtype()), str(batches.shape())));
    specs.push_back({batches.shape(), i64, 4});
  }
  return specs;
}

const OpDef kUpdate = {.name = "batch_norm_update",
                       .infer = batch_norm_update_infer,
                       .cpu = normalization::batch::update_cpu,
                       .gpu = normalization::batch::update_gpu};

}  // namespace

normalization::batch::Normalized normalization::batch::normalize(const Tensor& x, const Tensor& weight,
                                                                 const Tensor& bias, double eps) {
  const TensorList out = apply(kBatchNorm, {x, weight, bias, Tensor(), Tensor()}, Attrs::of(BatchNormAttrs{eps, true}));
  return {out[0], out[1].detach(), out[2].detach()};
}

Tensor normalization::batch::normalize_by(const Tensor& x, const Tensor& mean, const Tensor& variance,
                                          const Tensor& weight, const Tensor& bias, double eps) {
  return apply1(kBatchNorm, {x, weight, bias, mean.detach(), variance.detach()}, Attrs::of(BatchNormAttrs{eps, false}));
}

void normalization::batch::update(const RunningStatistics& running, const Tensor& mean, const Tensor& deviation,
                                  double count) {
  GradMode off(false);
  BatchNormUpdateAttrs a;
  a.cumulative = !running.momentum;
  a.momentum = running.momentum.value_or(0);
  a.unbiased = count / (count - 1);
  if (a.cumulative && !running.num_batches_tracked.defined())
    throw ShapeError("batch_norm: an average of all batches needs num_batches_tracked; pass it, or a momentum");
  apply(kUpdate, {running.mean, running.var, mean, deviation, running.num_batches_tracked}, Attrs::of(a));
}

std::span<const OpDef* const> ops_in_batch_norm() {
  static const OpDef* const list[] = {&kBatchNorm, &kBatchNormBackward, &kUpdate};
  return list;
}

}  // namespace etna
