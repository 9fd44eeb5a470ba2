#include <etna/device/memory.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nn/on_device.h>

#include <etna/data/batches.h>
#include <etna/nn/linear.h>
#include <etna/optim/adam.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MemoryUseOn : public OnDevice {
 protected:
  static std::uint64_t used(MemoryUse use) { return memory_stats(device()).by_use[static_cast<std::size_t>(use)]; }
};
ETNA_ON_EVERY_DEVICE(MemoryUseOn);

TEST_P(MemoryUseOn, IsToldByItsPurpose) {
  const std::uint64_t weights = used(MemoryUse::weights), gradients = used(MemoryUse::gradients),
                      optimizer = used(MemoryUse::optimizer), data = used(MemoryUse::data);
  constexpr std::uint64_t kMatrix = 256 * 512 * 4, kVector = 256 * 4;
  {
    nn::Linear layer(512, 256);
    layer.to(device());
    EXPECT_EQ(used(MemoryUse::weights) - weights, kMatrix + kVector);
    optim::AdamW adam(layer.parameters(), {});
    layer(ones({4, 512}, {f32, device()})).sum().backward();
    EXPECT_EQ(used(MemoryUse::gradients) - gradients, kMatrix + kVector);
    adam.step();
    EXPECT_EQ(used(MemoryUse::optimizer) - optimizer, 2 * (kMatrix + kVector));
    adam.zero_grad();
    EXPECT_EQ(used(MemoryUse::gradients), gradients);
    layer.to(f16);
    EXPECT_EQ(used(MemoryUse::weights) - weights, kMatrix / 2 + kVector / 2);

    std::vector<std::int32_t> ids(64 * 1024);
    data::ResidentBatches batches(data::StreamBatches(ids, 64, 16), device());
    EXPECT_EQ(used(MemoryUse::data) - data, 64u * 1024 * 4);

    const MemoryStats stats = memory_stats(device());
    EXPECT_EQ(std::accumulate(stats.by_use.begin(), stats.by_use.end(), std::uint64_t{0}), stats.in_use);
  }
  synchronize(device());
  EXPECT_EQ(used(MemoryUse::weights), weights);
  EXPECT_EQ(used(MemoryUse::optimizer), optimizer);
  EXPECT_EQ(used(MemoryUse::data), data);
}

TEST_P(MemoryUseOn, OfACapturedStepIsItsOwn) {
  const std::uint64_t before = used(MemoryUse::captured_steps);
  auto step = capture([](const Tensor& x) { return matmul(x, x).exp().sum(); }, {.device = device()});
  const Tensor x = ones({256, 256}, {f32, device()});
  step(x), step(x);
  EXPECT_GE(used(MemoryUse::captured_steps) - before, step.report().planned_bytes);
  step.reset();
  EXPECT_EQ(used(MemoryUse::captured_steps), before);
}

TEST_P(MemoryUseOn, IsInTheErrorWhereThereIsNoRoom) {
  nn::Linear layer(1024, 1024);
  layer.to(device());
  empty_cache(device());
  ::setenv("ETNA_MEMORY_LIMIT", std::to_string(memory_stats(device()).reserved() + (8 << 20)).c_str(), 1);
  std::string said;
  try {
    Tensor x = matmul(ones({8192, 1024}, {f32, device()}), layer.weight);
  } catch (const OutOfMemory& error) {
    said = error.what();
  }
  ::unsetenv("ETNA_MEMORY_LIMIT");
  EXPECT_THAT(
      said, AllOf(HasSubstr("no room for 32.0 MiB of activations ("), HasSubstr(" in use: "), HasSubstr(" MiB weights"),
                  HasSubstr("ETNA_MEMORY_LIMIT is"), HasSubstr("try a smaller batch")));
  EXPECT_EQ(matmul(ones({8, 1024}, {f32, device()}), layer.weight).size(0), 8) << "the program can go on";
}

TEST(MemoryStats, SayTheMostFirst) {
  MemoryStats stats;
  EXPECT_EQ(stats.str(), "0 B in use");
  stats.in_use = 5 << 20;
  stats.by_use = {1 << 20, 4 << 20};
  EXPECT_EQ(stats.str(), "5.0 MiB in use: 4.0 MiB weights, 1.0 MiB activations");
}

}  // namespace
}  // namespace etna
