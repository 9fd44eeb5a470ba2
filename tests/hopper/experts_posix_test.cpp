#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/quant/quantized_tensor.h>

#include "hopper/attention_fixture.h"
// Behind the emulator.
#include "../../shaders/sm90/expert_gemm.cuh"

// The products of experts on Hopper GPUs, on the CPU.
namespace hopper {
namespace {

constexpr std::uint32_t kTile = 96, kExperts = 3;

/// Weights of all experts [experts · rows, columns] in a block format, their bytes, and their values as the units see
/// them.
struct Weights {
  Weights(const char* format, U32 rows, U32 columns, unsigned seed) {
    etna::manual_seed(seed);
    const etna::Tensor all = etna::randn({kExperts * rows, columns});
    const etna::QuantizedTensor blocks = etna::quantize(all, etna::quant::format_named(format));
    bytes = blocks.blocks().to_vector<std::uint8_t>();
    bytes.resize(bytes.size() + 64);
    for (const float value : etna::dequantize(blocks).to_vector<float>())
      values.push_back(emulated::from_bf16(emulated::to_bf16(value)));
    row_quads = static_cast<U32>((bytes.size() - 64) / (kExperts * rows) / 16);
  }
  std::vector<std::uint8_t> bytes;
  std::vector<double> values;
  U32 row_quads;
};

struct Product {
  const char* format;
  U32 rows, columns, order;
  bool gate = false;
  U32 y_order = 0;
};

/// The distance of y to what it should be, for three tiles of which the second has no expert.
template <typename Gemm>
double distance_of(const Product& s, unsigned seed) {
  const std::vector<std::int32_t> tiles{2, -1, 0};
  const U32 count = kTile * static_cast<U32>(tiles.size());
  const Weights w(s.format, s.rows, s.columns, 1), second(s.format, s.rows, s.columns, 2);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> x(std::size_t{count} * s.columns);
  for (std::uint16_t& value : x) value = emulated::to_bf16(normal(random));
  std::vector<float> y(std::size_t{count} * s.rows, 7);
  std::vector<std::uint16_t> y16(y.size(), 7);
  ExpertParameters p{};
  p.x = {x.data(), s.columns, count, 1, 1, s.columns, 0, 0, kTile};
  p.w = w.bytes.data();
  p.gated = s.gate ? second.bytes.data() : nullptr;
  p.tiles = tiles.data();
  p.y = s.gate ? static_cast<void*>(y16.data()) : y.data();
  p.n = s.rows, p.row_quads = w.row_quads, p.steps = s.columns / Gemm::kElements;
  p.blocks_n = (s.rows + (s.gate ? 63 : 127)) / (s.gate ? 64 : 128);
  p.activation = static_cast<U32>(etna::Activation::silu), p.order = s.y_order;
  emulated::launch(p.blocks_n * static_cast<U32>(tiles.size()), 256, Gemm::kSharedBytes, 2, seed,
                   [&](char* memory) { Gemm::run(p, memory); });
  std::vector<double> wanted;
  std::vector<float> found;
  for (U32 row = 0; row < count; ++row) {
    const std::int32_t expert = tiles[row / kTile];
    for (U32 place = 0; place < s.rows; ++place) {
      const std::size_t at = std::size_t{row} * s.rows + place;
      const float got = s.gate ? emulated::from_bf16(y16[at]) : y[at];
      if (expert < 0) {
        EXPECT_EQ(got, s.gate ? emulated::from_bf16(7) : 7) << "a tile without an expert";
        continue;
      }
      const std::size_t of = (static_cast<std::size_t>(expert) * s.rows + element_at(place, s.y_order)) * s.columns;
      double a = 0, b = 0;
      for (U32 k = 0; k < s.columns; ++k) {
        const double value = emulated::from_bf16(x[std::size_t{row} * s.columns + k]);
        a += value * w.values[of + element_at(k, s.order)];
        b += value * second.values[of + element_at(k, s.order)];
      }
      wanted.push_back(s.gate ? a / (1 + std::exp(-a)) * b : a);
      found.push_back(got);
    }
  }
  return distance(found, wanted);
}

template <typename Row, int STAGES_W, int STAGES_X>
struct Emulated : ExpertGemm<Row, STAGES_W, STAGES_X> {
  static constexpr U32 kElements = Row::kElements;
};

TEST(ExpertsForHopper, MultiplyInEveryFormat) {
  const double exact = 1e-5, rounded = 4e-3;  // of a result in bf16
  EXPECT_LT((distance_of<Emulated<HalfRow<false>, 3, 4>>({"BF16", 136, 320, 1}, 1)), exact);
  EXPECT_LT((distance_of<Emulated<Q4KRow, 3, 4>>({"Q4_K", 72, 512, 2}, 2)), exact);
  EXPECT_LT((distance_of<Emulated<Q6KRow, 2, 4>>({"Q6_K", 8, 2048, 3}, 3)), exact);
  EXPECT_LT((distance_of<Emulated<Q8Row, 2, 3>>({"Q8_0", 40, 256, 2}, 4)), exact);
  EXPECT_LT((distance_of<Emulated<HalfRow<false>, 3, 4>>({"BF16", 64, 128, 1, true, 1}, 5)), rounded);
  EXPECT_LT((distance_of<Emulated<Q4KRow, 3, 4>>({"Q4_K", 256, 256, 2, true, 3}, 6)), rounded);
}

/// The inverse of place_of() in quantized/expert_rows.comp: a permutation that keeps pairs.
TEST(ExpertsForHopper, TakeEachElementOnce) {
  for (U32 order = 0; order < 4; ++order) {
    std::vector<int> seen(512);
    for (U32 place = 0; place < 512; ++place) {
      const U32 element = element_at(place, order);
      ASSERT_LT(element, 512u) << order;
      EXPECT_EQ(++seen[element], 1) << order;
      EXPECT_EQ(element % 2, place % 2) << order;
    }
  }
}

}  // namespace
}  // namespace hopper
