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

#include "runner/run_tests.h"

/// Shared by the tests of reductions, softmax, norms and scans: random tensors, and comparison with values in double.
namespace etna::op_tests {

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

/// The CPU, and the GPU if there is one.
inline std::vector<Device> devices() {
  std::vector<Device> all = {kCPU};
  for (const AdapterInfo& adapter : adapters()) {
    if (all.size() == 1 && !adapter.device.is_cpu() && adapter.rejected.empty()) all.push_back(adapter.device);
  }
  const char* expected = std::getenv("ETNA_TEST_VULKAN");
  if (all.size() == 1 && expected != nullptr && *expected == '1') ADD_FAILURE() << "no usable GPU";
  return all;
}

inline bool have_vulkan() { return devices().size() > 1; }

/// x on a device with its strides; .to(device) would make it contiguous.
inline Tensor placed(const Tensor& x, Device device) {
  if (device.is_cpu() || x.numel() == 0) return x.to(device);
  auto count = static_cast<std::int64_t>(x.storage()->bytes() / item_size(x.dtype()));
  Tensor all = detail::make_view(x.storage(), kCPU, x.dtype(), {count}, {1}, 0).to(device);
  return detail::make_view(all.storage(), device, x.dtype(), x.shape(), x.strides(), x.offset());
}

/// Dtypes to test on a device.
inline std::vector<DType> floats(Device device) {
  return device.is_cpu() ? std::vector<DType>{f64, f32, f16, bf16} : thinned<DType>({f32, f16, bf16});
}

}  // namespace etna::op_tests
