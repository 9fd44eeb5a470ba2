#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/loss/internal/cross_entropy.h>

namespace etna::loss {
namespace {

/// Chunks per row, one workgroup each: enough for thousands of workgroups, each with thousands of elements.
std::int64_t chunks_of(const Tensor& logits) {
  constexpr std::int64_t kGroups = 4096, kElements = 4096;
  std::int64_t rows = std::max<std::int64_t>(1, logits.size(0));
  return std::clamp<std::int64_t>((kGroups + rows - 1) / rows, 1,
                                  std::clamp<std::int64_t>(logits.size(1) / kElements, 1, 16));
}

/// True if, after a row's unaligned head, vectors of four are aligned in all of these tensors: their rows have equal
/// alignment.
bool aligned(const Tensor& logits, const Tensor* dlogits = nullptr) {
  std::uint64_t bytes = 4 * item_size(logits.dtype());
  if (logits.address() % bytes != 0) return false;
  return dlogits == nullptr || (dlogits->address() % bytes == 0 && (logits.strides()[0] - logits.size(1)) % 4 == 0);
}

/// Logits with contiguous rows.
Tensor rows_of(const Tensor& logits) {
  bool usable = (logits.size(1) == 1 || logits.strides()[1] == 1) && logits.strides()[0] >= 0;
  return usable ? logits : logits.contiguous();
}

/// Launches a kernel. All kernels share one argument list; arguments that a kernel does not use are null.
/// @param memory adds the addresses, in the shader's order
void launch(const gpu::Shader& shader, const OpCall& call, const Tensor& logits, bool vectors, std::int64_t chunks,
            std::array<std::uint32_t, 3> groups, const auto& memory) {
  auto a = call.as<CrossEntropyAttrs>();
  gpu::Kernel kernel(shader, call);
  kernel.spec(call.in[0].dtype(), call.in[1].dtype(), a.reduction, a.label_smoothing != 0, vectors ? 4 : 1, chunks);
  memory(kernel);
  kernel.index_errors()
      .u64(static_cast<std::uint64_t>(a.ignore_index))
      .u32(logits.size(0), logits.size(1), logits.strides()[0])
      .f32(static_cast<float>(a.label_smoothing))
      .dispatch(groups);
}

}  // namespace

bool forward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64) return false;
  Tensor logits = rows_of(call.in[0]), target = call.in[1].contiguous();
  std::int64_t rows = logits.size(0);
  Device device = logits.device();
  bool per_row = call.as<CrossEntropyAttrs>().reduction == Reduction::none;
  Tensor losses = per_row ? out[0] : empty({rows}, {f32, device});
  const Tensor unused, &loss = per_row ? unused : out[0];
  const std::int64_t chunks = chunks_of(logits);
  Tensor states = chunks > 1 && rows > 0 ? empty({chunks, rows, 4}, {f32, device}) : Tensor();
  // The first kernel finishes rows that are one chunk; the second combines the chunks of longer rows.
  const bool vectors = aligned(logits), whole = chunks == 1;
  if (rows > 0) {
    launch(shaders::cross_entropy, call, logits, vectors, chunks, gpu::grid(rows * chunks), [&](gpu::Kernel& kernel) {
      kernel.read(logits).read(target).write(whole ? losses : unused).write(whole ? out[1] : unused);
      kernel.read(unused).read(unused).read(unused).read(unused).write(states);
    });
  }
  launch(shaders::cross_entropy_reduce, call, logits, vectors, chunks, {1, 1, 1}, [&](gpu::Kernel& kernel) {
    kernel.read(unused).read(target);
    if (whole) {
      kernel.read(losses).read(unused);
    } else {
      kernel.write(losses).write(out[1]);
    }
    kernel.write(loss).write(out[2]).read(unused).read(unused).read(states);
  });
  return true;
}

bool backward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  Tensor logits = rows_of(call.in[0]), target = call.in[1].contiguous();
  Tensor logsumexp = call.in[2].contiguous(), gradient = call.in[4].to(f32).contiguous();
  const Tensor unused, &count = call.in[3];
  const std::int64_t chunks = chunks_of(logits);
  launch(shaders::cross_entropy_backward, call, logits, aligned(logits, &out[0]), chunks,
         gpu::grid(logits.size(0) * chunks), [&](gpu::Kernel& kernel) {
           kernel.read(logits).read(target).read(unused).read(logsumexp).read(unused);
           kernel.read(count).read(gradient).write(out[0]).read(unused);
         });
  return true;
}

}  // namespace etna::loss
