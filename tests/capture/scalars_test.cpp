#include <cstdint>
#include <random>

#include "training.h"

namespace etna {
namespace {

class CapturedScalars : public OnDevice {};
ETNA_ON_BOTH_DEVICES(CapturedScalars);

std::int32_t wrapped(std::int64_t n) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(n)); }

/// Adds `numbers` to 0 one by one in a captured step; each is a scalar argument of its op.
void expect_sum(Device device, const std::vector<std::int32_t>& numbers, bool one_by_one) {
  auto step = capture(
      [&](const Tensor& x) {
        Tensor sum = x;
        for (std::int32_t n : numbers) sum = sum + static_cast<double>(n);
        return sum;
      },
      {.device = device, .one_by_one = one_by_one});
  std::int64_t wanted = 0;
  for (std::int32_t n : numbers) wanted += n;
  for (int start : {0, 0, 5}) {
    ASSERT_EQ(step(full({1}, start, {i32})).item<std::int32_t>(), wrapped(wanted + start)) << numbers.front();
  }
  ASSERT_EQ(step.replays(), 1);
}

TEST_P(CapturedScalars, NumbersThatLookLikeAddressesAreNumbers) {
  // Numbers that are also halves of addresses, of placeholders (from 2^62 on), and of NaNs.
  for (std::int64_t n :
       {std::int64_t{-660000}, std::int64_t{0x40000000}, std::int64_t{0x4000'0001}, std::int64_t{0x7f00},
        std::int64_t{0x7fff'ffff}, -std::int64_t{0x7fff'ffff}, std::int64_t{-1}, std::int64_t{0}}) {
    for (bool one_by_one : {false, true}) expect_sum(device(), {static_cast<std::int32_t>(n)}, one_by_one);
  }
}

// 100,000 random 32-bit numbers, fused, and in separate dispatches.
TEST_P(CapturedScalars, AreAnyNumbersOf32Bits) {
  std::mt19937 random(11);
  constexpr int kSteps = 100, kEach = 1000;
  for (int s = 0; s < kSteps; ++s) {
    std::vector<std::int32_t> numbers(kEach);
    for (std::int32_t& n : numbers) n = static_cast<std::int32_t>(random());
    expect_sum(device(), numbers, s % 10 == 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CapturedScalars, AreAnyBitsOfAFloat) {
  std::mt19937 random(12);
  for (int s = 0; s < 20; ++s) {
    std::vector<float> numbers(64);
    for (float& n : numbers) {
      do n = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      while (std::fpclassify(n) != FP_NORMAL && n != 0);
    }
    auto step = capture(
        [&](const Tensor& x) {
          std::vector<Tensor> all;
          for (float n : numbers) all.push_back(x * static_cast<double>(n));
          return cat(all);
        },
        {.device = device()});
    for (int call = 0; call < 3; ++call) ASSERT_EQ(step(ones({1})).to_vector<float>(), numbers);
  }
}

}  // namespace
}  // namespace etna
