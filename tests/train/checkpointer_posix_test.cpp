#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>

#include "data/temporary_folder.h"
#include "train/counter.h"

namespace etna::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Checkpointer, AFullDiskIsSaidAndLosesNothing) {
  const TemporaryFolder folder;
  Counter run;
  Checkpointer checkpoints(folder.path(), run.items());
  run.go_to(1);
  checkpoints.save(1);
  checkpoints.wait();
  // A limit on the size of files is the full disk that a test can make.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{64, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  run.go_to(2);
  checkpoints.save(2);
  std::string why;
  try {
    checkpoints.wait();
  } catch (const FormatError& error) {
    why = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(why, HasSubstr("step-000000002.safetensors: cannot be written: File too large"));
  Counter other;
  Checkpointer again(folder.path(), other.items());
  ASSERT_TRUE(again.restore().has_value());
  EXPECT_EQ(other.step, 1);
  EXPECT_THAT(file_names(find_checkpoints(folder.path()).steps), ElementsAre("step-000000001.safetensors"));
}

TEST(Checkpointer, AKilledProcessLeavesAWholeCheckpoint) {
  const TemporaryFolder folder;
  for (int kill = 0; kill < 20; ++kill) {
    const pid_t child = fork();
    if (child == 0) {
      Counter run;
      Checkpointer checkpoints(folder.path(), run.items());
      checkpoints.restore();
      for (;;) {
        run.go_to(run.step + 1);
        checkpoints.save(run.step);
      }
    }
    usleep(static_cast<useconds_t>(2000 + 1700 * kill));
    ::kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Counter run;
    const auto restored = Checkpointer(folder.path(), run.items()).restore();
    if (!restored.has_value()) continue;
    EXPECT_TRUE(restored->damaged.empty()) << restored->damaged.front();
    EXPECT_EQ(run.state.to_vector<float>().back(), static_cast<float>(run.step));
  }
}

}  // namespace
}  // namespace etna::training
