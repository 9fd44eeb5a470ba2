#include <cmath>
#include <random>

#include "hopper/attention_call.h"

// Masks in the kernels of attention for Hopper GPUs, on the CPU.
namespace hopper {
namespace {

class HopperAttentionMask : public HopperAttention {};

constexpr float kNever = -INFINITY;

/// A window of so many keys around a query.
Mask near(Mask::Kind kind, U32 distance) {
  return {kind,
          [=](U32, U32, U32 query, U32 key) { return key + distance > query && query + distance > key ? 0 : kNever; },
          false, false};
}
/// Numbers that look random, some of them hidden, by batch and head.
Mask scattered(Mask::Kind kind, bool by_batch, bool by_head) {
  return {kind,
          [=](U32 batch, U32 head, U32 query, U32 key) {
            const U32 x = (((batch * 7 + head) * 1009 + query) * 1013 + key) * 2654435761u >> 16;
            return x % 3 == 0 ? kNever : kind == Mask::kBools ? 0 : static_cast<float>(x % 64) / 16 - 2;
          },
          by_batch, by_head};
}

/// Of heads up to 64 and 128.
void expect_masked_agrees(Sizes s, const Mask& mask, double softcap = 0) {
  const Limits limits{.causal = false, .softcap = softcap, .mask = mask};
  s.size = 64;
  expect_agrees<true, 64, 3, 128, 128, Kernels::kMasked>(s, 3, limits);
  s.size = 120;
  expect_agrees<true, 128, 2, 128, 64, Kernels::kMasked>(s, 3, limits);
}

TEST_F(HopperAttentionMask, AgreesWithF64) {
  expect_masked_agrees({2, 2, 1, 70, 133, 0, true}, scattered(Mask::kBools, true, true));
  expect_masked_agrees({2, 2, 2, 10, 40, 0}, scattered(Mask::kHalf, true, false));
  expect_masked_agrees({1, 2, 1, 70, 150, 0, true}, scattered(Mask::kWide, false, true));
  expect_masked_agrees({1, 1, 1, 270, 270, 0}, near(Mask::kBools, 60));
  for (const Mask::Kind kind : {Mask::kBools, Mask::kHalf, Mask::kWide})
    expect_masked_agrees({1, 1, 1, 1, 1, 0}, near(kind, 1));
}

TEST_F(HopperAttentionMask, AgreesWithF64OfLargeHeads) {
  for (const Mask::Kind kind : {Mask::kBools, Mask::kHalf, Mask::kWide}) {
    const Limits limits{.causal = false, .mask = scattered(kind, false, true)};
    expect_agrees<true, 256, 2, 64, 64, Kernels::kMasked>({1, 2, 1, 70, 150, 256}, 3, limits);
  }
}

TEST_F(HopperAttentionMask, AgreesWithF64UnderSoftCaps) {
  expect_masked_agrees({1, 2, 1, 70, 150, 0}, scattered(Mask::kBools, false, true), 2);
  const Limits added{.causal = false, .softcap = 2, .mask = scattered(Mask::kWide, false, true)};
  expect_agrees<true, 64, 3, 128, 0, Kernels::kMasked>({1, 2, 1, 70, 150, 64}, 3, added);
}

// Whole blocks, too, in whatever order: what a block of queries attends to tells nothing of the next.
TEST_F(HopperAttentionMask, AgreesWithF64WhereRowsAttendToNothing) {
  const auto hidden = [](U32, U32, U32 query, U32 key) {
    const U32 of[] = {3, 0, 9, 1, 9, 0, 2};  // the block of keys that 64 queries attend to
    return key / 128 == of[query / 64] && query % 5 != 0 ? 0 : kNever;
  };
  expect_masked_agrees({1, 1, 1, 330, 430, 0}, {Mask::kBools, hidden, false, false});
  const auto nothing = [](U32, U32, U32, U32) { return kNever; };
  expect_masked_agrees({1, 1, 1, 100, 256, 0}, {Mask::kWide, nothing, false, false});
}

// A row of the lowest numbers attends to all keys alike; gradients of it are finite.
TEST_F(HopperAttentionMask, TakesTheLowestNumbers) {
  const float lowest = -3.3895314e38f;
  const auto at = [=](U32, U32, U32 query, U32 key) { return query == 5 || key > query ? lowest : 0.0f; };
  for (const Mask::Kind kind : {Mask::kHalf, Mask::kWide}) {
    Attention<true, 64, Kernels::kMasked> a({1, 1, 1, 150, 150, 64}, {.causal = false, .mask = {kind, at}});
    a.forward<3, 128>(2, 1);
    const Wanted wanted(a);
    EXPECT_LT(distance(a.y.values, wanted.y), kBound);
    a.backward<128>(2, 1);
    for (U32 row = 0; row < 150; ++row) EXPECT_TRUE(a.dq.finite(row) && a.dk.finite(row) && a.dv.finite(row)) << row;
  }
}

TEST_F(HopperAttentionMask, KeepsWhatIsNoNumberVisibleAndApart) {
  const auto at = [](U32, U32, U32 query, U32 key) { return query == 70 && key == 3 ? NAN : key > query ? kNever : 0; };
  for (const Mask::Kind kind : {Mask::kHalf, Mask::kWide}) {
    Attention<true, 64, Kernels::kMasked> a({1, 1, 1, 200, 200, 64}, {.causal = false, .mask = {kind, at}});
    a.forward<3, 128>(2, 1);
    for (U32 row = 0; row < 200; ++row) EXPECT_EQ(a.y.finite(row), row != 70) << row;
    a.backward<128>(2, 1);
    for (U32 row = 0; row < 200; ++row) EXPECT_EQ(a.dq.finite(row), row != 70) << row;
    EXPECT_FALSE(a.dk.finite(70));
  }
  // A value that no query attends to does not reach gradients.
  Attention<true, 64, Kernels::kMasked> a(
      {1, 1, 1, 100, 100, 64},
      {.causal = false, .mask = {Mask::kBools, [](U32, U32, U32, U32 key) { return key == 40 ? kNever : 0; }}});
  a.forward<3, 128>(2, 1);
  a.v.values[a.v.at(0, 0, 40, 5)] = 0x7FC0;
  a.backward<128>(2, 1);
  for (U32 row = 0; row < 100; ++row) EXPECT_TRUE(a.dq.finite(row) && a.dk.finite(row)) << row;
}

TEST_F(HopperAttentionMask, HasTheSameBitsInWhateverOrderBlocksRun) {
  const Sizes sizes{1, 1, 1, 200, 200, 64};
  const Limits limits{.causal = false, .mask = scattered(Mask::kHalf, false, true)};
  Attention<true, 64, Kernels::kMasked> first(sizes, limits), next(sizes, limits);
  first.forward<3, 128>(2, 1);
  first.backward<128>(8, 1);
  next.forward<3, 128>(1, 2);
  next.backward<128>(2, 3);
  EXPECT_EQ(next.y.values, first.y.values);
  EXPECT_EQ(next.dq.values, first.dq.values);
  EXPECT_EQ(next.dk.values, first.dk.values);
  EXPECT_EQ(next.dv.values, first.dv.values);
}

}  // namespace
}  // namespace hopper
