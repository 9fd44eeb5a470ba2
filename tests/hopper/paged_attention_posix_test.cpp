#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/attention.cuh"

// The kernels of attention over a paged cache for Hopper GPUs, on the CPU.
namespace hopper {
namespace {

/// A prompt's queries over a paged cache, whose blocks lie in no order. Blocks that no sequence has, and what is behind
/// the end of one, hold no numbers.
struct PagedSizes {
  U32 steps, heads, groups, size;
  std::vector<int> past;  ///< of each sequence
  U32 window = 0, chunks = 1, least = 64;
  std::vector<U32> dropped = {};  ///< entries of the table that have no block any more
  U32 multiple = 0;               ///< in place of a window: positions attend from a multiple of this on
  double softcap = 0;

  int oldest(int position) const {
    if (multiple > 0 && position > 0) return position - position % static_cast<int>(multiple);
    return window > 0 ? std::max(0, position + 1 - static_cast<int>(window)) : 0;
  }
};
template <int SIZE>
struct PagedAttention {
  explicit PagedAttention(const PagedSizes& s)
      : s(s),
        batch(static_cast<U32>(s.past.size())),
        q(std::size_t{batch} * s.steps * s.heads * s.size),
        y(q.size(), 0x7FC0) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::uint16_t& x : q) x = emulated::to_bf16(normal(random));
    int longest = 0;
    for (const int past : s.past) longest = std::max(longest, past + static_cast<int>(s.steps));
    width = static_cast<U32>(longest + 63) / 64 + 1;
    blocks = batch * width + 2;
    k.assign(std::size_t{blocks} * s.groups * 64 * s.size, 0x7FC0);
    v = k;
    std::vector<int> order(blocks);
    for (U32 i = 0; i < blocks; ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random);
    table.assign(batch * width, -1);
    for (U32 b = 0; b < batch; ++b) {
      const int keys = s.past[b] + static_cast<int>(s.steps);
      for (int j = 0; j < keys; ++j) {
        int& block = table[b * width + static_cast<U32>(j) / 64];
        if (block < 0) block = order.back(), order.pop_back();
        for (U32 g = 0; g < s.groups; ++g) {
          for (U32 i = 0; i < s.size; ++i) {
            k[at(b, g, static_cast<U32>(j), i)] = emulated::to_bf16(normal(random));
            v[at(b, g, static_cast<U32>(j), i)] = emulated::to_bf16(normal(random));
          }
        }
      }
    }
    for (const U32 entry : s.dropped) table[entry] = -1;
  }
  std::size_t at(U32 b, U32 g, U32 key, U32 i) const {
    const auto block = static_cast<std::size_t>(table[b * width + key / 64]);
    return ((block * s.groups + g) * 64 + key % 64) * s.size + i;
  }

  template <int GROUPS, int KEYS>
  void run(U32 at_once, unsigned seed) {
    using Kernel = AttentionForward<false, true, SIZE, SIZE, GROUPS, KEYS, 2, PagedAttentionParameters>;
    const U32 shared = s.heads / s.groups;
    U32 pack = 0;
    while (64 % shared == 0 && 1u << pack < shared) ++pack;
    const U32 packs = s.heads >> pack, rows = s.steps << pack, tiles = (rows + Kernel::kRows - 1) / Kernel::kRows;
    const auto cache = [&](std::vector<std::uint16_t>& x) {
      return TensorMap{x.data(), s.size, 64, s.groups, blocks, s.size, 64 * s.size, s.groups * 64 * s.size, 64};
    };
    parts.assign(s.chunks > 1 ? std::size_t{batch} * s.steps * s.heads * s.chunks * (s.size + 2) : 0, NAN);
    const PagedAttentionParameters p{
        .q = {q.data(), s.size, 1 << pack, batch * s.steps, packs, s.size, s.heads * s.size, s.size << pack, 1 << pack,
              64 >> pack},
        .k = cache(k),
        .v = cache(v),
        .table = table.data(),
        .positions = s.past.data(),
        .y = y.data(),
        .parts = parts.data(),
        .batch = batch,
        .heads = packs,
        .heads_a_group = shared >> pack,
        .queries = rows,
        .value_size = s.size,
        .scale = (s.softcap > 0 ? static_cast<float>(s.softcap) : scale()) * kLog2E,
        .tiles = tiles,
        .steps = s.steps,
        .pack = pack,
        .table_width = width,
        .cache_blocks = blocks,
        .chunks = s.chunks,
        .least = s.least,
        .window = s.multiple > 0 ? s.multiple | 1u << 31 : s.window,
        .cap = s.softcap > 0 ? static_cast<float>(2 * kLog2E * scale() / s.softcap) : 0,
    };
    emulated::launch(min(at_once, tiles * packs * batch * s.chunks), Kernel::kThreads, Kernel::kSharedBytes, at_once,
                     seed, [&](char* memory) { Kernel::run(p, memory); });
    if (s.chunks > 1) merge();
  }

