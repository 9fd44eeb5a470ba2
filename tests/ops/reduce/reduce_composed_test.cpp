#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/literal.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

// Claims about composed reductions, comparisons and fills that samples and PyTorch's figures do not make.
namespace etna {
namespace {

using op_tests::kInf;
using op_tests::kNaN;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(AnyAndAll, OfNothingAreFalseAndTrueAndOfU8AreU8) {
  for (Device device : op_tests::devices()) {
    const Tensor nothing = zeros({2, 0}, device);
    EXPECT_EQ(any(nothing, 1).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 0}));
    EXPECT_EQ(all(nothing, 1).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 1}));
    EXPECT_EQ(any(nothing, 0).shape(), (Shape{0}));
    EXPECT_EQ(any(zeros({3}, {u8, device})).dtype(), u8);
    EXPECT_EQ(all(zeros({3}, {i32, device})).dtype(), boolean);
    EXPECT_TRUE(any(tensor({0.0f, -0.0f, static_cast<float>(kNaN)}).to(device)).item<bool>());
    EXPECT_FALSE(all(tensor({1.0f, -0.0f}).to(device)).item<bool>());
    EXPECT_EQ(any(zeros({2, 3, 4}, device), {0, -1}, true).shape(), (Shape{1, 3, 1}));
  }
}

TEST(Norm, NamesWhatItCannotDo) {
  EXPECT_THAT([] { norm(arange(3)); }, ThrowsMessage<DtypeError>(HasSubstr("vector_norm: i64 [3] is not floating")));
  EXPECT_THAT([] { norm(zeros({0}), kInf); }, ThrowsMessage<ShapeError>(HasSubstr("vector_norm: of order inf")));
  EXPECT_EQ(norm(zeros({0})).item(), 0);
  EXPECT_EQ(norm(zeros({0, 3}), kInf, 1).shape(), (Shape{0}));
}

TEST(Norm, OfHalvesSumsInF32) {
  for (Device device : op_tests::devices()) {
    const Tensor x = full({64}, 300, {f16, device});  // squares beyond f16
    EXPECT_EQ(norm(x).item(), 2400);
    EXPECT_EQ(norm(x).dtype(), f16);
    EXPECT_TRUE(std::isnan(norm(tensor({1.0f, static_cast<float>(kNaN)}).to(device), kInf).item()));
  }
}

TEST(Comparisons, AnswerTheHostAndRefuseWhileCapturing) {
  for (Device device : op_tests::devices()) {
    const Tensor a = tensor({1.0f, 2.0f}).to(device);
    EXPECT_TRUE(allclose(a, a * (1 + 1e-6)));
    EXPECT_FALSE(a.allclose(a * 1.1));
    EXPECT_TRUE(equal(a, a.clone()));
    EXPECT_FALSE(equal(a, a.unsqueeze(0)));
    EXPECT_TRUE(equal(zeros({0}, device), zeros({0}, device)));
    auto step = capture(
        [](const Tensor& x) {
          allclose(x, x);
          return x + 1.0;
        },
        {.device = device});
    step(a);
    EXPECT_THROW(step(a), Error);
  }
  EXPECT_THAT([] { isclose(ones({1}), ones({1}), -1); },
              ThrowsMessage<ShapeError>(HasSubstr("isclose: the tolerances")));
}

TEST(Isin, ComparesWithEveryChunkOfTheTests) {
  for (Device device : op_tests::devices()) {
    const Tensor x = arange(4096).to(i32).to(device), tests = arange(0, 8192, 4).to(i32).to(device);  // two chunks
    EXPECT_EQ(isin(x, tests).to(i32).sum().item<int>(), 1024);
    EXPECT_EQ(isin(x, tests, true).to(i32).sum().item<int>(), 3072);
    EXPECT_FALSE(any(isin(x, zeros({0}, {i32, device}))).item<bool>());
  }
}

TEST(Clamp, TakesTensorsAndNaNBoundsShow) {
  for (Device device : op_tests::devices()) {
    const Tensor x = tensor({-2.0f, 0.0f, 2.0f}).to(device);
    const Tensor lo = tensor({-1.0f, static_cast<float>(kNaN), -1.0f}).to(device);
    const std::vector<float> y = clamp(x, lo, Tensor()).to_vector<float>();
    EXPECT_EQ(y[0], -1);
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_EQ(y[2], 2);
    EXPECT_EQ(x.clamp(Tensor(), full({}, 1, device)).to_vector<float>(), (std::vector<float>{-2, 0, 1}));
    EXPECT_EQ(where(x > 0, 1.0, -1.0).to_vector<float>(), (std::vector<float>{-1, -1, 1}));
  }
}

TEST(Fills, TakeShapeDtypeAndDevice) {
  for (Device device : op_tests::devices()) {
    const Tensor x = zeros({2, 3}, {f16, device});
    for (const Tensor& y : {full_like(x, 2), rand_like(x), randn_like(x)}) {
      EXPECT_EQ(y.shape(), x.shape());
      EXPECT_EQ(y.dtype(), f16);
      EXPECT_EQ(y.device(), x.device());
    }
    EXPECT_EQ(linspace(0, 1, 0, device).shape(), (Shape{0}));
    EXPECT_EQ(eye(2, {}, {i64, device}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 0, 1}));
    auto step = capture([](const Tensor& a) { return a + linspace(0, 1, 3, a.device()) + eye(3, {}, a.device()); },
                        {.device = device});
    const Tensor a = ones({3, 3}, device);
    const std::vector<float> first = step(a).to_vector<float>();
    for (int run = 0; run < 2; ++run) EXPECT_EQ(step(a).to_vector<float>(), first);
  }
  EXPECT_THAT([] { linspace(0, 1, -1); }, ThrowsMessage<ShapeError>(HasSubstr("linspace: -1 steps")));
  EXPECT_THAT([] { eye(-1); }, ThrowsMessage<ShapeError>(HasSubstr("eye: -1 rows")));
}

TEST(Activations, RefuseWhatHasNoMeaning) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT([&] { glu(x); }, ThrowsMessage<ShapeError>(HasSubstr("glu: dimension -1 of [2, 3] has an odd size")));
  EXPECT_THAT([&] { prelu(x, zeros({2})); }, ThrowsMessage<ShapeError>(HasSubstr("prelu: the weight [2] must be [1]")));
  EXPECT_THAT([&] { hardtanh(x, 1, 0); }, ThrowsMessage<ShapeError>(HasSubstr("hardtanh: the bounds 1 and 0")));
  EXPECT_THAT([&] { rrelu(x, 1, 0); }, ThrowsMessage<ShapeError>(HasSubstr("rrelu: lower 1")));
  manual_seed(3);
  const std::vector<float> y = rrelu(full({1000}, -1), 0.1, 0.3, true).to_vector<float>();
  for (float v : y) EXPECT_TRUE(v <= -0.1f && v >= -0.3f) << v;
}

}  // namespace
}  // namespace etna
