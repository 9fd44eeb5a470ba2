#pragma once

#include <etna/device/cpu/gemm/blas.h>

namespace etna::cpu {

/// How a product is shared out among threads: parts of rows × columns of c, and each of them `splits` times along k.
struct Cut {
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< of a task; those at the edges may have less
  std::int64_t splits = 1;

  bool operator==(const Cut&) const = default;
};

/// Chosen by a model of what a task costs: its multiplications, and the packing of its operands, which each task does
/// anew. Tasks that are few and large pack little; k is split only where m and n give too few.
/// @param threads at least 1
Cut choose_cut(const Gemm& g, int threads);

}  // namespace etna::cpu
