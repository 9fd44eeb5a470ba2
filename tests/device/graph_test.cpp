#include <cstring>

#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/graph/graph.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

using ::testing::HasSubstr;

MemoryRange range(const StoragePtr& s) { return {s->address(), s->bytes()}; }
std::uint32_t& word(const StoragePtr& s) { return *reinterpret_cast<std::uint32_t*>(s->host()); }

/// A graph of calls on the CPU: each adds 1 to what it reads, and runs while it is captured, as ops do.
struct Calls {
  Graph graph{kCPU};

  StoragePtr next(const StoragePtr& from) {
    StoragePtr to = graph.storages().allocate(1000);
    word(to) = word(from) + 1;
    const StoragePtr read = as_captured(from), written = as_captured(to);
    const MemoryRange reads = range(read), writes = range(written);
    graph.call("next", [read, written] { word(written) = word(read) + 1; }, {&reads, 1}, {&writes, 1});
    return to;
  }
  StoragePtr as_captured(const StoragePtr& s) const {
    StoragePtr proxy = graph.storages().proxy(*s);
    return proxy != nullptr ? proxy : s;
  }
};

TEST(Graph, CallsRunAgainOnPlannedMemory) {
  StoragePtr x = allocate(kCPU, 4), last;
  word(x) = 1;
  Calls calls;
  {
    StoragePtr between = x;
    for (int i = 0; i < 6; ++i) between = calls.next(between);
    last = between;
  }
  EXPECT_EQ(word(last), 7u);
  std::unique_ptr<Executable> made = backend(kCPU).compile(calls.graph);
  EXPECT_EQ(word(last), 7u) << "what is held keeps its memory and its values";
  const CaptureReport& f = calls.graph.report();
  EXPECT_EQ(f.commands, 6);
  EXPECT_EQ(f.dispatches, 0);
  EXPECT_EQ(f.groups, 6);
  EXPECT_EQ(f.barriers, 0);
  EXPECT_EQ(f.kept_bytes, 1000u);
  EXPECT_EQ(f.planned_bytes, 2 * 1024u) << "five results, of which two are needed at one time";
  EXPECT_EQ(f.naive_bytes, 5 * 1024u);
  for (std::uint32_t start : {10u, 20u}) {
    word(x) = start;
    DeviceQueue(kCPU).run(*made, {});
    EXPECT_EQ(word(last), start + 6);
  }
}

TEST(Graph, AStorageDiesAlthoughCallsReferToIt) {
  StoragePtr x = allocate(kCPU, 4);
  Calls calls;
  std::weak_ptr<Storage> watched = calls.next(x);
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(calls.graph.storages().made(*x));
}

class GraphOfCommands : public VulkanTest {
 protected:
  /// Captures what `work` queues, with these storages from before, and compiles it.
  static std::unique_ptr<Executable> compile(Graph& graph, std::initializer_list<StoragePtr> given,
                                             const std::function<void()>& work) {
    graph.enter();
    work();
    graph.leave();
    for (const StoragePtr& s : given) graph.storages().pin(s);
    return backend(kVulkan).compile(graph);
  }
};

TEST_F(GraphOfCommands, RunOnlyOnceCompiled) {
  StoragePtr x = store({1, 2, 3, 4}), y = store(Words(4));
  Graph graph(kVulkan);
  std::unique_ptr<Executable> made = compile(graph, {x, y}, [&] {
    StoragePtr between = graph.storages().allocate(16);
    EXPECT_TRUE(graph::is_placeholder(between->address()));
    enqueue_copy(kVulkan, *x, 0, *between, 0, 16);
    dispatch({*between, 0, *y, 0, 4, 10, 1});
    enqueue_fill(kVulkan, *x, 0, 8, 7);
  });
  EXPECT_EQ(load(*y, 4), Words(4));
  EXPECT_EQ(graph.report().commands, 3);
  EXPECT_EQ(graph.report().dispatches, 1);
  EXPECT_EQ(graph.report().groups, 2) << "the fill and the dispatch both wait for the copy, and not for each other";
  EXPECT_EQ(graph.report().planned_bytes, 256u);
  DeviceQueue(kVulkan).run(*made, {});
  EXPECT_EQ(load(*y, 4), (Words{11, 21, 31, 41}));
  DeviceQueue(kVulkan).run(*made, {});
  EXPECT_EQ(load(*y, 4), (Words{71, 71, 31, 41}));
}

