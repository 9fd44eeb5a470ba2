#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <etna/tensor/ops/linalg/factors.h>

namespace etna::linalg::raw {
namespace {

constexpr std::int64_t kBlock = 32;

/// y -= f · x
template <typename T>
void subtract_row(T f, const T* x, std::int64_t n, T* y) {
  for (std::int64_t j = 0; j < n; ++j) y[j] -= f * x[j];
}

/// LU of columns [begin, end), from row begin on. Rows are swapped whole.
template <typename T>
void lu_of_panel(std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t end, T* a, std::int32_t* swapped) {
  for (std::int64_t k = begin; k < end; ++k) {
    T* const pivot = a + k * n;
    std::int64_t best = k;
    T largest = std::abs(pivot[k]);
    for (std::int64_t i = k + 1; i < m; ++i) {
      if (const T size = std::abs(a[i * n + k]); size > largest) best = i, largest = size;
    }
    swapped[k] = static_cast<std::int32_t>(best);
    if (best != k) std::swap_ranges(pivot, pivot + n, a + best * n);
    if (pivot[k] == T(0)) continue;
    for (std::int64_t i = k + 1; i < m; ++i) {
      T* const row = a + i * n;
      row[k] /= pivot[k];
      subtract_row(row[k], pivot + k + 1, end - k - 1, row + k + 1);
    }
  }
}

}  // namespace

template <typename T>
void lu(std::int64_t m, std::int64_t n, T* a, std::int32_t* swapped) {
  const std::int64_t steps = std::min(m, n);
  for (std::int64_t begin = 0; begin < steps; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, steps), width = end - begin;
    lu_of_panel(m, n, begin, end, a, swapped);
    if (end == n) continue;
    T* const right = a + begin * n + end;
    solve_triangular(false, true, width, n - end, a + begin * n + begin, n, right, n);
    subtract_product({.m = m - end, .n = n - end, .k = width, .lda = n, .ldb = n, .ldc = n}, a + end * n + begin, right,
                     a + end * n + end);
  }
}

template <typename T>
bool cholesky(std::int64_t n, T* a) {
  std::array<T, kBlock> column;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t width = std::min(kBlock, n - begin), rows = n - begin;
    const T* const left = a + begin * n;
    T* const panel = a + begin * n + begin;
    subtract_product({.transpose_b = true, .m = rows, .n = width, .k = begin, .lda = n, .ldb = n, .ldc = n}, left, left,
                     panel);
    for (std::int64_t c = 0; c < width; ++c) {
      const T pivot = panel[c * n + c];
      if (!(pivot > T(0))) return false;
      const T root = std::sqrt(pivot);
      panel[c * n + c] = root;
      for (std::int64_t i = c + 1; i < rows; ++i) panel[i * n + c] /= root;
      for (std::int64_t j = c + 1; j < width; ++j) column[static_cast<std::size_t>(j)] = panel[j * n + c];
      for (std::int64_t i = c + 1; i < rows; ++i) {
        T* const row = panel + i * n;
        subtract_row(row[c], column.data() + c + 1, width - c - 1, row + c + 1);
      }
    }
    for (std::int64_t i = 0; i < width; ++i) std::fill_n(panel + i * n + i + 1, rows - i - 1, T(0));
  }
  return true;
}

template <typename T>
void solve_triangular(bool upper, bool unit, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda, T* x,
                      std::int64_t ldx) {
  if (n > kBlock) {
    const std::int64_t half = n / 2 / kBlock * kBlock + (n < 2 * kBlock ? kBlock : 0), rest = n - half;
    const T* const corner = a + half * lda + half;
    T* const below = x + half * ldx;
    if (upper) {
      solve_triangular(upper, unit, rest, k, corner, lda, below, ldx);
      subtract_product({.m = half, .n = k, .k = rest, .lda = lda, .ldb = ldx, .ldc = ldx}, a + half, below, x);
      solve_triangular(upper, unit, half, k, a, lda, x, ldx);
    } else {
      solve_triangular(upper, unit, half, k, a, lda, x, ldx);
      subtract_product({.m = rest, .n = k, .k = half, .lda = lda, .ldb = ldx, .ldc = ldx}, a + half * lda, x, below);
      solve_triangular(upper, unit, rest, k, corner, lda, below, ldx);
    }
    return;
  }
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = upper ? n - 1 - step : step;
    const T* const row = a + i * lda;
    T* const to = x + i * ldx;
    for (std::int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) subtract_row(row[j], x + j * ldx, k, to);
    if (unit) continue;
    for (std::int64_t c = 0; c < k; ++c) to[c] /= row[i];
  }
}

template <typename T>
bool solve(std::int64_t n, std::int64_t k, T* a, T* x) {
  std::vector<std::int32_t> swapped(static_cast<std::size_t>(n));
  lu(n, n, a, swapped.data());
  for (std::int64_t i = 0; i < n; ++i) {
    if (a[i * n + i] == T(0)) return false;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t other = swapped[static_cast<std::size_t>(i)];
    if (other != i) std::swap_ranges(x + i * k, x + (i + 1) * k, x + other * k);
  }
  solve_triangular(false, true, n, k, a, n, x, k);
  solve_triangular(true, false, n, k, a, n, x, k);
  return true;
}

template <typename T>
bool all_finite(const T* x, std::int64_t n) {
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) finite &= std::abs(x[i]) <= std::numeric_limits<T>::max();
  return finite;
}

#define ETNA_FACTORS(T)                                                                                             \
  template void lu(std::int64_t, std::int64_t, T*, std::int32_t*);                                                  \
  template bool cholesky(std::int64_t, T*);                                                                         \
  template void solve_triangular(bool, bool, std::int64_t, std::int64_t, const T*, std::int64_t, T*, std::int64_t); \
  template bool solve(std::int64_t, std::int64_t, T*, T*);                                                          \
  template bool all_finite(const T*, std::int64_t);
ETNA_FACTORS(float)
ETNA_FACTORS(double)
#undef ETNA_FACTORS

}  // namespace etna::linalg::raw
