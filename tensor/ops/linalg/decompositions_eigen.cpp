#include <algorithm>
#include <cmath>
#include <limits>

// The AVX-512 headers of GCC 12 warn of their own variables (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include <etna/tensor/ops/linalg/internal/decompositions.h>

namespace etna::linalg::raw {
namespace {

template <typename T>
using Rows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using Columns = Eigen::Map<Eigen::MatrixXd>;

Eigen::Index to_index(std::int64_t n) { return static_cast<Eigen::Index>(n); }
template <typename T>
Rows<T> as_rows(T* a, std::int64_t m, std::int64_t n) {
  return {a, to_index(m), to_index(n)};
}
Columns as_columns(double* a, std::int64_t n) { return {a, to_index(n), to_index(n)}; }

}  // namespace

void require_decompositions(const char*, std::int64_t, std::int64_t) {}

bool svd(std::int64_t m, std::int64_t n, Vectors vectors, double* a, double* s, double* u, double* vh) {
  const std::int64_t k = std::min(m, n);
  const unsigned what = vectors == Vectors::none      ? 0
                        : vectors == Vectors::reduced ? Eigen::ComputeThinU | Eigen::ComputeThinV
                                                      : Eigen::ComputeFullU | Eigen::ComputeFullV;
  const Eigen::BDCSVD<Eigen::MatrixXd> found(as_rows(a, m, n), what);
  std::copy_n(found.singularValues().data(), k, s);
  if (vectors != Vectors::none) {
    as_rows(u, m, vectors == Vectors::full ? m : k) = found.matrixU();
    as_rows(vh, vectors == Vectors::full ? n : k, n) = found.matrixV().transpose();
  }
  return found.info() == Eigen::Success;
}

bool eigh(std::int64_t n, double* a, double* values) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> found(as_rows(a, n, n));
  std::copy_n(found.eigenvalues().data(), n, values);
  as_columns(a, n) = found.eigenvectors();
  return found.info() == Eigen::Success;
}

bool eig(std::int64_t n, double* a, double* real, double* imag, double* vectors_real, double* vectors_imag) {
  const Eigen::EigenSolver<Eigen::MatrixXd> found(as_rows(a, n, n));
  if (found.info() != Eigen::Success) return false;
  for (Eigen::Index k = 0; k < to_index(n); ++k) {
    real[k] = found.eigenvalues()[k].real();
    imag[k] = found.eigenvalues()[k].imag();
  }
  const Eigen::MatrixXcd vectors = found.eigenvectors();
  as_columns(vectors_real, n) = vectors.real();
  as_columns(vectors_imag, n) = vectors.imag();
  return true;
}

template <typename T>
void qr(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, T* q, T* r) {
  using Plain = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  // Eigen squares elements without scaling: a power of two brings the largest near 1.
  const Eigen::Map<const Plain> given(a, to_index(m), to_index(n));
  using Limits = std::numeric_limits<T>;
  int exponent = 0;
  if (const T largest = given.cwiseAbs().maxCoeff(); largest <= Limits::max()) std::frexp(largest, &exponent);
  exponent = std::clamp(exponent, Limits::min_exponent + 1, Limits::max_exponent - 1);
  const Eigen::HouseholderQR<Plain> factor(given * std::ldexp(T(1), -exponent));
  as_rows(q, m, k) = factor.householderQ() * Plain::Identity(to_index(m), to_index(k));
  as_rows(r, k, n) = factor.matrixQR().topRows(to_index(k)).template triangularView<Eigen::Upper>();
  as_rows(r, k, n) *= std::ldexp(T(1), exponent);
}
template void qr(std::int64_t, std::int64_t, std::int64_t, const float*, float*, float*);
template void qr(std::int64_t, std::int64_t, std::int64_t, const double*, double*, double*);

}  // namespace etna::linalg::raw
