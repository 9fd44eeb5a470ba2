#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <etna/data/batches.h>
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

TEST(PackConcatenated, FillsEverySequenceAndEndsEveryDocument) {
  const std::vector<std::vector<std::int32_t>> texts{{1, 2, 3}, {}, {4}, {5, 6, 7, 8, 9, 10}};
  const std::vector<std::span<const std::int32_t>> views(texts.begin(), texts.end());
  const std::vector<std::int64_t> lengths{3, 0, 1, 6};
  const auto packing = data::pack_concatenated(lengths, 4, -5);
  ASSERT_EQ(packing.sequences.size(), 3u);
  EXPECT_EQ(packing.efficiency(), 1.0);
  using Row = std::vector<std::int32_t>;
  const Row wanted[] = {{1, 2, 3, -5}, {4, -5, 5, 6}, {7, 8, 9, 10}},
            owners[] = {{0, 0, 0, 0}, {2, 2, 3, 3}, Row(4, 3)};
  for (std::size_t s = 0; s < 3; ++s) {
    Row ids(4), documents(4);
    packing.fill(static_cast<std::int64_t>(s), views, -7, ids, documents);
    EXPECT_EQ(ids, wanted[s]) << s;
    EXPECT_EQ(documents, owners[s]) << s;
  }
}

TEST(PackConcatenated, DropsTheRestOrPadsIt) {
  const std::vector<std::int32_t> text{1, 2, 3, 4, 5};
  const std::vector<std::span<const std::int32_t>> views{text};
  const std::vector<std::int64_t> lengths{5};
  EXPECT_EQ(data::pack_concatenated(lengths, 5, 0).sequences.size(), 1u);
  EXPECT_TRUE(data::pack_concatenated(lengths, 7, 0).sequences.empty());
  const auto padded = data::pack_concatenated(lengths, 5, 0, data::Remainder::pad);
  ASSERT_EQ(padded.sequences.size(), 2u);
  EXPECT_EQ(padded.efficiency(), 0.6);
  std::vector<std::int32_t> ids(5), documents(5);
  padded.fill(1, views, -7, ids, documents);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{0, -7, -7, -7, -7})) << "the end token, cut off from its document";
  EXPECT_EQ(documents, (std::vector<std::int32_t>{0, -1, -1, -1, -1}));
}

TEST(PackConcatenated, OfNothingIsEmptyAndRefusesWhatDoesNotFit) {
  const std::vector<std::int64_t> empty{0, 0}, negative{3, -1}, endless{INT64_MAX}, one{1};
  EXPECT_TRUE(data::pack_concatenated(empty, 4, 0, data::Remainder::pad).sequences.empty());
  EXPECT_TRUE(data::pack_concatenated({}, 4, 0).sequences.empty());
  EXPECT_THROW(data::pack_concatenated(negative, 4, 0), ShapeError);
  EXPECT_THROW(data::pack_concatenated(endless, 4, 0), ShapeError);
  EXPECT_THROW(data::pack_concatenated(one, 0, 0), ShapeError);
  const auto packing = data::pack_concatenated(one, 2, 0);
  std::vector<std::int32_t> ids(2), documents(2);
  EXPECT_THROW(packing.fill(0, {}, 0, ids, documents), ShapeError) << "the document is missing";
  const std::vector<std::int32_t> shorter;
  const std::vector<std::span<const std::int32_t>> views{shorter};
  EXPECT_THROW(packing.fill(0, views, 0, ids, documents), ShapeError);
}
