#include <cmath>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/attention_backward.cuh"

// The kernels of attention for Hopper GPUs, on the CPU.
namespace hopper {
namespace {

struct Sizes {
  U32 batch, heads, groups, queries, keys, size;
  bool side_by_side = false;  ///< the heads of a row
};

/// bf16 [batch, heads, rows, size].
struct Heads {
  Heads(const Sizes& s, U32 heads, U32 rows)
      : batch(s.batch),
        heads(heads),
        rows(rows),
        size(s.size),
        strides{heads * rows * size, s.side_by_side ? size : rows * size, s.side_by_side ? heads * size : size},
        values(std::size_t{batch} * strides[0]) {}

  std::size_t at(U32 b, U32 h, U32 row, U32 i) const {
    return std::size_t{b} * strides[0] + h * strides[1] + row * strides[2] + i;
  }
  double operator()(U32 b, U32 h, U32 row, U32 i) const { return emulated::from_bf16(values[at(b, h, row, i)]); }
  TensorMap map(int box_rows) const {
    return {values.data(), size, rows, heads, batch, strides[2], strides[1], strides[0], box_rows};
  }
  bool finite(U32 row) const {
    for (U32 i = 0; i < size; ++i) {
      if (!std::isfinite((*this)(0, 0, row, i))) return false;
    }
    return true;
  }

  U32 batch, heads, rows, size, strides[3];  ///< of batch, head and row
  std::vector<std::uint16_t> values;
};

/// A call of forward and backward: inputs, and results as the kernels leave them.
template <bool CAUSAL, int SIZE>
struct Attention {
  explicit Attention(const Sizes& s)
      : s(s),
        q(s, s.heads, s.queries),
        k(s, s.groups, s.keys),
        v(k),
        dy(q),
        y(q),
        dq(q),
        dk(k),
        dv(k),
        logsumexp(std::size_t{s.batch} * s.heads * s.queries, NAN),
        scale(1 / std::sqrt(static_cast<float>(s.size))) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (Heads* x : {&q, &k, &v, &dy}) {
      for (std::uint16_t& value : x->values) value = emulated::to_bf16(normal(random));
    }
  }

  /// @param at_once blocks @param seed of their order
  template <int GROUPS, int KEYS>
  void forward(U32 at_once, unsigned seed) {
    using Kernel = AttentionForward<false, CAUSAL, SIZE, SIZE, GROUPS, KEYS, 2>;
    const U32 tiles = (s.queries + Kernel::kRows - 1) / Kernel::kRows;
    const AttentionParameters p{
        .q = q.map(64),
        .k = k.map(KEYS),
        .v = v.map(KEYS),
        .y = y.values.data(),
        .logsumexp = logsumexp.data(),
        .batch = s.batch,
        .heads = s.heads,
        .heads_a_group = s.heads / s.groups,
        .queries = s.queries,
        .keys = s.keys,
        .value_size = s.size,
        .y_batch = y.strides[0],
        .y_head = y.strides[1],
        .y_row = y.strides[2],
        .scale = scale * kLog2E,
        .tiles = tiles,
    };
    emulated::launch(min(at_once, tiles * s.heads * s.batch), Kernel::kThreads, Kernel::kSharedBytes, at_once, seed,
                     [&](char* memory) { Kernel::run(p, memory); });
  }

  template <int QUERIES>
  void backward(U32 at_once, unsigned seed) {
    using Kernel = AttentionBackward<false, CAUSAL, SIZE, QUERIES>;
    const U32 tiles = (s.queries + QUERIES - 1) / QUERIES, key_tiles = (s.keys + Kernel::kKeys - 1) / Kernel::kKeys,
              heads = s.batch * s.heads, rows_a_head = tiles * QUERIES;
    std::vector<float4> rows(heads * rows_a_head / 2);
    std::vector<float4> sums(std::size_t{heads} * tiles * 2048, float4{NAN, NAN, NAN, NAN});
    std::vector<U32> turns(heads * tiles + 1, 77);
    const AttentionRowParameters before{
        .y = y.values.data(),
        .dy = dy.values.data(),
        .logsumexp = logsumexp.data(),
        .rows = reinterpret_cast<float2*>(rows.data()),
        .turns = turns.data(),
        .heads = s.heads,
        .queries = s.queries,
        .size = s.size,
        .rows_a_head = rows_a_head,
        .all = heads * rows_a_head,
        .turn_count = static_cast<U32>(turns.size()),
        .y_strides = {y.strides[0], y.strides[1], y.strides[2]},
        .dy_strides = {dy.strides[0], dy.strides[1], dy.strides[2]},
    };
    emulated::launch(4, 256, 0, 4, seed, [&](char*) { attention_rows<false>(before); });
    const AttentionGradientParameters p{
        .q = q.map(QUERIES),
        .k = k.map(Kernel::kKeys),
        .v = v.map(Kernel::kKeys),
        .dy = dy.map(QUERIES),
        .rows = reinterpret_cast<const float2*>(rows.data()),
        .dq = &sums.data()->x,
        .turns = turns.data(),
        .dk = dk.values.data(),
        .dv = dv.values.data(),
        .batch = s.batch,
        .heads = s.heads,
        .heads_a_group = s.heads / s.groups,
        .queries = s.queries,
        .keys = s.keys,
        .size = s.size,
        .batch_stride = dk.strides[0],
        .head_stride = dk.strides[1],
        .row_stride = dk.strides[2],
        .scale = scale,
        .log2_scale = scale * kLog2E,
        .tiles = tiles,
        .key_tiles = key_tiles,
    };
    emulated::launch(min(at_once, key_tiles * s.batch * s.groups), Kernel::kThreads, Kernel::kSharedBytes, at_once,
                     seed, [&](char* memory) { Kernel::run(p, memory); });
    const AttentionSumParameters behind{
        .sums = &sums.data()->x,
        .dq = dq.values.data(),
        .heads = s.heads,
        .queries = s.queries,
        .size = s.size,
        .blocks_a_head = 2 * tiles,
        .columns = SIZE / 64,
        .strides = {dq.strides[0], dq.strides[1], dq.strides[2]},
        .scale = scale,
    };
    emulated::launch(heads * tiles * 2, 128, 0, 8, seed, [&](char*) { attention_sums<false>(behind); });
  }

