#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/graph/graph.h>
#include <etna/shaders/cubins.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VulkanCubin : public VulkanTest {
 protected:
  static constexpr std::uint32_t kWords = 3000;

  static bool here() { return capabilities(kVulkan).cubin == 90 && !cubins::cubin_test_ranges.cubin.empty(); }

  /// The fixture's Affine with the precompiled kernel.
  static void launch(std::uint64_t source, std::uint64_t target, std::uint32_t factor, std::uint32_t addend) {
    Arguments arguments;
    arguments.read(words_at(source, kWords));
    arguments.write(words_at(target, kWords));
    for (std::uint32_t n : {kWords, factor, addend, 0u}) arguments.number(n);
    enqueue(kVulkan, {.kernel = cubins::cubin_test_ranges,
                      .op = "affine",
                      .arguments = arguments,
                      .groups = {8, 1, 1},
                      .threads = 64});
  }
};

TEST_F(VulkanCubin, SaysWhyItCannotRun) {
  if (here()) GTEST_SKIP() << "it can";
  StoragePtr x = store(Words(kWords));
  EXPECT_THAT(message_of<DeviceError>([&] { launch(x->address(), x->address(), 1, 1); }),
              AllOf(HasSubstr("affine"), HasSubstr("cubin_test_ranges"), HasSubstr("sm_90")));
  dispatch({*x, 0, *x, 0, kWords, 1, 4});
  EXPECT_EQ(load(*x, 1)[0], 4u) << "the queue works on";
}

TEST_F(VulkanCubin, RunsInOrderWithShadersAndCopies) {
  if (!here()) GTEST_SKIP() << "needs a Hopper GPU and a build with nvcc";
  Words words(kWords);
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i * i;
  StoragePtr x = store(words), y = store(Words(kWords)), z = store(Words(kWords));
  for (std::uint32_t round = 0; round < 50; ++round) {
    dispatch({*x, 0, *y, 0, kWords, 3, round});
    launch(y->address(), z->address(), 5, round);
    enqueue_copy(kVulkan, *z, 0, *x, 0, kWords * 4);
    launch(x->address(), y->address(), 7, 1);
    dispatch({*y, 0, *x, 0, kWords, 1, 2});
  }
  for (std::uint32_t& w : words) {
    for (std::uint32_t round = 0; round < 50; ++round) w = ((w * 3 + round) * 5 + round) * 7 + 1 + 2;
  }
  EXPECT_EQ(load(*x, kWords), words);
}

TEST_F(VulkanCubin, IsReplayedWithPlannedAddresses) {
  if (!here()) GTEST_SKIP() << "needs a Hopper GPU and a build with nvcc";
  StoragePtr x = store(Words(kWords, 1));
  Graph graph(kVulkan);
  graph.enter();
  {
    StoragePtr between = graph.storages().allocate(kWords * 4), more = graph.storages().allocate(kWords * 4);
    launch(x->address(), between->address(), 2, 1);
    launch(between->address(), more->address(), 1, 1);
    launch(more->address(), x->address(), 3, 0);
  }
  graph.leave();
  graph.storages().pin(x);
  std::unique_ptr<Executable> program = backend(kVulkan).compile(graph);
  EXPECT_EQ(graph.report().dispatches, 3);
  for (int run = 0; run < 3; ++run) DeviceQueue(kVulkan).run(*program, {});
  std::uint32_t expected = 1;
  for (int run = 0; run < 3; ++run) expected = (2 * expected + 2) * 3;
  EXPECT_EQ(load(*x, kWords), Words(kWords, expected));
}

TEST_F(VulkanCubin, RefusesParametersThatAreNoWords) {
  const std::byte bytes[6] = {};
  Arguments arguments;
  arguments.bytes(bytes);
  EXPECT_THAT(
      message_of<DeviceError>(
          [&] { enqueue(kVulkan, {.kernel = cubins::cubin_test_ranges, .op = "affine", .arguments = arguments}); }),
      AllOf(HasSubstr("affine"), HasSubstr("6 bytes"), HasSubstr(std::to_string(CubinDispatch::kMostParameters))));
}

}  // namespace
}  // namespace etna::vulkan
