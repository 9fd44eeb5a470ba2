#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>

/// Shared by the launchers of gemm.comp and of lib/gemm_matrix.glsl.
namespace etna::gemm {

/// A shader, the tile of results per workgroup, the step along k, and the first and last of its specialization
/// constants.
struct TiledShader {
  const gpu::Shader& shader;
  std::int64_t tile_m, tile_n, step, widest;  ///< widest: most elements that one load takes
  std::span<const std::uint32_t> first = {}, last = {};
  Pointer experts = {};  ///< i32, of each tile of rows; null: b is one matrix
  /// `experts` holds each one's first step of k and the one after its last; the batch are experts.
  bool k_by_expert = false;
  Pointer points = {};  ///< of grids, in the place of the strides of the only b, which is in blocks; null: none
};

/// The matrix shape that lib/gemm_matrix.glsl uses for operands of f16 or bf16; null if the device has none.
const gpu::MatrixShape* coopmat_shape(const gpu::Capabilities& can, DType t);

/// Queues a gemm with k split into about `split_k` chunks, and the reduction of the partial sums.
void launch_tiled(const OpCall& call, const GemmParams& p, const TiledShader& kernel, std::int64_t split_k);

}  // namespace etna::gemm
