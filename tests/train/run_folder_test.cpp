#include <etna/train/runs.h>

#include <unistd.h>

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/train/evaluator.h>
#include <etna/train/progress.h>

#include "data/temporary_folder.h"

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RunFolder, OneThatHoldsARunIsRefused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "run";
  { RunFolder(path, ExistingRun::refuse).write("config.json", "{}"); }
  EXPECT_THAT([&] { RunFolder(path, ExistingRun::refuse); },
              ThrowsMessage<FormatError>(
                  testing::AllOf(HasSubstr("holds a run; name another folder"), testing::Not(HasSubstr("--")))));
  RunFolder(path, ExistingRun::resume);
  EXPECT_TRUE(fs::exists(path / "config.json"));
}

TEST(RunFolder, OverwritingRemovesTheRunAndNothingElse) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "checkpoints");
  for (const char* file : {"config.json", "metrics.csv", "events.out.tfevents.1.x", "notes.txt", "a.safetensors",
                           "checkpoints/step-000000001.safetensors", "checkpoints/latest.safetensors",
                           "checkpoints/mine.bin", "checkpoints/step-000000002.safetensors.17-0.tmp"})
    folder.write(file, "x");
  RunFolder run(folder.path(), ExistingRun::overwrite);
  EXPECT_FALSE(holds_run(folder.path()));
  for (const char* gone : {"config.json", "metrics.csv", "events.out.tfevents.1.x", "checkpoints/latest.safetensors",
                           "checkpoints/step-000000002.safetensors.17-0.tmp"})
    EXPECT_FALSE(fs::exists(folder / gone)) << gone;
  for (const char* there : {"notes.txt", "a.safetensors", "checkpoints/mine.bin"})
    EXPECT_TRUE(fs::exists(folder / there)) << there;
}

TEST(RunFolder, NothingToResumeIsSaid) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { RunFolder(folder.path(), ExistingRun::resume); },
              ThrowsMessage<FormatError>(HasSubstr("holds no run to resume")));
}

TEST(RunFolder, ASecondProcessIsRefused) {
  const TemporaryFolder folder;
  RunFolder first(folder.path(), ExistingRun::refuse);
  for (const ExistingRun existing : {ExistingRun::refuse, ExistingRun::overwrite}) {
    EXPECT_THAT([&] { RunFolder(folder.path(), existing); },
                ThrowsMessage<FormatError>(HasSubstr("is in use: process " + std::to_string(getpid()))));
  }
}

TEST(RunFolder, WhereNothingCanBeWrittenIsSaid) {
  const TemporaryFolder folder;
  folder.write("file", "x");
  EXPECT_THAT([&] { RunFolder(folder / "file", ExistingRun::refuse); },
              ThrowsMessage<FormatError>(HasSubstr("cannot be")));
  EXPECT_THAT([&] { RunFolder(folder / "file" / "below", ExistingRun::refuse); },
              ThrowsMessage<FormatError>(HasSubstr("below cannot be made")));
}

TEST(Interrupt, IsARequestTheFirstTime) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.requested());
  EXPECT_EQ(interrupt.exit_code(), 0);
  std::raise(SIGINT);
  EXPECT_TRUE(interrupt.requested());
  EXPECT_EQ(interrupt.exit_code(), 130);
  EXPECT_THROW(Interrupt(), Error) << "there is one already";
}

TEST(Interrupt, EndsTheProcessTheSecondTime) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        std::raise(SIGTERM);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Interrupt, LeavesIgnoredSignalsIgnored) {
  std::signal(SIGINT, SIG_IGN);
  {
    Interrupt interrupt;
    std::raise(SIGINT);
    EXPECT_FALSE(interrupt.requested());
  }
  std::signal(SIGINT, SIG_DFL);
}

TEST(EarlyStopping, StopsAfterPatienceWithoutImprovement) {
  EarlyStopping stopping({.patience = 2, .min_delta = 0.1});
  EXPECT_TRUE(stopping.improved(3));
  EXPECT_FALSE(stopping.improved(2.95)) << "not by more than min_delta";
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_TRUE(stopping.improved(2));
  EXPECT_FALSE(stopping.improved(std::numeric_limits<double>::quiet_NaN()));
  EarlyStopping resumed({.patience = 2, .min_delta = 0.1});
  resumed.load_state_dict(stopping.state_dict());
  EXPECT_FALSE(resumed.improved(2));
  EXPECT_TRUE(resumed.should_stop());
  EXPECT_EQ(resumed.best(), 2);
}

TEST(EarlyStopping, CanMaximize) {
  EarlyStopping stopping({.patience = 1, .maximize = true});
  EXPECT_TRUE(stopping.improved(0.5));
  EXPECT_TRUE(stopping.improved(0.6));
  EXPECT_FALSE(stopping.improved(0.6));
  EXPECT_TRUE(stopping.should_stop());
  EXPECT_EQ(stopping.best(), 0.6);
  EXPECT_THROW(EarlyStopping({.patience = -1}), Error);
}

}  // namespace
}  // namespace etna::training
