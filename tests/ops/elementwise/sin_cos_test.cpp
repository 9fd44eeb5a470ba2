#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

namespace etna {
namespace {

using op_tests::kInf;
using op_tests::kNaN;

/// Angles of every size, and random bit patterns of finite numbers.
std::vector<float> angles() {
  std::vector<float> all = {0.0f,       -0.0f,      1e-45f,     1e-38f,     1e-20f,        1e-3f,       0.78539816f,
                            1.5707964f, 3.1415927f, 6.2831855f, 255.99998f, 256.0f,        1e4f,        4e5f,
                            1e6f,       1e10f,      1e20f,      3e38f,      3.4028235e38f, 16367173e5f, 1.5951e9f};
  // Those nearest to multiples of π/2, where few digits of the difference remain.
  for (double k = 1; k < 1e9; k = k * 1.37 + 1) all.push_back(static_cast<float>(std::floor(k) * 1.5707963267948966));
  std::mt19937 bits(7);
  for (int i = 0; i < 3000; ++i) all.push_back(1e-3f + 10.0f * static_cast<float>(bits() >> 8) / 16777216.0f);
  for (int i = 0; i < 3000; ++i) all.push_back(300.0f * static_cast<float>(bits() >> 8) / 16777216.0f);
  while (all.size() < 20000) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    if (std::isfinite(x)) all.push_back(x);
  }
  const std::size_t positive = all.size();
  for (std::size_t i = 0; i < positive; ++i) all.push_back(-all[i]);
  return all;
}

/// Expects errors of at most two units in the last place of f32.
void expect_digits(const Tensor& got, const std::vector<float>& x, double (*exact)(double), const char* what) {
  const std::vector<float> values = got.to_vector<float>();
  ASSERT_EQ(values.size(), x.size());
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = exact(static_cast<double>(x[i]));
    int exponent = 0;
    std::frexp(want, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent, -125) - 24);
    const double error = std::abs(static_cast<double>(values[i]) - want) / unit;
    if (std::isnan(error) || error > worst) worst = std::isnan(error) ? kInf : error, at = x[i];
  }
  EXPECT_LE(worst, 2) << what << " of " << at;
}

TEST(SinAndCos, KeepTheirDigitsForEveryAngleOnEveryDevice) {
  const std::vector<float> x = angles();
  for (Device device : op_tests::devices()) {
    Tensor on = from_vector(x).to(device);
    expect_digits(
        sin(on), x, [](double a) { return std::sin(a); }, "sin");
    expect_digits(
        cos(on), x, [](double a) { return std::cos(a); }, "cos");
    on.requires_grad_();
    auto gradient = [&](const Tensor& y) { return autograd::grad(TensorList{sum(y)}, TensorList{on})[0]; };
    expect_digits(
        gradient(sin(on)), x, [](double a) { return std::cos(a); }, "the gradient of sin");
    expect_digits(
        gradient(cos(on)), x, [](double a) { return -std::sin(a); }, "the gradient of cos");
  }
}

TEST(SinAndCos, KeepTheSignOfZeroAndMakeNaNOfInfinity) {
  for (Device device : op_tests::devices()) {
    const Tensor x = from_vector(std::vector<double>{0.0, -0.0, kInf, -kInf, kNaN}).to(f32).to(device);
    const std::vector<float> s = sin(x).to_vector<float>(), c = cos(x).to_vector<float>();
    EXPECT_FALSE(std::signbit(s[0]));
    EXPECT_TRUE(std::signbit(s[1]));
    EXPECT_EQ(c[0], 1.0f);
    EXPECT_EQ(c[1], 1.0f);
    for (std::size_t i = 2; i < 5; ++i) EXPECT_TRUE(std::isnan(s[i]) && std::isnan(c[i])) << i;
  }
}

TEST(SinAndCos, OfHalvesAreThoseOfFloatsRounded) {
  for (Device device : op_tests::devices()) {
    for (DType t : {f16, bf16}) {
      const Tensor x = from_vector(std::vector<double>{0.1, 3, 700, 60000}).to(t).to(device);
      EXPECT_EQ(sin(x).to_vector<float>(), sin(x.to(f32)).to(t).to_vector<float>());
      EXPECT_EQ(cos(x).to_vector<float>(), cos(x.to(f32)).to(t).to_vector<float>());
    }
  }
}

TEST(SinAndCos, AreTheSameInACapturedStep) {
  const std::vector<float> x = angles();
  for (Device device : op_tests::devices()) {
    auto step = capture([](const Tensor& a) { return sin(a) + cos(a) * 0.5; }, {.device = device});
    const Tensor on = from_vector(x).to(device);
    const std::vector<float> eager = (sin(on) + cos(on) * 0.5).to_vector<float>();
    for (int run = 0; run < 3; ++run) EXPECT_EQ(step(on).to_vector<float>(), eager) << "run " << run;
  }
}

}  // namespace
}  // namespace etna