  /// What shaders/attention/paged_attention_merge.comp does.
  void merge() {
    const U32 heads = s.heads / s.groups;
    for (U32 row = 0; row < batch * s.steps * s.heads; ++row) {
      const U32 step = row / s.heads, group = row % s.heads / heads, h = row % heads;
      const int past = s.past[step / s.steps], position = past + static_cast<int>(step % s.steps),
                reach = static_cast<int>(width) * 64, all = std::clamp(past + static_cast<int>(s.steps), 0, reach),
                base = std::min(s.oldest(past), all) / 64 * 64,
                each =
                    std::max<int>(static_cast<int>(s.least), ((all - base + 63) / 64 + static_cast<int>(s.chunks) - 1) /
                                                                 static_cast<int>(s.chunks) * 64),
                end = std::clamp(position + 1, 0, reach), begin = s.oldest(position);
      double most = -INFINITY, sum = 0;
      const auto is_seen = [](double largest) { return std::isnan(largest) || largest > -INFINITY; };
      std::vector<double> values(s.size);
      const int first = (std::max(begin, base) - base) / each, last = (std::max(end, base) - base + each - 1) / each;
      const auto part = [&](int chunk) {
        return &parts[(((std::size_t{step} * s.groups + group) * s.chunks + static_cast<U32>(chunk)) * heads + h) *
                      (s.size + 2)];
      };
      for (int c = first; c < last; ++c)
        if (const double one = part(c)[s.size]; std::isnan(one) || one > most) most = one;
      for (int c = first; c < last && is_seen(most); ++c) {
        const double weight = std::exp(part(c)[s.size] - most);
        sum += weight * part(c)[s.size + 1];
        for (U32 i = 0; i < s.size; ++i) values[i] += weight * part(c)[i];
      }
      for (U32 i = 0; i < s.size; ++i)
        y[std::size_t{row} * s.size + i] = emulated::to_bf16(static_cast<float>(is_seen(most) ? values[i] / sum : 0));
    }
  }

  float scale() const { return 1 / std::sqrt(static_cast<float>(s.size)); }

  std::vector<double> wanted() const {
    std::vector<double> y(q.size());
    for (U32 row = 0; row < batch * s.steps * s.heads; ++row) {
      const U32 b = row / s.heads / s.steps, g = row % s.heads / (s.heads / s.groups);
      const int position = s.past[b] + static_cast<int>(row / s.heads % s.steps), first = s.oldest(position);
      double sum = 0;
      for (int j = first; j <= position; ++j) {
        if (table[b * width + static_cast<U32>(j) / 64] < 0) continue;
        double score = 0;
        const auto value = [&](const std::vector<std::uint16_t>& x, U32 i) {
          return static_cast<double>(emulated::from_bf16(x[at(b, g, static_cast<U32>(j), i)]));
        };
        for (U32 i = 0; i < s.size; ++i) score += emulated::from_bf16(q[std::size_t{row} * s.size + i]) * value(k, i);
        score *= scale();
        const double weight = std::exp(s.softcap > 0 ? s.softcap * std::tanh(score / s.softcap) : score);
        sum += weight;
        for (U32 i = 0; i < s.size; ++i) y[std::size_t{row} * s.size + i] += weight * value(v, i);
      }
      for (U32 i = 0; i < s.size && sum > 0; ++i) y[std::size_t{row} * s.size + i] /= sum;
    }
    return y;
  }

  PagedSizes s;
  U32 batch, width = 0, blocks = 0;
  std::vector<std::uint16_t> q, k, v, y;
  std::vector<int> table;
  std::vector<float> parts;
};

template <int SIZE, int GROUPS, int KEYS>
void expect_paged_agrees(const PagedSizes& s, U32 at_once = 3) {
  SCOPED_TRACE(fmt::format("paged {}: steps {}, heads {} over {}, size {}, past {}, window {}, chunks {}", SIZE,
                           s.steps, s.heads, s.groups, s.size, s.past.front(), s.window, s.chunks));
  PagedAttention<SIZE> a(s);
  a.template run<GROUPS, KEYS>(at_once, 1);
  EXPECT_LT(distance(a.y, a.wanted()), kBound);
  const std::vector<std::uint16_t> first = a.y;
  a.template run<GROUPS, KEYS>(at_once + 1, 2);
  EXPECT_EQ(a.y, first) << "bits depend on the order of blocks";
}

using HopperPagedAttention = HopperAttention;

