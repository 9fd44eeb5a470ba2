#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/attention32_backward.cuh"

// The kernels of f32 attention by bf16 parts, on the CPU.
namespace hopper::by_parts {
namespace {

/// f32 [batch, heads, rows, size].
struct Heads : HeadsOf<float> {
  Heads(const Sizes& s, U32 heads, U32 rows) : HeadsOf(s, heads, rows, NAN) {}
  float operator()(U32 b, U32 h, U32 row, U32 i) const { return values[at(b, h, row, i)]; }
};

/// What attention_parts() leaves.
struct SplitHeads {
  explicit SplitHeads(const Heads& of)
      : of(of), pitch((of.size + 7) / 8 * 8), words(std::size_t{kParts} * of.batch * of.heads * of.rows * pitch / 8) {}

  std::uint16_t* data() { return reinterpret_cast<std::uint16_t*>(words.data()); }
  TensorMap map() {
    return {data(), of.size, of.rows, of.heads, kParts * of.batch, pitch, of.rows * pitch, of.heads * of.rows * pitch,
            64};
  }

  const Heads& of;
  U32 pitch;
  std::vector<uint4> words;
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
      for (float& value : x->values) value = normal(random);
    }
  }

  AttentionPartsParameters parts(SplitHeads& a, SplitHeads& b) {
    AttentionPartsParameters p{};
    p.unsplit = unsplit;
    p.from[0] = a.of.values.data(), p.from[1] = b.of.values.data();
    p.to[0] = a.data(), p.to[1] = b.data();
    p.heads = a.of.heads, p.rows = p.rows_a_head = a.of.rows, p.size = s.size, p.pitch = a.pitch;
    p.all = s.batch * p.heads * p.rows;
    for (int i = 0; i < 3; ++i) p.from_strides[0][i] = a.of.strides[i], p.from_strides[1][i] = b.of.strides[i];
    return p;
  }

  /// @param at_once blocks @param seed of their order
  void forward(U32 at_once, unsigned seed) {
    using Kernel = AttentionForward32<CAUSAL, SIZE>;
    SplitHeads ks(k), vs(v);
    unsplit[0] = unsplit[1] = 0;
    const AttentionPartsParameters before = parts(ks, vs);
    emulated::launch(3, 256, 0, 3, seed, [&](char*) { attention_parts(before); });
    const U32 tiles = (s.queries + 127) / 128;
    const Attention32Parameters p{
        .k = ks.map(),
        .v = vs.map(),
        .q = q.values.data(),
        .y = y.values.data(),
        .logsumexp = logsumexp.data(),
        .unsplit = unsplit,
        .batch = s.batch,
        .heads = s.heads,
        .heads_a_group = s.heads / s.groups,
        .queries = s.queries,
        .keys = s.keys,
        .size = s.size,
        .q_strides = {q.strides[0], q.strides[1], q.strides[2]},
        .y_strides = {y.strides[0], y.strides[1], y.strides[2]},
        .scale = scale * kLog2E,
        .tiles = tiles,
    };
    emulated::launch(min(at_once, tiles * s.heads * s.batch), Kernel::kThreads, Kernel::kSharedBytes, at_once, seed,
                     [&](char* memory) { Kernel::run(p, memory); });
  }

  void backward(U32 at_once, unsigned seed) {
    using Kernel = AttentionBackward32<CAUSAL, SIZE>;
    SplitHeads qs(q), dys(dy);
    unsplit[0] = unsplit[1] = 0;
    const U32 tiles = (s.queries + 63) / 64, key_tiles = (s.keys + 63) / 64, heads = s.batch * s.heads;
    std::vector<float4> rows(heads * tiles * 32);
    std::vector<float4> sums(std::size_t{heads} * tiles * 16 * SIZE, float4{NAN, NAN, NAN, NAN});
    std::vector<U32> turns(heads * tiles + 1, 77);
    AttentionPartsParameters before = parts(qs, dys);
    before.y = y.values.data(), before.logsumexp = logsumexp.data();
    before.statistics = reinterpret_cast<float2*>(rows.data());
    before.turns = turns.data(), before.turn_count = static_cast<U32>(turns.size());
    before.rows_a_head = tiles * 64, before.all = heads * tiles * 64;
    std::copy_n(y.strides, 3, before.y_strides);
    emulated::launch(3, 256, 0, 3, seed, [&](char*) { attention_parts(before); });
    const AttentionGradient32Parameters p{
        .q = qs.map(),
        .dy = dys.map(),
        .k = k.values.data(),
        .v = v.values.data(),
        .rows = before.statistics,
        .dq = &sums.data()->x,
        .turns = turns.data(),
        .dk = dk.values.data(),
        .dv = dv.values.data(),
        .unsplit = unsplit,
        .batch = s.batch,
        .heads = s.heads,
        .heads_a_group = s.heads / s.groups,
        .queries = s.queries,
        .keys = s.keys,
        .size = s.size,
        .kv_strides = {k.strides[0], k.strides[1], k.strides[2]},
        .gradient_strides = {dk.strides[0], dk.strides[1], dk.strides[2]},
        .scale = scale,
        .log2_scale = scale * kLog2E,
        .tiles = tiles,
        .key_tiles = key_tiles,
    };
    emulated::launch(min(at_once, key_tiles * s.batch * s.groups), Kernel::kThreads, Kernel::kSharedBytes, at_once,
                     seed, [&](char* memory) { Kernel::run(p, memory); });
    const AttentionSum32Parameters behind{
        .sums = &sums.data()->x,
        .dq = dq.values.data(),
        .heads = s.heads,
        .queries = s.queries,
        .size = s.size,
        .blocks_a_head = tiles * SIZE / 64,
        .columns = SIZE / 64,
        .strides = {dq.strides[0], dq.strides[1], dq.strides[2]},
        .scale = scale,
    };
    emulated::launch(heads * tiles * SIZE / 64, 128, 0, 8, seed, [&](char*) { attention_sums(behind); });
  }

