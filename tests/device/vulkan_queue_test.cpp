#include <algorithm>
#include <random>
#include <thread>

#include <etna/device/internal/vulkan/api/injection.h>
#include <runner/run_program.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kDeviceLost = -4, kOutOfDeviceMemory = -2;

class VulkanQueue : public VulkanTest {
 protected:
  static constexpr std::uint32_t kWords = 1024;

  /// Number of barriers that `work` needs, with nothing before it that could conflict.
  template <typename F>
  static std::uint64_t barriers_of(F&& work) {
    StoragePtr a = store(Words(kWords)), b = store(Words(kWords));
    dispatch({*a, 0, *b, 0, kWords, 1, 0});
    dispatch({*b, 0, *a, 0, kWords, 1, 0});
    std::uint64_t before = gpu::queue_stats(kVulkan).barriers;
    work();
    return gpu::queue_stats(kVulkan).barriers - before;
  }
};

TEST_F(VulkanQueue, RunsADispatch) {
  Words x(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) x[i] = i * i;
  StoragePtr source = store(x), target = store(Words(1000, 7));
  dispatch({*source, 10, *target, 20, 500, 3, 5});
  Words y = load(*target, 1000);
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(y[i], i >= 20 && i < 520 ? x[i - 10] * 3 + 5 : 7) << i;
}

TEST_F(VulkanQueue, IndependentDispatchesNeedNoBarrier) {
  if (barriers_everywhere()) return;
  StoragePtr x = store(Words(kWords)), y = store(Words(kWords)), z = store(Words(kWords));
  EXPECT_EQ(barriers_of([&] {
              for (std::uint32_t part = 0; part < 8; ++part) {
                dispatch({*x, 0, *y, part * 128, 128, 1, part});
                dispatch({*x, part * 128, *z, part * 128, 128, 1, part});
              }
            }),
            0u);
}

TEST_F(VulkanQueue, EachKindOfHazardCostsOneBarrier) {
  if (barriers_everywhere()) return;
  StoragePtr x = store(Words(kWords)), y = store(Words(kWords)), z = store(Words(kWords));
  EXPECT_EQ(barriers_of([&] {
              dispatch({*x, 0, *y, 0, kWords, 1, 1});
              dispatch({*y, kWords - 1, *z, 0, 1, 1, 1});
            }),
            1u)
      << "read after write";
  EXPECT_EQ(barriers_of([&] {
              dispatch({*x, 0, *y, 0, kWords, 1, 1});
              dispatch({*z, 0, *x, 0, 1, 1, 1});
            }),
            1u)
      << "write after read";
  EXPECT_EQ(barriers_of([&] {
              dispatch({*x, 0, *y, 0, kWords, 1, 1});
              dispatch({*z, 0, *y, 7, 1, 1, 1});
            }),
            1u)
      << "write after write";
}

TEST_F(VulkanQueue, GivesTheBitsOfSerialExecution) {
  constexpr std::uint32_t words = 1 << 15, steps = 3000;
  std::mt19937 random(20240607);
  auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Words host[2] = {Words(words), Words(words)};
  for (Words& h : host) std::generate(h.begin(), h.end(), [&] { return static_cast<std::uint32_t>(random()); });
  StoragePtr gpu[2] = {store(host[0]), store(host[1])};

  for (std::uint32_t step = 0; step < steps; ++step) {
    // Mostly short ranges, so that many are independent and real hazards still occur.
    std::uint32_t count = 1 + below(below(8) == 0 ? words / 2 : 512);
    std::uint32_t from = below(words - count), to = below(words - count);
    std::uint32_t a = below(2), b = below(2);
    std::uint32_t distance = from > to ? from - to : to - from;
    if (a == b && distance < count) to = from;  // in place, or disjoint: a partial overlap has no defined serial result
    auto s = host[a].begin() + from, t = host[b].begin() + to;
    switch (below(16)) {
      case 0:
        if (a == b && from == to) break;
        enqueue_copy(kVulkan, *gpu[a], from * 4, *gpu[b], to * 4, count * 4);
        std::copy_n(s, count, t);
        break;
      case 1:
        enqueue_fill(kVulkan, *gpu[b], to * 4, count * 4, step);
        std::fill_n(t, count, step);
        break;
      case 2: {
        count = std::min(count, 512u);
        Words bytes(count, step * 77);
        enqueue_update(kVulkan, *gpu[b], to * 4, std::as_bytes(std::span(bytes)));
        std::copy_n(bytes.begin(), count, t);
        break;
      }
      case 3: {
        Words bytes(count);
        std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint32_t>(random()); });
        etna::upload(bytes.data(), *gpu[b], to * 4, count * 4);
        std::copy_n(bytes.begin(), count, t);
        std::fill(bytes.begin(), bytes.end(), 0u);  // the host may write the source again
        break;
      }
      case 4:
        if (below(8)) break;
        ASSERT_EQ(load(*gpu[a], count, from), Words(s, s + count)) << "step " << step;
        break;
      default: {
        std::uint32_t factor = static_cast<std::uint32_t>(random()) | 1, addend = step;
        dispatch({*gpu[a], from, *gpu[b], to, count, factor, addend, 1 + below(8)});
        std::transform(s, s + count, t, [&](std::uint32_t v) { return v * factor + addend; });
      }
    }
  }
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(load(*gpu[i], words) == host[i]) << "buffer " << i;
}

