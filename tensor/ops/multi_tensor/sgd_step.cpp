#include <cstring>

#include <etna/shaders/shaders.h>
#include <etna/tensor/graph/session.h>
#include <etna/tensor/multi_tensor.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/multi_tensor/step.h>
#include <etna/tensor/vulkan.h>

namespace etna {
namespace {

std::size_t sgd_width(const OpCall& call) { return call.as<SGDStep>().momentum != 0 ? 3 : 2; }
std::vector<OutputSpec> sgd_infer(const OpCall& call) { return multi_tensor::infer_step(call, sgd_width(call)); }

void sgd_cpu(const OpCall& call, std::span<Tensor>) {
  auto step = call.as<SGDStep>();
  const StepControl control = multi_tensor::read_control(call, sgd_width(call));
  multi_tensor::walk_step(call, sgd_width(call), [&]<typename S>(S* x, const S* g, S* buffer, S*, std::int64_t n) {
    auto factor = static_cast<S>(control.factor);
    auto lr = static_cast<S>(step.lr), momentum = static_cast<S>(step.momentum),
         fresh = static_cast<S>(1 - step.dampening), decay = static_cast<S>(step.weight_decay);
    if (buffer == nullptr) {
      for (std::int64_t i = 0; i < n; ++i) x[i] -= lr * (g[i] * factor + decay * x[i]);
      return;
    }
    S nesterov = step.nesterov ? S(1) : S(0), carried = step.nesterov ? momentum : S(1);
    if (step.first) {
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = g[i] * factor + decay * x[i];
    }
    for (std::int64_t i = 0; i < n; ++i) {
      S slope = g[i] * factor + decay * x[i];
      S b = step.first ? buffer[i] : momentum * buffer[i] + fresh * slope;
      buffer[i] = b;
      x[i] -= lr * (nesterov * slope + carried * b);
    }
  });
}

/// In the order shaders/optimizer.comp reads them.
void sgd_scalars(const Attrs& attrs, std::byte* to) {
  auto step = attrs.as<SGDStep>();
  const float scalars[] = {static_cast<float>(step.lr), static_cast<float>(step.momentum),
                           static_cast<float>(1 - step.dampening), static_cast<float>(step.weight_decay),
                           step.first ? 0.0f : 1.0f};
  std::memcpy(to, scalars, sizeof(scalars));
}

bool sgd_gpu(const OpCall& call, std::span<Tensor>) {
  auto step = call.as<SGDStep>();
  return multi_tensor::dispatch_step(call, shaders::sgd_step, sgd_width(call), sgd_scalars,
                                     {vulkan::word(step.momentum != 0), vulkan::word(step.nesterov)});
}

TensorList sgd_reference(const OpCall& call) {
  auto step = call.as<SGDStep>();
  std::size_t width = sgd_width(call);
  TensorList out;
  const multi_tensor::ControlledStep controlled{multi_tensor::control_of(call, width)};
  for (std::size_t k = 0; k + width <= call.in.size(); k += width) {
    DType t = multi_tensor::state_dtype(call.in[k]);
    Tensor x = call.in[k].to(t), g = controlled.gradient(call.in[k + 1].to(t)) + x * step.weight_decay, buffer;
    if (width > 2) {
      buffer = step.first ? g : call.in[k + 2] * step.momentum + g * (1 - step.dampening);
      g = step.nesterov ? g + buffer * step.momentum : buffer;
    }
    out.push_back(controlled.result(call.in[k], (x - g * step.lr).to(call.in[k].dtype())));
    if (width > 2) out.push_back(controlled.result(call.in[k + 2], buffer));
  }
  return out;
}

const OpDef kSgdStep = {
    .name = "sgd_step_", .infer = sgd_infer, .cpu = sgd_cpu, .gpu = sgd_gpu, .reference = sgd_reference};

}  // namespace

void sgd_step_(std::span<const Tensor> list, const std::function<SGDStep()>& step) {
  GradMode off(false);
  if (!list.empty()) apply(kSgdStep, list, recording::each_step_attrs([step] { return Attrs::of(step()); }));
}

void sgd_step_(std::span<const Tensor> list, const SGDStep& step) {
  sgd_step_(list, [step] { return step; });
}

std::span<const OpDef* const> ops_in_sgd_step() {
  static const OpDef* const list[] = {&kSgdStep};
  return list;
}

}  // namespace etna
