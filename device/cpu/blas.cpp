#include <etna/device/cpu/blas.h>

#include <algorithm>

#include <cblas.h>

// GCC 12 takes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>

namespace etna::cpu {
namespace {

template <typename T>
void scale(const Gemm& g, T beta, T* c) {
  for (std::int64_t i = 0; i < g.m; ++i) {
    T* row = c + i * g.ldc;
    if (beta == T(0)) {
      std::fill_n(row, g.n, T(0));
    } else if (beta != T(1)) {
      for (std::int64_t j = 0; j < g.n; ++j) row[j] *= beta;
    }
  }
}

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Map = Eigen::Map<T, Eigen::Unaligned, Eigen::OuterStride<>>;

template <typename T>
void eigen(const Gemm& g, T alpha, const T* a, const T* b, T beta, T* c) {
  scale(g, beta, c);
  if (g.m == 0 || g.n == 0 || g.k == 0) return;
  Map<const Matrix<T>> ma(a, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, Eigen::OuterStride<>(g.lda));
  Map<const Matrix<T>> mb(b, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, Eigen::OuterStride<>(g.ldb));
  Map<Matrix<T>> mc(c, g.m, g.n, Eigen::OuterStride<>(g.ldc));
  if (g.transpose_a && g.transpose_b)
    mc.noalias() += alpha * ma.transpose() * mb.transpose();
  else if (g.transpose_a)
    mc.noalias() += alpha * ma.transpose() * mb;
  else if (g.transpose_b)
    mc.noalias() += alpha * ma * mb.transpose();
  else
    mc.noalias() += alpha * ma * mb;
}

CBLAS_TRANSPOSE flag(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }
blasint narrow(std::int64_t n) { return static_cast<blasint>(n); }
blasint leading(std::int64_t ld, std::int64_t columns) { return narrow(std::max<std::int64_t>({ld, columns, 1})); }

template <typename T, typename F>
void blas(const Gemm& g, F function, T alpha, const T* a, const T* b, T beta, T* c) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    scale(g, beta, c);
    return;
  }
  function(CblasRowMajor, flag(g.transpose_a), flag(g.transpose_b), narrow(g.m), narrow(g.n), narrow(g.k), alpha, a,
           leading(g.lda, g.transpose_a ? g.m : g.k), b, leading(g.ldb, g.transpose_b ? g.k : g.n), beta, c,
           leading(g.ldc, g.n));
}

}  // namespace

void gemm(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  blas(g, cblas_sgemm, alpha, a, b, beta, c);
}
void gemm(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c) {
  blas(g, cblas_dgemm, alpha, a, b, beta, c);
}

void gemm_one_thread(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  eigen(g, alpha, a, b, beta, c);
}
void gemm_one_thread(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c) {
  eigen(g, alpha, a, b, beta, c);
}

}  // namespace etna::cpu
