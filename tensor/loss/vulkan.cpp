#include <etna/shaders/shaders.h>
#include <etna/tensor/loss/cross_entropy.h>
#include <etna/tensor/vulkan.h>

namespace etna::cross_entropy_rows {
namespace {

struct Push {
  vulkan::Word64 logits, target, losses, logsumexp, loss, count, gradient, dlogits;
  vulkan::Word64 ignore_index;
  std::uint32_t rows, classes, stride;
  float smoothing;
};
static_assert(sizeof(Push) == 88);

std::array<std::uint32_t, 4> spec_of(const OpCall& call) {
  auto attributes = call.as<Attributes>();
  return {vulkan::word(call.in[0].dtype()), vulkan::word(call.in[1].dtype()),
          vulkan::word(static_cast<int>(attributes.reduction)), vulkan::word(attributes.label_smoothing != 0)};
}

/// Rows of which each is contiguous.
Tensor rows_of(const Tensor& logits) {
  bool usable = (logits.size(1) == 1 || logits.strides()[1] == 1) && logits.strides()[0] >= 0;
  return usable ? logits : logits.contiguous();
}

Push push_of(const OpCall& call, const Tensor& logits, const Tensor& target) {
  auto attributes = call.as<Attributes>();
  Push push{};
  push.logits = logits.address();
  push.target = target.address();
  push.ignore_index = static_cast<std::uint64_t>(attributes.ignore_index);
  push.rows = vulkan::word(logits.size(0));
  push.classes = vulkan::word(logits.size(1));
  push.stride = vulkan::word(logits.strides()[0]);
  push.smoothing = static_cast<float>(attributes.label_smoothing);
  return push;
}

}  // namespace

bool vulkan_forward(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64) return false;
  Tensor logits = rows_of(call.in[0]), target = call.in[1].contiguous();
  std::int64_t rows = logits.size(0);
  Device device = logits.device();
  bool per_row = call.as<Attributes>().reduction == Reduction::none;
  Tensor losses = per_row ? out[0] : empty({rows}, {f32, device});
  Push push = push_of(call, logits, target);
  push.losses = losses.address();
  push.logsumexp = out[1].address();
  push.loss = out[0].address();
  push.count = out[2].address();
  auto s = spec_of(call);
  if (rows > 0) {
    vulkan::launch(shaders::cross_entropy, call, {s[0], s[1], s[2], s[3]}, push, vulkan::grid(rows), {&logits, &target},
                   {&losses, &out[1]});
  }
  vulkan::launch(shaders::cross_entropy_reduce, call, {s[0], s[1], s[2], s[3]}, push, {1, 1, 1}, {&losses, &target},
                 {per_row ? nullptr : &out[0], &out[2]});
  return true;
}

bool vulkan_backward(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  Tensor logits = rows_of(call.in[0]), target = call.in[1].contiguous();
  Tensor logsumexp = call.in[2].contiguous(), gradient = call.in[4].to(f32).contiguous();
  Push push = push_of(call, logits, target);
  push.logsumexp = logsumexp.address();
  push.count = call.in[3].address();
  push.gradient = gradient.address();
  push.dlogits = out[0].address();
  auto s = spec_of(call);
  vulkan::launch(shaders::cross_entropy_backward, call, {s[0], s[1], s[2], s[3]}, push, vulkan::grid(logits.size(0)),
                 {&logits, &target, &logsumexp, &call.in[3], &gradient}, {&out[0]});
  return true;
}

}  // namespace etna::cross_entropy_rows
