#include <etna/data/tokenizers/internal/chat/bounded_process.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>

namespace {

using etna::FormatError;
using etna::data::run_bounded;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Needs more stack than there is.
int deeper(int depth) {
  volatile char room[4096];
  room[depth % 4096] = 1;
  return depth > 1000000000 ? 0 : deeper(depth + 1) + room[0];
}

TEST(BoundedProcess, GivesWhatTheWorkGives) {
  const std::string words(100000, 'w');
  EXPECT_EQ(run_bounded([&] { return words + std::string(1, '\0') + "end"; }, "it"),
            words + std::string(1, '\0') + "end");
  EXPECT_EQ(run_bounded([] { return std::string(); }, "it"), "");
}

TEST(BoundedProcess, LeavesThisProcessAsItIs) {
  int count = 0;
  EXPECT_EQ(run_bounded([&] { return std::to_string(++count); }, "it"), "1");
  EXPECT_EQ(count, 0);
}

TEST(BoundedProcess, ErrorsKeepTheirWords) {
  EXPECT_THAT([] { run_bounded([]() -> std::string { throw std::runtime_error("no such thing"); }, "a template"); },
              ThrowsMessage<FormatError>("a template: no such thing"));
}

TEST(BoundedProcess, CrashesAreSentences) {
  EXPECT_THAT([] { run_bounded([]() -> std::string { std::abort(); }, "it"); },
              ThrowsMessage<FormatError>(HasSubstr("it: it crashed")));
  EXPECT_THAT([] { run_bounded([]() -> std::string { _exit(3); }, "it"); },
              ThrowsMessage<FormatError>(HasSubstr("it crashed")));
  EXPECT_THAT([] { run_bounded([] { return std::to_string(deeper(0)); }, "it"); },
              ThrowsMessage<FormatError>(HasSubstr("it crashed")));
}

TEST(BoundedProcess, EndsWhatDoesNotEnd) {
  EXPECT_THAT(
      [] {
        volatile bool forever = true;
        run_bounded(
            [&]() -> std::string {
              while (forever) {}
              return "";
            },
            "it", {.seconds = 1});
      },
      ThrowsMessage<FormatError>(HasSubstr("did not finish within 1 s")));
}

/// Whether the system takes a limit of memory: emulators of processors may not, since it would be their own, too.
/// AddressSanitizer maps terabytes, and cannot report that it got no more.
bool memory_can_be_limited() {
#ifdef __SANITIZE_ADDRESS__
  return false;
#endif
  const auto lower = [] {
    rlimit before{}, after{};
    ::getrlimit(RLIMIT_AS, &before);
    rlimit wanted = before;
    wanted.rlim_cur = before.rlim_cur == RLIM_INFINITY ? rlim_t{1} << 46 : before.rlim_cur - 4096;
    ::setrlimit(RLIMIT_AS, &wanted);
    ::getrlimit(RLIMIT_AS, &after);
    return std::string(after.rlim_cur == wanted.rlim_cur ? "yes" : "no");
  };
  return run_bounded(lower, "it") == "yes";
}

TEST(BoundedProcess, LimitsMemory) {
  if (!memory_can_be_limited()) GTEST_SKIP() << "memory of a process cannot be limited here";
  EXPECT_THAT(
      [] {
        std::vector<std::string> all;
        run_bounded(
            [&] {
              for (int i = 0; i < 4096; ++i) all.emplace_back(1 << 20, 'x');
              return std::string();
            },
            "it", {.memory = 64 << 20});
      },
      ThrowsMessage<FormatError>(AnyOf(HasSubstr("more than 64 MiB of memory"), HasSubstr("it crashed"))));
}

TEST(BoundedProcess, LimitsOutput) {
  EXPECT_THAT([] { run_bounded([] { return std::string(1001, 'x'); }, "it", {.output = 1000}); },
              ThrowsMessage<FormatError>(HasSubstr("more than 1000 bytes")));
  EXPECT_EQ(run_bounded([] { return std::string(1000, 'x'); }, "it", {.output = 1000}).size(), 1000u);
}

}  // namespace
