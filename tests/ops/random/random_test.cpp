#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/internal/platform.h>
#include <etna/device/memory.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/internal/philox.h>

#include "ops/rows.h"

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::uint8_t> random_bytes(const Tensor& x) {
  Tensor host = x.detach().to(kCPU).contiguous();
  std::vector<std::uint8_t> out(static_cast<std::size_t>(host.numel()) * item_size(host.dtype()));
  if (!out.empty()) std::memcpy(out.data(), host.raw_data(), out.size());
  return out;
}

double random_mean_of(const std::vector<double>& v, int power = 1) {
  double s = 0;
  for (double x : v) s += std::pow(x, power);
  return s / static_cast<double>(v.size());
}

// The answers that Salmon et al. publish with their Random123 distribution (kat_vectors, philox 4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  using random::Counter, random::Key;
  EXPECT_EQ(random::block(Counter{}, Key{}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t f = 0xffffffff;
  EXPECT_EQ(random::block({f, f, f, f}, {f, f}), (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(random::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, BlocksSideBySideAreTheBlocks) {
  random::Stream s{0x123456789abcdefULL, 42};
  std::uint32_t words[4 * random::kWide];
  std::uint64_t first = 0xfffffff8u;  // the index carries into its upper word
  random::blocks(s, first, words);
  for (std::uint64_t i = 0; i < random::kWide; ++i) {
    random::Counter c = random::block(s, first + i);
    for (std::size_t w = 0; w < 4; ++w) EXPECT_EQ(words[4 * i + w], c[w]);
  }
}

TEST(Random, ASeedGivesTheSameNumbersAgain) {
  manual_seed(5);
  EXPECT_EQ(current_seed(), 5u);
  Tensor a = randn({37}), b = randn({37});
  manual_seed(5);
  EXPECT_EQ(random_bytes(randn({37})), random_bytes(a));
  EXPECT_EQ(random_bytes(randn({37})), random_bytes(b));
  EXPECT_NE(random_bytes(a), random_bytes(b));
  manual_seed(6);
  EXPECT_NE(random_bytes(randn({37})), random_bytes(a));
}

TEST(Random, ALongerTensorBeginsWithTheShorter) {
  manual_seed(3);
  std::vector<float> few = randn({130}).to_vector<float>();
  manual_seed(3);
  std::vector<float> many = randn({4099}).to_vector<float>();
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(Random, UniformNumbersAreUniformAndBelowOne) {
  for (DType t : {f64, f32, f16, bf16}) {
    manual_seed(1);
    std::vector<double> v = rand({200000}, {t}).to_vector<double>();
    double half_step = t == f16 ? 0x1p-12 : t == bf16 ? 0x1p-9 : 0;  // numbers are truncated, not rounded
    EXPECT_NEAR(random_mean_of(v) + half_step, 0.5, 0.003) << name(t);
    EXPECT_NEAR(random_mean_of(v, 2) - random_mean_of(v) * random_mean_of(v), 1 / 12.0, 0.001) << name(t);
    EXPECT_GE(*std::min_element(v.begin(), v.end()), 0) << name(t);
    EXPECT_LT(*std::max_element(v.begin(), v.end()), 1) << name(t);
  }
}

TEST(Random, NormalNumbersHaveTheNormalMomentsAndTails) {
  manual_seed(1);
  std::vector<double> v = randn({1000000}).to_vector<double>();
  EXPECT_NEAR(random_mean_of(v), 0, 0.004);
  EXPECT_NEAR(random_mean_of(v, 2), 1, 0.006);
  EXPECT_NEAR(random_mean_of(v, 3), 0, 0.015);
  EXPECT_NEAR(random_mean_of(v, 4), 3, 0.04);
  for (double edge : {0.5, 1.0, 2.0, 3.0, 4.0}) {
    double expected = std::erfc(edge / std::sqrt(2.0)) * 1e6;
    auto beyond = static_cast<double>(std::count_if(v.begin(), v.end(), [&](double x) { return std::abs(x) > edge; }));
    EXPECT_NEAR(beyond, expected, 5 * std::sqrt(expected) + 1) << edge;
  }
  // The distribution function maps them to uniform numbers: none of a hundred bins is far off.
  std::vector<int> bins(100);
  for (double x : v) ++bins[static_cast<std::size_t>(std::min(99.0, 50 * std::erfc(-x / std::sqrt(2.0))))];
  for (int count : bins) EXPECT_NEAR(count, 10000, 500);
}

TEST(Random, IntegersFillTheirRangeAndNoMore) {
  manual_seed(1);
  std::vector<std::int64_t> v = randint(-3, 4, {70000}).to_vector<std::int64_t>();
  for (std::int64_t k = -3; k < 4; ++k)
    EXPECT_NEAR(static_cast<double>(std::count(v.begin(), v.end(), k)), 10000, 500) << k;
  EXPECT_EQ(*std::min_element(v.begin(), v.end()), -3);
  EXPECT_EQ(*std::max_element(v.begin(), v.end()), 3);
  for (std::int64_t one : randint(9, 10, {5}).to_vector<std::int64_t>()) EXPECT_EQ(one, 9);
  std::vector<std::int64_t> wide = randint(INT64_MIN, INT64_MAX, {1000}).to_vector<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(std::count_if(wide.begin(), wide.end(), [](std::int64_t x) { return x < 0; })), 500,
              100);
  EXPECT_EQ(randint(0, 256, {9}, {u8}).dtype(), u8);
}

TEST(Random, RefusesWhatItCannotMake) {
  EXPECT_THAT([] { randint(3, 3, {2}); }, ThrowsMessage<ShapeError>(HasSubstr("[3, 3) is empty")));
  EXPECT_THAT([] { randint(0, 300, {2}, {u8}); },
              ThrowsMessage<DtypeError>(HasSubstr("u8 does not hold all of [0, 300)")));
  EXPECT_THAT([] { rand({2}, {i32}); }, ThrowsMessage<DtypeError>(HasSubstr("rand: got dtype i32")));
  EXPECT_THAT([] { randint(0, 2, {2}, {f32}); }, ThrowsMessage<DtypeError>(HasSubstr("integer numbers")));
  EXPECT_EQ(rand({0, 3}).numel(), 0);
  EXPECT_EQ(randn({}).dim(), 0);
}

TEST(Random, ThreadsNeverShareNumbers) {
  if (!kHasThreads) GTEST_SKIP() << "a build without threads";
  manual_seed(11);
  std::vector<std::vector<float>> drawn(8);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) threads.emplace_back([&mine] { mine = rand({64}).to_vector<float>(); });
  for (std::thread& t : threads) t.join();
  std::set<std::vector<float>> distinct(drawn.begin(), drawn.end());
  EXPECT_EQ(distinct.size(), drawn.size());
}

TEST(Random, TheGpuDrawsTheSameBitsWithoutTransfers) {
  if (!op_tests::have_vulkan()) GTEST_SKIP() << "no GPU";
  for (std::int64_t n : {1, 3, 1031, 70001}) {
    for (DType t : {f64, f32, f16, bf16}) {
      manual_seed(0xfedcba9876543210ULL + static_cast<std::uint64_t>(n));
      Tensor u = rand({n}, {t}), z = randn({n}, {t});
      manual_seed(current_seed());
      Transfers before = transfers();
      Tensor gpu_u = rand({n}, {t, kVulkan}), gpu_z = randn({n}, {t, kVulkan});
      EXPECT_EQ(transfers().h2d_bytes, before.h2d_bytes);
      EXPECT_EQ(random_bytes(gpu_u), random_bytes(u)) << name(t) << " rand " << n;
      EXPECT_EQ(random_bytes(gpu_z), random_bytes(z)) << name(t) << " randn " << n;
    }
    for (DType t : {i64, i32, i8, u8}) {
      manual_seed(4);
      Tensor few = randint(t == u8 ? 3 : -100, 101, {n}, {t}),
             many = t == i64 ? randint(INT64_MIN, INT64_MAX, {n}) : few;
      manual_seed(4);
      EXPECT_EQ(random_bytes(randint(t == u8 ? 3 : -100, 101, {n}, {t, kVulkan})), random_bytes(few))
          << name(t) << " " << n;
      if (t == i64) {
        EXPECT_EQ(random_bytes(randint(INT64_MIN, INT64_MAX, {n}, {t, kVulkan})), random_bytes(many)) << n;
      }
    }
  }
}

TEST(Dropout, KeepsTheExpectedValue) {
  manual_seed(2);
  for (double p : {0.1, 0.5, 0.9}) {
    std::vector<double> y = dropout(ones({100000}), p).to_vector<double>();
    auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0));
    EXPECT_NEAR(dropped / 1e5, p, 0.006);
    EXPECT_NEAR(random_mean_of(y), 1, 0.03);
    EXPECT_NEAR(*std::max_element(y.begin(), y.end()), 1 / (1 - p), 1e-5);
  }
}

TEST(Dropout, DoesNothingWhereItShouldNot) {
  Tensor x = from_vector(std::vector<float>{1, -2, 3});
  EXPECT_EQ(dropout(x, 0).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(dropout(x, 0.5, false).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(dropout(x, 1, false).to_vector<float>(), x.to_vector<float>());
}

TEST(Dropout, OfProbabilityOneIsZeroAndSoIsItsGradient) {
  Tensor x = from_vector(std::vector<float>{1, INFINITY, NAN});
  x.requires_grad_();
  Tensor y = dropout(x, 1);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 0, 0}));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(Dropout, TheGradientPassesWhereTheValueDid) {
  for (Device device : op_tests::have_vulkan() ? std::vector<Device>{kCPU, kVulkan} : std::vector<Device>{kCPU}) {
    Tensor x = ones({1031}, {f32, device});
    x.requires_grad_();
    Tensor y = dropout(x, 0.3);
    y.backward(ones_like(y));
    EXPECT_EQ(x.grad().to_vector<float>(), y.to_vector<float>()) << device.str();
  }
}

TEST(Dropout, TheGpuDropsTheSameElements) {
  if (!op_tests::have_vulkan()) GTEST_SKIP() << "no GPU";
  for (DType t : {f32, f16, bf16}) {
    for (std::int64_t n : {1, 1031, 2048, 70001}) {
      manual_seed(8);
      Tensor x = randn({n}, {t});
      Tensor y = dropout(x, 0.3), from_second = dropout(x.slice(0, 1, n), 0.3);
      manual_seed(8);
      Tensor z = randn({n}, {t, kVulkan});
      EXPECT_EQ(random_bytes(dropout(z, 0.3)), random_bytes(y)) << n << " " << name(t);
      EXPECT_EQ(random_bytes(dropout(z.slice(0, 1, n), 0.3)), random_bytes(from_second))
          << n << " " << name(t) << ", unaligned";
    }
  }
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  for (double p : {-0.1, 1.5, std::nan("")}) {
    EXPECT_THAT([&] { dropout(ones({2}), p); }, ThrowsMessage<ShapeError>(HasSubstr("a probability lies in [0, 1]")));
  }
  EXPECT_THAT([] { dropout(ones({2}, {i32}), 0.5); },
              ThrowsMessage<DtypeError>(HasSubstr("dropout: the input is i32")));
}

}  // namespace
}  // namespace etna
