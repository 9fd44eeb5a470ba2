#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/cpu/transpose.h>
#include <etna/tensor/ops/linalg/internal/decompositions.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

// LAPACK reads matrices by columns, so a row-major A appears as Aᵀ. Where Aᵀ serves as well, A is not transposed: Aᵀ =
// V · S · Uᵀ.
namespace etna::linalg::raw {
namespace {

using Int = std::int32_t;
using Length = std::size_t;  // length of a string argument, which Fortran passes last

using Gesdd = void(const char* vectors, const Int* m, const Int* n, double* a, const Int* lda, double* s, double* u,
                   const Int* ldu, double* vt, const Int* ldvt, double* work, const Int* lwork, Int* iwork, Int* info,
                   Length);
using Syevd = void(const char* vectors, const char* triangle, const Int* n, double* a, const Int* lda, double* values,
                   double* work, const Int* lwork, Int* iwork, const Int* liwork, Int* info, Length, Length);
using Geev = void(const char* left, const char* right, const Int* n, double* a, const Int* lda, double* real,
                  double* imag, double* vl, const Int* ldvl, double* vr, const Int* ldvr, double* work,
                  const Int* lwork, Int* info, Length, Length);
template <typename T>
using Geqrf = void(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork, Int* info);
template <typename T>
using Orgqr = void(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work,
                   const Int* lwork, Int* info);

template <typename F>
F* find_in_lapack(const char* name) {
  return reinterpret_cast<F*>(cpu::openblas_function(name));
}

struct Lapack {
  Gesdd* gesdd = find_in_lapack<Gesdd>("dgesdd_");
  Syevd* syevd = find_in_lapack<Syevd>("dsyevd_");
  Geev* geev = find_in_lapack<Geev>("dgeev_");
  Geqrf<float>* geqrf_f32 = find_in_lapack<Geqrf<float>>("sgeqrf_");
  Geqrf<double>* geqrf_f64 = find_in_lapack<Geqrf<double>>("dgeqrf_");
  Orgqr<float>* orgqr_f32 = find_in_lapack<Orgqr<float>>("sorgqr_");
  Orgqr<double>* orgqr_f64 = find_in_lapack<Orgqr<double>>("dorgqr_");

  bool complete() const { return gesdd && syevd && geev && geqrf_f32 && geqrf_f64 && orgqr_f32 && orgqr_f64; }
};

const Lapack& lapack() {
  static const Lapack all;
  return all;
}

Int to_int(std::int64_t n) { return static_cast<Int>(n); }

/// Elements left uninitialized.
template <typename T>
std::unique_ptr<T[]> workspace(std::int64_t n) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(n));
}

// The minimum from LAPACK's manual, plus 64 columns or rows for blocked code.
std::int64_t gesdd_work(std::int64_t m, std::int64_t n) {
  const std::int64_t k = std::min(m, n);
  return 4 * k * k + 7 * k + std::max(m, n) + 64 * (m + n);
}
std::int64_t syevd_work(std::int64_t n) { return 2 * n * n + 6 * n + 1 + 64 * n; }

}  // namespace

void require_decompositions(const char* op, std::int64_t m, std::int64_t n) {
  if (!lapack().complete()) {
    throw LinalgError(fmt::format(
        "{}: needs LAPACK, which is part of OpenBLAS; libopenblas.so.0 was not found, or is built without LAPACK; "
        "install it (Debian: libopenblas0)",
        op));
  }
  constexpr std::int64_t kMost = std::numeric_limits<Int>::max(), kMostSide = kMost / 256;
  if (std::max(m, n) > kMostSide || gesdd_work(m, n) > kMost) {
    throw LinalgError(fmt::format("{}: LAPACK counts in 32 bits, too few for matrices of {} x {}", op, m, n));
  }
}

