#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/adam.h>
#include <etna/tensor/capture.h>
#include <etna/train/training_step.h>

#include "world.h"

// Collectives of a GPU that go through host memory, as commands of captured steps.
namespace etna {
namespace {

using distributed::DataParallel, distributed::rank, distributed::Reduce, distributed::size;

/// No test may leave a validation message.
class CapturedGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
    device_ = select_device("vulkan:0");
  }
  void TearDown() override { EXPECT_EQ(vulkan::validation_messages(), 0u); }

  Tensor mine(const std::vector<Tensor>& all) const { return all[static_cast<std::size_t>(rank())].to(device_); }

  Device device_;
};

bool equal_on_host(const Tensor& a, const Tensor& b) { return a.to(kCPU).equal(b.to(kCPU)); }

TEST_F(CapturedGpu, EveryCollectiveIsReplayed) {
  ASSERT_TRUE(distributed::can_capture(device_));
  auto step = capture(
      [](const Tensor& x) {
        const Tensor y = x * 2.0;
        TensorList made{distributed::all_reduce(y), distributed::all_reduce(y.t(), Reduce::max),
                        distributed::all_gather(y), distributed::reduce_scatter(y),
                        distributed::all_to_all(y), distributed::broadcast(y, 1)};
        const Tensor z = y + 1.0;
        distributed::all_reduce_(z, Reduce::mean);
        distributed::broadcast_(z, size() - 1);
        made.push_back(z);
        made.push_back(distributed::all_reduce(x.slice(0, 0, 0)));
        return made;
      },
      {.device = device_});
  for (int k = 0; k < 5; ++k) {
    const std::vector<Tensor> all = tensors_of_all({size() * 2, 5}, f32, 900 + static_cast<std::uint64_t>(k));
    const TensorList made = step(mine(all));
    // A collective on the host between two replays keeps its place.
    const Tensor number = distributed::all_reduce(full({3}, static_cast<double>(k + rank())));
    Tensor sum = zeros({size() * 2, 5}), most = full({5, size() * 2}, -1e9);
    std::vector<Tensor> doubled, parts;
    for (const Tensor& x : all) {
      doubled.push_back(x * 2.0);
      sum = sum + doubled.back();
      most = maximum(most, doubled.back().t());
      parts.push_back(doubled.back().chunk(size(), 0)[static_cast<std::size_t>(rank())]);
    }
    EXPECT_TRUE(made[0].to(kCPU).allclose(sum)) << "replay " << k;
    EXPECT_TRUE(equal_on_host(made[1], most));
    EXPECT_TRUE(equal_on_host(made[2], cat(doubled, 0)));
    EXPECT_TRUE(made[3].to(kCPU).allclose(sum.chunk(size(), 0)[static_cast<std::size_t>(rank())]));
    EXPECT_TRUE(equal_on_host(made[4], cat(parts, 0)));
    EXPECT_TRUE(equal_on_host(made[5], doubled[1]));
    EXPECT_TRUE(made[6].to(kCPU).allclose(sum / static_cast<double>(size()) + 1.0, 1e-5, 1e-6));
    EXPECT_EQ(made[7].shape(), (Shape{0, 5}));
    EXPECT_EQ(number.sum().item<float>() / 3, static_cast<float>(size() * k + size() * (size() - 1) / 2));
  }
  EXPECT_GE(step.replays(), 3);
}

TEST_F(CapturedGpu, PairsOfRanksExchange) {
  auto step = capture(
      [](const Tensor& x) {
        const Tensor y = x * 3.0, other = zeros_like(x);
        if (rank() == 0) distributed::send(y, 1), distributed::receive_(other, 1);
        if (rank() == 1) distributed::receive_(other, 0), distributed::send(y, 0);
        return other + 0.0;
      },
      {.device = device_});
  for (int k = 0; k < 4 && rank() < 2; ++k) {
    const std::vector<Tensor> all = tensors_of_all({7}, f32, 950 + static_cast<std::uint64_t>(k));
    EXPECT_TRUE(equal_on_host(step(mine(all)), all[static_cast<std::size_t>(1 - rank())] * 3.0));
  }
  distributed::barrier();
}

