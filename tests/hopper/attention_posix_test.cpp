#include <cmath>
#include <random>

<<<<<<< HEAD
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/attention_short.cuh"
||||||| parent of 03b4b74b (attention: masks in the kernels for Hopper)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/attention_backward.cuh"
#include "../../shaders/sm90/attention_rows.cuh"
=======
#include "hopper/attention_call.h"
>>>>>>> 03b4b74b (attention: masks in the kernels for Hopper)

// The kernels of attention for Hopper GPUs, on the CPU.
namespace hopper {
namespace {

<<<<<<< HEAD
/// bf16 [batch, heads, rows, size].
struct Heads : HeadsOf<std::uint16_t> {
  Heads(const Sizes& s, U32 heads, U32 rows) : HeadsOf(s, heads, rows, 0) {}
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
};

/// What general kernels are told.
struct Limits {
  bool causal = true;
  U32 window = 0;
  double softcap = 0;
  std::vector<std::vector<int>> lengths = {};  ///< of documents, for each sequence; what is behind them is one, too
};

/// A call of forward and backward: inputs, and results as the kernels leave them.
template <bool CAUSAL, int SIZE, bool GENERAL = false>
struct Attention {
  explicit Attention(const Sizes& s, const Limits& limits = {CAUSAL})
      : s(s),
        limits(limits),
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
    for (std::vector<int> sequence : limits.lengths) {
      sequence.push_back(static_cast<int>(s.queries) - std::accumulate(sequence.begin(), sequence.end(), 0));
      int begin = 0;
      for (const int length : sequence) {
        documents.insert(documents.end(), static_cast<std::size_t>(length), {begin, begin + length});
        begin += length;
      }
    }
  }

  bool sees(U32 b, U32 query, U32 key) const {
    if (limits.causal && (key > query || (limits.window > 0 && query - key >= limits.window))) return false;
    if (documents.empty()) return true;
    const int2 document = documents[b * s.queries + query];
    return static_cast<int>(key) >= document.x && static_cast<int>(key) < document.y;
  }
  const int2* bounds() const { return documents.empty() ? nullptr : documents.data(); }
  float cap() const { return limits.softcap > 0 ? static_cast<float>(2 * kLog2E * scale / limits.softcap) : 0; }
  float log2_scale() const { return (limits.softcap > 0 ? static_cast<float>(limits.softcap) : scale) * kLog2E; }

  /// @param at_once blocks @param seed of their order
  template <int GROUPS, int KEYS>
  void forward(U32 at_once, unsigned seed) {
    using Parameters = std::conditional_t<GENERAL, GeneralAttentionParameters, AttentionParameters>;
    using Kernel = AttentionForward<false, CAUSAL, SIZE, SIZE, GROUPS, KEYS, 2, Parameters>;
    const U32 tiles = (s.queries + Kernel::kRows - 1) / Kernel::kRows;
    Parameters p;
    static_cast<AttentionParameters&>(p) = {
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
        .scale = log2_scale(),
        .tiles = tiles,
        .causal = limits.causal,
        .window = limits.window,
        .cap = cap(),
        .documents = bounds(),
    };
    emulated::launch(min(at_once, tiles * s.heads * s.batch), Kernel::kThreads, Kernel::kSharedBytes, at_once, seed,
                     [&](char* memory) { Kernel::run(p, memory); });
  }

