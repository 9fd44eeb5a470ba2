#include <etna/train/checkpointer.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "train/counter.h"

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A small model with dropout, so that the random state matters, trained by a captured step.
struct Training {
  Device device;
  nn::Linear model{8, 4};
  optim::AdamW optimizer;
  optim::Scheduler schedule;
  std::int64_t step = 0;
  std::unique_ptr<CapturedFunction<std::function<Tensor(const Tensor&)>>> captured;

  Training(Device on, std::uint64_t seed)
      : device(on),
        model((manual_seed(seed), 8), 4),
        optimizer(moved().parameters(), {.lr = 0.05}),
        schedule(optimizer, optim::warmup_cosine(3, 40, 0.1)) {
    std::function<Tensor(const Tensor&)> train = [this](const Tensor& x) {
      Tensor loss = dropout(model(x), 0.3).square().mean();
      loss.backward();
      optimizer.step();
      schedule.step();
      optimizer.zero_grad();
      return loss.detach();
    };
    captured = std::make_unique<CapturedFunction<std::function<Tensor(const Tensor&)>>>(train, CaptureOptions{device});
  }
  nn::Linear& moved() {
    model.to(device);
    return model;
  }
  std::vector<CheckpointItem> items() {
    return {{"model", model}, {"optimizer", optimizer}, {"schedule", schedule}, {"step", step}};
  }
  void train_to(std::int64_t last) {
    for (; step < last; ++step) (*captured)(full({3, 8}, 0.1 * static_cast<double>(step % 5 + 1)).to(device));
  }
  std::vector<float> weights() const { return model.state_dict().at("weight").to_vector<float>(); }
};

class Resume : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "cpu") return;
    if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not set";
    device_ = select_device("vulkan");
  }
  Device device_ = kCPU;
};

TEST_P(Resume, EndsWithTheBitsOfARunThatWasNotStopped) {
  const TemporaryFolder folder;
  Training through(device_, 1);
  through.train_to(20);
  {
    Training first(device_, 1);
    Checkpointer checkpoints(folder.path(), first.items());
    EXPECT_FALSE(checkpoints.restore().has_value());
    first.train_to(7);
    checkpoints.save(first.step, {{"config", "small"}});
    first.train_to(9);  // while the file is written
  }
  manual_seed(99);
  Training second(device_, 2);
  Checkpointer checkpoints(folder.path(), second.items());
  const auto restored = checkpoints.restore();
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->metadata.at("config"), "small");
  EXPECT_EQ(second.step, 7);
  second.train_to(20);
  EXPECT_EQ(second.weights(), through.weights());
}
INSTANTIATE_TEST_SUITE_P(Device, Resume, ::testing::Values("cpu", "vulkan"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Checkpointer, KeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  Counter run;
  Checkpointer checkpoints(folder.path(), run.items(), {.keep = 2});
  for (const std::int64_t step : {1, 2, 3, 10}) {
    run.go_to(step);
    checkpoints.save(step, {}, step == 2);
  }
  checkpoints.wait();
  const CheckpointFiles files = find_checkpoints(folder.path());
  EXPECT_THAT(file_names(files.steps), ElementsAre("step-000000010.safetensors", "step-000000003.safetensors"));
  Counter best, latest;
  load(files.best, best.items());
  load(files.latest, latest.items());
  EXPECT_EQ(best.step, 2);
  EXPECT_EQ(latest.step, 10);
}

TEST(Checkpointer, TakesTheNewestThatIsWhole) {
  const TemporaryFolder folder;
  Counter run;
  {
    Checkpointer checkpoints(folder.path(), run.items(), {.keep = 3, .in_background = false});
    for (const std::int64_t step : {1, 2, 3}) {
      run.go_to(step);
      checkpoints.save(step);
    }
  }
  const fs::path newest = folder / "step-000000003.safetensors", second = folder / "step-000000002.safetensors";
  std::fstream flip(newest, std::ios::in | std::ios::out | std::ios::binary);
  flip.seekp(-3, std::ios::end);
  flip.put('\x55');
  flip.close();
  fs::resize_file(second, 100);
  Counter other;
  Checkpointer checkpoints(folder.path(), other.items(), {.keep = 1});
  const auto restored = checkpoints.restore();
  EXPECT_EQ(other.step, 1);
  EXPECT_EQ(other.state.to_vector<float>().front(), 1);
  ASSERT_EQ(restored->damaged.size(), 2u);
  EXPECT_THAT(restored->damaged[0], HasSubstr("step-000000003.safetensors: is damaged"));
  other.go_to(2);
  checkpoints.save(2);
  checkpoints.wait();
  EXPECT_THAT(file_names(find_checkpoints(folder.path()).steps), ElementsAre("step-000000002.safetensors"));
  fs::resize_file(second, 100);
  EXPECT_THAT([&] { checkpoints.restore(); }, ThrowsMessage<FormatError>(HasSubstr("no checkpoint can be used")));
}

TEST(Checkpointer, EveryDamagedByteIsFound) {
  const TemporaryFolder folder;
  Counter run;
  run.go_to(5);
  save(folder / "whole", run.items(), {{"config", "heads 4"}});
  std::ifstream in(folder / "whole", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  Counter other;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_THROW(load(folder.write("damaged", bytes), other.items()), FormatError) << at;
  }
  EXPECT_EQ(other.step, 0) << "nothing was loaded";
}

TEST(Checkpointer, AnotherModelIsAnErrorAndNotDamage) {
  const TemporaryFolder folder;
  Counter run;
  Checkpointer(folder.path(), run.items(), {.in_background = false}).save(1);
  std::int64_t step = 0;
  Tensor other = zeros({3});
  Checkpointer checkpoints(folder.path(), {{"step", step}, {"state", other}});
  EXPECT_THAT([&] { checkpoints.restore(); }, ThrowsMessage<FormatError>(HasSubstr("state: it has shape [64]")));
  EXPECT_EQ(find_checkpoints(folder.path()).steps.size(), 1u);
}

}  // namespace
}  // namespace etna::training
