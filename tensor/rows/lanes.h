#pragma once

#include <cstdint>
#include <limits>

/// Reductions of a contiguous run in independent lanes, so that they vectorize though float addition does not associate. The
/// order of additions depends on n only.
namespace etna::rows {

inline constexpr int kLanes = 16;

/// Σ term(i) over [0, n), in Sum (double: exact enough for any run of floats).
template <typename Sum = double, typename Term>
Sum sum_of(std::int64_t n, const Term& term) {
  Sum lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += static_cast<Sum>(term(i + j));
  }
  for (int j = 0; i < n; ++i, ++j) lanes[j] += static_cast<Sum>(term(i));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

/// The largest of x[0, n); NaN where there is one. -inf for n = 0.
template <typename T>
T max_of(const T* x, std::int64_t n) {
  T lanes[kLanes], nans[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = -std::numeric_limits<T>::infinity(), nans[j] = T(0);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      T v = x[i + j];
      lanes[j] = v > lanes[j] ? v : lanes[j];
      nans[j] = v != v ? v : nans[j];
    }
  }
  for (int j = 0; i < n; ++i, ++j) {
    T v = x[i];
    lanes[j] = v > lanes[j] ? v : lanes[j];
    nans[j] = v != v ? v : nans[j];
  }
  T largest = lanes[0];
  for (int j = 0; j < kLanes; ++j) {
    if (nans[j] != nans[j]) return nans[j];
    largest = lanes[j] > largest ? lanes[j] : largest;
  }
  return largest;
}

}  // namespace etna::rows