TEST_F(VulkanQueue, GivesTheSameBitsWithABarrierBehindEveryDispatch) {
  if (barriers_everywhere()) return;
  const Result run =
      run_program(this_program(), "--gtest_filter=VulkanQueue.GivesTheBitsOfSerialExecution", "ETNA_BARRIERS=all");
  EXPECT_EQ(run.code, 0) << run.output;
}

TEST_F(VulkanQueue, SubmitsByItselfAfterManyDispatches) {
  StoragePtr x = store(Words(kWords)), y = store(Words(kWords));
  etna::synchronize(kVulkan);
  std::uint64_t before = gpu::queue_stats(kVulkan).submits;
  for (int i = 0; i < 250; ++i) dispatch({*x, 0, *y, 0, 64, 1, 1});
  EXPECT_EQ(gpu::queue_stats(kVulkan).submits - before, 2u);
}

TEST_F(VulkanQueue, ThreadsShareADevice) {
  StoragePtr x = store(Words(kWords, 1));
  std::vector<StoragePtr> targets(4);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      targets[t] = allocate(kVulkan, kWords * 4);
      dispatch({*x, 0, *targets[t], 0, kWords, t, 0});
      for (int i = 0; i < 100; ++i) dispatch({*targets[t], 0, *targets[t], 0, kWords, 1, t});
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::uint32_t t = 0; t < 4; ++t) EXPECT_EQ(load(*targets[t], kWords), Words(kWords, 101 * t));
}

TEST_F(VulkanQueue, NamesTheOpThatAsksTooMuchAndGoesOn) {
  StoragePtr x = store(Words(kWords, 4)), y = store(Words(kWords));
  auto message = [&](const Affine& a) { return message_of<DeviceError>([&] { dispatch(a); }); };
  EXPECT_THAT(message({.source = *x,
                       .source_at = 0,
                       .target = *y,
                       .target_at = 0,
                       .count = 1,
                       .factor = 1,
                       .addend = 1,
                       .groups = 65536}),
              AllOf(HasSubstr("affine"), HasSubstr("65536 workgroups")));
  EXPECT_THAT(message({.source = *x,
                       .source_at = 0,
                       .target = *y,
                       .target_at = 0,
                       .count = 1,
                       .factor = 1,
                       .addend = 1,
                       .shared_words = 1 << 20}),
              AllOf(HasSubstr("affine"), HasSubstr("4194304 bytes of shared memory")));
  EXPECT_THAT(message({.source = *x,
                       .source_at = 0,
                       .target = *y,
                       .target_at = 0,
                       .count = 1,
                       .factor = 1,
                       .addend = 1,
                       .local = 1 << 16}),
              AllOf(HasSubstr("affine"), HasSubstr("workgroups of 65536x1x1")));
  Shader absent{"absent", {}};
  EXPECT_THAT(message_of<DeviceError>([&] { enqueue(kVulkan, {.shader = absent, .op = "matmul", .arguments = {}}); }),
              AllOf(HasSubstr("matmul"), HasSubstr("left out of this build")));
  Arguments wide;
  wide.bytes(std::vector<std::byte>(132));
  EXPECT_THAT(message_of<DeviceError>(
                  [&] { enqueue(kVulkan, {.shader = shaders::test_ranges, .op = "wide", .arguments = wide}); }),
              AllOf(HasSubstr("wide"), HasSubstr("132 bytes of push constants")));
  EXPECT_THAT(message_of<DeviceError>([&] { enqueue_fill(kVulkan, *y, 2, 4, 0); }), HasSubstr("multiples of 4"));

  dispatch({*x, 0, *y, 0, kWords, 2, 1});
  EXPECT_EQ(load(*y, kWords), Words(kWords, 9));
}

TEST_F(VulkanQueue, OutOfMemoryAtSubmitLeavesItUsable) {
  StoragePtr x = store(Words(kWords, 4)), y = store(Words(kWords));
  etna::synchronize(kVulkan);
  dispatch({*x, 0, *y, 0, kWords, 2, 1});
  injection::fail_next_submit(kOutOfDeviceMemory);
  EXPECT_THAT(message_of<OutOfMemory>([] { etna::synchronize(kVulkan); }),
              AllOf(HasSubstr("device memory"), HasSubstr("affine")));
  dispatch({*x, 0, *y, 0, kWords, 3, 1});
  EXPECT_EQ(load(*y, kWords), Words(kWords, 13));
}

TEST_F(VulkanQueue, ALostDeviceSaysSoAndStaysLost) {
  StoragePtr x = store(Words(kWords, 4)), y = store(Words(kWords));
  etna::synchronize(kVulkan);
  dispatch({*x, 0, *y, 0, kWords, 2, 1});
  dispatch({*x, 0, *y, 0, kWords, 2, 1});
  injection::fail_next_submit(kDeviceLost);
  std::string lost = message_of<DeviceLost>([] { etna::synchronize(kVulkan); });
  EXPECT_THAT(lost, AllOf(HasSubstr("vulkan:0"), HasSubstr("was lost"), HasSubstr("affine x2")));
  EXPECT_EQ(message_of<DeviceLost>([&] { dispatch({*x, 0, *y, 0, kWords, 2, 1}); }), lost);
  EXPECT_EQ(message_of<DeviceLost>([&] { load(*y, 1); }), lost);
  EXPECT_EQ(message_of<DeviceLost>([] { etna::synchronize(kVulkan); }), lost);

  injection::revive(kVulkan);
  dispatch({*x, 0, *y, 0, kWords, 5, 1});
  EXPECT_EQ(load(*y, kWords), Words(kWords, 21));
}

}  // namespace
}  // namespace etna::vulkan
