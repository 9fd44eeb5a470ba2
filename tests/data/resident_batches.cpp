#include <etna/data/batches.h>

#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nn/on_device.h>

#include <etna/device/error.h>
#include <etna/device/memory.h>

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::int32_t> some_ids(std::size_t n) {
  std::vector<std::int32_t> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::int32_t>(i * i * 31 % 1009);
  return ids;
}

class ResidentBatchesOn : public OnDevice {};
ETNA_ON_EVERY_DEVICE(ResidentBatchesOn);

void expect_batch(const Batch& got, const Batch& want) {
  EXPECT_EQ(got.step, want.step);
  EXPECT_EQ(got.x.shape(), want.x.shape());
  EXPECT_EQ(got.x.dtype(), i32);
  EXPECT_EQ(got.x.to_vector<std::int32_t>(), want.x.to_vector<std::int32_t>()) << "step " << want.step;
  EXPECT_EQ(got.y.to_vector<std::int32_t>(), want.y.to_vector<std::int32_t>()) << "step " << want.step;
}

TEST_P(ResidentBatchesOn, AreThoseOfTheStreamsEpochAfterEpoch) {
  const auto ids =
      some_ids(263);  // three streams of 87, which 9 steps of 9 tokens do not fill; two tokens are left over
  const StreamBatches streams(ids, 3, 9);
  ResidentBatches batches(streams, device());
  ASSERT_EQ(batches.steps(), streams.steps());
  for (std::int64_t i = 0; i < 2 * streams.steps(); ++i) {
    EXPECT_EQ(batches.step(), i % streams.steps());
    const Batch got = batches.next();
    EXPECT_EQ(got.x.device(), device());
    expect_batch(got, make_batch(streams, i % streams.steps()));
  }
}

TEST_P(ResidentBatchesOn, CrossTheBusOnce) {
  std::optional<ResidentBatches> batches;
  const Transfers before = transfers();
  {
    const auto ids = some_ids(200);
    batches.emplace(StreamBatches(ids, 4, 5), device());
  }
  const std::uint64_t expected = device().is_cpu() ? 0 : 200 * sizeof(std::int32_t);
  EXPECT_EQ(transfers().h2d_bytes - before.h2d_bytes, expected);
  for (int i = 0; i < 12; ++i) batches->next();
  EXPECT_EQ(transfers().h2d_bytes - before.h2d_bytes, expected);
  EXPECT_EQ(transfers().d2h_bytes, before.d2h_bytes);
}

TEST_P(ResidentBatchesOn, GoOnFromAStep) {
  const auto ids = some_ids(101);
  const StreamBatches streams(ids, 2, 7);
  ResidentBatches batches(streams, device());
  for (std::int64_t step : {std::int64_t{3}, std::int64_t{0}, streams.steps() - 1}) {
    batches.seek(step);
    expect_batch(batches.next(), make_batch(streams, step));
  }
  EXPECT_EQ(batches.step(), 0);
  EXPECT_THAT([&] { batches.seek(7); }, ThrowsMessage<ShapeError>(HasSubstr("step 7 is outside [0, 7)")));
  EXPECT_THROW(batches.seek(-1), ShapeError);
  EXPECT_EQ(batches.step(), 0);
}

TEST_P(ResidentBatchesOn, OfOneStepRepeatIt) {
  const auto ids = some_ids(8);
  const StreamBatches streams(ids, 2, 3);
  ResidentBatches batches(streams, device());
  for (int i = 0; i < 3; ++i) expect_batch(batches.next(), make_batch(streams, 0));
}

}  // namespace
}  // namespace etna::data
