#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

namespace etna::cpu {

/// A gemm with at most this many rows (or columns) is skinny: bound by the bytes of its large operand, which is read
/// once, in memory order.
inline constexpr std::int64_t kMostSkinnyRows = 8;

inline bool is_skinny(const Gemm& g) { return g.m <= kMostSkinnyRows || g.n <= kMostSkinnyRows; }

/// A skinny gemm, on all threads or on this one; S is float or Bf16. One thread sums each element in a fixed order, so
/// the bits do not depend on the number of threads.
template <typename S>
void multiply_skinny(const Gemm& g, float alpha, const S* a, const S* b, float beta, float* c, bool all_threads,
                     const Finish& finish);

}  // namespace etna::cpu
