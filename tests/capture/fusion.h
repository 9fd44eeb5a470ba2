#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <etna/device/internal/vulkan/executable/fusion/glsl.h>

#include "training.h"

namespace etna {

/// Sets an environment variable for a scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

/// Fused commands give the same bits as unfused ones.
class Fused : public OnDevice {
 protected:
  using Step = std::function<TensorList()>;

  void SetUp() override {
    OnDevice::SetUp();
    if (!vulkan::fusion::enabled()) GTEST_SKIP() << "this build has no glslang";
  }

  static Tensor normal(Shape shape, DType dtype = f32, std::uint64_t seed = 1) {
    manual_seed(seed);
    return randn(shape).to(dtype).to(kVulkan);
  }

  static std::vector<std::uint8_t> bits(const Tensor& x) {
    const Tensor y = x.detach().to(kCPU).contiguous();
    const auto* bytes = static_cast<const std::uint8_t*>(y.raw_data());
    return {bytes, bytes + static_cast<std::size_t>(y.numel()) * item_size(y.dtype())};
  }

  /// Calls `f` eagerly, then captured with fusion off and on, three times each. @return the report of the fused run
  static CaptureReport expect_same(const Step& f) {
    std::vector<std::vector<std::uint8_t>> wanted;
    for (const Tensor& y : f()) wanted.push_back(bits(y));
    CaptureReport report;
    for (const char* fuse : {"0", "1"}) {
      Environment set("ETNA_FUSE", fuse);
      auto step = capture(f, {.device = kVulkan});
      for (const char* call : {"eager", "captured", "replayed"}) {
        const TensorList got = step();
        EXPECT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(bits(got[i]), wanted[i]) << "result " << i << ", " << call << ", ETNA_FUSE=" << fuse;
        }
      }
      report = step.report();
      EXPECT_TRUE(*fuse == '1' || report.fused_kernels == 0);
    }
    return report;
  }
};

}  // namespace etna
