#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

namespace etna {
namespace {

TEST(DType, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Half h;
    h.bits = static_cast<std::uint16_t>(bits);
    auto value = static_cast<float>(h);
    if ((bits & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(static_cast<float>(Half(value)))) << bits;
    } else {
      EXPECT_EQ(Half(value).bits, bits);
    }
  }
}

TEST(DType, EveryBFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    BFloat16 b;
    b.bits = static_cast<std::uint16_t>(bits);
    auto value = static_cast<float>(b);
    if ((bits & 0x7fff) > 0x7f80) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    } else {
      EXPECT_EQ(BFloat16(value).bits, bits);
    }
  }
}

/// The nearest value of a 16-bit type, ties to even bits, found by comparing neighbours.
template <typename T>
std::uint16_t nearest(float value, std::uint16_t below) {
  T lower, upper;
  lower.bits = below;
  upper.bits = static_cast<std::uint16_t>(below + 1);
  double to_lower = static_cast<double>(value) - static_cast<double>(static_cast<float>(lower));
  double to_upper = static_cast<double>(static_cast<float>(upper)) - static_cast<double>(value);
  return to_lower < to_upper || (to_lower == to_upper && below % 2 == 0) ? lower.bits : upper.bits;
}

TEST(DType, RoundsToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    Half a, b;
    a.bits = bits;
    b.bits = static_cast<std::uint16_t>(bits + 1);
    auto low = static_cast<float>(a), high = static_cast<float>(b);
    for (float share : {0.25F, 0.5F, 0.500001F, 0.75F}) {
      float value = low + (high - low) * share;
      EXPECT_EQ(Half(value).bits, nearest<Half>(value, bits)) << value;
      EXPECT_EQ(Half(-value).bits, nearest<Half>(value, bits) | 0x8000) << -value;
    }
  }
  for (std::uint16_t bits = 0; bits < 0x7f00; ++bits) {
    BFloat16 a, b;
    a.bits = bits;
    b.bits = static_cast<std::uint16_t>(bits + 1);
    float value = (static_cast<float>(a) + static_cast<float>(b)) / 2;
    EXPECT_EQ(BFloat16(value).bits, nearest<BFloat16>(value, bits)) << value;
  }
}

TEST(DType, LargeFloatsBecomeInfiniteHalves) {
  EXPECT_EQ(static_cast<float>(Half(65504.0F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(Half(65519.9F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(Half(65520.0F)), INFINITY);
  EXPECT_EQ(static_cast<float>(Half(-1e9F)), -INFINITY);
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), INFINITY);
}

// torch.promote_types over these dtypes. It has i16 for u8 with i8, while Etna takes i32.
TEST(DType, PromotesAsPyTorchDoes) {
  const DType order[] = {f64, f32, f16, bf16, i64, i32, i8, u8, boolean};
  const DType table[9][9] = {
      {f64, f64, f64, f64, f64, f64, f64, f64, f64},        //
      {f64, f32, f32, f32, f32, f32, f32, f32, f32},        //
      {f64, f32, f16, f32, f16, f16, f16, f16, f16},        //
      {f64, f32, f32, bf16, bf16, bf16, bf16, bf16, bf16},  //
      {f64, f32, f16, bf16, i64, i64, i64, i64, i64},       //
      {f64, f32, f16, bf16, i64, i32, i32, i32, i32},       //
      {f64, f32, f16, bf16, i64, i32, i8, i32, i8},         //
      {f64, f32, f16, bf16, i64, i32, i32, u8, u8},         //
      {f64, f32, f16, bf16, i64, i32, i8, u8, boolean},
  };
  for (std::size_t a = 0; a < 9; ++a) {
    for (std::size_t b = 0; b < 9; ++b) {
      EXPECT_EQ(promote(order[a], order[b]), table[a][b]) << name(order[a]) << " " << name(order[b]);
    }
  }
}

TEST(DType, ZeroDimensionalOperandsAndNumbersYieldToTensors) {
  Tensor halves = ones({2}, {f16}), ints = ones({2}, {i32}), bytes = ones({2}, {u8});
  EXPECT_EQ((halves + scalar(1)).dtype(), f16);
  EXPECT_EQ((halves + ones({2})).dtype(), f32);
  EXPECT_EQ((ints + scalar(1, {i64})).dtype(), i32);
  EXPECT_EQ((ints + scalar(1)).dtype(), f32);
  EXPECT_EQ((ints + 1.0).dtype(), i32);
  EXPECT_EQ((ints + 1.5).dtype(), f32);
  EXPECT_EQ((bytes * 2.0).dtype(), u8);
  EXPECT_EQ((ints / ints).dtype(), f32);
  EXPECT_EQ((ints < 1.0).dtype(), boolean);
}

TEST(DType, ConversionsTruncateAndTellZeroFromTheRest) {
  Tensor x = from_vector(std::vector<float>{-1.75F, -0.5F, 0, 0.5F, 2.99F});
  EXPECT_EQ(x.to(i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 0, 0, 0, 2}));
  EXPECT_EQ(x.to(boolean).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 1, 0, 1, 1}));
  EXPECT_EQ(from_vector(std::vector<std::int64_t>{300, -1}).to(u8).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{44, 255}));
  EXPECT_EQ(from_vector(std::vector<std::int64_t>{(std::int64_t{1} << 53) + 1}).to(i64).to_vector<std::int64_t>()[0],
            (std::int64_t{1} << 53) + 1);
  EXPECT_EQ(from_vector(std::vector<double>{0.1}).to(f32).item<float>(), 0.1F);
  EXPECT_EQ(full({1}, true, {boolean}).to(f16).item<float>(), 1.0F);
}

TEST(DType, ConversionsKeepEveryHalfOnEveryDevice) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (DType t : {f16, bf16}) {
    Tensor x = from_bytes(bits.data(), {65536}, t);
    std::vector<Tensor> results = {x.to(f32).to(t)};
    if (std::getenv("ETNA_TEST_VULKAN") != nullptr) results.push_back(x.to(kVulkan).to(f32).to(t).to(kCPU));
    for (const Tensor& y : results) {
      const auto* got = static_cast<const std::uint16_t*>(y.raw_data());
      std::uint32_t infinity = t == f16 ? 0x7c00 : 0x7f80;
      for (std::uint32_t i = 0; i < 65536; ++i) {
        if ((i & 0x7fff) <= infinity)
          EXPECT_EQ(got[i], i) << name(t);
        else
          EXPECT_GT(got[i] & 0x7fffU, infinity) << name(t) << " NaN " << i;
      }
    }
  }
}

TEST(DType, IsFoundByName) {
  for (DType t : {f64, f32, f16, bf16, i64, i32, i8, u8, boolean}) EXPECT_EQ(dtype_named(name(t)), t);
  EXPECT_THROW(dtype_named("float"), DtypeError);
  EXPECT_THROW(dtype_named(""), DtypeError);
}

TEST(DType, AnUnknownOneIsRefused) {
  EXPECT_THROW(visit(static_cast<DType>(9), [](auto) {}), DtypeError);
  EXPECT_THROW(visit(static_cast<DType>(255), [](auto) {}), DtypeError);
}

}  // namespace
}  // namespace etna
