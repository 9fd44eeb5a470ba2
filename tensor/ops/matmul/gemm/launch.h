#pragma once

#include <etna/tensor/ops/matmul/gemm/epilogue.h>

/// What the kernels of gemm.comp and of lib/gemm_matrix.glsl have in common.
namespace etna::gemm {

/// A shader, the tile of results that a workgroup of it owns, the step of k it works in, and what comes first and last
/// among its specialization constants.
struct TiledShader {
  const gpu::Shader& shader;
  std::int64_t tile_m, tile_n, step, widest;  ///< widest: elements it may load at once
  std::span<const std::uint32_t> first = {}, last = {};
};

/// Records a gemm, its k split in about `split_k`, and what reduces the partial sums.
void launch_tiled(const OpCall& call, const GemmParams& p, const TiledShader& kernel, std::int64_t split_k);

}  // namespace etna::gemm
