#include <etna/train/training_loop.h>

#include <cmath>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/ops.h>
#include <etna/train/checkpointer.h>
#include <etna/train/metrics.h>

#include "data/temporary_folder.h"

namespace etna::training {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Makes the steps that are left; each loss is 1 / step.
void run(TrainingLoop& loop, std::int64_t& step) {
  while (loop.go_on()) {
    ++step;
    loop.after_step(0.5, full({}, 1.0 / static_cast<double>(step), {f32}));
  }
  loop.finish();
}

TEST(TrainingLoop, ValidatesEverySoManySteps) {
  std::int64_t step = 0;
  std::vector<std::int64_t> at;
  TrainingLoop loop(step, {.steps = 10,
                           .steps_per_epoch = 4,
                           .validate =
                               [&] {
                                 at.push_back(step);
                                 return 2.0 - static_cast<double>(step) / 10;
                               },
                           .validate_every = 3,
                           .progress = false});
  run(loop, step);
  EXPECT_THAT(at, ElementsAre(3, 6, 9, 10)) << "and at the end";
  EXPECT_EQ(loop.valid_loss(), 1.0);
  EXPECT_FALSE(loop.interrupted());
  EXPECT_EQ(loop.exit_code(), 0);
}

TEST(TrainingLoop, SaysWhatItMeasures) {
  std::int64_t step = 0;
  TrainingLoop loop(step, {.steps = 4,
                           .steps_per_epoch = 2,
                           .epoch_loss = [] { return 0.75; },
                           .validate = [&] { return 1.0 / static_cast<double>(step); },
                           .perplexity = true});
  ::testing::internal::CaptureStdout();
  run(loop, step);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("step 2: validation loss 0.5000, perplexity 1.65\n"),
                    HasSubstr("step 4: validation loss 0.2500, perplexity 1.28, the best so far\n")));
  std::int64_t again = 0;
  TrainingLoop lines(again, {.steps = 2,
                             .steps_per_epoch = 2,
                             .epoch_loss = [] { return 0.75; },
                             .validate = [] { return 0.5; },
                             .interruptible = false,
                             .epoch_lines = true});
  ::testing::internal::CaptureStdout();
  run(lines, again);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("epoch 1: mean loss 0.7500, validation loss 0.5000, the best so far\n"));
}

TEST(TrainingLoop, SumsUpWhatItSaw) {
  std::int64_t step = 0;
  TrainingLoop loop(step, {.steps = 6,
                           .steps_per_epoch = 3,
                           .tokens_per_step = 100,
                           .epoch_loss = [] { return 0.75; },
                           .progress = false,
                           .reads = [](std::int64_t at) { return at % 2 == 0; }});
  run(loop, step);
  const RunSummary summary = loop.summary();
  ASSERT_EQ(summary.losses.size(), 3u);
  EXPECT_EQ(summary.losses[2].step, 6);
  EXPECT_FLOAT_EQ(static_cast<float>(summary.losses[2].loss), 1.0f / 6);
  EXPECT_THAT(summary.epoch_loss, ElementsAre(0.75, 0.75));
  EXPECT_EQ(summary.epoch_seconds.size(), 2u);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_GT(summary.tokens_per_second(), 0);
}

TEST(TrainingLoop, GoesOnFromItsCheckpointAndNotPastItsReport) {
  const TemporaryFolder folder;
  nn::Linear model(2, 1);
  const auto options = [&](std::int64_t& step, std::int64_t steps, bool resume, std::int64_t reported) {
    return TrainingLoopOptions{.steps = steps,
                               .steps_per_epoch = 2,
                               .validate = [] { return 1.0; },
                               .folder = folder.path(),
                               .items = {{"model", model}, {"step", step}},
                               .metadata = {{"made by", "a test"}},
                               .resume = resume,
                               .reported = reported,
                               .progress = false};
  };
  std::int64_t step = 0;
  {
    TrainingLoop loop(step, options(step, 4, false, -1));
    run(loop, step);
  }
  std::int64_t resumed = 0;
  {
    TrainingLoop loop(resumed, options(resumed, 4, true, 4));
    EXPECT_EQ(resumed, 4);
    EXPECT_TRUE(loop.nothing_left());
  }
  {
    TrainingLoop loop(resumed, options(resumed, 6, true, 4));
    EXPECT_FALSE(loop.nothing_left());
    run(loop, resumed);
    EXPECT_EQ(loop.summary().first_step, 4);
  }
  EXPECT_EQ(read_metrics(folder.path()).points("valid_loss").size(), 3u);
  const CheckpointFiles files = find_checkpoints(folder / "checkpoints");
  EXPECT_EQ(read_checkpoint(files.latest).metadata.at("made by"), "a test");
  const Tensor now = model.weight.clone();
  nn::init::constant_(model.weight, 7);
  TrainingLoop loop(resumed, options(resumed, 6, true, -1));
  nn::init::constant_(model.weight, 7);
  loop.take_best(model);
  EXPECT_TRUE(equal(model.weight, now)) << "the best is an earlier one";
}

TEST(TrainingLoop, ValidatesAgainWhereARunDoesNotSayWhenItDid) {
  const TemporaryFolder folder;
  nn::Linear model(2, 1);
  std::int64_t step = 0;
  int validations = 0;
  const auto options = [&](bool resume) {
    return TrainingLoopOptions{.steps = 4,
                               .steps_per_epoch = 2,
                               .validate = [&] { return 1.0 / ++validations; },
                               .folder = folder.path(),
                               .items = {{"model", model}, {"step", step}},
                               .resume = resume,
                               .progress = false};
  };
  {
    TrainingLoop loop(step, options(false));
    run(loop, step);
    EXPECT_EQ(validations, 2) << "the last one is at the end already";
  }
  for (const FilePath& file : find_checkpoints(folder / "checkpoints").steps) {
    CheckpointState state = read_checkpoint(file);
    std::erase_if(state.tensors, [](const auto& tensor) { return tensor.first.starts_with("validated_at."); });
    std::string& objects = state.metadata.at("etna.checkpoint");
    objects.erase(objects.find("validated_at\n"), 13);
    write_checkpoint(file, std::move(state));
  }
  TrainingLoop loop(step, options(true));
  EXPECT_EQ(step, 4);
  run(loop, step);
  EXPECT_EQ(validations, 3);
  EXPECT_EQ(loop.valid_loss(), 1.0 / 3);
}

TEST(TrainingLoop, ALostLossEndsIt) {
  std::int64_t step = 0;
  TrainingLoop loop(step, {.steps = 5, .progress = false, .advice = "try another"});
  ++step;
  EXPECT_THAT(
      [&] {
        loop.after_step(1, full({}, NAN, {f32}));
        loop.finish();
      },
      ThrowsMessage<NonFiniteLoss>("the loss at step 1 is nan; try another"));
}

}  // namespace
}  // namespace etna::training