TEST_F(HopperPagedAttention, AgreesWithF64) {
  expect_paged_agrees<64, 3, 128>({.steps = 50, .heads = 8, .groups = 2, .size = 64, .past = {300}});
  expect_paged_agrees<64, 3, 128>({.steps = 70, .heads = 4, .groups = 1, .size = 64, .past = {0, 131, 57}});
  expect_paged_agrees<64, 3, 128>({.steps = 20, .heads = 6, .groups = 2, .size = 40, .past = {100}});
  expect_paged_agrees<64, 3, 128>({.steps = 200, .heads = 2, .groups = 2, .size = 64, .past = {0}});
  expect_paged_agrees<96, 2, 128>({.steps = 33, .heads = 2, .groups = 1, .size = 96, .past = {64}});
  expect_paged_agrees<128, 2, 128>({.steps = 40, .heads = 8, .groups = 1, .size = 128, .past = {150}});
  expect_paged_agrees<256, 2, 64>({.steps = 17, .heads = 4, .groups = 2, .size = 256, .past = {100, 3}});
}

TEST_F(HopperPagedAttention, DividesKeys) {
  expect_paged_agrees<64, 3, 128>({.steps = 50, .heads = 8, .groups = 2, .size = 64, .past = {600, 80}, .chunks = 3});
  expect_paged_agrees<64, 3, 128>({.steps = 90, .heads = 3, .groups = 1, .size = 64, .past = {0}, .chunks = 2});
  expect_paged_agrees<64, 3, 128>({.steps = 20, .heads = 6, .groups = 2, .size = 64, .past = {400}, .chunks = 9});
  expect_paged_agrees<128, 2, 128>(
      {.steps = 40, .heads = 2, .groups = 1, .size = 128, .past = {500}, .chunks = 2, .least = 256});
}

TEST_F(HopperPagedAttention, SlidesWindows) {
  expect_paged_agrees<64, 3, 128>({.steps = 70, .heads = 4, .groups = 1, .size = 64, .past = {300}, .window = 100});
  expect_paged_agrees<64, 3, 128>({.steps = 70, .heads = 4, .groups = 1, .size = 64, .past = {300}, .window = 1});
  expect_paged_agrees<64, 3, 128>(
      {.steps = 50, .heads = 4, .groups = 1, .size = 64, .past = {700, 10}, .window = 300, .chunks = 3});
  expect_paged_agrees<128, 2, 128>({.steps = 150, .heads = 1, .groups = 1, .size = 128, .past = {0}, .window = 64});
}

TEST_F(HopperPagedAttention, BeginsAtMultiples) {
  expect_paged_agrees<64, 3, 128>({.steps = 70, .heads = 4, .groups = 1, .size = 64, .past = {300}, .multiple = 100});
  expect_paged_agrees<64, 3, 128>(
      {.steps = 50, .heads = 2, .groups = 1, .size = 64, .past = {700, -20}, .chunks = 3, .multiple = 256});
}

TEST_F(HopperPagedAttention, CapsScores) {
  expect_paged_agrees<64, 3, 128>(
      {.steps = 40, .heads = 2, .groups = 1, .size = 64, .past = {100}, .window = 64, .softcap = 2});
  expect_paged_agrees<256, 2, 64>(
      {.steps = 20, .heads = 2, .groups = 1, .size = 256, .past = {150}, .chunks = 2, .softcap = 0.5});
}

TEST_F(HopperPagedAttention, LeavesDroppedBlocksOut) {
  for (const U32 chunks : {1u, 3u}) {
    expect_paged_agrees<64, 3, 128>({.steps = 50,
                                     .heads = 4,
                                     .groups = 1,
                                     .size = 64,
                                     .past = {500, 0},
                                     .chunks = chunks,
                                     .dropped = {0, 1, 2, 5, 10}});
  }
}

TEST_F(HopperPagedAttention, KeepsWhatIsNoNumberVisibleAndApart) {
  for (const U32 chunks : {1u, 2u}) {
    PagedAttention<64> a({.steps = 60, .heads = 2, .groups = 1, .size = 64, .past = {70}, .chunks = chunks});
    constexpr U32 row = 33;
    a.q[row * 64 + 5] = 0x7FC0;
    a.run<3, 128>(2, 1);
    for (U32 i = 0; i < a.y.size(); ++i) ASSERT_EQ(std::isnan(emulated::from_bf16(a.y[i])), i / 64 == row) << i;
  }
}

TEST_F(HopperPagedAttention, WritesZerosWhereRowsAttendToNothing) {
  for (const U32 chunks : {1u, 3u})
    expect_paged_agrees<64, 3, 128>(
        {.steps = 20, .heads = 4, .groups = 1, .size = 64, .past = {-100, 50, -5}, .chunks = chunks});
}

}  // namespace
}  // namespace hopper
