#include <etna/train/training_step.h>

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nn/on_device.h>

#include <etna/nn/activations.h>
#include <etna/nn/containers.h>
#include <etna/nn/linear.h>
#include <etna/optim/adam.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// So many bytes more than are in use.
struct Limit {
  Limit(Device device, std::uint64_t bytes) {
    empty_cache(device);
    ::setenv("ETNA_MEMORY_LIMIT", std::to_string(memory_stats(device).reserved() + bytes).c_str(), 1);
  }
  ~Limit() { ::unsetenv("ETNA_MEMORY_LIMIT"); }
};

class MemoryForecastOn : public OnDevice {
 protected:
  /// Two steps of a small network, of some MiB of activations a sequence and 1 MiB of weights.
  static void train(std::int64_t batch, bool captured) {
    nn::Sequential net;
    net.add<nn::Linear>(64, 2048).add<nn::GELU>().add<nn::Linear>(2048, 64);
    net.to(device());
    optim::AdamW optimizer(net.parameters(), {});
    auto step = [&](const Tensor& x) {
      Tensor loss = net(x).square().mean();
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss.detach();
    };
    const Tensor x = ones({batch * 32, 64}, {f32, device()});
    if (captured) {
      auto replayed = capture(step, {.device = device()});
      replayed(x), replayed(x);
    } else {
      step(x), step(x);
    }
    synchronize(device());
  }
  static std::uint64_t peak(std::int64_t batch, bool captured) {
    empty_cache(device());
    reset_peak_memory(device());
    const std::uint64_t before = memory_stats(device()).in_use;
    train(batch, captured);
    return memory_stats(device()).peak - before;
  }
  static training::MemoryForecast forecast(std::int64_t batch, bool captured) {
    return training::forecast_memory(device(), batch, [=](std::int64_t b) { train(b, captured); });
  }
};
ETNA_ON_EVERY_DEVICE(MemoryForecastOn);

TEST_P(MemoryForecastOn, IsWithinATenthOfWhatTrainingTakes) {
  for (const bool captured : {false, true}) {
    for (const std::int64_t batch : tried<std::int64_t>({1, 3, 40})) {
      const auto seen = static_cast<double>(peak(batch, captured));
      EXPECT_NEAR(static_cast<double>(forecast(batch, captured).total()), seen, 0.1 * seen)
          << "batch " << batch << (captured ? ", captured" : ", eager");
    }
  }
}

TEST_P(MemoryForecastOn, TheLargestBatchFitsAndALargerOneDoesNot) {
  if (!device().is_cpu() && thins()) GTEST_SKIP() << "on a software rasterizer in ./run test --all";
  const Limit limit(device(), std::uint64_t{320} << 20);
  const training::MemoryForecast small = forecast(4, true);
  EXPECT_TRUE(small.fits());
  EXPECT_GT(small.largest_batch, 8);
  EXPECT_FALSE(forecast(2 * small.largest_batch, true).fits());
  EXPECT_NO_THROW(train(small.largest_batch, true));
  empty_cache(device());
  EXPECT_THROW(train(2 * small.largest_batch, true), OutOfMemory);
}

TEST_P(MemoryForecastOn, LeavesNothingBehind) {
  manual_seed(3);
  const std::uint64_t before = memory_stats(device()).in_use;
  forecast(4, false);
  EXPECT_EQ(memory_stats(device()).in_use, before);
  EXPECT_EQ(memory_stats(device()).peak, before);
  const Tensor drawn = rand({4});
  manual_seed(3);
  EXPECT_TRUE(equal(drawn, rand({4})));
}

TEST_P(MemoryForecastOn, WhatNeverFitsIsAnError) {
  const Limit limit(device(), std::uint64_t{4} << 20);
  const std::uint64_t before = memory_stats(device()).in_use;
  EXPECT_THROW(forecast(8, true), OutOfMemory);
  EXPECT_EQ(memory_stats(device()).in_use, before);
  EXPECT_THROW(forecast(0, true), Error);
}

TEST(MemoryForecast, SaysWhatFits) {
  training::MemoryForecast f{.batch = 8, .by_use = {1 << 20, 4 << 20}, .available = 3 << 20};
  EXPECT_FALSE(f.fits());
  EXPECT_EQ(f.str(), "5.0 MiB: 4.0 MiB weights, 1.0 MiB activations; 3.0 MiB are free, too little for any batch");
  f.available = std::uint64_t{1} << 33;
  f.largest_batch = 12345;
  EXPECT_THAT(f.str(), HasSubstr("; 8.0 GiB are free, enough for batches of 12,345"));
}

}  // namespace
}  // namespace etna
