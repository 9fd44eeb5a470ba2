#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <etna/tensor/ops/linalg/internal/factors.h>

namespace etna::linalg::raw {
namespace {

constexpr std::int64_t kBlock = 32;

/// y -= f · x
template <typename T>
void subtract_row(T f, const T* x, std::int64_t n, T* y) {
  for (std::int64_t j = 0; j < n; ++j) y[j] -= f * x[j];
}

/// LU of columns [begin, end), from row begin on. Swaps whole rows.
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

namespace {

std::size_t entries(std::int64_t n) { return static_cast<std::size_t>(n * n); }
double largest_of(const std::vector<double>& x) {
  double most = 0;
  for (double v : x) most = std::max(most, std::abs(v));
  return most;
}

/// The cofactors by the inverse. Empty if so few of its digits are right that dividing by the last pivot would be
/// wrong.
std::vector<double> cofactors_by_inverse(std::int64_t n, const std::vector<double>& a) {
  constexpr double kMostCondition = 1e8;
  std::vector<double> factor = a, x(entries(n), 0);
  std::vector<std::int32_t> swapped(static_cast<std::size_t>(n));
  lu(n, n, factor.data(), swapped.data());
  double det = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    x[static_cast<std::size_t>(i * n + i)] = 1;
    det *= factor[static_cast<std::size_t>(i * n + i)];
  }
  if (det == 0 || !std::isfinite(det)) return {};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t other = swapped[static_cast<std::size_t>(i)];
    if (other == i) continue;
    std::swap_ranges(x.data() + i * n, x.data() + (i + 1) * n, x.data() + other * n);
    det = -det;
  }
  solve_triangular(false, true, n, n, factor.data(), n, x.data(), n);
  solve_triangular(true, false, n, n, factor.data(), n, x.data(), n);
  if (!(largest_of(a) * largest_of(x) * static_cast<double>(n) < kMostCondition)) return {};
  std::vector<double> y(entries(n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      y[static_cast<std::size_t>(i * n + j)] = det * x[static_cast<std::size_t>(j * n + i)];
  }
  return y;
}

}  // namespace

/// shaders/linalg/small_matrix.comp explains the second half.
std::vector<double> cofactors(std::int64_t n, const std::vector<double>& a) {
  if (std::vector<double> y = cofactors_by_inverse(n, a); !y.empty()) return y;
  std::vector<double> u = a, x(entries(n), 0), y(entries(n), 0);
  std::vector<std::int64_t> columns(static_cast<std::size_t>(n));
  std::iota(columns.begin(), columns.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i * n + i)] = 1;
  const auto row = [n](std::vector<double>& of, std::int64_t i) { return of.data() + i * n; };
  double factor = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t from = k, best = k;
    for (std::int64_t i = k; i < n; ++i) {
      for (std::int64_t j = k; j < n; ++j) {
        if (std::abs(row(u, i)[j]) > std::abs(row(u, from)[best])) from = i, best = j;
      }
    }
    if (from != k) {
      std::swap_ranges(row(u, k), row(u, k) + n, row(u, from));
      std::swap_ranges(row(x, k), row(x, k) + n, row(x, from));
      factor = -factor;
    }
    if (best != k) {
      for (std::int64_t i = 0; i < n; ++i) std::swap(row(u, i)[k], row(u, i)[best]);
      std::swap(columns[static_cast<std::size_t>(k)], columns[static_cast<std::size_t>(best)]);
      factor = -factor;
    }
    const double pivot = row(u, k)[k];
    if (k + 1 < n) factor *= pivot;
    for (std::int64_t i = k + 1; i < n && pivot != 0; ++i) {
      const double f = row(u, i)[k] / pivot;
      subtract_row(f, row(u, k) + k + 1, n - k - 1, row(u, i) + k + 1);
      subtract_row(f, row(x, k), n, row(x, i));
    }
  }
  if (factor == 0) return y;
  const std::int64_t last = n - 1;
  const double d = row(u, last)[last];
  for (std::int64_t i = 0; i < last; ++i) {
    for (std::int64_t j = 0; j < n; ++j) row(x, i)[j] = d * row(x, i)[j] - row(u, i)[last] * row(x, last)[j];
  }
  solve_triangular(true, false, last, n, u.data(), n, x.data(), n);
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t j = 0; j < n; ++j) row(y, j)[columns[static_cast<std::size_t>(k)]] = factor * row(x, k)[j];
  }
  return y;
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