/// Ranks whose steps differ otherwise call their collectives in the order of the program.
TEST_F(CapturedGpu, RanksMayCaptureOtherCommandsBetween) {
  auto step = capture(
      [](const Tensor& x) {
        Tensor slow = x;
        for (int k = 0; rank() == 1 && k < 20; ++k) slow = matmul(slow, x) * 0.1;
        return TensorList{distributed::all_reduce(slow * 0.0 + x), distributed::all_reduce(x, Reduce::max)};
      },
      {.device = device_});
  const Tensor x = full({8, 8}, 1.0 + rank(), {f32, device_});
  for (int k = 0; k < 4; ++k) {
    const TensorList made = step(x);
    EXPECT_TRUE(made[0].to(kCPU).allclose(full({8, 8}, size() * (size() + 1) / 2.0)));
    EXPECT_TRUE(made[1].to(kCPU).allclose(full({8, 8}, static_cast<double>(size()))));
  }
}

struct GpuNet : nn::Module {
  nn::Linear hidden{6, 33}, out{33, 3};
  nn::LayerNorm norm{{33}};
  GpuNet() { register_module("hidden", hidden), register_module("norm", norm), register_module("out", out); }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(out(relu(norm(hidden(x)))), y); }
};

struct GpuRun {
  bool captured = false;
  std::int64_t bucket_bytes = 600, accumulation = 1;
  int stage = 0;
  DType travel = f32;
};

std::vector<double> losses_on(Device device, const GpuRun& run) {
  manual_seed(7);
  GpuNet net;
  net.to(device);
  DataParallel parallel(net, {.bucket_bytes = run.bucket_bytes, .dtype = run.travel, .zero_stage = run.stage});
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  optimizer.shard(parallel.sharding());
  training::TrainingStep step(
      [&](const Tensor& x, const Tensor& y) { return net.loss(x, y); }, optimizer,
      {.device = device, .captured = run.captured, .accumulation = run.accumulation, .parallel = &parallel});
  std::vector<double> losses;
  for (int k = 0; k < 10; ++k) {
    const auto name = static_cast<std::uint64_t>(980 + k);
    const Tensor x = tensor_of(rank(), {4, 6}, f32, name), y = cast(tensor_of(rank(), {4}, f32, name) > 0.0, i32);
    losses.push_back(step(x, y).item<double>());
  }
  EXPECT_EQ(step.report().has_value(), run.captured);
  return losses;
}

void expect_same_losses(const std::vector<double>& losses, const std::vector<double>& eager, const GpuRun& run) {
  for (std::size_t k = 0; k < losses.size(); ++k)
    EXPECT_NEAR(losses[k], eager[k], 1e-6)
        << "step " << k << ", ZeRO stage " << run.stage << ", buckets of " << run.bucket_bytes << ", " << run.travel;
}

TEST_F(CapturedGpu, TrainingFollowsStepsOpByOp) {
  expect_same_losses(losses_on(device_, {.captured = true}), losses_on(device_, {}), {});
}

TEST_F(CapturedGpu, TrainingInAnyFormFollowsStepsOpByOp) {
  for (const int stage : {0, 1, 2}) {
    for (const DType travel : {f32, bf16}) {
      for (const std::int64_t accumulation : {1, 2}) {
        const std::vector<double> eager = losses_on(device_, {false, 600, accumulation, stage, travel});
        for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{600}, std::int64_t{1} << 20}) {
          const GpuRun run{true, bytes, accumulation, stage, travel};
          expect_same_losses(losses_on(device_, run), eager, run);
        }
      }
    }
  }
}

}  // namespace
}  // namespace etna
