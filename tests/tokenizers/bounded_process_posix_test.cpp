#include <etna/data/tokenizers/internal/chat/bounded_process.h>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>

namespace {

using etna::FormatError;
using etna::data::BoundedWorker;
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

TEST(BoundedWorker, KeepsOneProcessAndWhatItPrepared) {
  BoundedWorker worker(
      [count = 0](const std::string& request) mutable {
        return request + " " + std::to_string(++count) + " " + std::to_string(getpid());
      },
      "it");
  const std::string first = worker.run("a"), process = first.substr(first.rfind(' '));
  EXPECT_NE(process, " " + std::to_string(getpid()));
  EXPECT_EQ(worker.run("b"), "b 2" + process);
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(worker.run(large), large + " 3" + process);
  EXPECT_EQ(worker.run(""), " 4" + process);
}

TEST(BoundedWorker, OutlivesRequestsThatFail) {
  const auto work = [count = 0](const std::string& request) mutable -> std::string {
    ++count;
    if (request == "crash") std::abort();
    if (request == "throw") throw std::runtime_error("no such thing");
    if (request == "long") return std::string(2000, 'x');
    while (request == "forever") count = 1 - count;
    return std::to_string(count);
  };
  BoundedWorker worker(work, "it", {.seconds = 1, .output = 1000});
  EXPECT_EQ(worker.run(""), "1");
  EXPECT_THAT([&] { worker.run("throw"); }, ThrowsMessage<FormatError>("it: no such thing"));
  EXPECT_EQ(worker.run(""), "3") << "an error ends no process";
  EXPECT_THAT([&] { worker.run("crash"); }, ThrowsMessage<FormatError>(HasSubstr("it crashed")));
  EXPECT_EQ(worker.run(""), "1") << "a crash does, and the next request has another";
  EXPECT_THAT([&] { worker.run("forever"); }, ThrowsMessage<FormatError>(HasSubstr("did not finish within 1 s")));
  EXPECT_EQ(worker.run(""), "1");
  EXPECT_THAT([&] { worker.run("long"); }, ThrowsMessage<FormatError>(HasSubstr("more than 1000 bytes")));
  EXPECT_EQ(worker.run(""), "1");
}

TEST(BoundedWorker, HoldsNoFilesOfThisProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  BoundedWorker worker([](const std::string& request) { return request; }, "it");
  worker.start();
  EXPECT_EQ(worker.run("x"), "x");
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the end of the pipe arrives although the worker lives";
  close(ends[0]);
}

TEST(BoundedWorker, TakesRequestsOfManyThreads) {
  BoundedWorker worker([](const std::string& request) { return request + request; }, "it");
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        const std::string text = std::to_string(1000 * i + k);
        right += worker.run(text) == text + text;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

}  // namespace
