#include <etna/data/batches.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include <etna/device/error.h>

namespace etna::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::int32_t> counting(std::size_t n) {
  std::vector<std::int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(StreamBatches, ReadEveryStreamInOrder) {
  const auto ids = counting(23);  // two streams of 11: 0 … 10 and 11 … 21
  const StreamBatches streams(ids, 2, 3);
  ASSERT_EQ(streams.steps(), 3);
  std::vector<std::int32_t> x(6), y(6);
  streams.fill(0, x.data(), y.data());
  EXPECT_THAT(x, ElementsAre(0, 1, 2, 11, 12, 13));
  EXPECT_THAT(y, ElementsAre(1, 2, 3, 12, 13, 14));
  streams.fill(2, x.data(), y.data());
  EXPECT_THAT(x, ElementsAre(6, 7, 8, 17, 18, 19));
  EXPECT_THAT(y, ElementsAre(7, 8, 9, 18, 19, 20));
  EXPECT_THROW(streams.fill(3, x.data(), y.data()), ShapeError);
  EXPECT_THROW(streams.fill(-1, x.data(), y.data()), ShapeError);
}

TEST(StreamBatches, CountStepsAsTheRecipeDoes) {
  const auto ids = counting(2'088'628);
  EXPECT_EQ(StreamBatches(ids, 16, 64).steps(), 2039);
  EXPECT_EQ(StreamBatches(ids, 32, 256).steps(), 254);
}

TEST(StreamBatches, TakeACorpusOfExactlyOneStep) {
  const auto ids = counting(8);
  EXPECT_EQ(StreamBatches(ids, 2, 3).steps(), 1);
  EXPECT_EQ(StreamBatches(ids, 1, 7).steps(), 1);
}

TEST(StreamBatches, RefuseWhatGivesNoStep) {
  const auto ids = counting(7);
  EXPECT_THAT([&] { StreamBatches(ids, 2, 3); }, ThrowsMessage<FormatError>(HasSubstr("7 tokens give 2 streams of 3")));
  EXPECT_THROW(StreamBatches({}, 1, 1), FormatError);
  EXPECT_THROW(StreamBatches(ids, 1, std::numeric_limits<std::int64_t>::max()), FormatError);
  EXPECT_THROW(StreamBatches(ids, 0, 3), ShapeError);
  EXPECT_THROW(StreamBatches(ids, 2, -1), ShapeError);
}

TEST(BatchLoader, GivesAnEpochOfTensors) {
  const auto ids = counting(401);
  const StreamBatches streams(ids, 4, 9);
  std::int64_t step = 0;
  BatchLoader loader(streams);
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.x.shape(), (Shape{4, 9}));
    EXPECT_EQ(batch.x.dtype(), i32);
    const auto x = batch.x.to_vector<std::int32_t>(), y = batch.y.to_vector<std::int32_t>();
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i] + 1, y[i]);
    EXPECT_EQ(x[9], 100 + 9 * step);
    ++step;
  }
  EXPECT_EQ(step, streams.steps());
  EXPECT_FALSE(loader.next());
}

TEST(BatchLoader, GoesOnFromAStep) {
  const auto ids = counting(401);
  const StreamBatches streams(ids, 4, 9);
  BatchLoader loader(streams, 5);
  EXPECT_EQ(loader.next()->step, 5);
}

TEST(BatchLoader, StopsWhereNobodyReadsOn) {
  const auto ids = counting(100'001);
  for (int i = 0; i < 20; ++i) {
    BatchLoader loader(StreamBatches(ids, 1, 1));
    for (int n = 0; n < i; ++n) loader.next();
  }
}

TEST(VariedSpans, CutTheStreamsElsewhereInEachEpoch) {
  const auto ids = counting(4 * 1000);
  const StreamBatches streams(ids, 4, 24);
  std::map<std::int64_t, int> lengths;
  std::vector<std::vector<std::int64_t>> begins;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto spans = varied_spans(streams, 16, 7, epoch);
    ASSERT_EQ(static_cast<std::int64_t>(spans.size()), streams.steps());
    std::int64_t at = spans.front().begin;
    std::map<std::int64_t, int> seen;
    for (const StreamSpan& span : spans) {
      EXPECT_EQ(span.begin, at);
      at += span.count;
      ++seen[span.count];
    }
    EXPECT_LT(at, streams.stream());
    EXPECT_EQ(at - spans.front().begin, streams.steps() * 24);
    EXPECT_EQ(seen.size(), 5u) << "8, 16, 24, 32, 40";
    if (epoch > 0) {
      EXPECT_EQ(seen, lengths);
    }
    lengths = seen;
    begins.emplace_back();
    for (const StreamSpan& span : spans) begins.back().push_back(span.begin);
  }
  EXPECT_NE(begins[0], begins[1]);
  EXPECT_NE(begins[1], begins[2]);
  const auto again = varied_spans(streams, 16, 7, 2);
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].begin, begins[2][i]);
  EXPECT_THROW(varied_spans(streams, 12, 7, 0), ShapeError);
  EXPECT_THROW(varied_spans(streams, 24, 7, 0), ShapeError);
  EXPECT_THROW(varied_spans(streams, -8, 7, 0), ShapeError);
}

TEST(VariedSpans, AreWhatTheLoaderGives) {
  const auto ids = counting(300);
  const StreamBatches streams(ids, 2, 16);
  const auto spans = varied_spans(streams, 8, 1, 0);
  std::size_t i = 3;
  for (const Batch& batch : BatchLoader(streams, spans, 3)) {
    ASSERT_EQ(batch.x.shape(), (Shape{2, spans[i].count}));
    EXPECT_EQ(batch.step, static_cast<std::int64_t>(i));
    const auto x = batch.x.to_vector<std::int32_t>(), y = batch.y.to_vector<std::int32_t>();
    const auto row = static_cast<std::size_t>(spans[i].count), begin = static_cast<std::size_t>(spans[i].begin);
    EXPECT_EQ(x[0], ids[begin]);
    EXPECT_EQ(x[row], ids[150 + begin]);
    EXPECT_EQ(y[2 * row - 1], ids[150 + begin + row]);
    ++i;
  }
  EXPECT_EQ(i, spans.size());
  EXPECT_THROW(make_batch(streams, {140, 16}, 0), ShapeError);
}

}  // namespace
}  // namespace etna::data
