#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/tensor/ops.h>

/// Values, references and tolerances shared by the tests of gemms, attention and losses.
namespace etna::numerics {

/// Values in [-1, 1) that depend on the seed only.
inline Tensor values(Shape shape, std::uint64_t seed, DType dtype = f64) {
  std::vector<double> v(static_cast<std::size_t>(numel(shape)));
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (double& x : v) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    x = static_cast<double>(state >> 11) / 4503599627370496.0 - 1.0;
  }
  return from_vector(v, shape).to(dtype);
}

/// Row-major values in f64, wherever and however x is stored.
inline std::vector<double> doubles(const Tensor& x) { return x.to_vector<double>(); }

/// Σ over the last dimension of a and the second-to-last of b, with loops; batch dimensions broadcast.
inline std::vector<double> naive_matmul(const Tensor& a, const Tensor& b) {
  Shape a_batch = a.shape(), b_batch = b.shape();
  for (int i = 0; i < 2; ++i) a_batch.erase(a_batch.rank() - 1), b_batch.erase(b_batch.rank() - 1);
  Shape batch = broadcast(a_batch, b_batch, "naive"), a_whole = batch, b_whole = batch;
  std::int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  a_whole.push_back(m), a_whole.push_back(k), b_whole.push_back(k), b_whole.push_back(n);
  std::vector<double> x = doubles(a.expand(a_whole)), y = doubles(b.expand(b_whole)), out;
  for (std::int64_t g = 0; g < numel(batch); ++g) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += x[static_cast<std::size_t>((g * m + i) * k + l)] * y[static_cast<std::size_t>((g * k + l) * n + j)];
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                        const std::string& what = "") {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (got[i] == want[i]) continue;
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << what << " element " << i;
  }
}

/// Allowed error of a value rounded to `dtype`, relative to 1 + its magnitude, for sums of a few hundred terms.
inline double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 3e-6 : dtype == f16 ? 2e-3 : 1.6e-2;
}

/// True if the tests run with a Vulkan device (CTest sets this).
inline bool with_vulkan() {
  const char* on = std::getenv("ETNA_TEST_VULKAN");
  return on != nullptr && std::string(on) == "1";
}

inline Tensor on_gpu(const Tensor& x) { return x.defined() ? x.to(kVulkan) : x; }

}  // namespace etna::numerics
