#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/attention_short.cuh"
#include "../../shaders/sm90/attention_wide_backward.cuh"

// Calls of attention's kernels for Hopper GPUs, on the CPU, and the same in f64.
namespace hopper {

/// bf16 [batch, heads, rows, size].
struct Heads : HeadsOf<std::uint16_t> {
  Heads(const Sizes& s, U32 heads, U32 rows, U32 size) : HeadsOf(s, heads, rows, size, 0) {}
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

/// What kernels with a mask are told: bools, bf16, or f32.
struct Mask {
  enum Kind { kNone, kBools, kHalf, kWide };
  Kind kind = kNone;
  std::function<float(U32, U32, U32, U32)> at =
      {};                                ///< of batch, head, query and key: what is added; of bools 0 or -inf
  bool by_batch = true, by_head = true;  ///< else they share one
};

/// What general kernels are told.
struct Limits {
  bool causal = true;
  U32 window = 0;
  double softcap = 0;
  std::vector<std::vector<int>> lengths = {};  ///< of documents, for each sequence; what is behind them is one, too
  Mask mask = {};
};

enum class Kernels { kPlain, kGeneral, kMasked };

/// A mask as kernels get it, from the kernel before.
struct EmulatedMask {
  EmulatedMask() = default;
  /// @param across rows are keys
  EmulatedMask(const Mask& mask, const Sizes& s, bool across, unsigned seed) {
    if (mask.kind == Mask::kNone) return;
    const U32 batch = mask.by_batch ? s.batch : 1, heads = mask.by_head ? s.heads : 1, masks = batch * heads,
              query_blocks = (s.queries + 127) / 128 * 2, key_blocks = (s.keys + 127) / 128,
              rows = across ? s.keys : s.queries, columns = ((across ? s.queries : s.keys) + 7) / 8 * 8;
    std::vector<std::uint8_t> bools;
    std::vector<std::uint16_t> halves;
    std::vector<float> floats;
    for (U32 i = 0; i < masks * s.queries * s.keys; ++i) {
      const float x =
          mask.at(i / s.keys / s.queries / heads, i / s.keys / s.queries % heads, i / s.keys % s.queries, i % s.keys);
      bools.push_back(x == 0 ? 1 : 0), halves.push_back(emulated::to_bf16(x)), floats.push_back(x);
    }
    const bool is_bool = mask.kind == Mask::kBools, wide = mask.kind == Mask::kWide;
    spans.assign(batch * query_blocks, {77, 77}), open.assign(masks * query_blocks * key_blocks, 77);
    if (is_bool) bits.assign(masks * query_blocks * key_blocks * 64, uint4{77, 77, 77, 77});
    const AttentionMaskParameters p{
        .mask = is_bool ? static_cast<const void*>(bools.data())
                : wide  ? static_cast<const void*>(floats.data())
                        : halves.data(),
        .spans = spans.data(),
        .open = open.data(),
        .bits = is_bool ? &bits.data()->x : nullptr,
        .strides = {heads * s.queries * s.keys, s.queries * s.keys, s.keys, 1},
        .heads = heads,
        .queries = s.queries,
        .keys = s.keys,
        .query_blocks = query_blocks,
        .key_blocks = key_blocks,
        .across = across,
        .infinity = is_bool ? 0
                    : wide  ? 0xFF800000
                            : 0xFF80,
    };
    emulated::launch(batch * query_blocks, seed % 2 == 0 ? 512 : 256, kMaskBytes, 3, seed,
                     [&](char* memory) { attention_mask(p, memory); });
    // Rows that end at whole 16 bytes.
    added.assign(std::size_t{masks} * rows * columns * (wide ? 2 : 1) / 8, uint4{});
    for (U32 i = 0; i < masks * rows * columns; ++i) {
      const U32 row = i / columns % rows, column = i % columns, query = across ? column : row,
                key = across ? row : column;
      float x = -INFINITY;
      if (query < s.queries && key < s.keys) x = floats[(i / columns / rows * s.queries + query) * s.keys + key];
      if (wide)
        reinterpret_cast<float*>(added.data())[i] = x;
      else
        reinterpret_cast<std::uint16_t*>(added.data())[i] = emulated::to_bf16(x);
    }
    parameters = {
        .spans = spans.data(),
        .open = open.data(),
        .bits = is_bool ? &bits.data()->x : nullptr,
        .values = is_bool ? nullptr : added.data(),
        .batch_spans = mask.by_batch ? query_blocks : 0,
        .batch_masks = mask.by_batch ? heads : 0,
        .head_masks = mask.by_head ? 1u : 0,
        .query_blocks = query_blocks,
        .key_blocks = key_blocks,
        .words = across ? query_blocks * 2 : key_blocks * 4,
        .columns = columns,
        .wide = wide,
        .strides = {mask.by_batch ? heads * rows * columns : 0, mask.by_head ? rows * columns : 0, columns},
    };
  }