TEST_F(GraphOfCommands, PutWhatIsOnlyCopiedWhereItGoes) {
  // What the place holds before is read late, early, or not; the storage is read again, or not.
  for (const bool late : {false, true}) {
    for (const bool again : {false, true}) {
      StoragePtr x = store({1, 2, 3, 4}), y = store({9, 9, 9, 9}), z = store(Words(4)), w = store(Words(4));
      Graph graph(kVulkan);
      const std::unique_ptr<Executable> made = compile(graph, {x, y, z, w}, [&] {
        const StoragePtr between = graph.storages().allocate(16);
        if (!late) dispatch({*y, 0, *z, 0, 4, 1, 0});
        dispatch({*x, 0, *between, 0, 4, 10, 1});
        if (late) dispatch({*y, 0, *z, 0, 4, 1, 0});
        enqueue_copy(kVulkan, *between, 0, *y, 0, 16);
        if (again) dispatch({*between, 0, *w, 0, 4, 1, 0});
        dispatch({*y, 0, *x, 0, 4, 1, 1});
      });
      EXPECT_EQ(graph.report().commands, 3 + (late || again) + again) << late << again;
      DeviceQueue(kVulkan).run(*made, {});
      EXPECT_EQ(load(*y, 4), (Words{11, 21, 31, 41}));
      EXPECT_EQ(load(*z, 4), (Words{9, 9, 9, 9}));
      EXPECT_EQ(load(*x, 4), (Words{12, 22, 32, 42}));
      EXPECT_EQ(load(*w, 4), again ? (Words{11, 21, 31, 41}) : Words(4));
      DeviceQueue(kVulkan).run(*made, {});
      EXPECT_EQ(load(*z, 4), (Words{11, 21, 31, 41}));
      EXPECT_EQ(load(*y, 4), (Words{121, 221, 321, 421}));
    }
  }
}

TEST_F(GraphOfCommands, TakeTheirNumbersFromEachRun) {
  StoragePtr y = store(Words(2));
  Graph graph(kVulkan);
  const graph::NumberPlace first = graph.storages().reserve_numbers(4), second = graph.storages().reserve_numbers(4);
  EXPECT_EQ(first.storage, second.storage) << "one block";
  std::unique_ptr<Executable> made = compile(graph, {y}, [&] {
    enqueue_copy(kVulkan, *first.storage, first.offset, *y, 4, 4);
    enqueue_copy(kVulkan, *second.storage, second.offset, *y, 0, 4);
  });
  for (std::uint32_t i : {3u, 8u}) {
    Words numbers(second.offset / 4 + 1);
    numbers[first.offset / 4] = i;
    numbers[second.offset / 4] = i + 1;
    DeviceQueue(kVulkan).run(*made, std::as_bytes(std::span(numbers)));
    EXPECT_EQ(load(*y, 2), (Words{i + 1, i}));
  }
}

TEST_F(GraphOfCommands, RefuseMemoryOfStoragesTheyWereNotGiven) {
  StoragePtr x = store(Words(4));
  Graph graph(kVulkan);
  EXPECT_THAT(message_of<CaptureError>([&] { compile(graph, {}, [&] { enqueue_fill(kVulkan, *x, 0, 16, 1); }); }),
              HasSubstr("fill: works on memory that belongs to none of the tensors it was given"));
}

}  // namespace
}  // namespace etna::vulkan
