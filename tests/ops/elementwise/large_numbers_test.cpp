#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <etna/nn/recurrent.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "nn/on_device.h"
#include "runner/run_tests.h"

// Tensors against numbers that their dtype cannot hold: every op that takes a number.
namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using LargeValues = std::vector<double>;

class LargeNumbers : public OnDevice {};
ETNA_ON_EVERY_DEVICE(LargeNumbers);

TEST_P(LargeNumbers, DoNotWrapAgainstI32) {
  const Tensor x = from_vector<std::int32_t>({1, -1, 7}, device());
  EXPECT_EQ((x < 3e9).to_vector<double>(), (LargeValues{1, 1, 1}));
  EXPECT_EQ((x == 4294967297.0).to_vector<double>(), (LargeValues{0, 0, 0}));
  EXPECT_EQ(clamp(x, 0, 3e9).to_vector<double>(), (LargeValues{1, 0, 7}));
  EXPECT_EQ(minimum(x, 3e9).to_vector<double>(), (LargeValues{1, -1, 7}));
  EXPECT_EQ(floor_divide(x, 3e9).to_vector<double>(), (LargeValues{0, -1, 0}));
}

// ---- rows of elementwise.def

enum class LargeKind { same, real, truth, bits };

/// A row with a number for one of its operands; the others are x.
struct NumberRow {
  std::string name;
  LargeKind kind;
  std::function<Tensor(const Tensor& x, double number)> call;
};