  std::vector<Span> spans;
  std::vector<std::uint8_t> open;
  std::vector<uint4> bits, added;
  AttentionMask parameters = {};
};

/// A call of forward and backward: inputs, and results as the kernels leave them.
template <bool CAUSAL, int SIZE, Kernels KERNELS = Kernels::kPlain, int VALUES = SIZE>
struct Attention {
  explicit Attention(const Sizes& s, const Limits& limits = {CAUSAL})
      : s(s),
        limits(limits),
        q(s, s.heads, s.queries, s.size),
        k(s, s.groups, s.keys, s.size),
        v(s, s.groups, s.keys, s.of_values()),
        dy(s, s.heads, s.queries, s.of_values()),
        y(dy),
        dq(q),
        dk(k),
        dv(v),
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
    using Parameters = std::conditional_t<
        KERNELS == Kernels::kMasked, MaskedAttentionParameters,
        std::conditional_t<KERNELS == Kernels::kGeneral, GeneralAttentionParameters, AttentionParameters>>;
    using Kernel = AttentionForward<false, CAUSAL, SIZE, VALUES, GROUPS, KEYS, 2, Parameters>;
    const U32 tiles = (s.queries + Kernel::kRows - 1) / Kernel::kRows;
    const EmulatedMask mask(limits.mask, s, false, seed);
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
        .value_size = s.of_values(),
        .y_batch = y.strides[0],
        .y_head = y.strides[1],
        .y_row = y.strides[2],
        .scale = log2_scale(),
        .tiles = tiles,
        .causal = limits.causal,
        .window = limits.window,
        .cap = cap(),
        .documents = bounds(),
        .mask = mask.parameters,
    };
    emulated::launch(min(at_once, tiles * s.heads * s.batch), Kernel::kThreads, Kernel::kSharedBytes, at_once, seed,
                     [&](char* memory) { Kernel::run(p, memory); });
  }

