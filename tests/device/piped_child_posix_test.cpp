#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <etna/device/internal/os/piped_child.h>

// Programs that run beside this one, and how signals reach them.
namespace etna::os {
namespace {

std::string all_of(PipedChild& child) {
  std::string all;
  for (std::string text = child.read(); !text.empty(); text = child.read()) all += text;
  return all;
}

TEST(PipedChild, AnswersLineByLine) {
  PipedChild child({"sh", "-c", "while read line; do echo \"<$line>\"; done; exit $CODE"},
                   {.environment = {{"CODE", "7"}}});
  for (const char* line : {"one\n", "two words\n"}) {
    ASSERT_TRUE(child.write(line));
    std::string answer;
    while (!answer.ends_with('\n')) {
      const std::string more = child.read();
      ASSERT_FALSE(more.empty()) << answer;
      answer += more;
    }
    EXPECT_EQ(answer, "<" + std::string(line, std::string(line).size() - 1) + ">\n");
  }
  child.close_input();
  EXPECT_EQ(all_of(child), "");
  const ChildEnd end = child.wait();
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_EQ(end.signal, 0);
}

TEST(PipedChild, OneThatDoesNotReadIsNoSignal) {
  PipedChild child({"true"}, {});
  EXPECT_EQ(all_of(child), "");
  EXPECT_FALSE(child.write(std::string(1 << 20, 'x')));
  EXPECT_FALSE(child.wait().asked);
}

TEST(PipedChild, OneThatCannotBeginSaysWhy) {
  PipedChild child({"/nowhere/program"}, {});
  EXPECT_EQ(all_of(child), "");
  EXPECT_THAT(child.wait().error, testing::HasSubstr("No such file"));
}

/// The way from a process that is asked to end to a rank, past mpirun: SIGUSR1 to who entered itself.
TEST(RunChild, AsksThoseThatEnteredThemselves) {
  PipedChild child({"sh", "-c",
                    "trap 'echo user; exit 3' USR1; echo $$ >> \"$ETNA_RANK_ENTRIES\"; echo ready; "
                    "while :; do sleep 0.02; done"},
                   {.asks_entered = true});
  ASSERT_EQ(child.read(), "ready\n");
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(all_of(child), "user\n");
  const ChildEnd end = child.wait();
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_TRUE(end.asked);
}

/// Those that could not enter themselves may still hear it from mpirun.
TEST(RunChild, AsksByMpirunWhereNobodyEntered) {
  PipedChild child({"sh", "-c", "trap 'echo user; exit 3' USR1; echo ready; while :; do sleep 0.02; done"},
                   {.asks_entered = true});
  ASSERT_EQ(child.read(), "ready\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it may be ready before this process knows its number
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(all_of(child), "user\n");
  EXPECT_EQ(child.wait().exit_code, 3);
}

/// The other end of it.
TEST(RunChild, InterruptsAtTheUserSignal) {
  const auto before = std::signal(SIGINT, SIG_IGN);  // as in a background job of a script
  PipedChild child({"sh", "-c", "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.02; done"},
                   {.enters = true});
  ASSERT_EQ(child.read(), "ready\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it may be ready before this process knows its number
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(all_of(child), "interrupted\n");
  const ChildEnd end = child.wait();
  EXPECT_EQ(end.exit_code, 4);
  EXPECT_FALSE(end.asked) << "it ended by itself";
  std::signal(SIGINT, before);
}

TEST(RunChild, HearsThatItWasAskedBeforeItEntered) {
  const std::string path = testing::TempDir() + "etna_entries_" + std::to_string(::getpid());
  const std::string earlier = "1073741824\n0\n", own = std::to_string(::getpid()) + "\n";
  std::ofstream(path) << earlier;
  ::setenv("ETNA_RANK_ENTRIES", path.c_str(), 1);
  const ChildEnd end = run_child({"sleep", "30"}, {.enters = true});
  EXPECT_EQ(end.signal, SIGINT);
  EXPECT_TRUE(end.asked);
  std::ostringstream entries;
  entries << std::ifstream(path).rdbuf();
  EXPECT_EQ(entries.str(), earlier + own);
  EXPECT_EQ(std::getenv("ETNA_RANK_ENTRIES"), path) << "its child has none, this process has";
  ::unsetenv("ETNA_RANK_ENTRIES");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace etna::os