  Sizes s;
  Heads q, k, v, dy, y, dq, dk, dv;
  std::vector<float> logsumexp;
  float scale;
  U32 unsplit[2] = {0, 0};
};

/// The same from the same inputs, in f64, or in f32 as plain kernels compute it, which is the measure.
template <typename Real>
struct Plain {
  template <bool CAUSAL, int SIZE>
  explicit Plain(const Attention<CAUSAL, SIZE>& a)
      : y(a.q.values.size()), dq(y), dk(a.k.values.size()), dv(dk), logsumexp(a.logsumexp.size()) {
    const Sizes& s = a.s;
    const Real scale = a.scale;
    std::vector<Real> scores(s.keys);
    const auto dot = [&](const Heads& x, U32 xh, U32 xr, const Heads& z, U32 zh, U32 zr, U32 b) {
      Real sum = 0;
      for (U32 i = 0; i < s.size; ++i) sum = std::fma(Real{x(b, xh, xr, i)}, Real{z(b, zh, zr, i)}, sum);
      return sum;
    };
    for (U32 row = 0; row < s.batch * s.heads * s.queries; ++row) {
      const U32 b = row / s.queries / s.heads, h = row / s.queries % s.heads, t = row % s.queries,
                g = h / (s.heads / s.groups), seen = CAUSAL ? std::min(s.keys, t + 1) : s.keys;
      Real sum = 0, delta = 0, largest = -INFINITY;
      for (U32 j = 0; j < seen; ++j) largest = std::max(largest, scores[j] = dot(a.q, h, t, a.k, g, j, b) * scale);
      for (U32 j = 0; j < seen; ++j) {
        const Real weight = std::exp(scores[j] - largest);
        sum += weight;
        for (U32 i = 0; i < s.size; ++i) {
          Real& to = y[a.y.at(b, h, t, i)];
          to = std::fma(weight, Real{a.v(b, g, j, i)}, to);
        }
      }
      logsumexp[row] = largest + std::log(sum);
      for (U32 i = 0; i < s.size; ++i) {
        Real& to = y[a.y.at(b, h, t, i)];
        to *= 1 / sum;
        delta = std::fma(to, Real{a.dy(b, h, t, i)}, delta);
      }
      for (U32 j = 0; j < seen; ++j) {
        const Real weight = std::exp(scores[j] - logsumexp[row]),
                   gradient = weight * (dot(a.dy, h, t, a.v, g, j, b) - delta) * scale;
        for (U32 i = 0; i < s.size; ++i) {
          const auto add = [&](Real& to, Real x, Real z) { to = std::fma(x, z, to); };
          add(dq[a.dq.at(b, h, t, i)], gradient, a.k(b, g, j, i));
          add(dk[a.dk.at(b, g, j, i)], gradient, a.q(b, h, t, i));
          add(dv[a.dv.at(b, g, j, i)], weight, a.dy(b, h, t, i));
        }
      }
    }
  }

  std::vector<Real> y, dq, dk, dv, logsumexp;
};

/// Within twice the error of plain f32.
void expect_as_exact(const char* what, const std::vector<float>& found, const std::vector<float>& plain,
                     const std::vector<double>& wanted) {
  const double error = distance(found, wanted), measure = distance(plain, wanted);
  EXPECT_LE(error, 2 * measure + 3e-8) << what;
}

template <bool CAUSAL, int SIZE>
void expect_agrees(const Sizes& s, U32 at_once = 3) {
  SCOPED_TRACE(fmt::format("{}{}: batch {}, heads {} over {}, queries {}, keys {}, size {}", SIZE,
                           CAUSAL ? " causal" : "", s.batch, s.heads, s.groups, s.queries, s.keys, s.size));
  Attention<CAUSAL, SIZE> a(s);
  a.forward(at_once, 1);
  const Plain<double> wanted(a);
  const Plain<float> plain(a);
  EXPECT_EQ(a.unsplit[0] | a.unsplit[1], 0u);
  expect_as_exact("y", a.y.values, plain.y, wanted.y);
  expect_as_exact("logsumexp", a.logsumexp, plain.logsumexp, wanted.logsumexp);
  a.backward(at_once, 1);
  EXPECT_EQ(a.unsplit[0] | a.unsplit[1], 0u);
  // Of one key, weights do not change, and gradients of scores are what rounding leaves.
  if (s.queries > 1) {
    expect_as_exact("dq", a.dq.values, plain.dq, wanted.dq);
    expect_as_exact("dk", a.dk.values, plain.dk, wanted.dk);
  }
  expect_as_exact("dv", a.dv.values, plain.dv, wanted.dv);
}

