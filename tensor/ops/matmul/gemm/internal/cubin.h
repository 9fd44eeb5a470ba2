#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include <etna/device/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// Gemms of Hopper's kernels whose operands are not matrices in memory.
namespace etna::gemm {

enum class CubinLayout { nn, nt, tn };

/// A kernel of another family with the tiles of those of launch_cubin().
struct CubinFamily {
  CubinLayout layout = CubinLayout::nt;  ///< the gemm whose tiling suits it
  /// For tiles of 128 and of 256 rows, and for 256 rows of 64 columns. f32 has the first and the last.
  std::array<const gpu::CubinKernel*, 3> kernels = {};
  std::function<std::optional<Arguments>(std::int64_t rows, std::int64_t step)> a, b;  ///< tensor maps, by the tile
  std::array<std::uint32_t, 14> more = {};                                             ///< behind the gemm's parameters
};

/// @param params one matrix; a and b are not read
/// @return false if the device or the build has no such kernel, it would not pay, or an operand has no map
bool launch_cubin_family(const OpCall& call, const GemmParams& params, const CubinFamily& family);

}  // namespace etna::gemm
