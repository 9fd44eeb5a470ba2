#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace etna::serve {

/// How often durations were at most so many seconds, for Prometheus.
struct Histogram {
  static constexpr std::array<double, 16> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                     0.5,   1,      2.5,   5,    10,    30,   60,  300};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  ///< not cumulative; the last: longer than all bounds
  double sum = 0;

  void add(double seconds) {
    std::size_t i = 0;
    while (i < kBounds.size() && seconds > kBounds[i]) ++i;
    ++counts[i];
    sum += seconds;
  }
};

}  // namespace etna::serve