class HopperAttention32 : public HopperAttention {};

TEST_F(HopperAttention32, IsAsExactAsPlainF32) {
  expect_agrees<true, 64>({1, 2, 1, 300, 300, 64, true});
  expect_agrees<false, 64>({2, 2, 2, 100, 233, 64});
  expect_agrees<true, 64>({1, 1, 1, 1, 1, 40});
  expect_agrees<true, 64>({1, 1, 1, 10, 300, 64});
  expect_agrees<true, 64>({1, 1, 1, 300, 10, 36});
  expect_agrees<true, 128>({1, 2, 1, 200, 200, 128});
  expect_agrees<false, 128>({1, 1, 1, 70, 150, 120, true});
  expect_agrees<true, 128>({1, 1, 1, 150, 130, 72});
}

/// What is summed over many tiles of keys neither shrinks nor loses what matrix units truncate.
TEST_F(HopperAttention32, StaysExactOverManyKeys) {
  Attention<false, 64> a({1, 1, 1, 64, 2500, 64});
  for (float& x : a.q.values) x *= 2;
  a.forward(1, 1);
  const Plain<double> wanted(a);
  EXPECT_LT(distance(a.y.values, wanted.y), 6e-7);
  EXPECT_LT(distance(a.logsumexp, wanted.logsumexp), 1e-7);
}

TEST_F(HopperAttention32, GoesOnWithOneBlockAtATime) {
  expect_agrees<true, 64>({1, 2, 2, 260, 260, 64}, 1);
  expect_agrees<true, 128>({1, 1, 1, 200, 200, 128}, 1);
}

template <int SIZE>
void expect_same_bits(const Sizes& sizes) {
  Attention<true, SIZE> first(sizes);
  first.forward(2, 1);
  first.backward(8, 1);
  for (unsigned seed = 2; seed < 4; ++seed) {
    Attention<true, SIZE> next(sizes);
    next.forward(1 + seed, seed);
    next.backward(seed, seed);
    EXPECT_EQ(next.y.values, first.y.values);
    EXPECT_EQ(next.logsumexp, first.logsumexp);
    EXPECT_EQ(next.dq.values, first.dq.values);
    EXPECT_EQ(next.dk.values, first.dk.values);
    EXPECT_EQ(next.dv.values, first.dv.values);
  }
}

TEST_F(HopperAttention32, HasTheSameBitsInWhateverOrderBlocksRun) {
  expect_same_bits<64>({1, 2, 1, 200, 200, 64});
  expect_same_bits<128>({1, 1, 1, 140, 140, 100});
}

TEST_F(HopperAttention32, KeepsKeysThatNoQueryAttendsToOut) {
  Attention<true, 64> a({1, 1, 1, 70, 200, 64});
  a.forward(2, 1);
  a.backward(2, 1);
  for (U32 row = 70; row < 200; ++row) {
    for (U32 i = 0; i < 64; ++i) ASSERT_EQ(a.dk(0, 0, row, i), 0) << row;
    for (U32 i = 0; i < 64; ++i) ASSERT_EQ(a.dv(0, 0, row, i), 0) << row;
  }
}

TEST_F(HopperAttention32, SaysWhichNumbersDoNotSplit) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float number : {1e-31f, 2e18f, infinity, nan}) {
    for (int which = 0; which < 4; ++which) {
      Attention<true, 64> a({1, 1, 1, 70, 70, 40});
      a.forward(2, 1);
      (which == 0 ? a.q : which == 1 ? a.k : which == 2 ? a.v : a.dy).values[1234] = number;
      if (which < 3) {
        a.forward(2, 1);
        EXPECT_EQ(a.unsplit[0], which > 0) << which << " " << number;
        EXPECT_EQ(a.unsplit[0] | a.unsplit[1], 1) << which << " " << number;
      }
      a.backward(2, 1);
      EXPECT_EQ(a.unsplit[0] | a.unsplit[1], 1) << which << " " << number;
    }
  }
  // Gradients of scores beyond what splits.
  Attention<true, 64> a({1, 1, 1, 70, 70, 40});
  for (Heads* x : {&a.v, &a.dy}) {
    for (float& value : x->values) value *= 1e16f;
  }
  a.forward(2, 1);
  EXPECT_EQ(a.unsplit[0] | a.unsplit[1], 0);
  a.backward(2, 1);
  EXPECT_EQ(a.unsplit[1], 1);
}

}  // namespace
}  // namespace hopper::by_parts
