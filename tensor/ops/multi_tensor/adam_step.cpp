#include <cmath>
#include <cstring>

#include <etna/device/cpu/vector_steps.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/graph/session.h>
#include <etna/tensor/multi_tensor.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/multi_tensor/step.h>
#include <etna/tensor/vulkan.h>

namespace etna {
namespace {

struct Corrections {
  double first, second;  ///< 1 - β₁ᵗ and √(1 - β₂ᵗ)
};
Corrections corrections(const AdamStep& step, double skipped = 0) {
  double t = static_cast<double>(step.step) - skipped;
  return {1 - std::pow(step.beta1, t), std::sqrt(1 - std::pow(step.beta2, t))};
}

std::vector<OutputSpec> adam_infer(const OpCall& call) { return multi_tensor::infer_step(call, 4); }

void adam_cpu(const OpCall& call, std::span<Tensor>) {
  auto step = call.as<AdamStep>();
  const StepControl control = multi_tensor::read_control(call, 4);
  Corrections bias = corrections(step, control.skipped);
  multi_tensor::walk_step(call, 4, [&]<typename S>(S* x, const S* g, S* first, S* second, std::int64_t n) {
    auto fresh1 = static_cast<S>(1 - step.beta1), beta2 = static_cast<S>(step.beta2),
         fresh2 = static_cast<S>(1 - step.beta2), eps = static_cast<S>(step.eps),
         size = static_cast<S>(step.lr / bias.first), second_bias = static_cast<S>(bias.second);
    S factor = static_cast<S>(control.factor);
    S shrink = step.decoupled ? static_cast<S>(1 - step.lr * step.weight_decay) : S(1);
    S decay = step.decoupled ? S(0) : static_cast<S>(step.weight_decay);
    if constexpr (std::is_same_v<S, float>) {
      return cpu::adam({factor, decay, shrink, fresh1, beta2, fresh2, size, second_bias, eps}, x, g, first, second, n);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      S slope = g[i] * factor + decay * x[i];
      S m = first[i] + (slope - first[i]) * fresh1;
      S v = beta2 * second[i] + fresh2 * slope * slope;
      first[i] = m;
      second[i] = v;
      x[i] = x[i] * shrink - size * m / (std::sqrt(v) / second_bias + eps);
    }
  });
}

/// In the order shaders/optimizer.comp reads them.
void adam_scalars(const Attrs& attrs, std::byte* to) {
  auto step = attrs.as<AdamStep>();
  Corrections bias = corrections(step);
  const double wide[] = {step.lr,
                         step.beta1,
                         step.beta2,
                         1 - step.beta1,
                         1 - step.beta2,
                         step.eps,
                         step.weight_decay,
                         bias.first,
                         bias.second,
                         static_cast<double>(step.step),
                         std::log(step.beta1),
                         std::log(step.beta2)};
  float scalars[std::size(wide)];
  for (std::size_t i = 0; i < std::size(wide); ++i) scalars[i] = static_cast<float>(wide[i]);
  std::memcpy(to, scalars, sizeof(scalars));
}

bool adam_gpu(const OpCall& call, std::span<Tensor>) {
  return multi_tensor::dispatch_step(call, shaders::adam_step, 4, adam_scalars,
                                     {vulkan::word(call.as<AdamStep>().decoupled)});
}

TensorList adam_reference(const OpCall& call) {
  auto step = call.as<AdamStep>();
  const multi_tensor::ControlledStep controlled{multi_tensor::control_of(call, 4)};
  Corrections bias =
      corrections(step, controlled.control.defined() ? controlled.control.select(0, 2).item<double>() : 0);
  TensorList out;
  for (std::size_t k = 0; k + 4 <= call.in.size(); k += 4) {
    DType t = multi_tensor::state_dtype(call.in[k]);
    Tensor x = call.in[k].to(t), g = controlled.gradient(call.in[k + 1].to(t));
    if (step.decoupled)
      x = x * (1 - step.lr * step.weight_decay);
    else
      g = g + x * step.weight_decay;
    Tensor m = call.in[k + 2] * step.beta1 + g * (1 - step.beta1);
    Tensor v = call.in[k + 3] * step.beta2 + square(g) * (1 - step.beta2);
    x = x - m * (step.lr / bias.first) / (sqrt(v) / bias.second + step.eps);
    out.push_back(controlled.result(call.in[k], x.to(call.in[k].dtype())));
    out.push_back(controlled.result(call.in[k + 2], m));
    out.push_back(controlled.result(call.in[k + 3], v));
  }
  return out;
}

const OpDef kAdamStep = {
    .name = "adam_step_", .infer = adam_infer, .cpu = adam_cpu, .gpu = adam_gpu, .reference = adam_reference};

}  // namespace

void adam_step_(std::span<const Tensor> list, const std::function<AdamStep()>& step) {
  GradMode off(false);
  if (!list.empty()) apply(kAdamStep, list, recording::each_step_attrs([step] { return Attrs::of(step()); }));
}

void adam_step_(std::span<const Tensor> list, const AdamStep& step) {
  adam_step_(list, [step] { return step; });
}

std::span<const OpDef* const> ops_in_adam_step() {
  static const OpDef* const list[] = {&kAdamStep};
  return list;
}

}  // namespace etna
