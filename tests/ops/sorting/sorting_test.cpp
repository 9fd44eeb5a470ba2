#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/sorting/sorting.h>

#include "ops/rows.h"

namespace etna {
namespace {

using op_tests::random_tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::int64_t> order_of(const std::vector<double>& row, bool descending) {
  std::vector<std::int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  auto less = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = row[static_cast<std::size_t>(i)], b = row[static_cast<std::size_t>(j)];
    return descending ? less(b, a) : less(a, b);
  });
  return order;
}

TEST(Sort, OfAnyLengthIsStableOnEveryDevice) {
  for (Device device : op_tests::devices()) {
    for (DType t : {f32, bf16, i64, u8, f16, i32, i8, boolean}) {
      for (std::int64_t n : {1, 8, 9, 33, 70, 150, 300, 1000, 2049, 4096, 9001}) {
        if (n > 2049 && t != f32 && t != i64) continue;
        if (n > 33 && (t == f16 || t == i32 || t == i8 || t == boolean)) continue;
        const Tensor x = random_tensor({3, n}, f32, static_cast<unsigned>(n), -50, 50).to(t);
        for (bool descending : {false, true}) {
          const ValuesIndices got = sort(x.to(device), 1, descending);
          const std::vector<std::int64_t> order = got.indices.to_vector<std::int64_t>();
          const std::vector<double> values = got.values.to_vector<double>();
          for (std::int64_t r = 0; r < 3; ++r) {
            const std::vector<double> row = x[r].to_vector<double>();
            const std::vector<std::int64_t> want = order_of(row, descending);
            for (std::size_t i = 0; i < want.size(); ++i) {
              const auto at = static_cast<std::size_t>(r * n) + i;
              ASSERT_EQ(order[at], want[i]) << device.str() << " " << name(t) << " " << n << " " << descending;
              ASSERT_EQ(values[at], row[static_cast<std::size_t>(want[i])]);
            }
          }
        }
      }
    }
  }
}

TEST(Sort, NaNIsTheLargestAndZerosAreEqual) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (Device device : op_tests::devices()) {
    const Tensor x = from_vector<float>({0.0f, -nan, -0.0f, inf, nan, -inf, 1e-42f, -1e-42f}, device);
    const ValuesIndices up = sort(x), down = sort(x, 0, true);
    EXPECT_THAT(up.indices.to_vector<int>(), ElementsAre(5, 7, 0, 2, 6, 3, 1, 4)) << device.str();
    EXPECT_THAT(down.indices.to_vector<int>(), ElementsAre(1, 4, 3, 6, 0, 2, 7, 5)) << device.str();
    EXPECT_TRUE(std::signbit(up.values.to_vector<float>()[3])) << "-0 stays -0";
    const Tensor wide = from_vector<std::int64_t>({1, -1, INT64_MAX, INT64_MIN, std::int64_t{1} << 32, 0}, device);
    EXPECT_THAT(argsort(wide).to_vector<int>(), ElementsAre(3, 1, 5, 0, 4, 2));
  }
}

TEST(Topk, EqualsTheStartOfASortOnEveryDevice) {
  for (Device device : op_tests::devices()) {
    for (auto [n, k] : {std::pair<std::int64_t, std::int64_t>{600, 1},
                        {600, 64},
                        {5000, 3},
                        {9001, 50},
                        {4096, 1024},
                        {9001, 3000},
                        {100, 99}}) {
      for (DType t : {f32, bf16, u8}) {
        if (t != f32 && n > 600) continue;
        const Tensor x = random_tensor({2, n}, f32, 7, -40, 40).to(t).to(device);
        for (bool largest : {true, false}) {
          const ValuesIndices got = topk(x, k, 1, largest), all = sort(x, 1, largest);
          ASSERT_EQ(got.indices.to_vector<int>(), all.indices.slice(1, 0, k).to_vector<int>())
              << device.str() << " " << name(t) << " " << n << " " << k << " " << largest;
          ASSERT_EQ(got.values.to_vector<float>(), all.values.slice(1, 0, k).to_vector<float>());
        }
      }
    }
  }
}

TEST(Sort, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({3, 4});
  EXPECT_THAT([&] { topk(x, 5); }, ThrowsMessage<ShapeError>(HasSubstr("topk: k is 5, dimension 1 of [3, 4] has 4")));
  EXPECT_THROW(topk(x, -1), ShapeError);
  EXPECT_THROW(sort(x, 2), ShapeError);
  EXPECT_THROW(kthvalue(x, 0), ShapeError);
  EXPECT_THROW(median(zeros({2, 0}), 1), ShapeError);
  EXPECT_THROW(quantile(x, 1.5), Error);
  EXPECT_THROW(quantile(x, 0.5, 0, false, "cubic"), Error);
  EXPECT_THROW(logcumsumexp(zeros({3}, i64), 0), DtypeError);
  EXPECT_THROW(searchsorted(zeros({2, 3}), zeros({3, 3})), ShapeError);
  EXPECT_THROW(bincount(from_vector<std::int64_t>({1, -1})), IndexError);
  EXPECT_THROW(sort(Tensor()), Error);
}

TEST(RunningResults, CrossChunksOnEveryDevice) {
  for (Device device : op_tests::devices()) {
    const std::int64_t n = 8200;
    const Tensor x = random_tensor({2, n}, f32, 3).to(device);
    const std::vector<double> row = x.to_vector<double>();
    const std::vector<double> sums = cumsum(x, 1).to_vector<double>(), back = cumsum(x, 1, true).to_vector<double>();
    const std::vector<double> best = cummax(x, 1).values.to_vector<double>(),
                              logs = logcumsumexp(x, 1).to_vector<double>();
    const std::vector<double> turned = cumsum(x.t(), 0).t().to_vector<double>();
    for (std::int64_t r = 0; r < 2; ++r) {
      double sum = 0, most = -INFINITY, exps = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(r * n + i);
        sum += row[at], most = std::max(most, row[at]), exps += std::exp(row[at]);
        ASSERT_NEAR(sums[at], sum, 2e-3) << device.str() << i;
        ASSERT_EQ(turned[at], sums[at]) << device.str() << i;
        ASSERT_EQ(best[at], most) << device.str() << i;
        ASSERT_NEAR(logs[at], std::log(exps), 1e-4) << device.str() << i;
      }
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(r * n + i);
        ASSERT_NEAR(back[at], sum, 2e-3) << device.str() << i;
        sum -= row[at];
      }
    }
  }
}

TEST(Sort, WorksInACapturedStep) {
  for (Device device : op_tests::devices()) {
    auto step =
        capture([](const Tensor& x) { return topk(sort(x, 1).values, 3, 1).values + median(x, 1, true).values; },
                {.device = device});
    for (unsigned run = 0; run < 4; ++run) {
      const Tensor x = random_tensor({3, 9}, f32, run).to(device);
      const Tensor want = topk(x, 3, 1).values + median(x, 1, true).values;
      EXPECT_EQ(step(x).to_vector<float>(), want.to_vector<float>()) << device.str();
    }
    auto counting = capture([](const Tensor& x) { return unique(x).values; }, {.device = device});
    const Tensor x = zeros({3}, device);
    EXPECT_THAT(
        [&] {
          for (int run = 0; run < 3; ++run) counting(x);
        },
        ThrowsMessage<CaptureError>(HasSubstr("unique: ")));
  }
}

}  // namespace
}  // namespace etna
