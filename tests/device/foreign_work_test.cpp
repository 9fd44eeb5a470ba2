#include <etna/device/internal/foreign_work.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/graph/graph.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

using ::testing::HasSubstr;

/// Words that the host and the device reach.
struct MappedWords {
  StoragePtr storage;
  std::uint32_t* host = nullptr;

  explicit MappedWords(const std::vector<std::uint32_t>& words) {
    const gpu::MappedMemory made = gpu::mapped_memory(kVulkan, words.size() * 4);
    storage = made.storage;
    host = reinterpret_cast<std::uint32_t*>(made.host);
    std::copy(words.begin(), words.end(), host);
  }
};

/// Calls a function on mapped words.
struct HostWork final : gpu::ForeignWork {
  HostWork(std::uint32_t* words, std::function<void(std::uint32_t*)> f) : at(words), function(std::move(f)) {}
  gpu::ForeignPlace place() const override { return gpu::ForeignPlace::host; }
  std::function<bool()> begin() override {
    return [this, turns = 0]() mutable {
      if (fails) throw Error("the work failed");
      if (++turns < 3) return false;
      function(at);
      return true;
    };
  }
  void check() override {
    if (fails) throw Error("the work failed");
  }

  std::uint32_t* at;
  std::function<void(std::uint32_t*)> function;
  std::atomic<bool> fails{false};
};

class ForeignWorkTest : public VulkanTest {
 protected:
  static std::shared_ptr<HostWork> call(const MappedWords& words, std::size_t first, std::size_t count,
                                        std::function<void(std::uint32_t*)> function) {
    auto work = std::make_shared<HostWork>(words.host + first, std::move(function));
    const MemoryRange range{words.storage->address() + first * 4, count * 4};
    gpu::enqueue_foreign(kVulkan, {"host work", work, {&range, 1}, {&range, 1}});
    return work;
  }
  static void check_random_commands(unsigned seed, std::size_t unit, bool captured);
  static void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
};

TEST_F(ForeignWorkTest, OnlyWhatTouchesItsMemoryWaits) {
  const StoragePtr x = store({1, 2, 3, 4}), y = store(Words(4)), z = store(Words(4));
  const MappedWords shared(Words(4));
  std::atomic<bool> go{false};
  enqueue_copy(kVulkan, *x, 0, *shared.storage, 0, 16);
  call(shared, 0, 4, [&](std::uint32_t* words) {
    while (!go) pause(1);
    for (int i = 0; i < 4; ++i) words[i] *= 10;
  });
  dispatch({*x, 0, *z, 0, 4, 1, 5});
  EXPECT_EQ(load(*z, 4), (Words{6, 7, 8, 9})) << "while the work is running";
  enqueue_copy(kVulkan, *shared.storage, 0, *y, 0, 16);
  go = true;
  EXPECT_EQ(load(*y, 4), (Words{10, 20, 30, 40}));
}

TEST_F(ForeignWorkTest, SynchronizeWaitsForIt) {
  const MappedWords shared(Words(1));
  enqueue_fill(kVulkan, *shared.storage, 0, 4, 7);
  std::atomic<std::uint32_t> seen{0};
  call(shared, 0, 1, [&](std::uint32_t* words) {
    pause(20);
    seen = words[0];
  });
  DeviceQueue(kVulkan).synchronize();
  EXPECT_EQ(seen, 7u);
}

TEST_F(ForeignWorkTest, IsACommandOfAGraph) {
  const StoragePtr x = store({1, 2}), y = store(Words(2)), z = store(Words(2));
  const MappedWords shared(Words(2));
  Graph graph(kVulkan);
  graph.enter();
  {
    const StoragePtr between = graph.storages().allocate(8);
    enqueue_copy(kVulkan, *x, 0, *between, 0, 8);
    dispatch({*between, 0, *shared.storage, 0, 2, 1, 1});
    call(shared, 0, 2, [](std::uint32_t* words) {
      pause(5);
      words[0] *= 10, words[1] *= 10;
    });
    dispatch({*x, 0, *z, 0, 2, 3, 0});
    dispatch({*shared.storage, 0, *y, 0, 2, 1, 3});
    dispatch({*y, 0, *x, 0, 2, 1, 0});
  }
  graph.leave();
  for (const StoragePtr& s : {x, y, z, shared.storage}) graph.storages().pin(s);
  const std::unique_ptr<Executable> made = backend(kVulkan).compile(graph);
  EXPECT_EQ(load(*y, 2), Words(2)) << "nothing has run";
  EXPECT_EQ(graph.report().dispatches, 4);
  DeviceQueue(kVulkan).run(*made, {});
  EXPECT_EQ(load(*y, 2), (Words{23, 33}));
  EXPECT_EQ(load(*z, 2), (Words{3, 6}));
  DeviceQueue(kVulkan).run(*made, {});
  DeviceQueue(kVulkan).run(*made, {});
  EXPECT_EQ(load(*y, 2), (Words{(23u * 10 + 13) * 10 + 13, (33u * 10 + 13) * 10 + 13}));
}

