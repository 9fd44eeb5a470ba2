#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

namespace etna::cpu {

/// The tiling of a gemm over threads: tiles of rows × columns of c, each with k split into `splits` chunks (split-K).
struct Tiling {
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< per task; tasks at the edges may have less
  std::int64_t splits = 1;

  bool operator==(const Tiling&) const = default;
};

/// Minimizes a cost model of a task: its multiplications, plus packing its operands, which every task repeats. A few
/// large tasks pack little; k is split only if m and n give too few tasks.
/// @param threads at least 1
Tiling choose_tiling(const Gemm& g, int threads);

}  // namespace etna::cpu
