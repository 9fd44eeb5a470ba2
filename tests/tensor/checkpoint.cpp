#include <etna/tensor/io/checkpoint.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/data_loader.h>
#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/ops.h>

#include "tensor/file_bytes.h"

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Training {
  nn::Linear model{3, 2};
  optim::AdamW optimizer{model.parameters(), {.lr = 0.01}};
  data::DataLoader<data::Example> loader{data::TensorDataset(arange(36.0).reshape({12, 3}), arange(12)),
                                         {.batch_size = 2, .shuffle = true, .seed = 5, .num_workers = 2}};
  std::int64_t step = 0;
  double best = 1e9;
  Tensor average = zeros({2});

  explicit Training(std::uint64_t seed) {
    manual_seed(seed);
    model.load_state_dict({{"weight", randn({2, 3})}, {"bias", randn({2})}});
  }
  std::vector<CheckpointItem> items() {
    return {{"model", model}, {"optimizer", optimizer}, {"loader", loader},
            {"step", step},   {"best", best},           {"average", average}};
  }
  /// Goes on until `steps` steps are done.
  void train(std::int64_t steps) {
    while (step < steps) {
      for (auto& [x, y] : loader) {
        Tensor loss = model(x).sum({1}).sub(y.to(f32)).mul(1.0).square().mean();
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        best = std::min(best, loss.item<double>());
        average.add_(model.state_dict().at("bias"));
        if (++step == steps) return;
      }
    }
  }
  std::vector<float> values() const {
    std::vector<float> all = average.to_vector<float>();
    for (const auto& [name, x] : model.state_dict())
      for (const float value : x.to_vector<float>()) all.push_back(value);
    all.push_back(static_cast<float>(best));
    return all;
  }
};

TEST(Checkpoint, ARunGoesOnInTheMiddleOfAnEpochBitForBit) {
  const TemporaryFolder folder;
  Training through(1), first(1), second(2);
  through.train(15);
  first.train(9);
  save(folder / "run", first.items(), {{"commit", "abc"}});
  const Metadata metadata = load(folder / "run", second.items());
  EXPECT_EQ(metadata, (Metadata{{"commit", "abc"}}));
  EXPECT_EQ(second.step, 9);
  EXPECT_EQ(second.loader.state(), (data::DataLoaderState{1, 3}));
  second.train(15);
  EXPECT_EQ(second.values(), through.values());
}

TEST(Checkpoint, IsASafetensorsFileWithPrefixedNames) {
  const TemporaryFolder folder;
  Training run(1);
  run.train(1);
  save(folder / "run", {{"model", run.model}, {"optimizer", run.optimizer}});
  const auto tensors = load_safetensors(folder / "run");
  EXPECT_TRUE(tensors.contains("model.weight"));
  EXPECT_TRUE(tensors.contains("optimizer.0.exp_avg"));
  nn::Linear other(3, 2);
  load(folder / "run", {{"model", other}});
  EXPECT_EQ(other.state_dict().at("weight").to_vector<float>(), run.model.state_dict().at("weight").to_vector<float>());
}

TEST(Checkpoint, ObjectsWithoutNamesAreNumbered) {
  const TemporaryFolder folder;
  Training run(1), other(2);
  save(folder / "run", {run.model, run.optimizer});
  load(folder / "run", {other.model, other.optimizer});
  EXPECT_EQ(other.model.state_dict().at("bias").to_vector<float>(),
            run.model.state_dict().at("bias").to_vector<float>());
}

TEST(Checkpoint, LeavesOptionalItemsThatAFileLacks) {
  const TemporaryFolder folder;
  std::int64_t count = 3, later = 7;
  save(folder / "run", {{"count", count}});
  count = 0;
  load(folder / "run", {{"count", count}, CheckpointItem("later", later).optional()});
  EXPECT_EQ(count, 3);
  EXPECT_EQ(later, 7);
  save(folder / "run", {{"count", count}, CheckpointItem("later", later).optional()});
  later = 0;
  load(folder / "run", {CheckpointItem("later", later).optional()});
  EXPECT_EQ(later, 7);
}

TEST(Checkpoint, SaysWhatDoesNotFit) {
  const TemporaryFolder folder;
  Training run(1);
  std::int64_t count = 3;
  save(folder / "run", {{"model", run.model}, {"count", count}});
  nn::Linear other(4, 2);
  double number = 0;
  const auto expect = [&](const std::vector<CheckpointItem>& items, const char* text) {
    EXPECT_THAT([&] { load(folder / "run", items); }, ThrowsMessage<FormatError>(HasSubstr(text)));
  };
  expect({{"model", other}}, "run: model: load_state_dict: shapes differ");
  expect({{"count", number}}, "run: count: it is not an f64 number");
  expect({{"model", run.model}, {"scaler", count}}, "lacks scaler; it holds count, model");
  EXPECT_THAT([&] { save(folder / "x", {{"a.b", count}}); }, ThrowsMessage<FormatError>(HasSubstr("contains a dot")));
  EXPECT_THAT(
      [&] {
        save(folder / "x", {{"a", count}, {"a", number}});
      },
      ThrowsMessage<FormatError>(HasSubstr("given twice")));
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  save_safetensors(folder / "plain", NamedTensors{{"model.weight", ones({1})}});
  EXPECT_THAT(
      [&] {
        load(folder / "plain", {{"count", count}});
      },
      ThrowsMessage<FormatError>(HasSubstr("not written by etna::save()")));
}

TEST(Checkpoint, SurvivesDamage) {
  const TemporaryFolder folder;
  Training run(1);
  run.train(1);
  save(folder / "run", run.items());
  expect_safe_on_damage(bytes_of(folder / "run"), [&](const auto& path) { load(path, run.items()); });
}

}  // namespace
}  // namespace etna