  template <int QUERIES>
  void backward(U32 at_once, unsigned seed) {
    using Parameters = std::conditional_t<GENERAL, GeneralGradientParameters, AttentionGradientParameters>;
    using Kernel = AttentionBackward<false, CAUSAL, SIZE, QUERIES, Parameters>;
    const U32 tiles = (s.queries + QUERIES - 1) / QUERIES, key_tiles = (s.keys + Kernel::kKeys - 1) / Kernel::kKeys,
              heads = s.batch * s.heads, rows_a_head = tiles * QUERIES;
    std::vector<float4> rows(heads * rows_a_head / 2);
    std::vector<float4> sums(std::size_t{heads} * tiles * 2048, float4{NAN, NAN, NAN, NAN});
    std::vector<U32> turns(heads * tiles + 1, 77), ranges(s.batch * (tiles + 2 * key_tiles), 77);
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
        .documents = bounds(),
        .ranges = ranges.data(),
        .batch = s.batch,
        .keys = s.keys,
        .causal = limits.causal,
        .window = limits.window,
        .tiles = tiles,
        .tile_rows = QUERIES,
        .key_tiles = key_tiles,
        .tile_keys = Kernel::kKeys,
    };
    emulated::launch(4, 256, 0, 4, seed, [&](char*) { attention_rows<false, GENERAL>(before); });
    Parameters p;
    static_cast<AttentionGradientParameters&>(p) = {
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
        .log2_scale = log2_scale(),
        .tiles = tiles,
        .key_tiles = key_tiles,
        .causal = limits.causal,
        .window = limits.window,
        .cap = cap(),
        .documents = bounds(),
        .ranges = ranges.data(),
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

  /// By the kernel for few rows.
  void backward_of_few(U32 at_once, unsigned seed) {
    using Kernel = AttentionShortBackward<false, CAUSAL>;
    const auto strides = [](const Heads& x, U32(&to)[3]) { std::copy_n(x.strides, 3, to); };
    AttentionShortParameters p{
        .q = q.map(64),
        .k = k.map(64),
        .v = v.map(64),
        .dy = dy.map(64),
        .y = y.values.data(),
        .gradient = dy.values.data(),
        .logsumexp = logsumexp.data(),
        .dq = dq.values.data(),
        .dk = dk.values.data(),
        .dv = dv.values.data(),
        .batch = s.batch,
        .heads = s.heads,
        .heads_a_group = s.heads / s.groups,
        .queries = s.queries,
        .keys = s.keys,
        .size = s.size,
        .y_strides = {},
        .gradient_strides = {},
        .dq_strides = {},
        .dk_strides = {},
        .scale = scale,
        .log2_scale = log2_scale(),
    };
    strides(y, p.y_strides), strides(dy, p.gradient_strides), strides(dq, p.dq_strides), strides(dk, p.dk_strides);
    emulated::launch(s.batch * s.groups, Kernel::kThreads, Kernel::kSharedBytes, at_once, seed,
                     [&](char* memory) { Kernel::run(p, memory); });
  }

  Sizes s;
  Limits limits;
  std::vector<int2> documents;
  Heads q, k, v, dy, y, dq, dk, dv;
  std::vector<float> logsumexp;
  float scale;
};

/// The same in f64, from the same inputs.
struct Wanted {
  template <bool CAUSAL, int SIZE, bool GENERAL>
  explicit Wanted(const Attention<CAUSAL, SIZE, GENERAL>& a)
      : y(a.q.values.size()), dq(y), dk(a.k.values.size()), dv(dk), logsumexp(a.logsumexp.size()) {
    const Sizes& s = a.s;
    const double cap = a.limits.softcap;
    std::vector<double> weights(s.keys), derivatives(s.keys);
    for (U32 row = 0; row < s.batch * s.heads * s.queries; ++row) {
      const U32 b = row / s.queries / s.heads, h = row / s.queries % s.heads, t = row % s.queries,
                g = h / (s.heads / s.groups);
      double sum = 0, delta = 0;
      for (U32 j = 0; j < s.keys; ++j) {
        weights[j] = 0;
        if (!a.sees(b, t, j)) continue;
        double score = 0;
        for (U32 i = 0; i < s.size; ++i) score += a.q(b, h, t, i) * a.k(b, g, j, i);
        score *= a.scale;
        const double tangent = cap > 0 ? std::tanh(score / cap) : 0;
        derivatives[j] = 1 - tangent * tangent;
        sum += weights[j] = std::exp(cap > 0 ? tangent * cap : score);
      }
      logsumexp[row] = std::log(sum);
      for (U32 j = 0; j < s.keys; ++j) {
        if (weights[j] == 0) continue;
        weights[j] /= sum;
        for (U32 i = 0; i < s.size; ++i) y[a.y.at(b, h, t, i)] += weights[j] * a.v(b, g, j, i);
      }
      for (U32 i = 0; i < s.size; ++i) delta += y[a.y.at(b, h, t, i)] * a.dy(b, h, t, i);
      for (U32 j = 0; j < s.keys; ++j) {
        if (weights[j] == 0) continue;
        double gradient = -delta;
        for (U32 i = 0; i < s.size; ++i) gradient += a.dy(b, h, t, i) * a.v(b, g, j, i);
        gradient *= weights[j] * a.scale * derivatives[j];
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
template <bool CAUSAL, int SIZE, int GROUPS, int KEYS, int QUERIES, bool GENERAL = false>
void expect_agrees(const Sizes& s, U32 at_once = 3, const Limits& limits = {CAUSAL}) {
  SCOPED_TRACE(fmt::format("{}{}: batch {}, heads {} over {}, queries {}, keys {}, size {}, window {}, cap {}, {}",
                           SIZE, limits.causal ? " causal" : "", s.batch, s.heads, s.groups, s.queries, s.keys, s.size,
                           limits.window, limits.softcap, limits.lengths.size()));
  Attention<CAUSAL, SIZE, GENERAL> a(s, limits);
  a.template forward<GROUPS, KEYS>(at_once, 1);
  const Wanted wanted(a);
  EXPECT_LT(distance(a.y.values, wanted.y), kBound);
  for (std::size_t i = 0; i < wanted.logsumexp.size(); ++i) {
    if (std::isfinite(wanted.logsumexp[i]))
      ASSERT_NEAR(a.logsumexp[i], wanted.logsumexp[i], 2e-5) << i;
    else
      ASSERT_EQ(a.logsumexp[i], wanted.logsumexp[i]) << i;
  }
  if constexpr (QUERIES > 0) {
    a.template backward<QUERIES>(at_once, 1);
    // Of one key, weights do not change, and gradients of scores are what rounding leaves.
    if (s.queries > 1 && limits.window != 1) {
      EXPECT_LT(distance(a.dq.values, wanted.dq), kBound);
      EXPECT_LT(distance(a.dk.values, wanted.dk), kBound);
    }
    EXPECT_LT(distance(a.dv.values, wanted.dv), kBound);
  }
}

||||||| parent of 03b4b74b (attention: masks in the kernels for Hopper)
/// bf16 [batch, heads, rows, size].
struct Heads : HeadsOf<std::uint16_t> {
  Heads(const Sizes& s, U32 heads, U32 rows) : HeadsOf(s, heads, rows, 0) {}
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
};

/// What general kernels are told.
struct Limits {
  bool causal = true;
  U32 window = 0;
  double softcap = 0;
  std::vector<std::vector<int>> lengths = {};  ///< of documents, for each sequence; what is behind them is one, too
};

/// A call of forward and backward: inputs, and results as the kernels leave them.
template <bool CAUSAL, int SIZE, bool GENERAL = false>
struct Attention {
  explicit Attention(const Sizes& s, const Limits& limits = {CAUSAL})
      : s(s),
        limits(limits),
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
    for (std::vector<int> sequence : limits.lengths) {
      sequence.push_back(static_cast<int>(s.queries) - std::accumulate(sequence.begin(), sequence.end(), 0));
      int begin = 0;
      for (const int length : sequence) {
        documents.insert(documents.end(), static_cast<std::size_t>(length), {begin, begin + length});
        begin += length;
      }
    }
  }

  bool sees(U32 b, U32 query, U32 key) const {
    if (limits.causal && (key > query || (limits.window > 0 && query - key >= limits.window))) return false;
    if (documents.empty()) return true;
    const int2 document = documents[b * s.queries + query];
    return static_cast<int>(key) >= document.x && static_cast<int>(key) < document.y;
  }
  const int2* bounds() const { return documents.empty() ? nullptr : documents.data(); }
  float cap() const { return limits.softcap > 0 ? static_cast<float>(2 * kLog2E * scale / limits.softcap) : 0; }
  float log2_scale() const { return (limits.softcap > 0 ? static_cast<float>(limits.softcap) : scale) * kLog2E; }

  /// @param at_once blocks @param seed of their order
  template <int GROUPS, int KEYS>
  void forward(U32 at_once, unsigned seed) {
    using Parameters = std::conditional_t<GENERAL, GeneralAttentionParameters, AttentionParameters>;
    using Kernel = AttentionForward<false, CAUSAL, SIZE, SIZE, GROUPS, KEYS, 2, Parameters>;
    const U32 tiles = (s.queries + Kernel::kRows - 1) / Kernel::kRows;
    Parameters p;
    static_cast<AttentionParameters&>(p) = {
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
        .scale = log2_scale(),
        .tiles = tiles,
        .causal = limits.causal,
        .window = limits.window,
        .cap = cap(),
        .documents = bounds(),
    };
    emulated::launch(min(at_once, tiles * s.heads * s.batch), Kernel::kThreads, Kernel::kSharedBytes, at_once, seed,
                     [&](char* memory) { Kernel::run(p, memory); });
  }

  template <int QUERIES>
  void backward(U32 at_once, unsigned seed) {
    using Parameters = std::conditional_t<GENERAL, GeneralGradientParameters, AttentionGradientParameters>;
    using Kernel = AttentionBackward<false, CAUSAL, SIZE, QUERIES, Parameters>;
    const U32 tiles = (s.queries + QUERIES - 1) / QUERIES, key_tiles = (s.keys + Kernel::kKeys - 1) / Kernel::kKeys,
              heads = s.batch * s.heads, rows_a_head = tiles * QUERIES;
    std::vector<float4> rows(heads * rows_a_head / 2);
    std::vector<float4> sums(std::size_t{heads} * tiles * 2048, float4{NAN, NAN, NAN, NAN});
    std::vector<U32> turns(heads * tiles + 1, 77), ranges(s.batch * (tiles + 2 * key_tiles), 77);
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
        .documents = bounds(),
        .ranges = ranges.data(),
        .batch = s.batch,
        .keys = s.keys,
        .causal = limits.causal,
        .window = limits.window,
        .tiles = tiles,
        .tile_rows = QUERIES,
        .key_tiles = key_tiles,
        .tile_keys = Kernel::kKeys,
    };
    emulated::launch(4, 256, 0, 4, seed, [&](char*) { attention_rows<false, GENERAL>(before); });
    Parameters p;
    static_cast<AttentionGradientParameters&>(p) = {
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
        .log2_scale = log2_scale(),
        .tiles = tiles,
        .key_tiles = key_tiles,
        .causal = limits.causal,
        .window = limits.window,
        .cap = cap(),
        .documents = bounds(),
        .ranges = ranges.data(),
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
  Limits limits;
  std::vector<int2> documents;
  Heads q, k, v, dy, y, dq, dk, dv;
  std::vector<float> logsumexp;
  float scale;
};

/// The same in f64, from the same inputs.
struct Wanted {
  template <bool CAUSAL, int SIZE, bool GENERAL>
  explicit Wanted(const Attention<CAUSAL, SIZE, GENERAL>& a)
      : y(a.q.values.size()), dq(y), dk(a.k.values.size()), dv(dk), logsumexp(a.logsumexp.size()) {
    const Sizes& s = a.s;
    const double cap = a.limits.softcap;
    std::vector<double> weights(s.keys), derivatives(s.keys);
    for (U32 row = 0; row < s.batch * s.heads * s.queries; ++row) {
      const U32 b = row / s.queries / s.heads, h = row / s.queries % s.heads, t = row % s.queries,
                g = h / (s.heads / s.groups);
      double sum = 0, delta = 0;
      for (U32 j = 0; j < s.keys; ++j) {
        weights[j] = 0;
        if (!a.sees(b, t, j)) continue;
        double score = 0;
        for (U32 i = 0; i < s.size; ++i) score += a.q(b, h, t, i) * a.k(b, g, j, i);
        score *= a.scale;
        const double tangent = cap > 0 ? std::tanh(score / cap) : 0;
        derivatives[j] = 1 - tangent * tangent;
        sum += weights[j] = std::exp(cap > 0 ? tangent * cap : score);
      }
      logsumexp[row] = std::log(sum);
      for (U32 j = 0; j < s.keys; ++j) {
        if (weights[j] == 0) continue;
        weights[j] /= sum;
        for (U32 i = 0; i < s.size; ++i) y[a.y.at(b, h, t, i)] += weights[j] * a.v(b, g, j, i);
      }
      for (U32 i = 0; i < s.size; ++i) delta += y[a.y.at(b, h, t, i)] * a.dy(b, h, t, i);
      for (U32 j = 0; j < s.keys; ++j) {
        if (weights[j] == 0) continue;
        double gradient = -delta;
        for (U32 i = 0; i < s.size; ++i) gradient += a.dy(b, h, t, i) * a.v(b, g, j, i);
        gradient *= weights[j] * a.scale * derivatives[j];
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
template <bool CAUSAL, int SIZE, int GROUPS, int KEYS, int QUERIES, bool GENERAL = false>
void expect_agrees(const Sizes& s, U32 at_once = 3, const Limits& limits = {CAUSAL}) {
  SCOPED_TRACE(fmt::format("{}{}: batch {}, heads {} over {}, queries {}, keys {}, size {}, window {}, cap {}, {}",
                           SIZE, limits.causal ? " causal" : "", s.batch, s.heads, s.groups, s.queries, s.keys, s.size,
                           limits.window, limits.softcap, limits.lengths.size()));
  Attention<CAUSAL, SIZE, GENERAL> a(s, limits);
  a.template forward<GROUPS, KEYS>(at_once, 1);
  const Wanted wanted(a);
  EXPECT_LT(distance(a.y.values, wanted.y), kBound);
  for (std::size_t i = 0; i < wanted.logsumexp.size(); ++i) {
    if (std::isfinite(wanted.logsumexp[i]))
      ASSERT_NEAR(a.logsumexp[i], wanted.logsumexp[i], 2e-5) << i;
    else
      ASSERT_EQ(a.logsumexp[i], wanted.logsumexp[i]) << i;
  }
  if constexpr (QUERIES > 0) {
    a.template backward<QUERIES>(at_once, 1);
    // Of one key, weights do not change, and gradients of scores are what rounding leaves.
    if (s.queries > 1 && limits.window != 1) {
      EXPECT_LT(distance(a.dq.values, wanted.dq), kBound);
      EXPECT_LT(distance(a.dk.values, wanted.dk), kBound);
    }
    EXPECT_LT(distance(a.dv.values, wanted.dv), kBound);
  }
}

=======
>>>>>>> 03b4b74b (attention: masks in the kernels for Hopper)
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

TEST_F(HopperAttention, AgreesWithF64WithinWindows) {
  expect_general_agrees({1, 2, 1, 400, 400, 0}, {true, 100});
  expect_general_agrees({1, 1, 1, 200, 200, 0}, {true, 1});
  expect_general_agrees({1, 1, 1, 300, 300, 0}, {true, 300});
  expect_general_agrees({1, 1, 1, 10, 500, 0}, {true, 4});
  expect_general_agrees({1, 1, 1, 500, 100, 0}, {true, 60});  // the last rows attend to nothing
  expect_agrees<true, 256, 2, 64, 0, Kernels::kGeneral>({1, 2, 1, 150, 150, 256}, 3, {true, 30});
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
  expect_agrees<true, 256, 2, 64, 0, Kernels::kGeneral>({1, 1, 1, 300, 300, 256}, 3, {false, 0, 0, {{130, 1, 100}}});
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
