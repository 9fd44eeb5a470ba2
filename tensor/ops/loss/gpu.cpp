#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/loss/cross_entropy.h>
#include <etna/tensor/vulkan.h>

namespace etna::cross_entropy_rows {
namespace {

struct Push {
  vulkan::Word64 logits, target, losses, logsumexp, loss, count, gradient, dlogits, states;
  vulkan::Word64 ignore_index;
  std::uint32_t rows, classes, stride;
  float smoothing;
};
static_assert(sizeof(Push) == 96);

/// Workgroups a row, so that there are thousands of them and each still has thousands of elements.
std::int64_t parts_of(const Tensor& logits) {
  constexpr std::int64_t kGroups = 4096, kElements = 4096;
  std::int64_t rows = std::max<std::int64_t>(1, logits.size(0));
  return std::clamp<std::int64_t>((kGroups + rows - 1) / rows, 1,
                                  std::clamp<std::int64_t>(logits.size(1) / kElements, 1, 16));
}

/// Vectors of four behind a row's head are aligned in all of these at once: their rows start alike.
bool aligned(const Tensor& logits, const Tensor* dlogits = nullptr) {
  std::uint64_t bytes = 4 * item_size(logits.dtype());
  if (logits.address() % bytes != 0) return false;
  return dlogits == nullptr || (dlogits->address() % bytes == 0 && (logits.strides()[0] - logits.size(1)) % 4 == 0);
}

void launch(const gpu::Shader& shader, const OpCall& call, const Push& push, bool vectors, std::int64_t parts,
            std::array<std::uint32_t, 3> groups, std::initializer_list<const Tensor*> reads,
            std::initializer_list<const Tensor*> writes) {
  auto attributes = call.as<Attributes>();
  vulkan::launch(shader, call,
                 {vulkan::word(call.in[0].dtype()), vulkan::word(call.in[1].dtype()),
                  vulkan::word(static_cast<int>(attributes.reduction)), vulkan::word(attributes.label_smoothing != 0),
                  vectors ? 4u : 1u, vulkan::word(parts)},
                 push, groups, reads, writes);
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

bool gpu_forward(const OpCall& call, std::span<Tensor> out) {
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
  std::int64_t parts = parts_of(logits);
  Tensor states = parts > 1 && rows > 0 ? empty({parts, rows, 4}, {f32, device}) : Tensor();
  push.states = vulkan::address_or_zero(states);
  bool vectors = aligned(logits), whole = parts == 1;  // forward finishes whole rows, the reduction joined ones
  if (rows > 0) {
    launch(shaders::cross_entropy, call, push, vectors, parts, vulkan::grid(rows * parts), {&logits, &target},
           {whole ? &losses : &states, whole ? &out[1] : nullptr});
  }
  launch(shaders::cross_entropy_reduce, call, push, vectors, parts, {1, 1, 1}, {whole ? &losses : &states, &target},
         {per_row ? nullptr : &out[0], &out[2], whole ? nullptr : &losses, whole ? nullptr : &out[1]});
  return true;
}

bool gpu_backward(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  Tensor logits = rows_of(call.in[0]), target = call.in[1].contiguous();
  Tensor logsumexp = call.in[2].contiguous(), gradient = call.in[4].to(f32).contiguous();
  Push push = push_of(call, logits, target);
  push.logsumexp = logsumexp.address();
  push.count = call.in[3].address();
  push.gradient = gradient.address();
  push.dlogits = out[0].address();
  std::int64_t parts = parts_of(logits);
  launch(shaders::cross_entropy_backward, call, push, aligned(logits, &out[0]), parts,
         vulkan::grid(logits.size(0) * parts), {&logits, &target, &logsumexp, &call.in[3], &gradient}, {&out[0]});
  return true;
}

}  // namespace etna::cross_entropy_rows
