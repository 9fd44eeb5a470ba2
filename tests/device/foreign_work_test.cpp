#include <etna/device/internal/foreign_work.h>

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

/// Calls a function on words of a storage, whose address on a software rasterizer is the host's.
struct HostWork final : gpu::ForeignWork {
  HostWork(std::uint64_t address, std::function<void(std::uint32_t*)> f)
      : at(reinterpret_cast<std::uint32_t*>(address)), function(std::move(f)) {}
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
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (adapters()[0].kind != "software") GTEST_SKIP() << "the host reaches only a software rasterizer's memory";
  }
  static std::shared_ptr<HostWork> call(const StoragePtr& storage, std::size_t first, std::size_t count,
                                        std::function<void(std::uint32_t*)> function) {
    auto work = std::make_shared<HostWork>(storage->address() + first * 4, std::move(function));
    const MemoryRange range{storage->address() + first * 4, count * 4};
    gpu::enqueue_foreign(kVulkan, {"host work", work, {&range, 1}, {&range, 1}});
    return work;
  }
  static void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
};

TEST_F(ForeignWorkTest, OnlyWhatTouchesItsMemoryWaits) {
  const StoragePtr x = store({1, 2, 3, 4}), y = store(Words(4)), z = store(Words(4));
  const StoragePtr shared = store(Words(4));
  std::atomic<bool> go{false};
  enqueue_copy(kVulkan, *x, 0, *shared, 0, 16);
  call(shared, 0, 4, [&](std::uint32_t* words) {
    while (!go) pause(1);
    for (int i = 0; i < 4; ++i) words[i] *= 10;
  });
  dispatch({*x, 0, *z, 0, 4, 1, 5});
  EXPECT_EQ(load(*z, 4), (Words{6, 7, 8, 9})) << "while the work is running";
  enqueue_copy(kVulkan, *shared, 0, *y, 0, 16);
  go = true;
  EXPECT_EQ(load(*y, 4), (Words{10, 20, 30, 40}));
}

TEST_F(ForeignWorkTest, SynchronizeWaitsForIt) {
  const StoragePtr shared = store(Words(1));
  enqueue_fill(kVulkan, *shared, 0, 4, 7);
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
  const StoragePtr shared = store(Words(2));
  Graph graph(kVulkan);
  graph.enter();
  {
    const StoragePtr between = graph.storages().allocate(8);
    enqueue_copy(kVulkan, *x, 0, *between, 0, 8);
    dispatch({*between, 0, *shared, 0, 2, 1, 1});
    call(shared, 0, 2, [](std::uint32_t* words) {
      pause(5);
      words[0] *= 10, words[1] *= 10;
    });
    dispatch({*x, 0, *z, 0, 2, 3, 0});
    dispatch({*shared, 0, *y, 0, 2, 1, 3});
    dispatch({*y, 0, *x, 0, 2, 1, 0});
  }
  graph.leave();
  for (const StoragePtr& s : {x, y, z, shared}) graph.storages().pin(s);
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
  const StoragePtr x = store({1}), shared = store(Words(1));
  {
    const std::shared_ptr<HostWork> work = call(shared, 0, 1, [](std::uint32_t*) {});
    work->fails = true;
    EXPECT_THAT([&] { DeviceQueue(kVulkan).synchronize(); },
                testing::ThrowsMessage<Error>(HasSubstr("the work failed")));
    EXPECT_THROW(load(*x, 1), Error);
  }
  call(shared, 0, 1, [](std::uint32_t* words) { words[0] = 3; });
  enqueue_copy(kVulkan, *shared, 0, *x, 0, 4);
  EXPECT_EQ(load(*x, 1), Words{3}) << "the device goes on";
}

/// Random commands give what the host computes, at once and as a graph.
TEST_F(ForeignWorkTest, RandomCommandsKeepTheirOrder) {
  constexpr std::size_t kWords = 32;
  for (unsigned seed = 0; seed < 12; ++seed) {
    for (const bool captured : {false, true}) {
      std::mt19937 random(seed);
      const auto pick = [&](std::size_t n) { return random() % n; };
      std::vector<StoragePtr> storages;
      std::vector<Words> expected;
      for (std::size_t i = 0; i < 4; ++i) {
        Words words(kWords);
        for (std::uint32_t& w : words) w = static_cast<std::uint32_t>(pick(1000));
        expected.push_back(words);
        storages.push_back(store(words));
      }
      Graph graph(kVulkan);
      if (captured) graph.enter();
      for (int step = 0; step < 60; ++step) {
        const std::size_t count = 1 + pick(8), from = pick(kWords - count), to = pick(kWords - count);
        if (pick(3) == 0) {
          const std::size_t i = pick(2), wait = pick(3);
          call(storages[i], to, count, [count, wait](std::uint32_t* words) {
            if (wait == 0) pause(1);
            for (std::size_t k = 0; k < count; ++k) words[k] = words[k] * 5 + 1;
          });
          for (std::size_t k = 0; k < count; ++k) expected[i][to + k] = expected[i][to + k] * 5 + 1;
          continue;
        }
        std::size_t a = pick(4), b = pick(4);
        if (a == b) b = (b + 1) % 4;
        const auto n = static_cast<std::uint32_t>(count);
        dispatch({*storages[a], from, *storages[b], to, n, 3, static_cast<std::uint32_t>(step)});
        for (std::size_t k = 0; k < count; ++k)
          expected[b][to + k] = expected[a][from + k] * 3 + static_cast<std::uint32_t>(step);
      }
      if (captured) {
        graph.leave();
        for (const StoragePtr& s : storages) graph.storages().pin(s);
        const std::unique_ptr<Executable> made = backend(kVulkan).compile(graph);
        DeviceQueue(kVulkan).run(*made, {});
      }
      for (std::size_t i = 0; i < 4; ++i)
        ASSERT_EQ(load(*storages[i], kWords), expected[i]) << "seed " << seed << ", captured " << captured;
    }
  }
}

}  // namespace
}  // namespace etna::vulkan
