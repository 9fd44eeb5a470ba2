#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/literal.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

// What rows of elementwise.def promise beyond the conformance walk: digits over the whole range, values at the edges,
// integers divided by 0 and shifted too far.
namespace etna {
namespace {

using op_tests::kInf;
using op_tests::kNaN;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Function {
  const char* name;
  Tensor (*row)(const Tensor&);
  double (*exact)(double);
  double lo, hi;  ///< where most of the points lie
  double ulp;
};

/// Points of a range, and numbers of all sizes.
std::vector<float> points(double lo, double hi) {
  std::vector<float> all = {0.0f,    -0.0f, 1.0f,  -1.0f,  0.5f,   -0.5f, 2.0f,  88.7f,  -88.7f,  89.5f,  1e-30f,
                            -1e-30f, 1e30f, 1e-7f, -1e-7f, -1e30f, 3e38f, 20.0f, -20.0f, -104.0f, 130.0f, -130.0f};
  for (double special : {kInf, -kInf, kNaN}) all.push_back(static_cast<float>(special));
  std::mt19937 bits(11);
  for (int i = 0; i < 20000; ++i) {
    all.push_back(static_cast<float>(lo + (hi - lo) * static_cast<double>(bits()) / 4294967296.0));
    const double size = std::ldexp(1.0, static_cast<int>(bits() % 240) - 120);
    all.push_back(
        static_cast<float>((bits() % 2 == 0 ? size : -size) * (1 + static_cast<double>(bits()) / 4294967296.0)));
  }
  return all;
}

/// In units in the last place of f32; below the normal numbers, which GPUs may flush to 0, in the unit of the smallest.
double error_of(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  if (std::abs(want) > 3.4028235677973366e38) return std::isinf(got) && (got > 0) == (want > 0) ? 0 : kInf;
  if (!std::isfinite(got)) return kInf;
  if (std::abs(want) < 1.2e-38) return std::abs(static_cast<double>(got)) <= 1.3e-38 ? 0 : kInf;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 24);
}

double exact_logsigmoid(double x) { return (x < 0 ? x : 0) - std::log1p(std::exp(-std::abs(x))); }

/// musl's acosh, which WebAssembly has, is finite for some x below -1.
double exact_acosh(double x) { return x < 1 ? std::nan("") : std::acosh(x); }

const Function kFunctions[] = {
    {"exp2", exp2, std::exp2, -20, 20, 4},      {"expm1", expm1, std::expm1, -2, 2, 4},
    {"log2", log2, std::log2, 0.3, 3, 4},       {"log10", log10, std::log10, 0.3, 3, 4},
    {"log1p", log1p, std::log1p, -0.9, 2, 4},   {"tan", tan, std::tan, -10, 10, 4},
    {"asin", asin, std::asin, -1, 1, 4},        {"acos", acos, std::acos, -1, 1, 4},
    {"atan", atan, std::atan, -4, 4, 4},        {"sinh", sinh, std::sinh, -3, 3, 4},
    {"cosh", cosh, std::cosh, -3, 3, 4},        {"asinh", asinh, std::asinh, -3, 3, 4},
    {"acosh", acosh, exact_acosh, 1, 4, 4},     {"atanh", atanh, std::atanh, -1, 1, 4},
    {"erfc", erfc, std::erfc, -4, 9, 6},        {"logsigmoid", logsigmoid, exact_logsigmoid, -20, 20, 4},
    {"floor", floor, std::floor, -9, 9, 0},     {"ceil", ceil, std::ceil, -9, 9, 0},
    {"round", round, std::nearbyint, -9, 9, 0}, {"trunc", trunc, std::trunc, -9, 9, 0},
};

TEST(Functions, KeepTheirDigitsOverTheWholeRangeOnEveryDevice) {
  for (const Function& f : kFunctions) {
    const std::vector<float> x = points(f.lo, f.hi);
    for (Device device : op_tests::devices()) {
      const std::vector<float> y = f.row(from_vector(x).to(device)).to_vector<float>();
      double worst = 0;
      float at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double error = error_of(y[i], f.exact(static_cast<double>(x[i])));
        if (error > worst) worst = error, at = x[i];
      }
      EXPECT_LE(worst, f.ulp) << f.name << " of " << at << " on " << device.str();
      RecordProperty(std::string(f.name) + (device.is_cpu() ? "_cpu" : "_gpu"), std::to_string(worst));
    }
  }
}

TEST(Functions, ErfinvUndoesErf) {
  std::vector<double> y, x;
  for (double v = -3.6; v < 3.6; v += 0.01) y.push_back(v), x.push_back(std::erf(v));
  // The argument is rounded to f32, so near ±1 only what it says about y can be known.
  std::vector<float> rounded(x.begin(), x.end());
  for (Device device : op_tests::devices()) {
    const std::vector<float> got = erfinv(from_vector(rounded).to(device)).to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double slack = 1.2e-7 * std::exp(y[i] * y[i]);
      EXPECT_NEAR(got[i], y[i], 1e-6 + slack) << y[i];
    }
    const std::vector<float> edges =
        erfinv(from_vector(std::vector<float>{1, -1, 1.5f, 0}).to(device)).to_vector<float>();
    EXPECT_EQ(edges[0], kInf);
    EXPECT_EQ(edges[1], -kInf);
    EXPECT_TRUE(std::isnan(edges[2]));
    EXPECT_EQ(edges[3], 0);
  }
  const Tensor wide = erfinv(from_vector(x));  // f64 to the last digits
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(wide.to_vector<double>()[i], y[i], 1e-9) << y[i];
}

