#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include <etna/device/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// Gemms of Hopper kernels whose operands are not matrices in memory.
namespace etna::gemm {

enum class CubinLayout { nn, nt, tn };

/// A family of kernels with the same tiles as launch_cubin()'s.
struct CubinFamily {
  CubinLayout layout = CubinLayout::nt;  ///< the layout of the gemm whose tiling suits the family
  /// For tiles of 128 rows, of 256 rows, of 256 rows by 64 columns, and the same for a b of at most nine steps of k.
  /// f32 has the first and the third.
  std::array<const gpu::CubinKernel*, 4> kernels = {};
  std::function<std::optional<Arguments>(std::int64_t rows, std::int64_t step)> a, b;  ///< tensor maps for a tile
  std::array<std::uint32_t, 14> more = {};                                             ///< parameters after the gemm's
};

/// @param params one matrix; a and b are not read
/// @return false if the device or the build has no such kernel, it would be slower, or an operand has no tensor map
bool launch_cubin_family(const OpCall& call, const GemmParams& params, const CubinFamily& family);

}  // namespace etna::gemm