TEST_F(ForeignWorkTest, AFailureIsToldToWhoWaits) {
  const StoragePtr x = store({1});
  const MappedWords shared(Words(1));
  {
    const std::shared_ptr<HostWork> work = call(shared, 0, 1, [](std::uint32_t*) {});
    work->fails = true;
    EXPECT_THAT([&] { DeviceQueue(kVulkan).synchronize(); },
                testing::ThrowsMessage<Error>(HasSubstr("the work failed")));
    EXPECT_THROW(load(*x, 1), Error);
  }
  call(shared, 0, 1, [](std::uint32_t* words) { words[0] = 3; });
  enqueue_copy(kVulkan, *shared.storage, 0, *x, 0, 4);
  EXPECT_EQ(load(*x, 1), Words{3}) << "the device goes on";
}

/// Random commands on mapped and other memory give what the host computes, at once, and as a graph that runs twice.
/// @param unit words that are touched together: with few, the host and the device write the same cache lines
void ForeignWorkTest::check_random_commands(unsigned seed, std::size_t unit, bool captured) {
  const std::size_t words = 32 * unit;
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t n) { return random() % n; };
  std::vector<StoragePtr> storages;  // the first two are mapped
  std::vector<MappedWords> mapped;
  std::vector<Words> expected;
  for (std::size_t i = 0; i < 4; ++i) {
    Words values(words);
    for (std::uint32_t& w : values) w = static_cast<std::uint32_t>(pick(1000));
    expected.push_back(values);
    if (i < 2) mapped.emplace_back(values);
    storages.push_back(i < 2 ? mapped.back().storage : store(values));
  }
  std::vector<std::function<void()>> on_host;
  Graph graph(kVulkan);
  if (captured) graph.enter();
  for (std::uint32_t step = 0; step < 60; ++step) {
    const std::size_t units = 1 + pick(8), count = units * unit;
    const std::size_t from = pick(32 - units) * unit, to = pick(32 - units) * unit;
    if (pick(3) == 0) {
      const std::size_t i = pick(2), wait = pick(3);
      call(mapped[i], to, count, [count, wait](std::uint32_t* at) {
        if (wait == 0) pause(1);
        for (std::size_t k = 0; k < count; ++k) at[k] = at[k] * 5 + 1;
      });
      on_host.push_back([&x = expected[i], to, count] {
        for (std::size_t k = to; k < to + count; ++k) x[k] = x[k] * 5 + 1;
      });
      continue;
    }
    std::size_t a = pick(4), b = pick(4);
    if (a == b) b = (b + 1) % 4;
    dispatch({*storages[a], from, *storages[b], to, static_cast<std::uint32_t>(count), 3, step});
    on_host.push_back([&x = expected[a], &y = expected[b], from, to, count, step] {
      for (std::size_t k = 0; k < count; ++k) y[to + k] = x[from + k] * 3 + step;
    });
  }
  const int runs = captured ? 2 : 1;
  for (int run = 0; run < runs; ++run)
    for (const auto& f : on_host) f();
  std::unique_ptr<Executable> made;
  if (captured) {
    graph.leave();
    for (const StoragePtr& s : storages) graph.storages().pin(s);
    made = backend(kVulkan).compile(graph);
    for (int run = 0; run < runs; ++run) DeviceQueue(kVulkan).run(*made, {});
  }
  for (std::size_t i = 0; i < 4; ++i)
    ASSERT_EQ(load(*storages[i], words), expected[i])
        << "seed " << seed << ", units of " << unit << " words, captured " << captured << ", storage " << i;
}

TEST_F(ForeignWorkTest, RandomCommandsKeepTheirOrder) {
  for (unsigned seed = 0; seed < 6; ++seed)
    for (const bool captured : {false, true}) check_random_commands(seed, seed % 2 == 0 ? 1 : 32, captured);
}

TEST_F(ForeignWorkTest, WhatIsRefusedDoesNotHoldUpTheDevice) {
  struct Refused final : gpu::ForeignWork {
    gpu::ForeignPlace place() const override { return gpu::ForeignPlace::host; }
    std::function<bool()> prepare() override { throw Error("not now"); }
  };
  const StoragePtr x = store({1});
  const MappedWords shared(Words{5});
  const MemoryRange range{shared.storage->address(), 4};
  EXPECT_THROW(gpu::enqueue_foreign(kVulkan, {"refused", std::make_shared<Refused>(), {&range, 1}, {&range, 1}}),
               Error);
  enqueue_copy(kVulkan, *shared.storage, 0, *x, 0, 4);
  EXPECT_EQ(load(*x, 1), Words{5});
}

TEST_F(ForeignWorkTest, WorkOfAGraphKeepsTheOrderOfItsCalls) {
  // The second could begin at once, the first waits for three dispatches.
  const StoragePtr x = store({1});
  const MappedWords late(Words(1)), early(Words(1));
  std::vector<int> order;
  Graph graph(kVulkan);
  graph.enter();
  for (int k = 0; k < 3; ++k) dispatch({*x, 0, *x, 0, 1, 2, 0});
  dispatch({*x, 0, *late.storage, 0, 1, 1, 0});
  call(late, 0, 1, [&](std::uint32_t*) { order.push_back(1); });
  call(early, 0, 1, [&](std::uint32_t*) { order.push_back(2); });
  graph.leave();
  for (const StoragePtr& s : {x, late.storage, early.storage}) graph.storages().pin(s);
  const std::unique_ptr<Executable> made = backend(kVulkan).compile(graph);
  DeviceQueue(kVulkan).run(*made, {});
  DeviceQueue(kVulkan).synchronize();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

}  // namespace
}  // namespace etna::vulkan
