#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/thread_pool.h>
#include <etna/device/internal/platform.h>

// parallel_for() is oneTBB's where the build has it; the plain threads of other builds are tested in every build.
namespace etna::cpu {
namespace {

/// pool::run() in the manner of parallel_for().
template <typename Body>
void run_on_pool(std::int64_t n, std::int64_t pieces, const Body& body) {
  pool::run(
      n, pieces,
      [](const void* work, std::int64_t begin, std::int64_t end) { (*static_cast<const Body*>(work))(begin, end); },
      &body);
}

std::vector<std::atomic<int>> counts(std::size_t n) { return std::vector<std::atomic<int>>(n); }

TEST(Parallel, VisitsEachElementOnce) {
  for (const std::int64_t n : {1, 2, 7, 1000}) {
    auto seen = counts(static_cast<std::size_t>(n));
    parallel_for(n, 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
}

TEST(Parallel, WithThreadsSetsTheirNumber) {
  const int before = workers();
  with_threads(1, [] { EXPECT_EQ(workers(), 1); });
  with_threads(3, [] {
    EXPECT_EQ(workers(), 3);
    with_threads(1, [] { EXPECT_EQ(workers(), 1); });
    EXPECT_EQ(workers(), 3);
  });
  EXPECT_EQ(workers(), before);
}

TEST(Parallel, TasksMayBeParallelThemselves) {
  std::atomic<std::int64_t> sum{0};
  for_each_task(16, [&](std::int64_t task) {
    for_each_task(16, [&](std::int64_t inner) {
      parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += (task + inner) * (end - begin); });
    });
  });
  EXPECT_EQ(sum, 16 * 16 * 15 * 100);
}

TEST(Parallel, ExceptionsOfTasksReachTheCaller) {
  EXPECT_THROW(parallel_for(100, 1,
                            [](std::int64_t begin, std::int64_t end) {
                              if (begin <= 50 && 50 < end) throw std::out_of_range("50");
                            }),
               std::out_of_range);
  std::atomic<int> after{0};
  parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { after += static_cast<int>(end - begin); });
  EXPECT_EQ(after, 100);
}

TEST(ThreadPool, GivesPartsOfEqualSizeWhicheverThreadTakesThem) {
  std::mutex mutex;
  std::multiset<std::pair<std::int64_t, std::int64_t>> parts;
  const pool::Limit limit(4);
  run_on_pool(10, 4, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    parts.emplace(begin, end);
  });
  EXPECT_EQ(parts, (std::multiset<std::pair<std::int64_t, std::int64_t>>{{0, 2}, {2, 5}, {5, 7}, {7, 10}}));
}

TEST(ThreadPool, NestedRunsOfManyCallersEnd) {
  if (!kHasThreads) GTEST_SKIP() << "a build without threads";
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      const pool::Limit limit(4);
      for (int round = 0; round < 200; ++round) {
        run_on_pool(8, 8, [&](std::int64_t begin, std::int64_t end) {
          run_on_pool(16, 16, [&](std::int64_t from, std::int64_t to) { sum += (to - from) * (end - begin); });
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 200 * 8 * 16);
}

TEST(ThreadPool, ThrowsTheFirstExceptionAndStartsNoFurtherPart) {
  const pool::Limit limit(4);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> running{0};
    try {
      run_on_pool(64, 64, [&](std::int64_t begin, std::int64_t) {
        ++running;
        const std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> end(&running, [](auto* r) { --*r; });
        if (begin % 8 == 3) throw std::runtime_error("a part failed");
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "a part failed");
    }
    EXPECT_EQ(running, 0) << "a part outlived its run";
  }
}

TEST(ThreadPool, OfOneThreadRunsInTheCaller) {
  const pool::Limit limit(1);
  const auto caller = std::this_thread::get_id();
  run_on_pool(100, 10, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
  });
}

}  // namespace
}  // namespace etna::cpu
