#include <cmath>
#include <random>

#include "hopper/attention_call.h"

// The kernels of attention for Hopper GPUs, on the CPU.
namespace hopper {
namespace {

TEST_F(HopperAttention, AgreesWithF64) {
  expect_agrees<true, 64, 3, 128, 128>({1, 2, 1, 300, 300, 64, true});
  expect_agrees<false, 64, 3, 128, 128>({2, 2, 2, 200, 333, 64});
  expect_agrees<true, 64, 3, 128, 128>({1, 1, 1, 1, 1, 40});
  expect_agrees<true, 64, 3, 128, 128>({1, 1, 1, 10, 500, 64});
  expect_agrees<true, 64, 3, 128, 128>({1, 1, 1, 500, 10, 64});
  expect_agrees<true, 96, 2, 128, 0>({1, 2, 1, 300, 200, 96, true});
  expect_agrees<true, 128, 2, 128, 64>({1, 2, 1, 200, 200, 128});
  expect_agrees<false, 128, 2, 128, 64>({1, 1, 1, 70, 150, 120, true});
  expect_agrees<true, 256, 2, 64, 64>({1, 2, 2, 150, 150, 256});
  expect_agrees<false, 256, 2, 64, 64>({1, 4, 2, 65, 130, 200, true});
  expect_agrees<true, 256, 2, 64, 64>({1, 1, 1, 10, 200, 256});
  expect_agrees<true, 256, 2, 64, 64>({1, 1, 1, 200, 10, 256});
  expect_agrees<true, 256, 2, 64, 64>({1, 1, 1, 1, 1, 144});
}

/// Of heads up to 64 and 128.
void expect_general_agrees(Sizes s, const Limits& limits, U32 at_once = 3) {
  s.size = 64;
  expect_agrees<true, 64, 3, 128, 128, Kernels::kGeneral>(s, at_once, limits);
  s.size = 120;
  expect_agrees<true, 128, 2, 128, 64, Kernels::kGeneral>(s, at_once, limits);
}

template <bool CAUSAL>
void expect_gradients_of_few(const Sizes& s) {
  SCOPED_TRACE(
      fmt::format("{} heads over {}, queries {}, keys {}, size {}", s.heads, s.groups, s.queries, s.keys, s.size));
  Attention<CAUSAL, 64> a(s);
  a.template forward<3, 128>(2, 1);
  a.backward_of_few(2, 1);
  const Wanted wanted(a);
  EXPECT_LT(distance(a.dq.values, wanted.dq), kBound);
  EXPECT_LT(distance(a.dk.values, wanted.dk), kBound);
  EXPECT_LT(distance(a.dv.values, wanted.dv), kBound);
  Attention<CAUSAL, 64> again(s);
  again.template forward<3, 128>(1, 2);
  again.backward_of_few(5, 3);
  EXPECT_EQ(again.dq.values, a.dq.values);
  EXPECT_EQ(again.dk.values, a.dk.values);
  EXPECT_EQ(again.dv.values, a.dv.values);
}

TEST_F(HopperAttention, OfFewRowsAgreesWithF64) {
  expect_gradients_of_few<true>({2, 4, 4, 64, 64, 32, true});
  expect_gradients_of_few<true>({1, 6, 2, 37, 50, 64});
  expect_gradients_of_few<false>({2, 3, 1, 50, 37, 56, true});
  expect_gradients_of_few<true>({1, 2, 1, 60, 9, 8});
  expect_gradients_of_few<false>({1, 1, 1, 2, 64, 40});
}

TEST_F(HopperAttention, OfFewRowsKeepsWhatIsNoNumberApart) {
  Attention<true, 64> a({1, 1, 1, 50, 60, 64});
  a.forward<3, 128>(2, 1);
  a.q.values[a.q.at(0, 0, 20, 3)] = 0x7FC0;
  a.backward_of_few(2, 1);
  for (U32 row = 0; row < 50; ++row) EXPECT_EQ(a.dq.finite(row), row != 20) << row;
  for (U32 row = 0; row < 50; ++row) EXPECT_EQ(a.dv.finite(row), row > 20) << row;

  Attention<true, 64> hidden({1, 1, 1, 50, 60, 64});
  for (U32 row : {50u, 58u}) hidden.k.values[hidden.k.at(0, 0, row, 3)] = hidden.v.values[row * 64 + 5] = 0x7FC0;
  hidden.forward<3, 128>(2, 1);
  hidden.backward_of_few(2, 1);
  for (U32 i = 0; i < 64; ++i) EXPECT_EQ(hidden.dk(0, 0, 58, i), 0) << i;
  for (U32 i = 0; i < 64; ++i) EXPECT_EQ(hidden.dv(0, 0, 58, i), 0) << i;
}

TEST_F(HopperAttention, AgreesWithF64WhereValuesHaveAnotherSize) {
  expect_agrees<true, 192, 2, 128, 64, Kernels::kPlain, 128>({1, 2, 1, 200, 200, 192, true, 128});
  expect_agrees<false, 192, 2, 128, 64, Kernels::kPlain, 128>({2, 1, 1, 70, 150, 168, false, 104});
  expect_agrees<true, 192, 2, 128, 64, Kernels::kGeneral, 128>({1, 1, 1, 200, 200, 192, false, 128}, 3, {true, 70, 5});
  expect_agrees<true, 64, 3, 128, 128>({1, 2, 1, 150, 150, 64, true, 32});
  expect_agrees<true, 128, 2, 128, 64>({1, 1, 1, 150, 150, 56, false, 128});
  expect_agrees<false, 128, 2, 128, 64>({1, 1, 1, 70, 150, 96, false, 64});
}

TEST_F(HopperAttention, AgreesWithF64WithinWindows) {
  expect_general_agrees({1, 2, 1, 400, 400, 0}, {true, 100});
  expect_general_agrees({1, 1, 1, 200, 200, 0}, {true, 1});
  expect_general_agrees({1, 1, 1, 300, 300, 0}, {true, 300});
  expect_general_agrees({1, 1, 1, 10, 500, 0}, {true, 4});
  expect_general_agrees({1, 1, 1, 500, 100, 0}, {true, 60});  // the last rows attend to nothing
  expect_agrees<true, 256, 2, 64, 64, Kernels::kGeneral>({1, 1, 1, 200, 70, 256}, 3, {true, 60});
  expect_agrees<true, 256, 2, 64, 64, Kernels::kGeneral>({1, 2, 1, 150, 150, 256}, 3, {true, 30});
}

TEST_F(HopperAttention, AgreesWithF64WithSoftCaps) {
  expect_general_agrees({1, 2, 1, 150, 150, 0}, {true, 0, 2});
  expect_general_agrees({1, 1, 1, 70, 200, 0}, {false, 0, 0.5});
  expect_general_agrees({1, 1, 1, 150, 150, 0}, {true, 50, 30});
}

TEST_F(HopperAttention, AgreesWithF64OfPackedDocuments) {
  for (const bool causal : {false, true}) {
    expect_general_agrees({2, 1, 1, 300, 300, 0, true}, {causal, 0, 0, {{130, 1, 1, 100}, {300}}});
    expect_general_agrees({1, 1, 1, 200, 200, 0}, {causal, 0, 3, {{10, 20, 30, 40, 50}}});
    expect_general_agrees({1, 1, 1, 1, 1, 0}, {causal, 0, 0, {{1}}});
  }
  expect_general_agrees({1, 1, 1, 500, 500, 0}, {true, 90, 0, {{5, 340, 100}}});
  expect_agrees<true, 64, 3, 128, 128, Kernels::kGeneral>({1, 1, 1, 520, 520, 64}, 1, {true, 0, 0, {{256, 128, 64}}});
  expect_agrees<true, 96, 2, 128, 0, Kernels::kGeneral>({1, 2, 1, 300, 300, 96}, 3, {true, 0, 0, {{130, 1, 100}}});
  expect_agrees<true, 256, 2, 64, 64, Kernels::kGeneral>({1, 1, 1, 300, 300, 256}, 3, {false, 0, 0, {{130, 1, 100}}});
}

// Nor do blocks wait for ever.
TEST_F(HopperAttention, EndsForBoundsThatAreNoDocuments) {
  std::mt19937 random(3);
  for (int round = 0; round < 4; ++round) {
    Attention<true, 64, Kernels::kGeneral> a({1, 1, 1, 700, 700, 64}, {round % 2 == 0, 0, 0, {{700}}});
    for (int2& bounds : a.documents) {
      bounds = {static_cast<int>(random() % 1000) - 100, static_cast<int>(random() % 1000) - 100};
      if (random() % 50 == 0) bounds = {2147483647, -2147483647};
    }
    a.forward<3, 128>(3, 1);
    a.backward<128>(3, 1);
  }
}

TEST_F(HopperAttention, GoesOnWithOneBlockAtATime) { expect_agrees<true, 64, 3, 128, 128>({1, 2, 2, 520, 520, 64}, 1); }

TEST_F(HopperAttention, HasTheSameBitsInWhateverOrderBlocksRun) {
  const Sizes sizes{1, 2, 1, 400, 400, 64};
  Attention<true, 64> first(sizes);
  first.forward<3, 128>(2, 1);
  first.backward<128>(8, 1);
  for (unsigned seed = 2; seed < 5; ++seed) {
    Attention<true, 64> next(sizes);
    next.forward<3, 128>(1 + seed, seed);
    next.backward<128>(seed, seed);
    EXPECT_EQ(next.y.values, first.y.values);
    EXPECT_EQ(next.logsumexp, first.logsumexp);
    EXPECT_EQ(next.dq.values, first.dq.values);
    EXPECT_EQ(next.dk.values, first.dk.values);
    EXPECT_EQ(next.dv.values, first.dv.values);
  }
}

TEST_F(HopperAttention, HasTheSameBitsOfDocumentsInWhateverOrderBlocksRun) {
  const Sizes sizes{1, 2, 1, 500, 500, 64};
  const Limits limits{true, 200, 5, {{100, 350, 3}}};
  Attention<true, 64, Kernels::kGeneral> first(sizes, limits);
  first.forward<3, 128>(2, 1);
  first.backward<128>(8, 1);
  for (unsigned seed = 2; seed < 5; ++seed) {
    Attention<true, 64, Kernels::kGeneral> next(sizes, limits);
    next.forward<3, 128>(1 + seed, seed);
    next.backward<128>(seed, seed);
    EXPECT_EQ(next.y.values, first.y.values);
    EXPECT_EQ(next.logsumexp, first.logsumexp);
    EXPECT_EQ(next.dq.values, first.dq.values);
    EXPECT_EQ(next.dk.values, first.dk.values);
    EXPECT_EQ(next.dv.values, first.dv.values);
  }
}

// Five heads of keys are more than those whose work alternates.
TEST_F(HopperAttention, HasTheSameBitsOfLargeHeadsInWhateverOrderBlocksRun) {
  const Sizes sizes{1, 5, 5, 100, 100, 192, false, 128};
  Attention<true, 192, Kernels::kPlain, 128> first(sizes);
  first.forward<2, 128>(2, 1);
  first.backward<64>(10, 1);
  for (unsigned seed = 2; seed < 4; ++seed) {
    Attention<true, 192, Kernels::kPlain, 128> next(sizes);
    next.forward<2, 128>(2, 1);
    next.backward<64>(3 * seed - 5, seed);
    EXPECT_EQ(next.dq.values, first.dq.values);
    EXPECT_EQ(next.dk.values, first.dk.values);
    EXPECT_EQ(next.dv.values, first.dv.values);
  }
}

TEST_F(HopperAttention, KeepsWhatIsNoNumberVisibleAndApart) {
  Attention<true, 128> a({1, 1, 1, 200, 200, 128});
  a.q.values[a.q.at(0, 0, 70, 3)] = 0x7FC0;
  a.forward<2, 128>(2, 1);
  a.backward<64>(2, 1);
  for (U32 row = 0; row < 200; ++row) {
    EXPECT_EQ(a.y.finite(row), row != 70) << row;
    EXPECT_EQ(a.dq.finite(row), row != 70) << row;
    EXPECT_EQ(a.dv.finite(row), row > 70) << row;
  }
  EXPECT_FALSE(a.dk.finite(70));
}

TEST_F(HopperAttention, KeepsWhatIsNoNumberApartInLargeHeads) {
  Attention<true, 256> a({1, 1, 1, 130, 150, 256});
  a.q.values[a.q.at(0, 0, 70, 3)] = 0x7FC0;
  a.forward<2, 64>(2, 1);
  a.backward<64>(2, 1);
  for (U32 row = 0; row < 130; ++row) {
    EXPECT_EQ(a.dq.finite(row), row != 70) << row;
    EXPECT_EQ(a.dv.finite(row), row > 70) << row;
  }
  // Nor do keys that no query attends to have gradients.
  for (U32 row : {131u, 149u}) a.k.values[a.k.at(0, 0, row, 3)] = a.v.values[a.v.at(0, 0, row, 5)] = 0x7FC0;
  a.backward<64>(2, 1);
  for (U32 row = 130; row < 150; ++row) {
    for (U32 i = 0; i < 256; ++i) ASSERT_TRUE(a.dk(0, 0, row, i) == 0 && a.dv(0, 0, row, i) == 0) << row;
  }
}

TEST_F(HopperAttention, KeepsKeysThatNoQueryAttendsToOut) {
  Attention<true, 64> a({1, 1, 1, 70, 120, 64});
  for (U32 row : {75u, 100u}) a.k.values[a.k.at(0, 0, row, 3)] = a.v.values[a.v.at(0, 0, row, 5)] = 0x7FC0;
  a.backward<128>(2, 1);
  for (U32 row = 70; row < 120; ++row) {
    for (U32 i = 0; i < 64; ++i) ASSERT_EQ(a.dk(0, 0, row, i), 0) << row;
    for (U32 i = 0; i < 64; ++i) ASSERT_EQ(a.dv(0, 0, row, i), 0) << row;
  }
}

}  // namespace
}  // namespace hopper
