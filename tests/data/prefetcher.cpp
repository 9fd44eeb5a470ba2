#include <etna/data/prefetcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace etna::data {
namespace {

auto counter(int end) {
  return [i = 0, end]() mutable { return i < end ? std::optional(i++) : std::nullopt; };
}

TEST(Prefetcher, KeepsTheOrderAndEndsForGood) {
  for (const std::size_t depth : {0u, 1u, 2u, 64u}) {
    Prefetcher<int> prefetcher(counter(100), depth);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(prefetcher.next(), i);
    EXPECT_EQ(prefetcher.next(), std::nullopt);
    EXPECT_EQ(prefetcher.next(), std::nullopt);
  }
}

TEST(Prefetcher, RunsAheadByItsDepthAndNoMore) {
  std::atomic<int> made = 0;
  Prefetcher<int> prefetcher([&]() -> std::optional<int> { return ++made; }, 3);
  for (int i = 0; i < 200 && made < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 3);
}

TEST(Prefetcher, PassesAnExceptionOnBehindTheItemsBeforeIt) {
  Prefetcher<int> prefetcher([i = 0]() mutable -> std::optional<int> {
    if (i == 2) throw std::runtime_error("third");
    return i++;
  });
  EXPECT_EQ(prefetcher.next(), 0);
  EXPECT_EQ(prefetcher.next(), 1);
  EXPECT_THAT([&] { prefetcher.next(); }, testing::ThrowsMessage<std::runtime_error>("third"));
  EXPECT_EQ(prefetcher.next(), std::nullopt);
}

TEST(Prefetcher, StopsWithoutWaitingForAReader) {
  for (int i = 0; i < 100; ++i) Prefetcher<std::string> prefetcher([] { return std::optional<std::string>("x"); }, 2);
}

TEST(Prefetcher, MovesItems) {
  Prefetcher<std::unique_ptr<int>> prefetcher([] { return std::optional(std::make_unique<int>(5)); });
  EXPECT_EQ(**prefetcher.next(), 5);
}

}  // namespace
}  // namespace etna::data
