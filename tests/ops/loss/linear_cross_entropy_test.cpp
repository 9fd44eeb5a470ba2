#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops/kernel.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;

class LinearCrossEntropyOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }
};

/// Loss and gradients of x and weight.
TensorList run(const Tensor& x0, const Tensor& weight0, const Tensor& target, DType dtype, Device device,
               double smoothing = 0) {
  Tensor x = x0.detach().to(dtype).to(device).requires_grad_();
  Tensor weight = weight0.detach().to(dtype).to(device).requires_grad_();
  Tensor loss = linear_cross_entropy(x, weight, target.to(device), {}, -100, smoothing);
  loss.backward();
  return {loss.detach(), x.grad(), weight.grad()};
}

Tensor linear_cross_entropy_targets(std::int64_t rows, std::int64_t classes) {
  return (abs(values({rows}, 5)) * static_cast<double>(classes - 1)).to(i64);
}

// Rows that fill a workgroup's registers to the last vector, and some that do not fit.
TEST_F(LinearCrossEntropyOnGpu, TakesRowsOfAnyLength) {
  struct Case {
    DType dtype;
    std::int64_t classes;
    double smoothing;
  };
  for (auto [dtype, classes, smoothing] :
       {Case{f32, 9, 0.1}, {bf16, 4097, 0}, {f16, 8190, 0.1}, {f32, 40960, 0}, {f32, 41003, 0.1}, {bf16, 90001, 0}}) {
    Tensor x = values({3, 4}, 1) * 4.0, weight = values({classes, 4}, 2);
    const Tensor target = linear_cross_entropy_targets(3, classes);
    const TensorList got = run(x, weight, target, dtype, kVulkan, smoothing),
                     want = run(x.to(dtype), weight.to(dtype), target, f64, kCPU, smoothing);
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_near(doubles(got[i]), doubles(want[i]), 4 * tolerance(dtype),
                  std::to_string(classes) + " classes, tensor " + std::to_string(i));
    }
  }
}

// On Hopper a gemm leaves the state of tiles: padding behind the last class, rows and classes that fill no tile.
TEST_F(LinearCrossEntropyOnGpu, NarrowRowsWithManyClasses) {
  const bool hopper = gpu::capabilities(kVulkan).cubin == 90;
  const std::int64_t rows = hopper ? 300 : 20, classes = hopper ? 20011 : 2003, width = 64;
  for (const DType dtype : {bf16, f16}) {
    const Tensor x = values({rows, width}, 1), weight = values({classes, width}, 2);
    Tensor target = linear_cross_entropy_targets(rows, classes);
    std::int64_t* index = target.mutable_data<std::int64_t>();
    index[0] = 0, index[1] = classes - 1, index[2] = -100, index[3] = 191, index[4] = 192;
    const TensorList got = run(x, weight, target, dtype, kVulkan),
                     want = run(x.to(dtype), weight.to(dtype), target, f64, kCPU),
                     again = run(x, weight, target, dtype, kVulkan);
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_near(doubles(got[i]), doubles(want[i]), 4 * tolerance(dtype),
                  std::string(name(dtype)) + ", tensor " + std::to_string(i));
      EXPECT_EQ(doubles(got[i]), doubles(again[i])) << name(dtype) << ", tensor " << i;
    }
    for (std::int64_t i = 0; i < width; ++i) EXPECT_EQ(got[1].select(0, 2).select(0, i).item(), 0);
  }
}

TEST_F(LinearCrossEntropyOnGpu, AWrongTargetIsReportedAndNaNInItsRowAlone) {
  struct Case {
    DType dtype;
    std::int64_t rows, classes, width;
  };
  for (auto [dtype, rows, classes, width] : {Case{f32, 4, 1001, 8}, {bf16, 300, 20011, 64}}) {
    SCOPED_TRACE(rows);
    Tensor x = values({rows, width}, 1, f32), weight = values({classes, width}, 2, f32);
    x.mutable_data<float>()[2 * width + 3] = std::numeric_limits<float>::quiet_NaN();
    Tensor target = linear_cross_entropy_targets(rows, classes);
    target.mutable_data<std::int64_t>()[1] = classes, target.mutable_data<std::int64_t>()[3] = -100;
    const TensorList found = run(x, weight, target, dtype, kVulkan);
    EXPECT_THROW(synchronize(kVulkan), IndexError);
    EXPECT_TRUE(std::isnan(found[0].item()));
    const std::vector<double> dx = doubles(found[1]);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        const double d = dx[static_cast<std::size_t>(row * width + i)];
        EXPECT_EQ(std::isnan(d), row == 1 || row == 2) << row << ", " << i;
        if (row == 3) {
          EXPECT_EQ(d, 0) << i;
        }
      }
    }
  }
}

