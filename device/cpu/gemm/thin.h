#pragma once

#include <etna/device/cpu/gemm/blas.h>

namespace etna::cpu {

/// Rows (or columns) of a product that is thin: bound by the bytes of its large operand, which is read once, in the
/// order in which it lies.
inline constexpr std::int64_t kThin = 8;

inline bool is_thin(const Gemm& g) { return g.m <= kThin || g.n <= kThin; }

/// A thin product, on all threads or on this one; S is float or Bf16. An element's sum is made by one thread, in one
/// order: its bits do not depend on the number of threads.
template <typename S>
void multiply_thin(const Gemm& g, float alpha, const S* a, const S* b, float beta, float* c, bool all_threads,
                   const Finish& finish);

}  // namespace etna::cpu