TEST(Functions, OfTwoOperandsAgreeWithTheCLibraryAtTheEdges) {
  const std::vector<float> edges = {0.0f,
                                    -0.0f,
                                    1,
                                    -1,
                                    0.5f,
                                    1e-30f,
                                    1e30f,
                                    3e38f,
                                    7,
                                    -7,
                                    3,
                                    -3,
                                    static_cast<float>(kInf),
                                    -static_cast<float>(kInf),
                                    static_cast<float>(kNaN)};
  std::vector<float> a, b;
  for (float x : edges) {
    for (float y : edges) a.push_back(x), b.push_back(y);
  }
  for (Device device : op_tests::devices()) {
    const Tensor x = from_vector(a).to(device), y = from_vector(b).to(device);
    auto check = [&](const char* name, const Tensor& result, auto exact, double ulp) {
      const std::vector<float> got = result.to_vector<float>();
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_LE(error_of(got[i], exact(static_cast<double>(a[i]), static_cast<double>(b[i]))), ulp)
            << name << '(' << a[i] << ", " << b[i] << ") is " << got[i];
      }
    };
    check(
        "fmod", fmod(x, y), [](double p, double q) { return std::fmod(p, q); }, 0);
    check(
        "atan2", atan2(x, y), [](double p, double q) { return std::atan2(p, q); }, 4);
    check(
        "hypot", hypot(x, y), [](double p, double q) { return std::hypot(p, q); }, 4);
    check(
        "copysign", copysign(x, y), [](double p, double q) { return std::copysign(p, q); }, 0);
  }
}

TEST(Remainder, HasTheSignOfTheDivisorAndFmodThatOfTheDividend) {
  for (Device device : op_tests::devices()) {
    const Tensor a = tensor({7, -7, 7, -7}).to(device), b = tensor({3, 3, -3, -3}).to(device);
    EXPECT_EQ((a % b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, -2, -1}));
    EXPECT_EQ(fmod(a, b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, -1, 1, -1}));
    EXPECT_EQ(floor_divide(a, b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, -3, -3, 2}));
    EXPECT_EQ(div(a, b, "trunc").to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, -2, -2, 2}));
    EXPECT_EQ((a.to(f32) % b.to(f32)).to_vector<float>(), (std::vector<float>{1, 2, -2, -1}));
    EXPECT_EQ((a % 4.0).dtype(), i64);
    EXPECT_EQ(floor_divide(tensor({1.0f}).to(device), 0.1).to_vector<float>()[0], 9);  // 0.1f is above 0.1
  }
}

TEST(Integers, DividedByZeroGiveQuotientZeroAndOverMinusOneWrapAround) {
  for (Device device : op_tests::devices()) {
    for (DType t : {i64, i32, i8}) {
      const std::int64_t least = t == i64   ? std::numeric_limits<std::int64_t>::min()
                                 : t == i32 ? std::numeric_limits<std::int32_t>::min()
                                            : std::numeric_limits<std::int8_t>::min();
      const Tensor a = from_vector(std::vector<std::int64_t>{5, -5, least, 0}).to(t).to(device);
      auto with = [&](double b) { return full({4}, b, {t, device}); };
      EXPECT_EQ(floor_divide(a, with(0)).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 0, 0}));
      EXPECT_EQ(remainder(a, with(0)).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, -5, least, 0}));
      EXPECT_EQ(floor_divide(a, with(-1)).to_vector<std::int64_t>(), (std::vector<std::int64_t>{-5, 5, least, 0}));
      EXPECT_EQ(fmod(a, with(-1)).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 0, 0}));
    }
  }
}

TEST(Integers, ShiftAndCombineBits) {
  for (Device device : op_tests::devices()) {
    const Tensor a = from_vector(std::vector<std::int32_t>{12, -12, 1, 5}).to(device);
    const Tensor b = from_vector(std::vector<std::int32_t>{10, 3, 40, -1}).to(device);
    EXPECT_EQ((a & b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{8, 0, 0, 5}));
    EXPECT_EQ((a | 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{13, -11, 1, 5}));
    EXPECT_EQ((a ^ b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{6, -9, 41, -6}));
    EXPECT_EQ((~a).to_vector<std::int64_t>(), (std::vector<std::int64_t>{-13, 11, -2, -6}));
    EXPECT_EQ((a << 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{48, -48, 4, 20}));
    EXPECT_EQ((a >> 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{6, -6, 0, 2}));
    EXPECT_EQ((a << b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{12288, -96, 0, 0}));
    EXPECT_EQ((a >> b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, -2, 0, 0}));
    EXPECT_EQ((~a.to(u8)).to_vector<std::int64_t>()[0], 243);
    const Tensor mask = a > 0;
    EXPECT_EQ((mask & ~mask).dtype(), boolean);
  }
  EXPECT_THAT([] { tensor({1.5f}) & tensor({2}); },
              ThrowsMessage<DtypeError>(HasSubstr("bitwise_and: takes integers or bool, not f32")));
}

TEST(Functions, GiveTheSameBitsInACapturedStep) {
  for (Device device : op_tests::devices()) {
    const Tensor x = randn({64}, device) * 0.3;
    auto all = [](const Tensor& a) {
      return sinh(a) + asin(clamp(a, -0.9, 0.9)) + erfc(a) + fmod(a, 0.07) + elu(a, 0.7) + leaky_relu(a) + mish(a);
    };
    auto step = capture(all, {.device = device});
    const std::vector<float> eager = all(x).to_vector<float>();
    for (int run = 0; run < 3; ++run) EXPECT_EQ(step(x).to_vector<float>(), eager) << "run " << run;
  }
}

}  // namespace
}  // namespace etna
