#pragma once

#include <initializer_list>

#include <etna/tensor/ops/matmul/gemm/problem.h>
#include <etna/tensor/vulkan.h>

/// The Vulkan side of an epilogue: what shaders/lib/finish.glsl reads.
namespace etna::product {

/// The part of the push constants that says where results go and what is done to them.
struct Finish {
  vulkan::Word64 y, bias, beside, residual, scale_by;  ///< beside: `pre` or `derivative_at`
  std::uint32_t ldy = 0, ld_beside = 0, ld_residual = 0;
  float scale = 1;

  Finish() = default;
  explicit Finish(const Problem& p);
};
static_assert(sizeof(Finish) == 56);

/// The specialization constants that belong to it, and how many neighbouring elements all of its tensors can be reached at.
struct FinishKinds {
  std::uint32_t flags = 0, y, bias, beside, residual;
  std::int64_t width = 1;

  FinishKinds();
  explicit FinishKinds(const Problem& p);
};

/// Elements that may be loaded at once, 4, 2 or 1, or more up to `widest`: all of `strides` must keep the alignment. The last of a row
/// may reach beyond its end, where the row's padding is.
std::int64_t width(std::uint64_t address, DType dtype, std::initializer_list<std::int64_t> strides,
                   std::int64_t widest = 4);

/// Of that, what rows of n are made of to their end.
inline std::int64_t whole(std::int64_t width, std::int64_t n) {
  while (n % width != 0) width /= 2;
  return width;
}

/// Where k is split: f32 sums [splits, matrices, m, n], to which reduce() does the rest.
Finish partial_sums(const Tensor& partial, std::int64_t n);
void reduce(const OpCall& call, const Problem& p, const Tensor& partial, std::int64_t splits);

}  // namespace etna::product
