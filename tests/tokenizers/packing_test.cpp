#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <etna/data/packing.h>
#include <etna/device/error.h>

using namespace etna;

TEST(Packing, FillsSequencesThatDocumentsFitExactly) {
  const std::vector<std::int64_t> lengths{3, 6, 5, 2, 8};
  const auto packing = data::pack_best_fit(lengths, 8);
  EXPECT_EQ(packing.sequences.size(), 3u);
  EXPECT_EQ(packing.efficiency(), 1.0);
}

TEST(Packing, PlacesEveryTokenOnce) {
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<std::int64_t> lengths;
  std::int32_t next = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int32_t> text(static_cast<std::size_t>(i * 37 % 41));
    for (auto& id : text) id = next++;
    lengths.push_back(static_cast<std::int64_t>(text.size()));
    texts.push_back(text);
  }
  const std::vector<std::span<const std::int32_t>> views(texts.begin(), texts.end());
  const auto packing = data::pack_best_fit(lengths, 16);
  std::vector<int> seen(static_cast<std::size_t>(next));
  std::vector<std::int32_t> ids(16), documents(16);
  for (std::size_t s = 0; s < packing.sequences.size(); ++s) {
    packing.fill(static_cast<std::int64_t>(s), views, -7, ids, documents);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(ids[i] == -7, documents[i] == -1);
      if (ids[i] >= 0) ++seen[static_cast<std::size_t>(ids[i])];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  EXPECT_GT(packing.efficiency(), 0.95);
}

TEST(Packing, OfNothingIsEmpty) {
  const std::vector<std::int64_t> lengths{0, 0};
  EXPECT_TRUE(data::pack_best_fit(lengths, 4).sequences.empty());
  EXPECT_EQ(data::pack_best_fit({}, 4).efficiency(), 1.0);
}

TEST(Packing, RefusesWhatDoesNotFit) {
  const std::vector<std::int64_t> negative{-1}, one{1};
  EXPECT_THROW(data::pack_best_fit(negative, 4), ShapeError);
  EXPECT_THROW(data::pack_best_fit(one, 0), ShapeError);
  std::vector<std::int32_t> ids(4), few(3);
  const auto packing = data::pack_best_fit(one, 4);
  EXPECT_THROW(packing.fill(0, {}, 0, ids, ids), ShapeError);
  EXPECT_THROW(packing.fill(1, {}, 0, ids, ids), ShapeError);
  EXPECT_THROW(packing.fill(0, {}, 0, few, ids), ShapeError);
}