  template <int QUERIES>
  void backward(U32 at_once, unsigned seed) {
    using Parameters = std::conditional_t<
        KERNELS == Kernels::kMasked, MaskedGradientParameters,
        std::conditional_t<KERNELS == Kernels::kGeneral, GeneralGradientParameters, AttentionGradientParameters>>;
    using Kernel = std::conditional_t<(SIZE > 128), AttentionWideBackward<false, CAUSAL, SIZE, VALUES, Parameters>,
                                      AttentionBackward<false, CAUSAL, SIZE, QUERIES, Parameters>>;
    const U32 tiles = (s.queries + QUERIES - 1) / QUERIES, key_tiles = (s.keys + Kernel::kKeys - 1) / Kernel::kKeys,
              heads = s.batch * s.heads, rows_a_head = tiles * QUERIES;
    std::vector<float4> rows(heads * rows_a_head / 2);
    const U32 blocks_a_head = tiles * (QUERIES / 64) * (SIZE / 64);
    std::vector<float4> sums(std::size_t{heads} * blocks_a_head * 1024, float4{NAN, NAN, NAN, NAN});
    std::vector<U32> turns(heads * tiles * Kernel::kTurns + 1, 77), ranges(s.batch * (tiles + 2 * key_tiles), 77);
    const EmulatedMask mask(limits.mask, s, true, seed);
    const AttentionRowParameters before{
        .y = y.values.data(),
        .dy = dy.values.data(),
        .logsumexp = logsumexp.data(),
        .rows = reinterpret_cast<float2*>(rows.data()),
        .turns = turns.data(),
        .heads = s.heads,
        .queries = s.queries,
        .size = s.of_values(),
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
        .mask = mask.parameters,
    };
    emulated::launch(4, 256, 0, 4, seed, [&](char*) { attention_rows<false, KERNELS != Kernels::kPlain>(before); });
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
        .value_size = s.of_values(),
        .strides = {dk.strides[0], dk.strides[1], dk.strides[2]},
        .value_strides = {dv.strides[0], dv.strides[1], dv.strides[2]},
        .scale = scale,
        .log2_scale = log2_scale(),
        .tiles = tiles,
        .key_tiles = key_tiles,
        .causal = limits.causal,
        .window = limits.window,
        .cap = cap(),
        .documents = bounds(),
        .ranges = ranges.data(),
        .mask = mask.parameters,
    };
    emulated::launch(min(at_once, key_tiles * s.batch * s.groups), Kernel::kThreads, Kernel::kSharedBytes, at_once,
                     seed, [&](char* memory) { Kernel::run(p, memory); });
    const AttentionSumParameters behind{
        .sums = &sums.data()->x,
        .dq = dq.values.data(),
        .heads = s.heads,
        .queries = s.queries,
        .size = s.size,
        .blocks_a_head = blocks_a_head,
        .columns = SIZE / 64,
        .strides = {dq.strides[0], dq.strides[1], dq.strides[2]},
        .scale = scale,
    };
    emulated::launch(heads * blocks_a_head, 128, 0, 8, seed, [&](char*) { attention_sums<false>(behind); });
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
  template <bool CAUSAL, int SIZE, Kernels KERNELS, int VALUES>
  explicit Wanted(const Attention<CAUSAL, SIZE, KERNELS, VALUES>& a)
      : y(a.y.values.size()),
        dq(a.q.values.size()),
        dk(a.k.values.size()),
        dv(a.v.values.size()),
        logsumexp(a.logsumexp.size()) {
    const Sizes& s = a.s;
    const double cap = a.limits.softcap;
    const Mask& mask = a.limits.mask;
    std::vector<double> weights(s.keys), derivatives(s.keys);
    for (U32 row = 0; row < s.batch * s.heads * s.queries; ++row) {
      const U32 b = row / s.queries / s.heads, h = row / s.queries % s.heads, t = row % s.queries,
                g = h / (s.heads / s.groups);
      double sum = 0, delta = 0, largest = -INFINITY;
      for (U32 j = 0; j < s.keys; ++j) {
        weights[j] = 0;
        if (!a.sees(b, t, j)) continue;
        double score = 0;
        for (U32 i = 0; i < s.size; ++i) score += a.q(b, h, t, i) * a.k(b, g, j, i);
        score *= a.scale;
        const double tangent = cap > 0 ? std::tanh(score / cap) : 0;
        derivatives[j] = 1 - tangent * tangent;
        weights[j] = cap > 0 ? tangent * cap : score;
        if (mask.kind != Mask::kNone) weights[j] += mask.at(mask.by_batch ? b : 0, mask.by_head ? h : 0, t, j);
        largest = std::max(largest, weights[j]);
      }
      for (U32 j = 0; j < s.keys; ++j) {
        weights[j] = a.sees(b, t, j) && largest > -INFINITY ? std::exp(weights[j] - largest) : 0;
        sum += weights[j];
      }
      logsumexp[row] = largest + std::log(sum);
      for (U32 j = 0; j < s.keys; ++j) {
        if (weights[j] == 0) continue;
        weights[j] /= sum;
        for (U32 i = 0; i < s.of_values(); ++i) y[a.y.at(b, h, t, i)] += weights[j] * a.v(b, g, j, i);
      }
      for (U32 i = 0; i < s.of_values(); ++i) delta += y[a.y.at(b, h, t, i)] * a.dy(b, h, t, i);
      for (U32 j = 0; j < s.keys; ++j) {
        if (weights[j] == 0) continue;
        double gradient = -delta;
        for (U32 i = 0; i < s.of_values(); ++i) gradient += a.dy(b, h, t, i) * a.v(b, g, j, i);
        gradient *= weights[j] * a.scale * derivatives[j];
        for (U32 i = 0; i < s.size; ++i) {
          dq[a.dq.at(b, h, t, i)] += gradient * a.k(b, g, j, i);
          dk[a.dk.at(b, g, j, i)] += gradient * a.q(b, h, t, i);
        }
        for (U32 i = 0; i < s.of_values(); ++i) dv[a.dv.at(b, g, j, i)] += weights[j] * a.dy(b, h, t, i);
      }
    }
  }

  std::vector<double> y, dq, dk, dv, logsumexp;
};

/// @tparam QUERIES of a tile of backward; 0: forward alone
template <bool CAUSAL, int SIZE, int GROUPS, int KEYS, int QUERIES, Kernels KERNELS = Kernels::kPlain,
          int VALUES = SIZE>
void expect_agrees(const Sizes& s, U32 at_once = 3, const Limits& limits = {CAUSAL}) {
  SCOPED_TRACE(fmt::format("{}{}: batch {}, heads {} over {}, queries {}, keys {}, size {}, window {}, cap {}, {}",
                           SIZE, limits.causal ? " causal" : "", s.batch, s.heads, s.groups, s.queries, s.keys, s.size,
                           limits.window, limits.softcap, limits.lengths.size()));
  Attention<CAUSAL, SIZE, KERNELS, VALUES> a(s, limits);
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

}  // namespace hopper
