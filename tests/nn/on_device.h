#pragma once

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/tensor/tensor.h>
#include <runner/run_tests.h>

namespace etna {

/// A test that runs on the CPU and on vulkan:0. Without a GPU, the GPU half fails if ETNA_TEST_VULKAN=1 requires one,
/// and is skipped otherwise. No test may leave a validation message.
class OnDevice : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (device().is_cpu()) return;
    for (const AdapterInfo& a : adapters()) {
      if (a.device == device() && a.rejected.empty()) return;
    }
    const char* expected = std::getenv("ETNA_TEST_VULKAN");
    if (expected && *expected == '1') FAIL() << "no usable Vulkan device";
    GTEST_SKIP() << "no usable Vulkan device";
  }
  void TearDown() override { EXPECT_EQ(vulkan::validation_messages(), 0u); }
  static Device device() { return GetParam(); }
  /// What is tried of a list: all on the CPU, thinned() on a GPU.
  template <typename T>
  static std::vector<T> tried(const std::vector<T>& all, std::size_t step = 2) {
    return device().is_cpu() ? all : thinned(all, step);
  }
};

inline std::string device_type(const testing::TestParamInfo<Device>& info) {
  return info.param.is_cpu() ? "Cpu" : "Vulkan";
}
#define ETNA_ON_EVERY_DEVICE(suite) INSTANTIATE_TEST_SUITE_P(Device, suite, testing::Values(kCPU, kVulkan), device_type)

/// Every element within absolute + relative · |wanted|.
inline void expect_near(const Tensor& got, const std::vector<double>& wanted, double absolute, double relative = 0) {
  std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(values[i], wanted[i], absolute + relative * std::abs(wanted[i])) << "element " << i;
  }
}
inline void expect_near(const Tensor& got, const Tensor& wanted, double absolute, double relative = 0) {
  ASSERT_EQ(got.shape(), wanted.shape());
  expect_near(got, wanted.to_vector<double>(), absolute, relative);
}

}  // namespace etna
