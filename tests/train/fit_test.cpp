#include <etna/train/fit.h>

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/data.h>
#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/ops.h>
#include <etna/train/checkpointer.h>
#include <etna/train/metrics.h>

#include "data/temporary_folder.h"

namespace etna::training {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A regression with dropout, and all that fit() wants.
struct Job {
  Tensor x, y;
  nn::Linear model{4, 1};
  optim::AdamW optimizer{model.parameters(), {.lr = 0.05}};
  data::DataLoader<data::Example> loader, valid;

  explicit Job(std::uint64_t seed)
      : x((manual_seed(seed), randn({64, 4}))),
        y(sum(x, {1}, true)),
        loader(data::TensorDataset(x, y), {.batch_size = 8, .shuffle = true, .seed = 3}),
        valid(data::TensorDataset(x, y), {.batch_size = 16}) {
    nn::init::constant_(model.weight, 0.1);
  }
  FitResult fit(FitOptions options) {
    auto loss = [this](const Tensor& a, const Tensor& b) {
      return mse_loss(model(dropout(a, 0.1, model.training())), b);
    };
    return training::fit(model, loss, optimizer, loader, options, &valid);
  }
  std::vector<float> weights() const { return model.state_dict().at("weight").to_vector<float>(); }
};

TEST(Fit, TellsWhyItEnded) {
  EXPECT_EQ(Job(1).fit({.epochs = 2, .progress = false}).ending, Ending::finished);
  Job still(1);
  still.optimizer.set_lr(0);  // the first validation is the best for ever
  const FitResult result = still.fit({.epochs = 9, .patience = 2, .progress = false});
  EXPECT_EQ(result.ending, Ending::patience);
  EXPECT_EQ(result.epochs, 3);
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Fit, PatienceNeedsValidation) {
  Job job(1);
  const auto loss = [&](const Tensor& a, const Tensor& b) { return mse_loss(job.model(a), b); };
  EXPECT_THAT([&] { training::fit(job.model, loss, job.optimizer, job.loader, {.patience = 3}); },
              ThrowsMessage<Error>(HasSubstr("a patience of 3 epochs needs batches to validate with")));
}

TEST(Fit, PrintsNothingWithoutProgress) {
  testing::internal::CaptureStdout();
  Job(1).fit({.epochs = 2, .progress = false});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Fit, TrainsAndWritesItsRun) {
  const TemporaryFolder folder;
  Job job(1);
  const FitResult result = job.fit({.epochs = 20, .folder = folder / "run"});
  EXPECT_EQ(result.steps, 160);
  EXPECT_EQ(result.epochs, 20);
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_TRUE(result.valid_loss.has_value());
  EXPECT_LT(*result.valid_loss, 0.2);
  const Metrics metrics = read_metrics(folder / "run");
  EXPECT_EQ(metrics.points("valid_loss").size(), 20u);
  EXPECT_EQ(metrics.points("loss").size(), 17u);
  EXPECT_FALSE(find_checkpoints(folder / "run/checkpoints").best.empty());
  EXPECT_THAT([&] { Job(1).fit({.folder = folder / "run"}); }, ThrowsMessage<FormatError>(HasSubstr("holds a run")));
}

TEST(Fit, GoesOnWithTheSameBits) {
  const TemporaryFolder folder;
  Job through(1);
  through.fit({.epochs = 6, .folder = folder / "through"});
  Job first(1);
  first.fit({.epochs = 3, .folder = folder / "run"});
  Job second(2);
  second.x.copy_(first.x);
  second.y.copy_(first.y);
  const FitResult result = second.fit({.epochs = 6, .folder = folder / "run", .existing = ExistingRun::resume});
  EXPECT_EQ(result.steps, 48);
  EXPECT_EQ(second.weights(), through.weights());
}

/// Takes an object out of a run's checkpoints, as if an older version had written them.
void take_out(const FilePath& checkpoints, const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints)) {
    CheckpointState state = read_checkpoint(entry.path());
    std::erase_if(state.tensors, [&](const auto& tensor) { return tensor.first.starts_with(name + "."); });
    std::string& objects = state.metadata.at("etna.checkpoint");
    const std::size_t at = objects.find(name + "\n");
    ASSERT_NE(at, objects.npos);
    objects.erase(at, name.size() + 1);
    write_checkpoint(entry.path(), std::move(state));
  }
}

TEST(Fit, GoesOnWithRunsThatDoNotSayWhenTheyValidated) {
  const TemporaryFolder folder;
  Job through(1);
  through.fit({.epochs = 6, .folder = folder / "through"});
  Job first(1);
  first.fit({.epochs = 3, .folder = folder / "run"});
  take_out(folder / "run/checkpoints", "validated_at");
  Job second(2);
  second.x.copy_(first.x);
  second.y.copy_(first.y);
  second.fit({.epochs = 6, .folder = folder / "run", .existing = ExistingRun::resume});
  EXPECT_EQ(second.weights(), through.weights());
  EXPECT_EQ(read_metrics(folder / "run").points("valid_loss").size(), 6u);
}

TEST(Fit, StopsAtCtrlC) {
  const TemporaryFolder folder;
  Job job(1);
  int calls = 0;
  auto loss = [&](const Tensor& a, const Tensor& b) {
    if (++calls == 5) std::raise(SIGINT);
    return mse_loss(job.model(a), b);
  };
  const FitResult result = training::fit(job.model, loss, job.optimizer, job.loader,
                                         {.epochs = 3, .captured = false, .folder = folder / "run"});
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.steps, 5);
  EXPECT_FALSE(find_checkpoints(folder / "run/checkpoints").latest.empty());
}

TEST(Fit, EndsWhereTheLossIsLost) {
  Job job(1);
  auto loss = [&](const Tensor& a, const Tensor& b) { return mse_loss(job.model(a), b) / 0.0; };
  EXPECT_THAT([&] { training::fit(job.model, loss, job.optimizer, job.loader); },
              ThrowsMessage<Error>(HasSubstr("fit: the loss at step 1 is inf")));
  EXPECT_THROW(job.fit({.existing = ExistingRun::resume}), Error);
}

}  // namespace
}  // namespace etna::training
