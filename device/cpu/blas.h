#pragma once

#include <cstdint>

/// Matrix products on the host, row-major.
namespace etna::cpu {

/// c = alpha · op(a) · op(b) + beta · c, where op transposes if asked.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;        ///< op(a) is [m, k], op(b) is [k, n], c is [m, n]
  std::int64_t lda = 0, ldb = 0, ldc = 0;  ///< elements from one stored row to the next
};

/// By the BLAS, on all threads. Must not be called from inside parallel_for(): the BLAS has threads of its own.
/// With beta 0, c need not be initialized; k = 0 is allowed.
void gemm(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c);
void gemm(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c);

/// The same on the calling thread alone, for use inside parallel_for().
void gemm_one_thread(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c);
void gemm_one_thread(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c);

}  // namespace etna::cpu
