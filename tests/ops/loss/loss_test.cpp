#include <algorithm>
#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

Tensor loss_targets(std::int64_t n, std::int64_t classes, DType dtype = i64, std::int64_t ignored = -100,
                    bool with_ignored = true) {
  std::vector<std::int64_t> t;
  for (std::int64_t i = 0; i < n; ++i) t.push_back(with_ignored && i % 5 == 3 ? ignored : (i * 7 + 2) % classes);
  return from_vector(t).to(dtype);
}

std::vector<double> naive_cross_entropy(const Tensor& logits, const Tensor& target, std::int64_t ignore_index,
                                        double smoothing, Reduction reduction) {
  std::vector<double> x = doubles(logits), losses;
  std::vector<std::int64_t> t = target.to_vector<std::int64_t>();
  auto classes = static_cast<std::size_t>(logits.size(1));
  double total = 0, count = 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    const double* row = x.data() + i * classes;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
    for (std::size_t j = 0; j < classes; ++j)
      largest = std::max(largest, row[j]), mean += row[j] / static_cast<double>(classes);
    for (std::size_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
    double lse = largest + std::log(sum), loss = 0;
    if (t[i] != ignore_index) {
      loss = (1 - smoothing) * (lse - row[t[i]]) + smoothing * (lse - mean);
      ++count;
    }
    losses.push_back(loss);
    total += loss;
  }
  return reduction == Reduction::none ? losses
                                      : std::vector<double>{reduction == Reduction::sum ? total : total / count};
}

TEST(CrossEntropy, AgreesWithLoops) {
  for (DType t : {f64, f32, f16, bf16}) {
    for (Reduction reduction : kReductions) {
      for (double smoothing : {0.0, 0.1}) {
        Tensor logits = (values({11, 37}, 1) * 8.0).to(t), target = loss_targets(11, 37, t == f32 ? i32 : i64);
        Tensor loss = cross_entropy(logits, target, -100, smoothing, reduction);
        EXPECT_EQ(loss.dtype(), t == f64 ? f64 : f32);
        expect_near(doubles(loss), naive_cross_entropy(logits, target, -100, smoothing, reduction),
                    t == f64 ? 1e-13 : 2e-6);
      }
    }
  }
}

TEST(CrossEntropy, KeepsDigitsOverManyClasses) {
  Tensor logits = (values({3, 33278}, 1) * 4.0).to(f32), target = loss_targets(3, 33278);
  expect_near(doubles(cross_entropy(logits, target)), naive_cross_entropy(logits, target, -100, 0, Reduction::mean),
              5e-7);
  Tensor same = full({2, 33278}, 1e4), first = from_vector(std::vector<std::int64_t>{0, 1});
  EXPECT_NEAR(cross_entropy(same, first).item(), std::log(33278.0), 1e-3);
}

TEST(CrossEntropy, GradientsAgreeWithDifferences) {
  for (Reduction reduction : kReductions) {
    for (double smoothing : {0.0, 0.2}) {
      auto f = [&](const TensorList& in) {
        return TensorList{cross_entropy(in[0], loss_targets(6, 5, i64, 2), 2, smoothing, reduction)};
      };
      EXPECT_EQ(autograd::gradcheck(f, {(values({6, 5}, 1) * 3.0).requires_grad_()}, {.second_order = true}), "");
      auto transposed = [&](const TensorList& in) { return f({in[0].t()}); };
      EXPECT_EQ(autograd::gradcheck(transposed, {values({5, 6}, 1).requires_grad_()}), "");
    }
  }
}

TEST(CrossEntropy, AllIgnoredIsNaNInTheMeanAndZeroInTheSum) {
  Tensor logits = values({3, 4}, 1, f32).requires_grad_(), target = full({3}, -100, {i64});
  EXPECT_TRUE(std::isnan(cross_entropy(logits, target).item()));
  EXPECT_EQ(cross_entropy(logits, target, -100, 0, Reduction::sum).item(), 0);
  cross_entropy(logits, target).backward();
  EXPECT_EQ(doubles(logits.grad()), std::vector<double>(12, 0.0));
}

