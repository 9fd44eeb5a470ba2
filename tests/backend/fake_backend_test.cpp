#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/internal/fake/backend.h>
#include <etna/device/memory.h>
#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/train/training_step.h>

// The devices for tests (ETNA_FAKE_DEVICE) compute what the CPU does.
namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FakeBackend : public testing::Test {
 protected:
  FakeBackend() { set_strict(false); }
  ~FakeBackend() override { set_strict(before_); }

  static std::vector<float> trained(Device device) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(12, 24), nn::LayerNorm(24), nn::GELU(), nn::Linear(24, 4));
    net.to(device);
    optim::AdamW adam(net.parameters(), {.lr = 0.01});
    manual_seed(4);
    const Tensor x = randn({16, 12}).to(device), y = randint(0, 4, {16}).to(device);
    std::vector<float> losses;
    for (int step = 0; step < 6; ++step) {
      const Tensor loss = cross_entropy(net(x), y);
      loss.backward();
      adam.step();
      adam.zero_grad();
      losses.push_back(loss.item<float>());
    }
    return losses;
  }

 private:
  bool before_ = strict();
};

TEST_F(FakeBackend, TrainsLikeTheCpuWithoutFallbacks) {
  const std::vector<float> wanted = trained(kCPU);
  const Device device = fake::add({});
  const Transfers before = transfers();
  EXPECT_THAT(trained(device), ::testing::Pointwise(::testing::FloatNear(1e-5f), wanted));
  EXPECT_LT(wanted.back(), wanted.front());
  EXPECT_EQ(transfers().fallbacks, before.fallbacks);
  EXPECT_EQ(transfers().moved_tensors, before.moved_tensors);
  EXPECT_GT(memory_stats(device).peak, 0u);
}

TEST_F(FakeBackend, ComputesOnViewsInPlaceAndInOtherDtypes) {
  const Device device = fake::add({});
  const Tensor x = arange(0, 12, 1, {f32}).reshape({3, 4});
  Tensor on = x.to(device);
  EXPECT_EQ((on.t() + on.t()).to_vector<float>(), (x.t() + x.t()).to_vector<float>());
  on.select(0, 1).mul_(10.0);
  EXPECT_EQ(on.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 40, 50, 60, 70, 8, 9, 10, 11}));
  EXPECT_EQ(on.to(f64).sum().item<double>(), 264);
  EXPECT_EQ(on.to(bf16).argmax().item<std::int64_t>(), 7);
  EXPECT_EQ(sum(empty({0, 3}, {f32, device})).item<float>(), 0);
  EXPECT_THROW(index_select(on, 0, from_vector(std::vector<std::int64_t>{3}, device)), IndexError);
  EXPECT_THAT([&] { on.data<float>(); }, ThrowsMessage<DeviceError>(HasSubstr(device.str())));
}

TEST_F(FakeBackend, RunsOutOfMemoryLikeAGpu) {
  const Device device = fake::add({.memory = 80 << 20});
  const Tensor x = ones({1024, 1024}, {f32, device});
  EXPECT_THAT(
      [&] { cat(std::vector<Tensor>(40, x)); },
      ThrowsMessage<OutOfMemory>(::testing::AllOf(HasSubstr("cat: "), HasSubstr("the fake device has 80.0 MiB"))));
  EXPECT_EQ((x + x).sum().item<float>(), 2 << 20) << "and goes on";
}

TEST_F(FakeBackend, ForecastsSayWhatFits) {
  const Device device = fake::add({.memory = 100 << 20});
  const training::MemoryForecast forecast = training::forecast_memory(device, 40960, [&](std::int64_t batch) {
    nn::Linear layer(256, 1024);
    layer.to(device);
    optim::AdamW adam(layer.parameters(), {});
    for (int i = 0; i < 2; ++i) {
      layer(ones({batch, 256}, {f32, device})).square().sum().backward();
      adam.step();
      adam.zero_grad();
    }
  });
  EXPECT_FALSE(forecast.fits());
  EXPECT_GT(forecast.largest_batch, 100);
  EXPECT_LT(forecast.largest_batch, 25000);
}

}  // namespace
}  // namespace etna
