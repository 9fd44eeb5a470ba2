#pragma once

#include <cstdint>

/// Reductions of a contiguous run in independent SIMD lanes, so that they vectorize although float addition is not
/// associative. The order of additions depends on n only.
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

}  // namespace etna::rows
