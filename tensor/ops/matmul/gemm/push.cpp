#include <etna/tensor/ops/matmul/gemm/push.h>

#include <algorithm>

namespace etna::product {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

void launch_kernel(const OpCall& call, const Problem& p, const Kernel& kernel, std::int64_t splits) {
  std::int64_t matrices = p.matrices(), results = p.m * p.n * matrices;
  std::int64_t tiles = ceil_div(p.m, kernel.tile_m) * ceil_div(p.n, kernel.tile_n);
  std::int64_t k_per_split = ceil_div(ceil_div(p.k, splits), kernel.step) * kernel.step;
  splits = ceil_div(p.k, k_per_split);
  bool split = splits > 1;
  Tensor partial = split ? empty({splits * results}, {f32, p.device()}) : Tensor();

  Push push{};
  push.a = p.a.address, push.b = p.b.address;
  push.finish = split ? partial_sums(partial, p.n) : Finish(p);
  push.m = vulkan::word(p.m), push.n = vulkan::word(p.n), push.k = vulkan::word(p.k);
  push.lda = vulkan::word(p.a.leading), push.ldb = vulkan::word(p.b.leading);
  for (std::size_t i = 0; i < 2; ++i) {
    push.a_strides[i] = vulkan::word(p.a.strides[i]);
    push.b_strides[i] = vulkan::word(p.b.strides[i]);
  }
  push.inner = vulkan::word(p.inner), push.batch = vulkan::word(matrices), push.k_per_split = vulkan::word(k_per_split);

  bool a_along_k = !p.a.transposed, b_along_k = p.b.transposed;
  auto width_of = [&](const Operand& x) {
    return vulkan::word(width(x.address, p.dtype, {x.leading, x.strides[0], x.strides[1]}, kernel.widest));
  };
  FinishKinds kinds = split ? FinishKinds{} : FinishKinds(p);
  std::int64_t y_width = split ? width(push.finish.y, f32, {p.n}) : kinds.width;
  std::vector<std::uint32_t> spec(kernel.first.begin(), kernel.first.end());
  spec.insert(spec.end(), {vulkan::word(a_along_k), vulkan::word(b_along_k), width_of(p.a), width_of(p.b),
                           vulkan::word(p.m % kernel.tile_m == 0), vulkan::word(p.n % kernel.tile_n == 0),
                           vulkan::word(p.k % kernel.step == 0), vulkan::word(y_width), kinds.flags, kinds.y,
                           kinds.bias, kinds.beside, kinds.residual});
  spec.insert(spec.end(), kernel.last.begin(), kernel.last.end());
  std::vector<const Tensor*> reads(p.reads.begin(), split ? p.reads.begin() + 2 : p.reads.end());
  std::vector<const Tensor*> writes =
      split ? std::vector<const Tensor*>{&partial} : std::vector(p.writes.begin(), p.writes.end());
  vulkan::launch(kernel.shader, call, std::span<const std::uint32_t>(spec), push,
                 vulkan::grid(tiles * matrices * splits), std::span<const Tensor* const>(reads),
                 std::span<const Tensor* const>(writes));
  if (split) reduce(call, p, partial, splits);
}

}  // namespace etna::product
