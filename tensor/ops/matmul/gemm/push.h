#pragma once

#include <etna/tensor/ops/matmul/gemm/finish.h>

/// What the kernels of gemm.comp and of lib/gemm_matrix.glsl have in common.
namespace etna::product {

struct Push {
  vulkan::Word64 a, b;
  Finish finish;
  std::uint32_t m, n, k, lda, ldb;
  std::uint32_t a_strides[2], b_strides[2];
  std::uint32_t inner, batch, k_per_split;
};
static_assert(sizeof(Push) == 120);

/// A kernel, the tile of results a workgroup of it owns, the step of k it works in, and what comes first and last among its
/// specialization constants.
struct Kernel {
  const gpu::Shader& shader;
  std::int64_t tile_m, tile_n, step, widest;  ///< widest: elements it may load at once
  std::span<const std::uint32_t> first = {}, last = {};
};

/// Records a product, its k in about `splits` parts, and what reduces them.
void launch_kernel(const OpCall& call, const Problem& p, const Kernel& kernel, std::int64_t splits);

}  // namespace etna::product
