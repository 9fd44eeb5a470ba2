#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

#include <fmt/format.h>

// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>

namespace etna::cpu {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Map = Eigen::Map<T, Eigen::Unaligned, Eigen::OuterStride<>>;

template <typename T>
void eigen_multiply(const Gemm& g, T alpha, const T* a, const T* b, T beta, T* c) {
  Map<const Matrix<T>> ma(a, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, Eigen::OuterStride<>(g.lda));
  Map<const Matrix<T>> mb(b, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, Eigen::OuterStride<>(g.ldb));
  Map<Matrix<T>> mc(c, g.m, g.n, Eigen::OuterStride<>(g.ldc));
  if (beta == T(0))
    mc.setZero();
  else if (beta != T(1))
    mc *= beta;
  if (g.transpose_a && g.transpose_b)
    mc.noalias() += alpha * ma.transpose() * mb.transpose();
  else if (g.transpose_a)
    mc.noalias() += alpha * ma.transpose() * mb;
  else if (g.transpose_b)
    mc.noalias() += alpha * ma * mb.transpose();
  else
    mc.noalias() += alpha * ma * mb;
}

std::string eigen_name() {
  return fmt::format("Eigen {}.{}.{} ({})", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION,
                     Eigen::SimdInstructionSetsInUse());
}

}  // namespace

const Library& eigen() {
  static const Library library{.f32 = eigen_multiply<float>, .f64 = eigen_multiply<double>, .name = eigen_name()};
  return library;
}

}  // namespace etna::cpu
