#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

/// Factors of one matrix, row-major without gaps, in place and on the calling thread: plain loops on blocks, gemms
/// between them. f32 and f64.
namespace etna::linalg::raw {

/// P · A = L · U with partial pivoting of a [m, n]; the ones of L are not stored. A pivot of zero is skipped.
/// @param swapped [min(m, n)]: row i was swapped with row swapped[i]
template <typename T>
void lu(std::int64_t m, std::int64_t n, T* a, std::int32_t* swapped);

/// L with A = L · Lᵀ. Reads the lower triangle and writes zeros above. Returns false at a pivot that is not positive.
template <typename T>
bool cholesky(std::int64_t n, T* a);

/// X with A · X = B for the triangle of a [n, n]. @param lda of a @param x [n, k]: B, then X
template <typename T>
void solve_triangular(bool upper, bool unit, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda, T* x,
                      std::int64_t ldx);

/// X with A · X = B from the result of lu(). @param x [n, k]: B, then X. Returns false, leaving x unchanged, if a pivot
/// is zero.
template <typename T>
bool solve(std::int64_t n, std::int64_t k, T* a, T* x);

/// det A · A⁻ᵀ, also for singular matrices. @param a [n, n]
std::vector<double> cofactors(std::int64_t n, const std::vector<double>& a);

template <typename T>
bool all_finite(const T* x, std::int64_t n);

/// c -= op(a) · op(b); sizes and strides are those of g.
template <typename T>
void subtract_product(const cpu::Gemm& g, const T* a, const T* b, T* c) {
  cpu::gemm_one_thread(g, T(-1), a, b, T(1), c);
}

}  // namespace etna::linalg::raw
