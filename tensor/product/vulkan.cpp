#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/product/cut.h>
#include <etna/tensor/product/product.h>
#include <etna/tensor/vulkan.h>

namespace etna::product {
namespace {

struct Push {
  vulkan::Word64 a, b, y, bias;
  std::uint32_t m, n, k, lda, ldb;
  std::uint32_t a_strides[2], b_strides[2];
  std::uint32_t inner, batch, tiles_m, tiles_n, splits, k_per_split;
};
static_assert(sizeof(Push) == 92);

struct ReducePush {
  vulkan::Word64 partial, y, bias;
  std::uint32_t count, n, splits, unused = 0;
};

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

/// Elements that may be loaded at once: all of `strides` must keep the alignment, and the extent must be made of whole ones.
std::int64_t width(std::uint64_t address, DType dtype, std::int64_t extent,
                   std::initializer_list<std::int64_t> strides) {
  for (std::int64_t w : {4, 2}) {
    bool fits = address % (static_cast<std::uint64_t>(w) * item_size(dtype)) == 0 && extent % w == 0;
    for (std::int64_t s : strides) fits = fits && s % w == 0;
    if (fits) return w;
  }
  return 1;
}

/// One dispatch (and a reducing one where k is split) over the innermost two batch dimensions, from element offsets on.
void launch(const OpCall& call, const Plan& p, const Tensor& bias, Tensor& y, std::int64_t a_at, std::int64_t b_at,
            std::int64_t y_at) {
  int rank = p.batch.rank();
  auto item = static_cast<std::int64_t>(item_size(y.dtype()));
  std::int64_t inner = rank > 0 ? p.batch.back() : 1, outer = rank > 1 ? p.batch[rank - 2] : 1,
               matrices = inner * outer;
  Push push{};
  push.a = p.a.address() + static_cast<std::uint64_t>(a_at * item);
  push.b = p.b.address() + static_cast<std::uint64_t>(b_at * item);
  push.y = y.address() + static_cast<std::uint64_t>(y_at * item);
  push.bias = vulkan::address_or_zero(bias);
  push.m = vulkan::word(p.m), push.n = vulkan::word(p.n), push.k = vulkan::word(p.k);
  push.lda = vulkan::word(p.a_matrix.leading), push.ldb = vulkan::word(p.b_matrix.leading);
  for (int i = 0; i < 2; ++i) {
    int d = rank - 2 + i;
    push.a_strides[i] = d >= 0 ? vulkan::word(p.a_batch[d]) : 0;
    push.b_strides[i] = d >= 0 ? vulkan::word(p.b_batch[d]) : 0;
  }
  push.inner = vulkan::word(inner), push.batch = vulkan::word(matrices);
  DType t = p.a.dtype();
  bool a_along_k = !p.a_matrix.transposed, b_along_k = p.b_matrix.transposed;
  Cut cut =
      choose_cut({p.m, p.n, p.k, matrices}, std::max<std::int64_t>(32, vulkan::capabilities(y.device()).compute_units));
  Kernel kernel = kernel_of(cut.tile);
  std::int64_t tiles_m = ceil_div(p.m, cut.tile), tiles_n = ceil_div(p.n, cut.tile);
  push.tiles_m = vulkan::word(tiles_m), push.tiles_n = vulkan::word(tiles_n);
  push.k_per_split = vulkan::word(ceil_div(ceil_div(p.k, cut.splits), kernel.step) * kernel.step);
  push.splits = vulkan::word(ceil_div(p.k, static_cast<std::int64_t>(push.k_per_split)));
  bool split = push.splits > 1;
  std::int64_t results = p.m * p.n * matrices;
  Tensor partial = split ? empty({static_cast<std::int64_t>(push.splits) * results}, {f32, y.device()}) : y;
  if (split) push.y = partial.address();

  bool with_bias = bias.defined() && !split;
  auto a_width = width(push.a, t, a_along_k ? p.k : p.m, {push.lda, push.a_strides[0], push.a_strides[1]});
  auto b_width = width(push.b, t, b_along_k ? p.k : p.n, {push.ldb, push.b_strides[0], push.b_strides[1]});
  auto y_width = width(push.y, partial.dtype(), p.n, {});
  vulkan::launch(
      kernel.shader, call,
      {vulkan::word(t), vulkan::word(partial.dtype()), vulkan::word(a_along_k), vulkan::word(b_along_k),
       vulkan::word(a_width), vulkan::word(b_width), vulkan::word(y_width), vulkan::word(with_bias),
       vulkan::word(p.m % cut.tile == 0), vulkan::word(p.n % cut.tile == 0), vulkan::word(p.k % kernel.step == 0)},
      push, vulkan::grid(tiles_m * tiles_n * matrices * static_cast<std::int64_t>(push.splits)),
      {&p.a, &p.b, with_bias ? &bias : nullptr}, {&partial});
  if (!split) return;
  ReducePush reduce{partial.address(),
                    y.address() + static_cast<std::uint64_t>(y_at * item),
                    push.bias,
                    vulkan::word(results),
                    push.n,
                    push.splits};
  vulkan::launch(shaders::gemm_reduce, call, {vulkan::word(t), vulkan::word(bias.defined())}, reduce,
                 vulkan::grid(ceil_div(results, 256)), {&partial, &bias}, {&y});
}

/// Batch dimensions that strides keep from merging into two are walked here.
void launch_outer(const OpCall& call, const Plan& p, int dim, const Tensor& bias, Tensor& y, std::int64_t a_at,
                  std::int64_t b_at, std::int64_t y_at) {
  if (p.batch.rank() - dim <= 2) {
    launch(call, p, bias, y, a_at, b_at, y_at);
    return;
  }
  std::int64_t below = p.m * p.n;
  for (int d = dim + 1; d < p.batch.rank(); ++d) below *= p.batch[d];
  for (std::int64_t i = 0; i < p.batch[dim]; ++i) {
    launch_outer(call, p, dim + 1, bias, y, a_at + i * p.a_batch[dim], b_at + i * p.b_batch[dim], y_at + i * below);
  }
}

}  // namespace

bool vulkan(const OpCall& call, const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  if (a.size(-1) == 0) {
    if (bias.defined())
      y.copy_(bias);
    else
      y.zero_();
    return true;
  }
  Plan p = plan(a, b);
  launch_outer(call, p, 0, bias.defined() ? bias.contiguous() : bias, y, 0, 0, 0);
  return true;
}

}  // namespace etna::product
