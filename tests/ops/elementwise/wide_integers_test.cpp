#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/reduce/reduce.h>
#include <etna/tensor/ops/sorting/sorting.h>

#include "ops/rows.h"

// i64 beyond 32 bits, whose words carry into each other and wrap around: devices without 64-bit integers compute on
// pairs of words.
namespace etna {
namespace {

using Whole = std::int64_t;
using Bits = std::uint64_t;
using Numbers = std::vector<Whole>;

/// Every edge of a word and of a sign now and then, otherwise any 64 bits.
Numbers wide_integers_numbers(std::size_t count, unsigned seed) {
  constexpr Whole kEdges[] = {0,
                              1,
                              -1,
                              0x7fffffff,
                              0x80000000,
                              0xffffffff,
                              0x100000000,
                              -0x100000000,
                              -0x80000001,
                              3,
                              std::numeric_limits<Whole>::max(),
                              std::numeric_limits<Whole>::min()};
  std::mt19937_64 bits(seed);
  Numbers made(count);
  for (Whole& v : made) {
    const Bits some = bits();
    v = some % 3 == 0 ? kEdges[some / 3 % std::size(kEdges)] : static_cast<Whole>(bits() | 1);
  }
  return made;
}

Whole plus(Whole a, Whole b) { return static_cast<Whole>(static_cast<Bits>(a) + static_cast<Bits>(b)); }
Whole times(Whole a, Whole b) { return static_cast<Whole>(static_cast<Bits>(a) * static_cast<Bits>(b)); }

template <typename Combine>
Numbers running(const Numbers& x, Whole first, const Combine& combine) {
  Numbers y;
  for (Whole v : x) y.push_back(first = combine(first, v));
  return y;
}

class WideIntegers : public ::testing::TestWithParam<int> {};

TEST_P(WideIntegers, ReduceAndScanWithCarriesAndWrapAround) {
  const auto n = static_cast<std::size_t>(GetParam());
  const Numbers x = wide_integers_numbers(n, GetParam());
  const auto least = std::numeric_limits<Whole>::min(), most = std::numeric_limits<Whole>::max();
  const auto larger = [](Whole a, Whole b) { return std::max(a, b); };
  const auto smaller = [](Whole a, Whole b) { return std::min(a, b); };
  for (Device device : op_tests::devices()) {
    SCOPED_TRACE(device.str());
    const Tensor on = from_vector(x, {GetParam()}).to(device);
    EXPECT_EQ(sum(on).item<Whole>(), running(x, 0, plus).back());
    EXPECT_EQ(prod(on).item<Whole>(), running(x, 1, times).back());
    EXPECT_EQ(amax(on).item<Whole>(), *std::max_element(x.begin(), x.end()));
    EXPECT_EQ(amin(on).item<Whole>(), *std::min_element(x.begin(), x.end()));
    EXPECT_EQ(argmax(on, 0).item<Whole>(), std::max_element(x.begin(), x.end()) - x.begin());
    EXPECT_EQ(argmin(on, 0).item<Whole>(), std::min_element(x.begin(), x.end()) - x.begin());
    EXPECT_EQ(cumsum(on, 0).to_vector<Whole>(), running(x, 0, plus));
    EXPECT_EQ(cumprod(on, 0).to_vector<Whole>(), running(x, 1, times));
    EXPECT_EQ(cummax(on, 0).values.to_vector<Whole>(), running(x, least, larger));
    EXPECT_EQ(cummin(on, 0).values.to_vector<Whole>(), running(x, most, smaller));
    // Columns of a matrix, and rows of narrower integers whose sums are i64.
    const Tensor columns = from_vector(x, {GetParam(), 1}).to(device).expand({GetParam(), 3}).contiguous();
    EXPECT_EQ(sum(columns, {0}).to_vector<Whole>(), Numbers(3, running(x, 0, plus).back()));
    EXPECT_EQ(sum(full({GetParam()}, 2147483647, {i32, device})).item<Whole>(), 2147483647 * Whole{GetParam()});
  }
}

TEST_P(WideIntegers, ScatterByIndices) {
  const auto n = static_cast<std::size_t>(GetParam());
  const Numbers x = wide_integers_numbers(n, 2 * GetParam() + 1);
  constexpr std::size_t kPlaces = 5;
  Numbers places, sums(kPlaces, -1), products(kPlaces, -1), largest(kPlaces, -1), smallest(kPlaces, -1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t to = i * i % kPlaces;
    places.push_back(static_cast<Whole>(to));
    sums[to] = plus(sums[to], x[i]);
    products[to] = times(products[to], x[i]);
    largest[to] = std::max(largest[to], x[i]);
    smallest[to] = std::min(smallest[to], x[i]);
  }
  for (Device device : op_tests::devices()) {
    SCOPED_TRACE(device.str());
    const Tensor on = from_vector(x, {GetParam()}).to(device), at = from_vector(places, {GetParam()}).to(device),
                 start = full({kPlaces}, -1, {i64, device});
    EXPECT_EQ(scatter_add(start, 0, at, on).to_vector<Whole>(), sums);
    EXPECT_EQ(index_add(start, 0, at, on).to_vector<Whole>(), sums);
    EXPECT_EQ(scatter_reduce(start, 0, at, on, "prod").to_vector<Whole>(), products);
    EXPECT_EQ(scatter_reduce(start, 0, at, on, "amax").to_vector<Whole>(), largest);
    EXPECT_EQ(scatter_reduce(start, 0, at, on, "amin").to_vector<Whole>(), smallest);
  }
}

TEST_P(WideIntegers, Multiply) {
  const Whole k = GetParam();
  const Numbers a = wide_integers_numbers(static_cast<std::size_t>(3 * k), 7),
                b = wide_integers_numbers(static_cast<std::size_t>(k * 2), 8);
  Numbers want(6, 0);
  for (Whole i = 0; i < 3; ++i) {
    for (Whole j = 0; j < 2; ++j) {
      for (Whole c = 0; c < k; ++c) {
        Whole& to = want[static_cast<std::size_t>(2 * i + j)];
        to = plus(to, times(a[static_cast<std::size_t>(i * k + c)], b[static_cast<std::size_t>(2 * c + j)]));
      }
    }
  }
  for (Device device : op_tests::devices()) {
    const Tensor y = matmul(from_vector(a, {3, k}).to(device), from_vector(b, {k, 2}).to(device));
    EXPECT_EQ(y.to_vector<Whole>(), want) << device.str();
  }
}

// From one element over a row's threads to rows that several workgroups share.
INSTANTIATE_TEST_SUITE_P(Sizes, WideIntegers, ::testing::Values(1, 3, 40, 300, 5000));

}  // namespace
}  // namespace etna
