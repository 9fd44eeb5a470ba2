#pragma once

#include <etna/device/cpu/gemm/blas.h>

namespace etna::cpu {

/// A gemm with at most this many rows (or columns) is skinny: bound by the bytes of its large operand, which is read
/// once, in memory order.
inline constexpr std::int64_t kThin = 8;

inline bool is_thin(const Gemm& g) { return g.m <= kThin || g.n <= kThin; }

/// A skinny gemm, on all threads or on this one; S is float or Bf16. One thread sums each element in a fixed order, so
/// the bits do not depend on the number of threads.
template <typename S>
void multiply_thin(const Gemm& g, float alpha, const S* a, const S* b, float beta, float* c, bool all_threads,
                   const Finish& finish);

}  // namespace etna::cpu
