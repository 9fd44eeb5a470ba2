#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hopper/emulator.h"

// What tests of attention's kernels for Hopper share.
namespace hopper {

using U32 = std::uint32_t;
inline constexpr float kLog2E = 1.44269504088896f;

struct Sizes {
  U32 batch, heads, groups, queries, keys, size;
  bool side_by_side = false;  ///< the heads of a row
  U32 value_size = 0;         ///< of heads of values; 0: as those of keys

  U32 of_values() const { return value_size > 0 ? value_size : size; }
};

/// [batch, heads, rows, size] of T.
template <typename T>
struct HeadsOf {
  HeadsOf(const Sizes& s, U32 heads, U32 rows, T value) : HeadsOf(s, heads, rows, s.size, value) {}
  HeadsOf(const Sizes& s, U32 heads, U32 rows, U32 size, T value)
      : batch(s.batch),
        heads(heads),
        rows(rows),
        size(size),
        strides{heads * rows * size, s.side_by_side ? size : rows * size, s.side_by_side ? heads * size : size},
        values(std::size_t{batch} * strides[0], value) {}

  std::size_t at(U32 b, U32 h, U32 row, U32 i) const {
    return std::size_t{b} * strides[0] + h * strides[1] + row * strides[2] + i;
  }

  U32 batch, heads, rows, size, strides[3];  ///< of batch, head and row
  std::vector<T> values;
};

/// The norm of the difference over the norm; infinite if a value is NaN.
inline double distance(const std::vector<float>& found, const std::vector<double>& wanted) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double difference = found[i] - wanted[i];
    off += difference * difference, size += wanted[i] * wanted[i];
  }
  const double relative = std::sqrt(off / std::max(size, 1e-30));
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}
/// The same of bf16.
inline double distance(const std::vector<std::uint16_t>& found, const std::vector<double>& wanted) {
  std::vector<float> floats(found.size());
  std::transform(found.begin(), found.end(), floats.begin(), emulated::from_bf16);
  return distance(floats, wanted);
}

/// Weights and their gradients are rounded to bf16 once, and so are results.
inline constexpr double kBound = 4e-3;

class HopperAttention : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "there is one thread, and its fibers look like calls that never return";
#endif
  }
};

}  // namespace hopper