bool svd(std::int64_t m, std::int64_t n, Vectors vectors, double* a, double* s, double* u, double* vh) {
  const char* job = vectors == Vectors::none ? "N" : vectors == Vectors::reduced ? "S" : "A";
  const std::int64_t k = std::min(m, n), length = gesdd_work(m, n);
  const Int rows = to_int(n), columns = to_int(m), lwork = to_int(length),
            ldvt = to_int(vectors == Vectors::full ? m : k);
  const auto work = workspace<double>(length);
  const auto iwork = workspace<Int>(8 * k);
  Int info = 0;
  const auto turn = cpu::openblas_turn();
  lapack().gesdd(job, &rows, &columns, a, &rows, s, vh, &rows, u, &ldvt, work.get(), &lwork, iwork.get(), &info, 1);
  return info == 0;
}

bool eigh(std::int64_t n, double* a, double* values) {
  const Int side = to_int(n), lwork = to_int(syevd_work(n)), liwork = to_int(5 * n + 3);
  const auto work = workspace<double>(lwork);
  const auto iwork = workspace<Int>(liwork);
  Int info = 0;
  const auto turn = cpu::openblas_turn();
  lapack().syevd("V", "U", &side, a, &side, values, work.get(), &lwork, iwork.get(), &liwork, &info, 1, 1);
  return info == 0;
}

bool eig(std::int64_t n, double* a, double* real, double* imag, double* vectors_real, double* vectors_imag) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) std::swap(a[i * n + j], a[j * n + i]);
  }
  const Int side = to_int(n), lwork = to_int(136 * n);
  const auto work = workspace<double>(lwork);
  Int info = 0;
  const auto turn = cpu::openblas_turn();
  lapack().geev("N", "V", &side, a, &side, real, imag, nullptr, &side, vectors_real, &side, work.get(), &lwork, &info,
                1, 1);
  if (info != 0) return false;
  // For a conjugate pair, LAPACK returns the real part, then the imaginary part.
  std::fill_n(vectors_imag, n * n, 0.0);
  for (std::int64_t k = 0; k + 1 < n; ++k) {
    if (imag[k] == 0) continue;
    double *const re = vectors_real + k * n, *const im = vectors_imag + k * n;
    std::copy_n(re + n, n, im);
    std::copy_n(re, n, re + n);
    std::transform(im, im + n, im + n, [](double x) { return -x; });
    ++k;
  }
  return true;
}

template <typename T>
void qr(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, T* q, T* r) {
  Geqrf<T>* geqrf;
  Orgqr<T>* orgqr;
  if constexpr (sizeof(T) == sizeof(double))
    geqrf = lapack().geqrf_f64, orgqr = lapack().orgqr_f64;
  else
    geqrf = lapack().geqrf_f32, orgqr = lapack().orgqr_f32;
  const std::int64_t reflections = std::min(m, n), length = 64 * std::max(n, k);
  const Int rows = to_int(m), columns = to_int(n), kept = to_int(k), count = to_int(reflections),
            lwork = to_int(length);
  const auto work = workspace<T>(length), tau = workspace<T>(reflections),
             by_columns = workspace<T>(m * std::max(n, k));
  T* const f = by_columns.get();
  cpu::transpose(a, n, f, m, n, m, sizeof(T));
  Int info = 0;
  const auto turn = cpu::openblas_turn();
  geqrf(&rows, &columns, f, &rows, tau.get(), work.get(), &lwork, &info);
  for (std::int64_t i = 0; i < k; ++i) {
    std::fill_n(r + i * n, std::min(i, n), T(0));
    for (std::int64_t j = i; j < n; ++j) r[i * n + j] = f[j * m + i];
  }
  orgqr(&rows, &kept, &count, f, &rows, tau.get(), work.get(), &lwork, &info);
  cpu::transpose(f, m, q, k, m, k, sizeof(T));
}
template void qr(std::int64_t, std::int64_t, std::int64_t, const float*, float*, float*);
template void qr(std::int64_t, std::int64_t, std::int64_t, const double*, double*, double*);

}  // namespace etna::linalg::raw