std::vector<NumberRow> number_rows() {
  std::vector<NumberRow> all;
  const auto add = [&](const char* name, LargeKind kind, auto call) { all.push_back({name, kind, call}); };
#define ETNA_NUMBERS_1(NAME, KIND)
#define ETNA_NUMBERS_1n(NAME, KIND) \
  add(#NAME, LargeKind::KIND, [](const Tensor& x, double v) { return etna::NAME(x, v); });
#define ETNA_NUMBERS_2n(NAME, KIND) \
  add(#NAME, LargeKind::KIND, [](const Tensor& x, double v) { return etna::NAME(x, x, v); });
#define ETNA_NUMBERS_2(NAME, KIND)                                                         \
  add(#NAME, LargeKind::KIND, [](const Tensor& x, double v) { return etna::NAME(x, v); }); \
  add(#NAME, LargeKind::KIND, [](const Tensor& x, double v) { return etna::NAME(v, x); });
#define ETNA_NUMBERS_3(NAME, KIND)                            \
  add(#NAME, LargeKind::KIND, [](const Tensor& x, double v) { \
    const bool mask = std::string_view(#NAME) == "where";     \
    return etna::NAME(mask ? gt(x, 0.0) : x, x, v);           \
  });                                                         \
  add(#NAME, LargeKind::KIND, [](const Tensor& x, double v) { \
    const bool mask = std::string_view(#NAME) == "where";     \
    return etna::NAME(mask ? gt(x, 0.0) : x, v, x);           \
  });
#define ETNA_ELEMENTWISE(NAME, ARITY, KIND, ...) ETNA_NUMBERS_##ARITY(NAME, KIND)
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
  return all;
}

std::pair<double, double> range_of(DType t) {
  switch (t) {
    case u8:
      return {0, 255};
    case i8:
      return {-128, 127};
    case i32:
      return {-0x1p31, 0x1p31 - 1};
    default:
      return {-0x1p63, 0x1p63};
  }
}

/// Whether a row's result may be the number itself, so that the dtype must hold it.
bool chooses(const std::string& row, DType t, double number) {
  const auto [least, most] = range_of(t);
  const bool low = row == "minimum" || row == "clamp_max" || row == "fmin",
             high = row == "maximum" || row == "clamp_min" || row == "fmax", any = row == "where" || row == "heaviside";
  return (number < least && (low || any)) || (number > most && (high || any));
}

/// The row computed in 64 bits and cut to x's dtype, or where it is not about integers in f32; nothing for DtypeError.
std::optional<Tensor> number_row_expected(const NumberRow& row, const Tensor& x, double number) {
  const bool whole = number == std::trunc(number) && std::abs(number) < 9e18;
  if (!whole && row.kind == LargeKind::bits) return std::nullopt;
  if (!whole || row.kind == LargeKind::real) return row.call(x.to(f32), number);
  if (chooses(row.name, x.dtype(), number)) return std::nullopt;
  const Tensor wide = row.call(x.to(i64), number);
  return row.kind == LargeKind::truth ? wide : wide.to(x.dtype());
}

void expect_same_numbers(const Tensor& got, const Tensor& wanted, const std::string& what) {
  const std::vector<double> a = got.to_vector<double>(), b = wanted.to_vector<double>();
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      (is_floating(got.dtype()) && std::abs(a[i] - b[i]) <= 1e-5 * std::abs(b[i]));
    ASSERT_TRUE(same) << what << ": element " << i << " is " << a[i] << ", not " << b[i];
  }
}

TEST_P(LargeNumbers, OfEveryElementwiseRow) {
  const std::vector<double> whole = {300, -129, 3e9, -3e9, 4294967297.0, 1e12},
                            others = {1.5, NAN, INFINITY, -INFINITY, 1e300};
  int cases = 0, refused = 0, captured = 0;
  for (const NumberRow& row : number_rows()) {
    for (DType t : device().is_cpu() ? std::vector{u8, i8, i32, i64} : thinned<DType>({i32, u8})) {
      const Tensor host = from_vector<std::int32_t>({0, 1, 2, 3, 100, 127}).to(t), x = host.to(device());
      std::vector<double> numbers = whole;
      if (t == i32) numbers.insert(numbers.end(), others.begin(), others.end());
      for (double number : numbers) {
        const std::string what = row.name + " of " + std::string(name(t)) + " and " + std::to_string(number);
        ++cases;
        const std::optional<Tensor> wanted = number_row_expected(row, host, number);
        if (!wanted) {
          EXPECT_THROW(row.call(x, number), DtypeError) << what;
          ++refused;
          continue;
        }
        expect_same_numbers(row.call(x, number), *wanted, what);
        if (t != i32 || std::abs(number) != 3e9) continue;
        auto step = capture([&] { return row.call(x, number); }, {.device = device()});
        for (int i = 0; i < 3; ++i) expect_same_numbers(step(), *wanted, what + ", captured");
        ++captured;
      }
    }
  }
  std::printf("elementwise rows with a number: %d cases, %d refused, %d captured\n", cases, refused, captured);
}

// ---- ops that write a number

struct NumberWrite {
  const char* name;
  /// @return a tensor whose element 0 is the number @param x two elements of the dtype
  std::function<Tensor(Tensor x, double number)> call;
};

std::vector<NumberWrite> number_writes() {
  const auto zero = [](const Tensor& x) { return zeros({1}, {i64, x.device()}); };
  const auto first = [](const Tensor& x) { return eq(cumsum(ones({2}, {i64, x.device()}), 0), 1.0); };
  return {
      {"fill_", [](Tensor x, double v) { return x.fill_(v); }},
      {"fill_", [](Tensor x, double v) { return x[0] = v, x; }},
      {"full",
       [](const Tensor& x, double v) {
         return full({2}, v, {x.dtype(), x.device()});
       }},
      {"full_like", [](const Tensor& x, double v) { return full_like(x, v); }},
      {"scalar",
       [](const Tensor& x, double v) {
         return scalar(v, {x.dtype(), x.device()});
       }},
      {"masked_fill", [=](const Tensor& x, double v) { return masked_fill(x, first(x), v); }},
      {"index_fill", [=](const Tensor& x, double v) { return index_fill(x, 0, zero(x), v); }},
      {"index_fill_", [=](Tensor x, double v) { return index_fill_(x, 0, zero(x), v); }},
      {"scatter", [=](const Tensor& x, double v) { return scatter(x, 0, zero(x), v); }},
      {"scatter_", [=](Tensor x, double v) { return scatter_(x, 0, zero(x), v); }},
      {"index_put_", [=](Tensor x, double v) { return index_put_(x, {zero(x)}, v); }},
      {"index_put_", [=](Tensor x, double v) { return x[first(x)] = v, x; }},
      {"index_put_", [](Tensor x, double v) { return x[{Slice(0, 1)}] = v, x; }},
      {"pad",
       [](const Tensor& x, double v) {
         return pad(x, {1, 0}, PadMode::constant, v);
       }},
      {"pad_sequence",
       [](const Tensor& x, double v) {
         return nn::pad_sequence({x.slice(0, 0, 1), x}, false, v).reshape({4})[2];
       }},
      {"each_step",
       [](const Tensor& x, double v) {
         return each_step([v] { return v; }, {x.dtype(), x.device()});
       }},
  };
}

/// What a tensor holds of the number; nothing where it cannot.
std::optional<double> number_held_by(DType t, double v) {
  if (t == boolean) return v != 0 ? 1 : 0;
  if (is_floating(t)) {
    const double rounded = scalar(std::isfinite(v) ? v : 0, {f64}).to(t).item<double>();
    if (!std::isfinite(v)) return v;
    return std::isinf(rounded) ? std::nullopt : std::optional(rounded);
  }
  const auto [least, most] = range_of(t);
  const bool fits = v >= least && (t == i64 ? v < most : v <= most) && v == std::trunc(v);
  return fits ? std::optional(v) : std::nullopt;
}

TEST_P(LargeNumbers, OfEveryOpThatWritesOne) {
  const LargeValues numbers = {0,         1,    -1,           127,   128,   255,      256,      300,
                               -128,      -129, 2147483647.0, 3e9,   -3e9,  9e18,     0x1p63,   -0x1p63,
                               -0x1.1p63, 1.5,  -0.5,         65504, 65519, 65520,    1e6,      -1e6,
                               3e38,      1e39, -1e39,        1e300, NAN,   INFINITY, -INFINITY};
  int cases = 0, refused = 0;
  for (const NumberWrite& write : number_writes()) {
    for (DType t : kAllDTypes) {
      if (t == f64 && !device().is_cpu()) continue;
      for (double number : numbers) {
        const std::string what =
            std::string(write.name) + " of " + std::string(name(t)) + " and " + std::to_string(number);
        const Tensor x = zeros({2}, {t, device()});
        const std::optional<double> wanted = number_held_by(t, number);
        ++cases;
        if (!wanted) {
          ++refused;
          const std::string says = std::string(write.name) + ": a tensor of " + std::string(name(t)) + " cannot hold";
          EXPECT_THAT([&] { write.call(x, number); }, ThrowsMessage<DtypeError>(HasSubstr(says))) << what;
          EXPECT_EQ(x.to_vector<double>(), (LargeValues{0, 0})) << what;
          continue;
        }
        const double got = write.call(x, number).reshape({-1})[0].item<double>();
        EXPECT_TRUE(got == *wanted || (std::isnan(got) && std::isnan(*wanted))) << what << " gave " << got;
      }
    }
  }
  std::printf("ops that write a number: %d cases, %d refused\n", cases, refused);
}

TEST_P(LargeNumbers, AreRefusedWhileAStepIsCaptured) {
  for (const NumberWrite& write : number_writes()) {
    const Tensor x = zeros({2}, {u8, device()});
    auto step = capture([&] { return write.call(x.clone(), 255).clone(); }, {.device = device()});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step().reshape({-1})[0].item<double>(), 255) << write.name;
    auto wrong = capture([&] { return write.call(x.clone(), 256); }, {.device = device()});
    EXPECT_THROW(wrong(), DtypeError) << write.name;
  }
}

TEST_P(LargeNumbers, OfRanges) {
  const auto of = [&](DType t) { return TensorOptions(t, device()); };
  EXPECT_EQ(arange(0, 256, 1, of(u8)).to_vector<double>().back(), 255);
  EXPECT_THAT([&] { arange(0, 257, 1, of(u8)); }, ThrowsMessage<DtypeError>(HasSubstr("arange: a tensor of u8")));
  EXPECT_THROW(arange(-129, 3, 1, of(i8)), DtypeError);
  EXPECT_THROW(arange(3e9, 3e9 + 2, 1.0, of(i32)), DtypeError);
  EXPECT_THROW(arange(0, 70000, 1, of(f16)), DtypeError);
  EXPECT_EQ(arange(3, -300, 400, of(u8)).numel(), 0);
  EXPECT_EQ(linspace(0, 255, 3, of(u8)).to_vector<double>(), (LargeValues{0, 127, 255}));
  EXPECT_THAT([&] { linspace(0, 256, 3, of(u8)); }, ThrowsMessage<DtypeError>(HasSubstr("linspace: a tensor of u8")));
  EXPECT_THROW(linspace(NAN, 1, 3, of(i32)), DtypeError);
  EXPECT_THAT([&] { logspace(0, 3, 4, 10, of(u8)); }, ThrowsMessage<DtypeError>(HasSubstr("logspace: a tensor of u8")));
  EXPECT_EQ(logspace(0, 2, 3, 10, of(u8)).to_vector<double>(), (LargeValues{1, 10, 100}));
  EXPECT_THROW(randint(0, 257, {3}, of(u8)), DtypeError);
}

TEST_P(LargeNumbers, OfOpsComposedOfOthers) {
  const Tensor x = from_vector<std::uint8_t>({1, 200}, device());
  EXPECT_EQ(clamp(x, -5, 300).to_vector<double>(), (LargeValues{1, 200}));
  EXPECT_THROW(clamp(x, 300, 400), DtypeError);
  EXPECT_THROW(clamp(x, {}, -1), DtypeError);
  EXPECT_EQ(hardtanh(x, -1, 300).to_vector<double>(), (LargeValues{1, 200}));
  EXPECT_THROW(threshold(x, 100, 256), DtypeError);
  EXPECT_EQ(masked_fill(x > 3.0, x > 3.0, 0).to_vector<double>(), (LargeValues{0, 0}));
  EXPECT_EQ(masked_fill(x > 3.0, x > 3.0, 0).dtype(), boolean) << "the dtype stays";
  EXPECT_EQ(searchsorted(x, 300).item<int>(), 2);
  EXPECT_EQ(searchsorted(x, -1).item<int>(), 0);
  EXPECT_EQ(searchsorted(x.to(f16), 1e6).item<int>(), 2);
  EXPECT_EQ(searchsorted(x.to(f32), -1e300).item<int>(), 0);
  // Sums and products wrap, in place as well.
  EXPECT_EQ((x + 300).to_vector<double>(), (LargeValues{45, 244}));
  EXPECT_EQ(x.clone().add_(300).to_vector<double>(), (LargeValues{45, 244}));
  EXPECT_EQ(x.clone().mul_(257).to_vector<double>(), (LargeValues{1, 200}));
  EXPECT_EQ(x.to(i32).add_(4294967297.0).to_vector<double>(), (LargeValues{2, 201}));
  Tensor y = x.clone();
  EXPECT_THROW(y.add_(0.5), DtypeError);
  EXPECT_THROW(y.sub_(NAN), DtypeError);
  EXPECT_THROW(y.add_(x, 0.5), DtypeError);
  EXPECT_THAT(
      [&] {
        index_add(x, 0, zeros({1}, {i64, device()}), x.slice(0, 0, 1), 0.5);
      },
      ThrowsMessage<DtypeError>(HasSubstr("index_add: a tensor of u8 cannot hold 0.5")));
}

TEST_P(LargeNumbers, AreReadOnlyByTypesThatHoldThem) {
  const Tensor steps = from_vector<std::int64_t>({(std::int64_t{1} << 40) + 5}, device());
  const Tensor small = from_vector<std::int64_t>({300}, device()), real = from_vector<float>({3e9f}, device());
  const Tensor nan = from_vector<float>({NAN}, device());
  EXPECT_THROW(steps.item<int>(), Error);
  EXPECT_THROW(steps.item<short>(), Error);
  EXPECT_THROW(small.item<std::uint8_t>(), Error);
  EXPECT_THROW(small.item<std::int8_t>(), Error);
  EXPECT_THROW(real.item<int>(), Error);
  EXPECT_THROW(nan.item<std::int64_t>(), Error);
  EXPECT_THROW(steps.to_vector<std::int32_t>(), Error);
  EXPECT_THROW(small.to_vector<std::uint8_t>(), Error);
  EXPECT_THROW(real.to_vector<std::int32_t>(), Error);
  EXPECT_THROW(nan.to_vector<std::int64_t>(), Error);
  EXPECT_EQ(steps.item<std::int64_t>(), (std::int64_t{1} << 40) + 5);
  EXPECT_EQ(real.item<std::uint32_t>(), 3000000000u);
  EXPECT_EQ(from_vector<float>({-1.9f}, device()).to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1}));
}

}  // namespace
}  // namespace etna
