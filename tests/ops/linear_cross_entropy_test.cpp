#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>

#include "ops/products.h"

namespace etna {
namespace {

using namespace products;

class LinearCrossEntropyOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }
};

/// Loss and gradients of x and weight.
TensorList run(const Tensor& x0, const Tensor& weight0, const Tensor& target, DType dtype, Device device,
               double smoothing = 0) {
  Tensor x = x0.to(dtype).to(device).requires_grad_(), weight = weight0.to(dtype).to(device).requires_grad_();
  Tensor loss = linear_cross_entropy(x, weight, target.to(device), {}, -100, smoothing);
  loss.backward();
  return {loss.detach(), x.grad(), weight.grad()};
}

Tensor targets(std::int64_t rows, std::int64_t classes) {
  return (abs(values({rows}, 5)) * static_cast<double>(classes - 1)).to(i64);
}

// Rows that a workgroup's registers hold to their last vector, and one that is read again.
TEST_F(LinearCrossEntropyOnGpu, TakesRowsOfAnyLength) {
  struct Case {
    DType dtype;
    std::int64_t classes;
    double smoothing;
  };
  for (auto [dtype, classes, smoothing] :
       {Case{f32, 9, 0.1}, {bf16, 4097, 0}, {f16, 8190, 0.1}, {f32, 40960, 0}, {f32, 41003, 0.1}}) {
    Tensor x = values({3, 4}, 1) * 4.0, weight = values({classes, 4}, 2);
    const Tensor target = targets(3, classes);
    const TensorList got = run(x, weight, target, dtype, kVulkan, smoothing),
                     want = run(x.to(dtype), weight.to(dtype), target, f64, kCPU, smoothing);
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_near(doubles(got[i]), doubles(want[i]), 4 * tolerance(dtype),
                  std::to_string(classes) + " classes, tensor " + std::to_string(i));
    }
  }
}

TEST_F(LinearCrossEntropyOnGpu, AWrongTargetAndNaNAreSeenInTheirRowsAlone) {
  Tensor x = values({4, 8}, 1, f32), weight = values({1001, 8}, 2, f32);
  x.data<float>()[2 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  Tensor target = from_vector(std::vector<std::int64_t>{1, 1001, 5, -100});
  const TensorList found = run(x, weight, target, f32, kVulkan);
  EXPECT_TRUE(std::isnan(found[0].item()));
  const std::vector<double> dx = doubles(found[1]);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(std::isfinite(dx[i])) << i;
    EXPECT_TRUE(std::isnan(dx[8 + i])) << i;
    EXPECT_TRUE(std::isnan(dx[16 + i])) << i;
    EXPECT_EQ(dx[24 + i], 0) << i;
  }
}

}  // namespace
}  // namespace etna
