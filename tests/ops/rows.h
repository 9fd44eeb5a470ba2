#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

/// What the tests of reductions, softmax, norms and scans share: random tensors and comparison against values in double.
namespace etna::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline Tensor random_tensor(Shape shape, DType dtype = f64, unsigned seed = 1, double lo = -2, double hi = 2) {
  std::mt19937 bits(seed);
  std::vector<double> values(static_cast<std::size_t>(numel(shape)));
  for (double& v : values) {
    v = lo + (hi - lo) * (static_cast<double>(bits()) / 4294967296.0);
    if (!is_floating(dtype)) v = dtype == boolean ? (v > 0) : std::trunc(v * 4);
    if (dtype == u8) v = std::abs(v);
  }
  return from_vector(values, shape).to(dtype);
}

/// A rounding unit of the dtype, relative to 1.
inline double unit(DType t) { return t == f64 ? 1e-13 : t == f32 ? 3e-6 : t == f16 ? 1e-3 : t == bf16 ? 8e-3 : 0; }

/// got must equal want element by element, NaN and infinities included, within `relative` of |want| and `absolute`.
inline void expect_close(const Tensor& got, const std::vector<double>& want, double relative, double absolute = 0,
                         const std::string& what = "") {
  std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    bool same = std::isnan(want[i])   ? std::isnan(values[i])
                : std::isinf(want[i]) ? values[i] == want[i]
                                      : std::abs(values[i] - want[i]) <= absolute + relative * std::abs(want[i]);
    if (!same) {
      FAIL() << what << ": element " << i << " of " << str(got.shape()) << " is " << values[i] << ", expected "
             << want[i];
    }
  }
}

/// Row-major values of x (any strides) with rows along `dim` replaced by f(row).
inline std::vector<double> map_rows(const Tensor& x, int dim,
                                    const std::function<std::vector<double>(const std::vector<double>&)>& f) {
  Tensor last = x.dim() == 0 ? x.reshape({1}) : x.transpose(dim, -1);
  std::vector<double> values = last.to_vector<double>();
  auto n = static_cast<std::size_t>(last.size(-1));
  for (std::size_t at = 0; n > 0 && at < values.size(); at += n) {
    auto row =
        f({values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(at + n)});
    std::copy(row.begin(), row.end(), values.begin() + static_cast<std::ptrdiff_t>(at));
  }
  Tensor mapped = from_vector(values, last.shape());
  return (x.dim() == 0 ? mapped : mapped.transpose(dim, -1)).to_vector<double>();
}

/// The devices to test: the CPU, and the GPU where the tests run with one.
inline bool have_vulkan() { return std::getenv("ETNA_TEST_VULKAN") != nullptr; }

}  // namespace etna::testing
