#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/activations/internal/table.h>

#include "device/instruction_sets.h"

namespace etna::cpu {
namespace {

class VectorRows : public OnInstructionSets {};
INSTANTIATE_TEST_SUITE_P(By, VectorRows, every_instruction_set(), instruction_set_name);

TEST_P(VectorRows, RunOnTheInstructionsAskedFor) { EXPECT_STREQ(vector_target(), hwy::TargetName(GetParam())); }

constexpr float kVectorRowsInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Distinct numbers over [low, high]; their count is not a multiple of any vector length.
std::vector<float> spread(float low, float high, std::size_t n = 100'003) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = low + (high - low) * (static_cast<float>(i) / static_cast<float>(std::max<std::size_t>(n - 1, 1)));
  return x;
}

/// The error in units in the last place of `wanted` as a float, or of `floor` if that is larger.
double units(float got, double wanted, double floor) {
  const int exponent = std::ilogb(std::max({std::abs(wanted), floor, 1.2e-38}));
  return std::abs(static_cast<double>(got) - wanted) / std::ldexp(1.0, exponent - 23);
}

using Compute = std::function<void(const float* x, float* y, std::int64_t n)>;
Compute unary_of(UnaryOp op) {
  return [op](auto... row) { unary(op, row...); };
}
Compute value_of(Activation activation) {
  return [activation](auto... row) { activate(activation, row...); };
}
Compute derivative_of(Activation activation) {
  return [activation](auto... row) { activation_derivative(activation, row...); };
}

struct Claim {
  const char* name;
  Compute compute;
  float low, high;
  std::function<double(double)> exact;
  double floor;  ///< errors are relative to numbers at least this large
  double units = 4;
};

double phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double inside(double x) { return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x); }
double inside_slope(double x) { return std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x); }

TEST_P(VectorRows, UnaryOpsAreWithinTheirUnits) {
  const Claim claims[] = {
      {"exp", unary_of(UnaryOp::exp), -87, 88, [](double x) { return std::exp(x); }, 0},
      {"tanh", unary_of(UnaryOp::tanh), -12, 12, [](double x) { return std::tanh(x); }, 0},
      {"sigmoid", unary_of(UnaryOp::sigmoid), -80, 80, logistic, 0},
      {"erf", unary_of(UnaryOp::erf), -5, 5, [](double x) { return std::erf(x); }, 0},
      {"gelu", value_of(Activation::gelu), -12, 12, [](double x) { return x * phi(x); }, 1},
      {"gelu_derivative", derivative_of(Activation::gelu), -12, 12, [](double x) { return phi(x) + x * density(x); },
       1},
      {"gelu_tanh", value_of(Activation::gelu_tanh), -12, 12,
       [](double x) { return x / 2 * (1 + std::tanh(inside(x))); }, 1},
      {"gelu_tanh_derivative", derivative_of(Activation::gelu_tanh), -12, 12,
       [](double x) {
         const double t = std::tanh(inside(x));
         return (1 + t) / 2 + x / 2 * (1 - t * t) * inside_slope(x);
       },
       1},
      {"silu", value_of(Activation::silu), -80, 80, [](double x) { return x * logistic(x); }, 0},
      {"silu_derivative", derivative_of(Activation::silu), -80, 80,
       [](double x) { return logistic(x) * (1 + x * (1 - logistic(x))); }, 1},
  };
  for (const Claim& claim : claims) {
    const std::vector<float> x = spread(claim.low, claim.high);
    std::vector<float> y(x.size());
    claim.compute(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = units(y[i], claim.exact(static_cast<double>(x[i])), claim.floor);
      if (error > worst) worst = error, at = x[i];
    }
    EXPECT_LE(worst, claim.units) << claim.name << " at " << at << " by " << vector_target();
    RecordProperty(claim.name, std::to_string(worst));
  }
}

TEST_P(VectorRows, UnaryOpsKeepNaNAndReachTheirLimits) {
  const std::vector<float> x = {kNaN, kVectorRowsInfinity, -kVectorRowsInfinity, 0, 200, -200};
  std::vector<Compute> all = {unary_of(UnaryOp::exp), unary_of(UnaryOp::tanh), unary_of(UnaryOp::sigmoid),
                              unary_of(UnaryOp::erf)};
  for (const activations::Row& row : activations::kTable) {
    all.push_back(value_of(row.activation));
    if (row.rows == activations::Rows::vectors) all.push_back(derivative_of(row.activation));
  }
  for (std::size_t f = 0; f < all.size(); ++f) {
    std::vector<float> y(x.size());
    all[f](x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    EXPECT_TRUE(std::isnan(y[0])) << f;
    for (std::size_t i = 3; i < x.size(); ++i) EXPECT_FALSE(std::isnan(y[i])) << f << " of " << x[i];
  }
  std::vector<float> y(x.size());
  unary(UnaryOp::exp, x.data(), y.data(), 6);
  EXPECT_EQ(y[1], kVectorRowsInfinity);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  unary(UnaryOp::tanh, x.data(), y.data(), 6);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], -1);
}