// More classes than a tile, more tiles than groups, more rows than a chunk: covers every boundary.
TEST(LinearCrossEntropyOnCpu, TilesGroupsAndChunksGiveWhatWholeRowsGive) {
  struct Case {
    std::int64_t rows, width, classes;
    double smoothing;
  };
  for (auto [rows, width, classes, smoothing] :
       {Case{3, 5, 1, 0}, {131, 7, 513, 0}, {5, 3, 17'000, 0.1}, {259, 9, 1025, 0.1}, {401, 2, 33'278, 0}}) {
    const Tensor x = values({rows, width}, 1) * 4.0, weight = values({classes, width}, 2),
                 target = linear_cross_entropy_targets(rows, classes);
    const TensorList exact = run(x, weight, target, f64, kCPU, smoothing);
    Tensor plain_x = x.detach().requires_grad_(), plain_weight = weight.detach().requires_grad_();
    Tensor loss = cross_entropy(linear(plain_x, plain_weight), target, -100, smoothing);
    loss.backward();
    const TensorList want = {loss.detach(), plain_x.grad(), plain_weight.grad()};
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::string what = std::to_string(classes) + " classes, tensor " + std::to_string(i);
      expect_near(doubles(exact[i]), doubles(want[i]), 1e-12, what);
    }
    for (DType t : {f32, bf16}) {
      const TensorList got = run(x.to(t), weight.to(t), target, t, kCPU, smoothing),
                       of_rounded = run(x.to(t), weight.to(t), target, f64, kCPU, smoothing);
      for (std::size_t i = 0; i < got.size(); ++i)
        expect_near(doubles(got[i]), doubles(of_rounded[i]), 4 * tolerance(t), "rounded inputs");
    }
  }
}

// p - 1 of a nearly certain target: computed as a difference of two sums it would have no correct digit.
TEST(LinearCrossEntropyOnCpu, TheGradientOfACertainTargetKeepsItsDigits) {
  const Tensor x = full({1, 1}, 1.0, {f32}), weight = from_vector(std::vector<float>{17, 0}).reshape({2, 1});
  const TensorList found = run(x, weight, from_vector(std::vector<std::int64_t>{0}), f32, kCPU);
  const double want = -17 * std::exp(-17.0) / (1 + std::exp(-17.0));
  EXPECT_NEAR(found[1].item<double>() / want, 1, 1e-6);
}

TEST(LinearCrossEntropyOnCpu, NaNIsSeenInItsRowAndIgnoredRowsHaveNoGradient) {
  Tensor x = values({4, 8}, 1, f32), weight = values({1001, 8}, 2, f32);
  x.mutable_data<float>()[1 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  const TensorList found = run(x, weight, from_vector(std::vector<std::int64_t>{1, 7, 5, -100}), f32, kCPU);
  EXPECT_TRUE(std::isnan(found[0].item()));
  const std::vector<double> dx = doubles(found[1]);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(std::isfinite(dx[i])) << i;
    EXPECT_TRUE(std::isnan(dx[8 + i])) << i;
    EXPECT_TRUE(std::isfinite(dx[16 + i])) << i;
    EXPECT_EQ(dx[24 + i], 0) << i;
  }
}

TEST(LinearCrossEntropyOnCpu, ClassesThatAreImpossibleTakeNoPart) {
  const double never = -std::numeric_limits<double>::infinity();
  const Tensor x = values({3, 4}, 1, f32);
  Tensor weight = values({1100, 4}, 2, f32).detach().requires_grad_();
  Tensor bias = zeros({1100}, {f32});
  for (std::int64_t c = 0; c < 600; ++c) bias.mutable_data<float>()[c] = static_cast<float>(never);  // a tile and more
  const Tensor target = from_vector(std::vector<std::int64_t>{700, 1099, 600});
  const Tensor loss = linear_cross_entropy(x, weight, target, bias);
  const Tensor want = linear_cross_entropy(x, weight.slice(0, 600, 1100), target - 600, {});
  EXPECT_NEAR(loss.item(), want.item(), 1e-6);
  loss.backward();
  EXPECT_EQ(abs(weight.grad().slice(0, 0, 600)).sum().item(), 0);
}

TEST(LinearCrossEntropyOnCpu, TheSameBitsEveryTime) {
  const Tensor x = values({300, 16}, 1, f32), weight = values({5000, 16}, 2, f32),
               target = linear_cross_entropy_targets(300, 5000);
  const TensorList first = run(x, weight, target, f32, kCPU);
  for (int again = 0; again < 3; ++again) {
    const TensorList found = run(x, weight, target, f32, kCPU);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(doubles(found[i]), doubles(first[i])) << i;
  }
}

}  // namespace
}  // namespace etna