  Sizes s;
  Heads q, k, v, dy, y, dq, dk, dv;
  std::vector<float> logsumexp;
  float scale;
};

/// The same in f64, from the same inputs.
struct Wanted {
  template <bool CAUSAL, int SIZE>
  explicit Wanted(const Attention<CAUSAL, SIZE>& a)
      : y(a.q.values.size()), dq(y), dk(a.k.values.size()), dv(dk), logsumexp(a.logsumexp.size()) {
    const Sizes& s = a.s;
    std::vector<double> weights(s.keys);
    for (U32 row = 0; row < s.batch * s.heads * s.queries; ++row) {
      const U32 b = row / s.queries / s.heads, h = row / s.queries % s.heads, t = row % s.queries,
                g = h / (s.heads / s.groups), seen = CAUSAL ? std::min(s.keys, t + 1) : s.keys;
      double sum = 0, delta = 0;
      for (U32 j = 0; j < seen; ++j) {
        double score = 0;
        for (U32 i = 0; i < s.size; ++i) score += a.q(b, h, t, i) * a.k(b, g, j, i);
        sum += weights[j] = std::exp(score * a.scale);
      }
      logsumexp[row] = std::log(sum);
      for (U32 j = 0; j < seen; ++j) {
        weights[j] /= sum;
        for (U32 i = 0; i < s.size; ++i) y[a.y.at(b, h, t, i)] += weights[j] * a.v(b, g, j, i);
      }
      for (U32 i = 0; i < s.size; ++i) delta += y[a.y.at(b, h, t, i)] * a.dy(b, h, t, i);
      for (U32 j = 0; j < seen; ++j) {
        double gradient = -delta;
        for (U32 i = 0; i < s.size; ++i) gradient += a.dy(b, h, t, i) * a.v(b, g, j, i);
        gradient *= weights[j] * a.scale;
        for (U32 i = 0; i < s.size; ++i) {
          dq[a.dq.at(b, h, t, i)] += gradient * a.k(b, g, j, i);
          dk[a.dk.at(b, g, j, i)] += gradient * a.q(b, h, t, i);
          dv[a.dv.at(b, g, j, i)] += weights[j] * a.dy(b, h, t, i);
        }
      }
    }
  }

  std::vector<double> y, dq, dk, dv, logsumexp;
};

/// @tparam QUERIES of a tile of backward; 0: forward alone
template <bool CAUSAL, int SIZE, int GROUPS, int KEYS, int QUERIES>
void expect_agrees(const Sizes& s, U32 at_once = 3) {
  SCOPED_TRACE(fmt::format("{}{}: batch {}, heads {} over {}, queries {}, keys {}, size {}", SIZE,
                           CAUSAL ? " causal" : "", s.batch, s.heads, s.groups, s.queries, s.keys, s.size));
  Attention<CAUSAL, SIZE> a(s);
  a.template forward<GROUPS, KEYS>(at_once, 1);
  const Wanted wanted(a);
  EXPECT_LT(distance(a.y.values, wanted.y), kBound);
  for (std::size_t i = 0; i < wanted.logsumexp.size(); ++i) ASSERT_NEAR(a.logsumexp[i], wanted.logsumexp[i], 1e-5) << i;
  if constexpr (QUERIES > 0) {
    a.template backward<QUERIES>(at_once, 1);
    // Of one key, weights do not change, and gradients of scores are what rounding leaves.
    if (s.queries > 1) {
      EXPECT_LT(distance(a.dq.values, wanted.dq), kBound);
      EXPECT_LT(distance(a.dk.values, wanted.dk), kBound);
    }
    EXPECT_LT(distance(a.dv.values, wanted.dv), kBound);
  }
}

TEST_F(HopperAttention, AgreesWithF64) {
  expect_agrees<true, 64, 3, 128, 128>({1, 2, 1, 300, 300, 64, true});
  expect_agrees<false, 64, 3, 128, 128>({2, 2, 2, 200, 333, 64});
  expect_agrees<true, 64, 3, 128, 128>({1, 1, 1, 1, 1, 40});
  expect_agrees<true, 64, 3, 128, 128>({1, 1, 1, 10, 500, 64});
  expect_agrees<true, 64, 3, 128, 128>({1, 1, 1, 500, 10, 64});
  expect_agrees<true, 96, 2, 128, 0>({1, 2, 1, 300, 200, 96, true});
  expect_agrees<true, 128, 2, 128, 64>({1, 2, 1, 200, 200, 128});
  expect_agrees<false, 128, 2, 128, 64>({1, 1, 1, 70, 150, 120, true});
  expect_agrees<true, 256, 2, 64, 0>({1, 2, 2, 150, 150, 256});
  expect_agrees<false, 256, 2, 64, 0>({1, 1, 1, 65, 130, 200});
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
