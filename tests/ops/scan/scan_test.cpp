#include <algorithm>
#include <cmath>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;

std::vector<double> cumulative(std::vector<double> v, bool reverse) {
  if (reverse) std::reverse(v.begin(), v.end());
  for (std::size_t i = 1; i < v.size(); ++i) v[i] += v[i - 1];
  if (reverse) std::reverse(v.begin(), v.end());
  return v;
}

struct ScanCase {
  Tensor x;
  int dim;
};

std::vector<ScanCase> scan_cases(DType t) {
  std::vector<ScanCase> all;
  for (std::int64_t n : {1, 3, 7, 31, 257, 1031}) {
    all.push_back({random_tensor({5, n}, t), 1});
    all.push_back({random_tensor({n, 19}, t), 0});
  }
  all.push_back({random_tensor({}, t), 0});
  all.push_back({random_tensor({3, 0, 2}, t), 1});
  all.push_back({random_tensor({6, 31, 4}, t).permute({2, 0, 1}), 1});
  all.push_back({random_tensor({31, 40}, t).slice(0, 1, 30, 3).slice(1, 2, 39, 2), 1});
  all.push_back({random_tensor({31, 1}, t).expand({31, 7}), 1});
  return all;
}

TEST(Cumsum, AgreesWithLoopsOverStridesAndDtypes) {
  for (Device device : devices()) {
    for (DType t : kAllDTypes) {
      if (t == f64 && device.is_vulkan()) continue;
      for (const ScanCase& c : scan_cases(t)) {
        for (bool reverse : {false, true}) {
          Tensor y = cumsum(placed(c.x, device), c.dim, reverse);
          EXPECT_EQ(y.dtype(), is_floating(t) ? t : i64);
          auto want = map_rows(c.x, c.dim, [&](const auto& v) { return cumulative(v, reverse); });
          expect_close(y, want, unit(t), 40 * unit(t), str(c.x.shape()) + " on " + device.str());
        }
      }
    }
  }
}

// Rows of several chunks, whose vectors of four elements are aligned or not.
TEST(Cumsum, LongRowsAgreeWithLoops) {
  for (Device device : devices()) {
    for (DType t : {f32, bf16, i32}) {
      for (std::int64_t n : {4100, 8195, 12288}) {
        const Tensor rows = random_tensor({2, n}, t), shifted = random_tensor({n + 1}, t);
        for (bool reverse : {false, true}) {
          const auto sums = [&](const auto& v) { return cumulative(v, reverse); };
          // Sums pass through 0, so errors are bounded by the size of what is added.
          const double bound = (is_floating(t) ? 4 * std::sqrt(n) : 0) * unit(t);
          const Tensor x = rows.to(device), y = shifted.to(device).slice(0, 1, n + 1);
          expect_close(cumsum(x, 1, reverse), map_rows(rows, 1, sums), unit(t), bound, str(rows.shape()));
          expect_close(cumsum(y, 0, reverse), map_rows(shifted.slice(0, 1, n + 1), 0, sums), unit(t), bound, "shifted");
        }
      }
    }
  }
}

TEST(Cumsum, CarriesMoreChunksThanOneWorkgroupTakesAtOnce) {
  const std::int64_t n = 2048 * 2048 + 5;
  for (Device device : devices()) {
    const Tensor y = cumsum(ones({n}, {i32, device}), 0);
    EXPECT_TRUE(equal(y, arange(1, n + 1, 1, {i64, device}))) << device.str();
  }
}

TEST(Cumsum, GradientsAgreeWithDifferences) {
  for (bool reverse : {false, true}) {
    for (int dim : {0, 1, 2}) {
      Tensor x = random_tensor({3, 4, 2}).requires_grad_();
      EXPECT_EQ(autograd::gradcheck([&](const TensorList& in) { return TensorList{cumsum(in[0], dim, reverse)}; }, {x}),
                "");
    }
  }
}

TEST(Triangle, KeepsOneSideOfTheDiagonal) {
  for (DType t : kAllDTypes) {
    for (const Tensor& x :
         {random_tensor({5, 7}, t), random_tensor({2, 31, 4}, t), random_tensor({7, 3, 31}, t).permute({1, 2, 0}),
          random_tensor({2, 1, 9}, t).expand({2, 6, 9}), zeros({0, 3}, {t}), zeros({3, 0}, {t})}) {
      for (std::int64_t k : {-100, -2, 0, 1, 3, 100}) {
        std::int64_t height = x.size(-2), width = x.size(-1);
        std::vector<double> lower = x.to_vector<double>(), upper = lower;
        for (std::size_t at = 0; at < lower.size(); ++at) {
          auto i = static_cast<std::int64_t>(at) / width % height, j = static_cast<std::int64_t>(at) % width;
          if (j > i + k) lower[at] = 0;
          if (j < i + k) upper[at] = 0;
        }
        for (Device device : devices()) {
          if (t == f64 && device.is_vulkan()) continue;
          Tensor there = placed(x, device);
          expect_close(tril(there, k), lower, 0);
          expect_close(triu(there, k), upper, 0);
          EXPECT_EQ(tril(there, k).dtype(), t);
        }
      }
    }
  }
  EXPECT_THROW(tril(zeros({3})), ShapeError);
}

TEST(Triangle, DropsNaNOutsideAndKeepsItWithin) {
  Tensor y = tril(full({2, 2}, kNaN));
  expect_close(y, {kNaN, 0, kNaN, kNaN}, 0);
}

TEST(Triangle, GradientsAgreeWithDifferences) {
  Tensor x = random_tensor({2, 3, 4}).requires_grad_();
  EXPECT_EQ(autograd::gradcheck(
                [](const TensorList& in) {
                  return TensorList{tril(in[0], 1), triu(in[0], -1)};
                },
                {x}),
            "");
}

}  // namespace
}  // namespace etna
