#include "training.h"

namespace etna {
namespace {

constexpr std::int64_t kResidentSteps = 20;

/// Training steps that slice their batches from a corpus on the device.
class ResidentTraining : public OnDevice {
 protected:
  /// Eight steps an epoch, so that 20 wrap twice.
  static std::vector<std::int32_t> ids() {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 179; ++i) ids.push_back((i * 7 + i * i * 3) % Training::kVocab);
    return ids;
  }

  const std::vector<std::int32_t> ids_ = ids();
  const data::StreamBatches streams_{ids_, Training::kBatch, Training::kSeq};
};
ETNA_ON_BOTH_DEVICES(ResidentTraining);

/// An eager step on an uploaded batch.
float eager_step(Training& t, const data::StreamBatches& streams, std::int64_t step) {
  data::Batch batch = data::make_batch(streams, step).to(t.device);
  return t.step(batch.x, batch.y).item();
}

TEST_P(ResidentTraining, GivesTheBitsOfUploadedBatchesAndMovesNothing) {
  ASSERT_TRUE(strict());
  ASSERT_EQ(streams_.steps(), 8);
  Training plain(device());
  std::vector<float> wanted;
  for (std::int64_t i = 0; i < kResidentSteps; ++i) wanted.push_back(eager_step(plain, streams_, i % streams_.steps()));

  Training t(device());
  data::ResidentBatches batches(streams_, device());
  auto step = capture(
      [&] {
        data::Batch batch = batches.next();
        return t.step(batch.x, batch.y);
      },
      {.device = device()});
  std::vector<float> losses;
  for (std::int64_t i = 0; i < kResidentSteps; ++i) {
    const Transfers before = transfers();
    Tensor loss = step();
    if (device().is_vulkan()) synchronize(device());
    const Transfers after = transfers();
    EXPECT_EQ(after.h2d_bytes, before.h2d_bytes) << "step " << i;
    EXPECT_EQ(after.d2h_bytes, before.d2h_bytes) << "step " << i;
    EXPECT_EQ(after.moved_tensors + after.fallbacks, before.moved_tensors + before.fallbacks) << "step " << i;
    losses.push_back(loss.item());
  }
  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(step.replays(), kResidentSteps - 2);
  EXPECT_EQ(step.report().input_bytes, 0u);
  EXPECT_EQ(batches.step(), kResidentSteps % streams_.steps());
  EXPECT_EQ(losses, wanted);
  EXPECT_TRUE(same_bits(values_of(t.parameters), values_of(plain.parameters)));
}

TEST_P(ResidentTraining, FollowsASeekBetweenReplays) {
  Training plain(device()), t(device());
  data::ResidentBatches batches(streams_, device());
  auto step = capture(
      [&] {
        data::Batch batch = batches.next();
        return t.step(batch.x, batch.y);
      },
      {.device = device()});
  manual_seed(5);
  std::vector<float> wanted, losses;
  const std::vector<std::int64_t> order = {0, 1, 2, 6, 7, 0, 3, 3, 1};
  for (std::int64_t i : order) wanted.push_back(eager_step(plain, streams_, i));
  manual_seed(5);
  for (std::int64_t i : order) {
    if (i != batches.step()) batches.seek(i);
    losses.push_back(step().item());
  }
  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(losses, wanted);
}

TEST_P(ResidentTraining, AStepMayTakeSeveralBatchesAndTheirOwnerMayMove) {
  auto batches = std::make_unique<data::ResidentBatches>(streams_, device());
  auto step = capture(
      [&] {
        Tensor first = batches->next().x;
        return std::vector<Tensor>{first + 0.0, batches->next().y + 0.0};
      },
      {.device = device()});
  for (std::int64_t i = 0; i < 11; ++i) {
    if (i == 4) batches = std::make_unique<data::ResidentBatches>(std::move(*batches));
    std::vector<Tensor> got = step();
    const data::Batch a = data::make_batch(streams_, 2 * i % 8), b = data::make_batch(streams_, (2 * i + 1) % 8);
    EXPECT_EQ(got[0].to_vector<float>(), a.x.to_vector<float>()) << i;
    EXPECT_EQ(got[1].to_vector<float>(), b.y.to_vector<float>()) << i;
  }
  EXPECT_EQ(step.captures(), 1);
}

}  // namespace
}  // namespace etna
