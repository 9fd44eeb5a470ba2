#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>

#include "sample_run.h"
#include "variable.h"

namespace etna::training {
namespace {

namespace fs = std::filesystem;

TEST(RunList, LinesOfManyThreadsAndProcessesStayWhole) {
  TemporaryFolder folder;
  const fs::path file = folder / "runs.jsonl";
  constexpr int kProcesses = 4, kThreads = 8, kRuns = 25;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<std::thread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          for (int i = 0; i < kRuns; ++i) {
            RunRecord run = record(std::to_string(process) + "-" + std::to_string(thread) + "-" + std::to_string(i));
            run.program = std::string(static_cast<std::size_t>(1000 + 300 * thread), 'p');
            append_run(run, file);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const RunList list = read_runs(file);
  EXPECT_EQ(list.damaged, 0u);
  EXPECT_EQ(list.runs.size(), std::size_t{kProcesses * kThreads * kRuns});
}

TEST(RunList, IsBelowTheHomeOfTheUser) {
  const Variable runs("ETNA_RUNS", ""), state("XDG_STATE_HOME", nullptr), home("HOME", "/c");
  EXPECT_EQ(run_list_file(), "/c/.local/state/etna/runs.jsonl");
  const Variable homeless("HOME", nullptr);
  EXPECT_EQ(run_list_file(), "");
  append_run(record("1"));  // nowhere to go
  EXPECT_TRUE(read_runs().runs.empty());
}

TEST(RunList, AFullDiskIsAnErrorInWords) {
  EXPECT_THAT(
      [&] { append_run(record("a"), "/dev/full"); },
      testing::ThrowsMessage<FormatError>(testing::HasSubstr("/dev/full cannot be written: No space left on device")));
}

}  // namespace
}  // namespace etna::training