TEST_P(VectorRows, ARowsEndIsTreatedLikeItsMiddle) {
  for (std::size_t n = 0; n <= 70; ++n) {
    const std::vector<float> x = spread(-3, 3, n);
    std::vector<float> y(n + 1, 7.0f), e(n + 1, 7.0f);
    activate(Activation::gelu, x.data(), y.data(), static_cast<std::int64_t>(n));
    const double sum_e = exp_sum(x.data(), 1.0f, e.data(), static_cast<std::int64_t>(n));
    double want_e = 0, want_sum = 0, want_squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], x[i] * phi(x[i]), 1e-6);
      EXPECT_NEAR(e[i], std::exp(x[i] - 1.0), 1e-5);
      want_e += std::exp(x[i] - 1.0);
      want_sum += x[i];
      want_squares += (x[i] - 0.5) * (x[i] - 0.5);
    }
    EXPECT_EQ(y[n], 7) << n;
    EXPECT_EQ(e[n], 7) << n;
    const auto count = static_cast<std::int64_t>(n);
    EXPECT_NEAR(sum_e, want_e, 1e-6 * (1 + want_e)) << n;
    EXPECT_NEAR(sum(x.data(), count), want_sum, 1e-12 * (1 + want_squares)) << n;
    EXPECT_NEAR(squares(x.data(), 0.5, count), want_squares, 1e-12 * (1 + want_squares)) << n;
    EXPECT_EQ(largest(x.data(), count), n == 0 ? -kVectorRowsInfinity : x.back()) << n;
  }
}

TEST_P(VectorRows, TheLargestOfARowWithNaNIsNaN) {
  for (std::size_t at : {0u, 7u, 8u, 15u, 31u, 36u}) {
    std::vector<float> x = spread(-1, 1, 37);
    x[at] = kNaN;
    EXPECT_TRUE(std::isnan(largest(x.data(), 37))) << at;
  }
  const std::vector<float> x = {-kVectorRowsInfinity, kVectorRowsInfinity, -kVectorRowsInfinity};
  EXPECT_EQ(largest(x.data(), 3), kVectorRowsInfinity);
}

TEST_P(VectorRows, SumsOfLongRowsKeepTheirDigits) {
  const std::int64_t n = 1'000'003;
  std::vector<float> x(static_cast<std::size_t>(n)), y(x.size());
  double want = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = -10.0f * static_cast<float>(i % 1013) / 1013.0f;
    want += std::exp(static_cast<double>(x[i]));
  }
  EXPECT_NEAR(exp_sum(x.data(), 0.0f, y.data(), n) / want, 1, 2e-7);
}

TEST_P(VectorRows, ExponentialsAreNormalNumbersOrZero) {
  const std::vector<float> x = {-87.0f, -87.4f, -95.0f,  -1000.0f, -kVectorRowsInfinity, -86.0f, 0.0f,
                                -87.3f, -88.0f, -104.0f, -86.5f};
  std::vector<float> y(x.size());
  exp_sum(x.data(), 0.0f, y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool normal = x[i] >= -87.33f;
    EXPECT_EQ(std::isnormal(y[i]), normal) << x[i] << " gave " << y[i];
    EXPECT_EQ(y[i] == 0.0f, !normal) << x[i] << " gave " << y[i];
  }
}

TEST_P(VectorRows, ALargeMeanTakesNoDigitsFromWhatIsNormalized) {
  const double mean = 12345.678;
  for (std::int64_t n : {1, 7, 8, 37}) {
    std::vector<float> x(static_cast<std::size_t>(n)), weight(x.size()), bias(x.size()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(mean) + 0.01f * static_cast<float>(i);
      weight[i] = 1.0f + static_cast<float>(i), bias[i] = -0.5f * static_cast<float>(i);
    }
    normalize(x.data(), mean, 3.0, weight.data(), bias.data(), y.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = (static_cast<double>(x[i]) - mean) * 3.0 * weight[i] + bias[i];
      EXPECT_NEAR(y[i], want, 1e-6 * (1 + std::abs(bias[i]))) << i << " of " << n;
    }
    normalize(x.data(), mean, 3.0, nullptr, nullptr, y.data(), n);
    EXPECT_NEAR(y.back(), (static_cast<double>(x.back()) - mean) * 3.0, 1e-6);
  }
}

TEST_P(VectorRows, ColumnsAreAddedUpExactly) {
  for (std::int64_t n : {1, 3, 4, 29}) {
    const std::vector<float> a = spread(0.1f, 3, static_cast<std::size_t>(n)), b = spread(-2, 2, a.size());
    std::vector<double> sums(a.size(), 1e9), products = sums;
    add_products(sums.data(), a.data(), nullptr, n);
    add_products(products.data(), a.data(), b.data(), n);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(sums[i], 1e9 + static_cast<double>(a[i]));
      EXPECT_EQ(products[i], 1e9 + static_cast<double>(a[i]) * static_cast<double>(b[i]));
    }
  }
}

/// Half a unit of bf16 above 1 and above its successor; a NaN that only its lower bits identify as one.
TEST_P(VectorRows, BF16IsRoundedToNearestEvenAndKeepsNaN) {
  std::vector<float> x = {1.00390625f,
                          1.01171875f,
                          1.00390637f,
                          -1.01171875f,
                          kVectorRowsInfinity,
                          3.4e38f,
                          0,
                          -0.0f,
                          std::bit_cast<float>(0x7f800001u)};
  const std::vector<std::uint16_t> want = {0x3f80, 0x3f82, 0x3f81, 0xbf82, 0x7f80, 0x7f80, 0, 0x8000, 0x7fc0};
  for (std::size_t n = 1; n <= 3 * want.size(); ++n) {
    std::vector<float> row(n), back(n);
    std::vector<std::uint16_t> bits(n);
    for (std::size_t i = 0; i < n; ++i) row[i] = x[i % x.size()];
    narrow_bf16(row.data(), bits.data(), static_cast<std::int64_t>(n));
    widen_bf16(bits.data(), back.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(bits[i], want[i % want.size()]) << i << " of " << n;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), static_cast<std::uint32_t>(bits[i]) << 16);
    }
  }
}

}  // namespace
}  // namespace etna::cpu