TEST(CrossEntropy, KeepsNaNVisible) {
  Tensor logits = zeros({2, 5});
  logits.mutable_data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  std::vector<double> losses = doubles(cross_entropy(logits, loss_targets(2, 5), -100, 0, Reduction::none));
  EXPECT_FALSE(std::isnan(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
}

TEST(CrossEntropy, TakesMaskedLogits) {
  Tensor logits = zeros({1, 4});
  logits.mutable_data<float>()[3] = -std::numeric_limits<float>::infinity();
  Tensor leaf = logits.requires_grad_();
  Tensor loss = cross_entropy(leaf, from_vector(std::vector<std::int64_t>{0}));
  EXPECT_NEAR(loss.item(), std::log(3.0), 1e-6);
  loss.backward();
  expect_near(doubles(leaf.grad()), {-2.0 / 3, 1.0 / 3, 1.0 / 3, 0}, 1e-6);
}

TEST(CrossEntropy, SaysWhatDoesNotFit) {
  EXPECT_THAT(
      [] {
        cross_entropy(zeros({2, 3}), from_vector(std::vector<std::int64_t>{0, 3}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("target 3 in row 1 is outside [0, 3)")));
  EXPECT_THAT([] { cross_entropy(zeros({2, 3}), zeros({2})); }, ThrowsMessage<DtypeError>(HasSubstr("class indices")));
  EXPECT_THAT(
      [] {
        cross_entropy(zeros({2, 5, 3}), zeros({2, 5}, {i64}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("reshape")));
  EXPECT_THAT([] { cross_entropy(zeros({2, 3}, {i32}), zeros({2}, {i64})); }, testing::Throws<DtypeError>());
  EXPECT_THAT(
      [] {
        cross_entropy(zeros({2, 3}), zeros({2}, {i64}), -100, 1.5);
      },
      ThrowsMessage<ShapeError>(HasSubstr("label_smoothing")));
}

TEST(CrossEntropy, TakesNoRows) {
  EXPECT_TRUE(std::isnan(cross_entropy(zeros({0, 3}), zeros({0}, {i64})).item()));
  EXPECT_EQ(cross_entropy(zeros({0, 3}), zeros({0}, {i64}), -100, 0, Reduction::sum).item(), 0);
  EXPECT_EQ(cross_entropy(zeros({0, 3}), zeros({0}, {i64}), -100, 0, Reduction::none).shape(), Shape({0}));
}

TEST(NllLoss, AgreesWithCrossEntropy) {
  Tensor logits = values({11, 7}, 1), target = loss_targets(11, 7);
  for (Reduction reduction : kReductions) {
    expect_near(doubles(nll_loss(log_softmax(logits, 1), target, -100, reduction)),
                doubles(cross_entropy(logits, target, -100, 0, reduction)), 1e-13);
  }
  auto f = [&](const TensorList& in) { return TensorList{nll_loss(in[0], target)}; };
  EXPECT_EQ(autograd::gradcheck(f, {values({11, 7}, 2).requires_grad_()}), "");
}

TEST(MseLoss, IsTheMeanOfSquares) {
  Tensor x = values({3, 4}, 1), y = values({3, 4}, 2);
  std::vector<double> a = doubles(x), b = doubles(y);
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += (a[i] - b[i]) * (a[i] - b[i]);
  EXPECT_NEAR(mse_loss(x, y).item<double>(), total / 12, 1e-13);
  EXPECT_NEAR(mse_loss(x, y, Reduction::sum).item<double>(), total, 1e-13);
  EXPECT_EQ(mse_loss(x, y, Reduction::none).shape(), x.shape());
  EXPECT_THAT([&] { mse_loss(x, y.slice(0, 0, 1)); }, ThrowsMessage<ShapeError>(HasSubstr("differ in shape")));
  auto f = [](const TensorList& in) { return TensorList{mse_loss(in[0], in[1])}; };
  EXPECT_EQ(autograd::gradcheck(f, {values({3, 4}, 1).requires_grad_(), values({3, 4}, 2).requires_grad_()}), "");
}

class CrossEntropyOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }
};

TEST_F(CrossEntropyOnGpu, AgreesWithTheCpu) {
  for (DType t : {f32, f16, bf16}) {
    for (std::int64_t classes : {2, 257, 3001}) {
      for (Reduction reduction : kReductions) {
        double smoothing = classes == 257 ? 0.1 : 0;
        DType index = classes == 2 ? i32 : i64;
        Tensor logits = (values({7, classes}, 1) * 8.0).to(t), target = loss_targets(7, classes, index);
        TensorList found;
        for (Device d : {kCPU, kVulkan}) {
          Tensor x = logits.detach().to(d).clone().requires_grad_();
          Tensor loss = cross_entropy(x, target.to(d), -100, smoothing, reduction);
          loss.backward(reduction == Reduction::none ? values({7}, 3, f32).to(d) : full({}, 0.5, {f32, d}));
          found.push_back(loss), found.push_back(x.grad());
        }
        expect_near(doubles(found[2]), doubles(found[0]), 3e-6);
        expect_near(doubles(found[3]), doubles(found[1]), tolerance(t));
      }
    }
  }
}

TEST_F(CrossEntropyOnGpu, TakesRowsThatStartAnywhere) {
  // About 9000 classes take several workgroups per row. A slice has the row stride of the whole tensor, so its rows are
  // aligned differently from those of a dense gradient.
  for (DType t : {f32, bf16}) {
    for (auto [all, from, to] : {std::array{8999, 0, 8999}, {9002, 0, 9002}, {9003, 1, 9001}, {9004, 4, 9000}}) {
      Tensor whole = (values({5, all}, 1) * 8.0).to(t), target = loss_targets(5, to - from);
      TensorList found;
      for (Device d : {kCPU, kVulkan}) {
        Tensor x = whole.to(d).clone().requires_grad_();
        Tensor loss = cross_entropy(x.slice(1, from, to), target.to(d), -100, 0.1, Reduction::mean);
        loss.backward();
        found.push_back(loss), found.push_back(x.grad());
      }
      expect_near(doubles(found[2]), doubles(found[0]), 3e-6);
      expect_near(doubles(found[3]), doubles(found[1]), tolerance(t));
    }
  }
}

TEST_F(CrossEntropyOnGpu, AWrongTargetIsReportedAndNaNInItsRowAlone) {
  Tensor x = on_gpu(values({4, 9}, 1, f32));
  for (DType index : {i64, i32}) {
    Tensor target = from_vector(std::vector<std::int64_t>{1, 9, -1, -100}).to(index).to(kVulkan);
    Tensor losses = cross_entropy(x, target, -100, 0, Reduction::none);
    EXPECT_THROW(synchronize(kVulkan), IndexError);
    std::vector<double> found = doubles(losses);
    EXPECT_FALSE(std::isnan(found[0]));
    EXPECT_TRUE(std::isnan(found[1]));
    EXPECT_TRUE(std::isnan(found[2]));
    EXPECT_EQ(found[3], 0);
  }
  Tensor beyond = from_vector(std::vector<std::int64_t>{1, (std::int64_t{1} << 32) + 1, 2, 3}).to(kVulkan);
  const Tensor losses = cross_entropy(x, beyond, -100, 0, Reduction::none);
  EXPECT_THROW(synchronize(kVulkan), IndexError);
  EXPECT_TRUE(std::isnan(doubles(losses)[1]));
}

TEST_F(CrossEntropyOnGpu, AllIgnoredIsNaNInTheMeanAndZeroInTheSum) {
  Tensor logits = on_gpu(values({3, 4}, 1, f32)), target = on_gpu(full({3}, -100, {i64}));
  EXPECT_TRUE(std::isnan(cross_entropy(logits, target).item()));
  EXPECT_EQ(cross_entropy(logits, target, -100, 0, Reduction::sum).item(), 0);
  EXPECT_TRUE(std::isnan(cross_entropy(on_gpu(zeros({0, 3})), on_gpu(zeros({0}, {i64}))).item()));
}

TEST_F(CrossEntropyOnGpu, KeepsNaNAndInfinityVisible) {
  for (float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::int64_t classes : {300, 9001}) {
      Tensor logits = zeros({2, classes});
      logits.mutable_data<float>()[classes + 200] = odd;
      std::vector<double> losses =
          doubles(cross_entropy(on_gpu(logits), on_gpu(loss_targets(2, classes)), -100, 0, Reduction::none));
      EXPECT_NEAR(losses[0], std::log(static_cast<double>(classes)), 1e-5);
      EXPECT_FALSE(std::isfinite(losses[1]));
    }
  }
  Tensor masked = full({1, 300}, -std::numeric_limits<double>::infinity());
  masked.mutable_data<float>()[9] = 1;
  EXPECT_EQ(cross_entropy(on_gpu(masked), on_gpu(loss_targets(1, 300))).item(), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace etna
