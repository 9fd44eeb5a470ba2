#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>
#include <etna/train/metrics.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MetricLog, AFullDiskIsAnErrorInWords) {
  TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder / "metrics.jsonl");
  MetricLog log(folder.path(), {"loss"});
  EXPECT_THAT(
      [&] {
        log.log(12, {{"loss", 1}}, 1);
      },
      ThrowsMessage<FormatError>(AllOf(HasSubstr("metrics.jsonl cannot be written: No space left on device"),
                                       HasSubstr("the row of step 12 is lost"))));
}

TEST(MetricLog, ARowThatFitsHalfLeavesNoDamage) {
  TemporaryFolder folder;
  // The limit of file sizes is one of the process.
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    int lost = 0;
    {
      MetricLog log(folder.path(), {"loss"});
      const rlimit small{500, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &small);
      for (int step = 1; step <= 30; ++step) {
        try {
          log.log(step, {{"loss", 1.0 / step}}, step);
        } catch (const FormatError&) {
          ++lost;
        }
      }
      const rlimit large{RLIM_INFINITY, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &large);
      log.log(99, {{"loss", 9}}, 99);
    }
    _exit(lost > 5 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const Metrics metrics = read_metrics(folder.path());
  EXPECT_GT(metrics.rows().size(), 5u);
  EXPECT_EQ(metrics.rows().back().step, 99);
  EXPECT_FALSE(metrics.cut());
}

TEST(MetricLog, AKillCutsAtMostOneLine) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    MetricLog log(folder.path(), {"loss"});
    for (int step = 1;; ++step) log.log(step, {{"loss", 1.0 / step}}, step);
  }
  usleep(50'000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto rows = static_cast<std::int64_t>(read_metrics(folder.path()).rows().size());
  ASSERT_GT(rows, 2);
  MetricLog log(folder.path(), {"loss"}, rows - 1);
  EXPECT_EQ(static_cast<std::int64_t>(read_metrics(folder.path()).rows().size()), rows - 1);
}

TEST(MetricLog, AReadOnlyFolderIsAnErrorInWords) {
  TemporaryFolder folder;
  const auto reading = fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec;
  fs::permissions(folder.path(), reading);
  const pid_t child = fork();
  if (child == 0) {
    // Root may write everywhere, so it becomes nobody.
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    try {
      MetricLog(folder.path(), {});
    } catch (const FormatError& error) {
      _exit(std::string(error.what()).ends_with("metrics.jsonl cannot be written: Permission denied") ? 0 : 1);
    }
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fs::permissions(folder.path(), fs::perms::owner_all);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace etna::training
