#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/norm.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

// Gradient clipping, loss scaling and skipped steps, decided on the device.
namespace etna {
namespace {

using optimizer::Rows;

constexpr float kStepControlNormEps = 1e-6f;

void check_numbers(const OpCall& call, const Tensor& x, const char* what, std::int64_t size) {
  if (x.shape() != Shape{size} || x.dtype() != f32 || !x.is_contiguous()) {
    throw ShapeError(fmt::format("{}: the {} is {} {}; it must be [{}] f32 and contiguous", call.op.name, what,
                                 str(x.shape()), name(x.dtype()), size));
  }
}

// ---- control_step_: inputs control, loss scale or none, gradients ...

struct ControlAttrs {
  double max_norm;
  bool scaled;
};

std::vector<OutputSpec> control_step_infer(const OpCall& call) {
  check_numbers(call, call.in[0], "control", 4);
  if (call.in[1].defined()) check_numbers(call, call.in[1], "loss scale", 3);
  if (double bound = call.as<ControlAttrs>().max_norm; !(bound >= 0))
    throw Error(fmt::format("{}: max_norm is {}; it must not be negative", call.op.name, bound));
  optimizer::require_floating(call, call.in.subspan(2));
  std::vector<OutputSpec> out = {{call.in[0].shape(), f32, 0}};
  if (call.in[1].defined()) out.push_back({call.in[1].shape(), f32, 1});
  return out;
}

/// The same as the end of shaders/optimizer/global_norm.comp. @param scale [3] or null
void decide(float total, const ControlAttrs& a, float* control, float* scale) {
  float inverse = scale != nullptr && a.scaled ? 1 / scale[0] : 1, norm = total * inverse;
  auto bound = static_cast<float>(a.max_norm);
  float clipped = bound / (norm + kStepControlNormEps);
  bool skip = scale != nullptr && !std::isfinite(total);
  control[0] = bound > 0 && !(clipped >= 1) ? inverse * clipped : inverse;
  control[1] = norm;
  if (skip) control[2] += 1;
  control[3] = skip ? 1 : 0;
  if (skip) scale[2] = 1;
}

void control_step_cpu(const OpCall& call, std::span<Tensor> out) {
  auto total = static_cast<float>(optimizer::norm_on_cpu(call.in.subspan(2), 2));
  decide(total, call.as<ControlAttrs>(), out[0].host<float>(), out.size() > 1 ? out[1].host<float>() : nullptr);
}

bool control_step_gpu(const OpCall& call, std::span<Tensor> out) {
  std::span<const Tensor> gradients = call.in.subspan(2);
  if (optimizer::widest(gradients) == f64) return false;
  Rows rows = optimizer::rows_of(gradients, Access::read);
  if (rows.empty()) return false;
  auto a = call.as<ControlAttrs>();
  const bool with_scale = out.size() > 1;
  optimizer::norm_total(call, shaders::global_norm_control, rows, out[0].device(), 2)
      .spec(!with_scale ? 0
            : a.scaled  ? 2
                        : 1)
      .read_write(out[0])
      .read_write(with_scale ? out[1] : Tensor())
      .f32(static_cast<float>(a.max_norm))
      .dispatch(1);
  return true;
}

TensorList control_step_reference(const OpCall& call) {
  auto a = call.as<ControlAttrs>();
  Tensor total = call.in.size() > 2 ? optimizer::composed_norm(call.in.subspan(2), 2).to(f32)
                                    : zeros({}, {f32, call.in[0].device()});
  const Tensor &control = call.in[0], &scale = call.in[1];
  Tensor inverse = scale.defined() && a.scaled ? 1.0 / scale.select(0, 0) : ones_like(total);
  Tensor norm = total * inverse, clipped = a.max_norm / (norm + kStepControlNormEps);
  Tensor factor = a.max_norm > 0 ? where(clipped >= 1.0, inverse, inverse * clipped) : inverse;
  Tensor skip = scale.defined() ? logical_not(isfinite(total)).to(f32) : zeros_like(total);
  TensorList out = {stack({factor, norm, control.select(0, 2) + skip, skip})};
  if (scale.defined())
    out.push_back(stack({scale.select(0, 0), scale.select(0, 1), maximum(scale.select(0, 2), skip)}));
  return out;
}

const OpDef kControlStep = {.name = "control_step_",
                            .infer = control_step_infer,
                            .cpu = control_step_cpu,
                            .gpu = control_step_gpu,
                            .reference = control_step_reference};

// ---- unscale_: inputs loss scale, tensors ...

std::vector<OutputSpec> unscale_infer(const OpCall& call) {
  check_numbers(call, call.in[0], "loss scale", 3);
  optimizer::require_floating(call, call.in.subspan(1));
  std::vector<OutputSpec> out;
  for (std::size_t i = 1; i < call.in.size(); ++i)
    out.push_back({call.in[i].shape(), call.in[i].dtype(), static_cast<int>(i)});
  return out;
}

void unscale_cpu(const OpCall& call, std::span<Tensor> out) {
  double factor = 1 / static_cast<double>(*call.in[0].host<float>());
  for (Tensor& x : out) x.mul_(factor);
}

bool unscale_gpu(const OpCall& call, std::span<Tensor> out) {
  if (optimizer::widest(out) == f64) return false;
  TensorList dense;
  for (Tensor& x : out) {
    if (x.is_contiguous())
      dense.push_back(x);
    else
      x.mul_(1.0 / call.in[0].select(0, 0));
  }
  Rows rows = optimizer::rows_of(dense, Access::read_write);
  if (rows.empty()) return true;
  gpu::Kernel kernel = optimizer::kernel_over(shaders::unscale, call, rows, call.in[0].device());
  optimizer::add_norm_spec(kernel, rows);
  kernel.read(Tensor()).read(Tensor()).read(call.in[0]).f32(0).dispatch(gpu::grid(rows.chunks.count()));
  return true;
}

TensorList unscale_reference(const OpCall& call) {
  TensorList out;
  for (const Tensor& x : call.in.subspan(1)) {
    DType t = x.dtype() == f64 ? f64 : f32;
    out.push_back((x.to(t) * (1.0 / call.in[0].select(0, 0).to(t))).to(x.dtype()));
  }
  return out;
}

const OpDef kUnscale = {
    .name = "unscale_", .infer = unscale_infer, .cpu = unscale_cpu, .gpu = unscale_gpu, .reference = unscale_reference};

// ---- update_loss_scale_

std::vector<OutputSpec> update_loss_scale_infer(const OpCall& call) {
  check_numbers(call, call.in[0], "loss scale", 3);
  auto u = call.as<LossScaleAttrs>();
  if (!(u.growth >= 1) || !(u.backoff > 0 && u.backoff <= 1) || u.interval < 1) {
    throw Error(fmt::format(
        "{}: growth {}, backoff {} and interval {}; wanted growth at least 1, backoff in (0, 1], interval at least 1",
        call.op.name, u.growth, u.backoff, u.interval));
  }
  return {{call.in[0].shape(), f32, 0}};
}

void update_loss_scale_cpu(const OpCall& call, std::span<Tensor> out) {
  auto u = call.as<LossScaleAttrs>();
  float *state = out[0].host<float>(), good = state[1] + 1;
  if (state[2] != 0) {
    state[0] = std::max(state[0] * static_cast<float>(u.backoff), std::min(state[0], kLeastLossScale)), good = 0;
  } else if (good >= static_cast<float>(u.interval)) {
    float grown = state[0] * static_cast<float>(u.growth);
    if (std::isfinite(grown)) state[0] = grown;
    good = 0;
  }
  state[1] = good, state[2] = 0;
}

bool update_loss_scale_gpu(const OpCall& call, std::span<Tensor> out) {
  auto u = call.as<LossScaleAttrs>();
  gpu::Kernel(shaders::loss_scale, call)
      .read_write(out[0])
      .f32(static_cast<float>(u.growth))
      .f32(static_cast<float>(u.backoff))
      .f32(static_cast<float>(u.interval))
      .f32(kLeastLossScale)
      .dispatch(1);
  return true;
}

TensorList update_loss_scale_reference(const OpCall& call) {
  auto u = call.as<LossScaleAttrs>();
  Tensor scale = call.in[0].select(0, 0), good = call.in[0].select(0, 1) + 1.0, bad = call.in[0].select(0, 2) != 0.0;
  Tensor full = good >= static_cast<double>(u.interval), grown = scale * u.growth;
  Tensor reduced = maximum(scale * u.backoff, minimum(scale, kLeastLossScale));
  Tensor next = where(bad, reduced, where(logical_and(full, isfinite(grown)), grown, scale));
  return {stack({next, where(logical_or(bad, full), zeros_like(good), good), zeros_like(good)})};
}

const OpDef kUpdateLossScale = {.name = "update_loss_scale_",
                                .infer = update_loss_scale_infer,
                                .cpu = update_loss_scale_cpu,
                                .gpu = update_loss_scale_gpu,
                                .reference = update_loss_scale_reference};

}  // namespace

void control_step_(const Tensor& control, const Tensor& loss_scale, std::span<const Tensor> gradients, double max_norm,
                   bool scaled) {
  GradMode off(false);
  TensorList list = {control, loss_scale};
  list.insert(list.end(), gradients.begin(), gradients.end());
  etna::apply(kControlStep, list, Attrs::of(ControlAttrs{max_norm, scaled}));
}

void unscale_(std::span<const Tensor> tensors, const Tensor& loss_scale) {
  if (tensors.empty()) return;
  GradMode off(false);
  TensorList list = {loss_scale};
  list.insert(list.end(), tensors.begin(), tensors.end());
  etna::apply(kUnscale, list);
}

void update_loss_scale_(const Tensor& loss_scale, const LossScaleAttrs& update) {
  GradMode off(false);
  etna::apply(kUpdateLossScale, {loss_scale}, Attrs::of(update));
}

std::span<const OpDef* const> ops_in_step_control() {
  static const OpDef* const list[] = {&kControlStep, &kUnscale, &kUpdateLossScale};
  return list;
}

}  // namespace etna
