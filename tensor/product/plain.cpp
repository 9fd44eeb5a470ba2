#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/product/cut.h>
#include <etna/tensor/product/finish.h>
#include <etna/tensor/product/problem.h>
#include <etna/tensor/vulkan.h>

// Products on a device's plain units: shaders/gemm.comp. Takes every problem of floating dtypes but f64.
namespace etna::product {
namespace {

struct Push {
  vulkan::Word64 a, b;
  Finish finish;
  std::uint32_t m, n, k, lda, ldb;
  std::uint32_t a_strides[2], b_strides[2];
  std::uint32_t inner, batch, k_per_split;
};
static_assert(sizeof(Push) == 120);

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A variant of shaders/gemm.comp and the step of k it works in.
struct Kernel {
  const vulkan::Shader& shader;
  std::int64_t step;
};

Kernel kernel_of(std::int64_t tile) {
  if (tile == 32) return {shaders::gemm_32, 32};
  if (tile == 64) return {shaders::gemm_64, 16};
  return {shaders::gemm_128, 8};
}

}  // namespace

bool launch_plain(const OpCall& call, const Problem& p) {
  if (!is_floating(p.dtype)) return false;
  std::int64_t matrices = p.matrices(), results = p.m * p.n * matrices;
  Cut cut =
      choose_cut({p.m, p.n, p.k, matrices}, std::max<std::int64_t>(32, vulkan::capabilities(p.device()).compute_units));
  Kernel kernel = kernel_of(cut.tile);
  std::int64_t tiles = ceil_div(p.m, cut.tile) * ceil_div(p.n, cut.tile);
  std::int64_t k_per_split = ceil_div(ceil_div(p.k, cut.splits), kernel.step) * kernel.step;
  std::int64_t splits = ceil_div(p.k, k_per_split);
  Tensor partial = splits > 1 ? empty({splits * results}, {f32, p.device()}) : Tensor();

  Push push{};
  push.a = p.a.address, push.b = p.b.address;
  push.finish = splits > 1 ? partial_sums(partial, p.n) : Finish(p);
  push.m = vulkan::word(p.m), push.n = vulkan::word(p.n), push.k = vulkan::word(p.k);
  push.lda = vulkan::word(p.a.leading), push.ldb = vulkan::word(p.b.leading);
  for (std::size_t i = 0; i < 2; ++i) {
    push.a_strides[i] = vulkan::word(p.a.strides[i]);
    push.b_strides[i] = vulkan::word(p.b.strides[i]);
  }
  push.inner = vulkan::word(p.inner), push.batch = vulkan::word(matrices), push.k_per_split = vulkan::word(k_per_split);

  bool a_along_k = !p.a.transposed, b_along_k = p.b.transposed;
  auto width_of = [&](const Operand& x, std::int64_t extent) {
    return width(x.address, p.dtype, extent, {x.leading, x.strides[0], x.strides[1]});
  };
  auto a_width = width_of(p.a, a_along_k ? p.k : p.m), b_width = width_of(p.b, b_along_k ? p.k : p.n);
  FinishKinds kinds = splits > 1 ? FinishKinds{} : FinishKinds(p);
  auto y_width = splits > 1 ? width(push.finish.y, f32, p.n, {}) : kinds.width;
  auto tail = [&](bool whole) { return vulkan::word(whole); };
  std::array<const Tensor*, 6> reads = p.reads;
  if (splits > 1) std::fill(reads.begin() + 2, reads.end(), nullptr);
  vulkan::launch(
      kernel.shader, call,
      {vulkan::word(p.dtype), vulkan::word(a_along_k), vulkan::word(b_along_k), vulkan::word(a_width),
       vulkan::word(b_width), tail(p.m % cut.tile == 0), tail(p.n % cut.tile == 0), tail(p.k % kernel.step == 0),
       vulkan::word(y_width), kinds.flags, kinds.y, kinds.bias, kinds.beside, kinds.residual},
      push, vulkan::grid(tiles * matrices * splits), {reads[0], reads[1], reads[2], reads[3], reads[4], reads[5]},
      {splits > 1 ? &partial : p.writes[0], splits > 1 ? nullptr : p.writes[1]});
  if (splits > 1) reduce(call, p, partial, splits);
  return true;
}

}  // namespace etna::product
