#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/tensor/ops.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/metrics.h>
#include <etna/train/runs.h>
#include <etna/train/settings.h>

#include "variable.h"

namespace etna::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RunRecords, WriteEachNumberToEveryPlace) {
  const TemporaryFolder folder;
  const Variable list_of_runs("ETNA_RUNS", folder.path().string().c_str());
  double lr = 0.25;
  SettingList settings;
  settings.real("lr", lr, 0, 1, "");
  RunSummary run;
  run.seconds = 2;
  run.steps = 10;
  run.tokens_per_step = 100;
  run.losses = {{.step = 10, .loss = 2.5}};
  run.valid_perplexity = 20.5;
  std::string id;
  {
    const auto held = open_run(folder / "run", false, false);
    const RunRecords records({.program = "test train", .preset = "tiny", .corpus = "a text", .folder = folder / "run"},
                             settings);
    id = records.metadata().at(RunRecords::kRun);
    records.begin(*held);
    MetricLog(folder / "run", {"loss"}).log(1, {{"loss", 7}}, 0.1);
    ::testing::internal::CaptureStdout();
    records.end(Outcome::finished, run);
    records.finish(*held, run, "once upon a time", "");
    EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("report.html (open it in a browser)\n"));
  }
  EXPECT_EQ(reported_step(folder / "run"), 10);
  EXPECT_EQ(reported_step(folder / "none"), -1);
  EXPECT_THAT(read_bytes(folder / "run/report.html"),
              AllOf(HasSubstr("test, tiny"), HasSubstr("validation perplexity"), HasSubstr("20.50"),
                    HasSubstr("tokens/s"), HasSubstr("500"), HasSubstr("once upon a time")));
  EXPECT_THAT(read_bytes(folder / "run/config.toml"), HasSubstr("lr = 0.25"));
  EXPECT_EQ(nlohmann::json::parse(read_bytes(folder / "run/environment.json"))["run"], id);
  const RunRecord listed = read_runs(folder / "runs.jsonl").runs.at(0);
  EXPECT_EQ(listed.id, id);
  EXPECT_EQ(listed.number("tokens_per_second"), 500);
  EXPECT_EQ(listed.number("final_loss"), 2.5);
  EXPECT_EQ(listed.number("valid_perplexity"), 20.5);
  EXPECT_FALSE(listed.number("test_perplexity"));
  EXPECT_EQ(nlohmann::json::parse(listed.config)["preset"], "tiny");
}

TEST(RunRecords, ARunGoesOnWithItsOwnCheckpoints) {
  const TemporaryFolder folder;
  const SettingList none;
  Tensor x = ones({1});
  const auto write_one = [&](const char* name, const Metadata& metadata) {
    save(folder / "run/checkpoints" / name, {{"x", x}}, metadata);
  };
  EXPECT_EQ(open_run("", true, false), nullptr);
  Metadata first;
  {
    const auto held = open_run(folder / "run", false, false);
    const RunRecords records({.program = "a", .folder = folder / "run"}, none);
    records.begin(*held);
    first = records.metadata();
    EXPECT_EQ(RunRecords({.program = "a", .resumed = first}, none).metadata(), first);
    std::filesystem::create_directories(std::filesystem::path(folder / "run/checkpoints"));
    write_one("step-000000001.safetensors", first);
  }
  EXPECT_EQ(newest_metadata(folder / "run").at(RunRecords::kRun), first.at(RunRecords::kRun));
  EXPECT_EQ(best_checkpoint(folder / "run/checkpoints/step-000000001.safetensors").string(),
            (folder / "run/checkpoints/step-000000001.safetensors").string());
  EXPECT_NE(open_run(folder / "run", true, false), nullptr);
  EXPECT_THAT([&] { open_run(folder / "run", false, false); },
              ThrowsMessage<FormatError>(HasSubstr("--resume goes on with a run")));
  write_one("step-000000002.safetensors", RunRecords({.program = "b"}, none).metadata());
  EXPECT_THAT([&] { open_run(folder / "run", true, false); },
              ThrowsMessage<FormatError>(HasSubstr("is a checkpoint of run")));
  EXPECT_THAT([&] { best_checkpoint(folder / "none"); }, ThrowsMessage<FormatError>(HasSubstr("has no checkpoints")));
}

}  // namespace
}  // namespace etna::training
