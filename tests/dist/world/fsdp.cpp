#include <cstdio>
#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include <unistd.h>

#include <etna/autograd/autograd.h>
#include <etna/data/data.h>
#include <etna/device/device.h>
#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/dist/sharding.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/train/fit.h>
#include <etna/train/training_step.h>

#include "world.h"

namespace etna {
namespace {

using distributed::DataParallel, distributed::rank, distributed::size;

struct ResidualBlock : nn::UnaryModule {
  nn::LayerNorm norm;
  nn::Linear up, down;
  ResidualBlock(std::int64_t dim, std::int64_t wide) : norm({dim}), up(dim, wide), down(wide, dim) {
    register_module("norm", norm), register_module("up", up), register_module("down", down);
  }
  Tensor forward(const Tensor& x) const override { return x + down(relu(up(norm(x)))); }
};

struct ResidualNet : nn::Module {
  nn::Linear in, out;
  nn::ModuleList<ResidualBlock> blocks;
  bool recompute = false;
  explicit ResidualNet(int count = 3, std::int64_t dim = 10, std::int64_t wide = 33) : in(6, dim), out(dim, 3) {
    register_module("in", in), register_module("blocks", blocks), register_module("out", out);
    for (int i = 0; i < count; ++i) blocks.emplace_back(dim, wide);
  }
  Tensor forward(const Tensor& rows) const {
    Tensor x = in(rows);
    for (const ResidualBlock& block : blocks)
      x = recompute ? autograd::checkpoint([&](const TensorList& given) { return TensorList{block(given[0])}; }, {x})[0]
                    : block(x);
    return out(x);
  }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(forward(x), y); }
};

std::pair<Tensor, Tensor> rows_of_step(int step, int part, int parts) {
  const auto name = static_cast<std::uint64_t>(800 + step);
  const Tensor x = tensor_of(0, {8, 6}, f32, name);
  const Tensor y = cast(tensor_of(0, {8}, f32, name + 50) > 0.0, i32);
  const std::int64_t rows = 8 / parts;
  return {x.slice(0, rows * part, rows * (part + 1)).contiguous(),
          y.slice(0, rows * part, rows * (part + 1)).contiguous()};
}

struct FsdpRun {
  int stage = 3;
  bool prefetch = true, recompute = false;
  std::int64_t accumulation = 1;
  DType precision = f32;
  int steps = 6;
};

struct FsdpResult {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> weights;  ///< rank 0's
};

FsdpResult train_fully_sharded(const FsdpRun& run) {
  manual_seed(7);
  ResidualNet net;
  net.recompute = run.recompute;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  DataParallel parallel(net, {.bucket_bytes = 600, .zero_stage = run.stage, .prefetch = run.prefetch});
  optimizer.shard(parallel.sharding());
  training::TrainingStep step(
      [&](const Tensor& x, const Tensor& y) { return net.loss(x, y); }, optimizer,
      {.precision = run.precision, .captured = true, .accumulation = run.accumulation, .parallel = &parallel});
  FsdpResult result;
  for (int k = 0; k < run.steps; ++k) {
    const auto [x, y] = rows_of_step(k, rank(), size());
    result.losses.push_back(step(x, y).item<double>());
  }
  for (const auto& [name, x] : parallel.state_dict()) {
    if (rank() == 0) result.weights[name] = x.to_vector<float>();
  }
  return result;
}

TEST(Fsdp, BitsAreThoseOfDataParallel) {
  const FsdpResult expected = train_fully_sharded({.stage = 0});
  for (const bool prefetch : {false, true}) {
    for (const bool recompute : {false, true}) {
      const FsdpResult found = train_fully_sharded({.prefetch = prefetch, .recompute = recompute});
      EXPECT_EQ(found.losses, expected.losses) << "prefetch " << prefetch << ", recompute " << recompute;
      EXPECT_EQ(found.weights, expected.weights) << "prefetch " << prefetch << ", recompute " << recompute;
    }
  }
}

TEST(Fsdp, AndInSixteenBits) {
  for (const DType precision : {bf16, f16}) {
    const FsdpResult expected = train_fully_sharded({.stage = 0, .precision = precision});
    const FsdpResult found = train_fully_sharded({.precision = precision});
    EXPECT_EQ(found.losses, expected.losses) << precision;
    EXPECT_EQ(found.weights, expected.weights) << precision;
  }
}

TEST(Fsdp, AccumulatesPartsOfGradients) {
  const FsdpResult expected = train_fully_sharded({.stage = 0, .accumulation = 2});
  const FsdpResult found = train_fully_sharded({.accumulation = 2});
  for (std::size_t k = 0; k < expected.losses.size(); ++k) EXPECT_NEAR(found.losses[k], expected.losses[k], 1e-6);
}

TEST(Fsdp, ParametersOfBlocksAreThereOnlyWhileTheyRun) {
  ResidualNet net;
  DataParallel parallel(net, {.zero_stage = 3});
  const Tensor weight = net.blocks[1].up.weight;
  EXPECT_EQ(weight.shape(), Shape{0});
  EXPECT_EQ(net.in.weight.shape(), (Shape{10, 6})) << "it is in no block";
  Shape seen;
  auto hook = net.blocks[1].register_forward_hook([&](const nn::Module&, const TensorList&, const TensorList&) {
    seen = weight.shape();
    return TensorList{};
  });
  const auto [x, y] = rows_of_step(0, rank(), size());
  const Tensor loss = net.loss(x, y);
  hook.remove();
  EXPECT_EQ(weight.shape(), Shape{0});
  loss.backward();
  EXPECT_EQ(weight.shape(), Shape{0});
  EXPECT_EQ(net.blocks[2].up.weight.shape(), Shape{0});
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_TRUE(parallel.sharding()->part(weight).grad().defined());
  // Nothing of a model without elements is saved or moved.
  EXPECT_THROW(net.state_dict(), Error);
  EXPECT_THROW(net.to(f64), Error);
  EXPECT_THROW(optim::AdamW(net.parameters()), Error);
  EXPECT_THROW(optim::AveragedModel average(net), Error);
  EXPECT_FALSE(parallel.can_capture(kCPU));
  {
    const NoGrad off;
    EXPECT_EQ(net.forward(x).shape(), (Shape{8 / size(), 3})) << "evaluation gathers, too";
  }
  EXPECT_EQ(weight.shape(), Shape{0});
}

TEST(Fsdp, AGraphOfOldParametersIsRefused) {
  ResidualNet net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  DataParallel parallel(net, {.zero_stage = 3});
  optimizer.shard(parallel.sharding());
  const auto [x, y] = rows_of_step(0, rank(), size());
  const Tensor old = net.loss(x, y);
  net.loss(x, y).backward();
  optimizer.step();
  optimizer.zero_grad();
  EXPECT_THROW(old.backward(), GradError);
}

TEST(Fsdp, StateIsWholeAndGoesIntoOneProcessAndBack) {
  manual_seed(3);
  ResidualNet net;
  nn::StateDict before;
  for (const auto& [name, x] : net.state_dict()) before[name] = x.clone();
  DataParallel parallel(net, {.zero_stage = 3});
  nn::StateDict whole = parallel.state_dict();
  if (rank() == 0) {
    ResidualNet other;
    other.load_state_dict(whole);
    for (const auto& [name, x] : before) EXPECT_TRUE(whole.at(name).equal(x)) << name;
  } else {
    EXPECT_FALSE(whole.contains("blocks.0.up.weight"));
  }
  nn::StateDict twice;
  for (const auto& [name, x] : before) twice[name] = x * 2.0;
  parallel.load_state_dict(twice);
  whole = parallel.state_dict();
  if (rank() == 0) {
    for (const auto& [name, x] : twice) EXPECT_TRUE(whole.at(name).equal(x)) << name;
  }
  twice.erase("out.bias");
  EXPECT_THROW(parallel.load_state_dict(twice), Error);
  twice["out.bias"] = ones({4});
  EXPECT_THROW(parallel.load_state_dict(twice), ShapeError);
}

TEST(Fsdp, FitTakesItByOneOption) {
  manual_seed(3);
  const Tensor x = tensor_of(0, {64, 6}, f32, 300);
  const auto dataset = std::make_shared<data::TensorDataset>(x, cast(x.sum({1}) > 0.0, i32));
  const auto own = std::make_shared<data::DistributedSampler>(dataset->size(), size(), rank());
  data::DataLoader loader(dataset, {.batch_size = 8 / size(), .drop_last = true, .sampler = own});
  ResidualNet net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  DataParallel parallel(net, {.zero_stage = 3});
  optimizer.shard(parallel.sharding());
  const auto loss = [&](const Tensor& a, const Tensor& b) { return net.loss(a, b); };
  const training::FitResult result =
      training::fit(net, loss, optimizer, loader, {.epochs = 6, .progress = false, .parallel = &parallel}, &loader);
  EXPECT_EQ(result.steps, 6 * 8);
  EXPECT_LT(result.loss, 0.3) << "is it learned?";
  ASSERT_TRUE(result.valid_loss.has_value());
}

TEST(Fsdp, BlocksAreNamedOrFound) {
  nn::Linear plain(4, 4);
  EXPECT_THROW(DataParallel(plain, {.zero_stage = 3}), Error);
  struct Two : nn::Module {
    nn::Linear a{4, 5}, b{5, 4};
    Two() { register_module("a", a), register_module("b", b); }
  } two;
  DataParallel parallel(two, {.zero_stage = 3, .blocks = {&two.a}});
  EXPECT_EQ(two.a.weight.shape(), Shape{0});
  EXPECT_EQ(two.b.weight.shape(), (Shape{4, 5}));
  sum(two.b(two.a(ones({2, 4})))).backward();
  EXPECT_TRUE(parallel.sharding()->part(two.a.bias).grad().defined());
}

TEST(Fsdp, AndTheOtherStagesOnAGpu) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const auto losses_on = [](Device device, int stage) {
    manual_seed(7);
    ResidualNet net;
    net.to(device);
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01, .max_grad_norm = 1});
    DataParallel parallel(net, {.bucket_bytes = 600, .zero_stage = stage});
    optimizer.shard(parallel.sharding());
    training::TrainingStep step([&](const Tensor& x, const Tensor& y) { return net.loss(x, y); }, optimizer,
                                {.device = device, .parallel = &parallel});
    std::vector<double> losses;
    for (int k = 0; k < 4; ++k) {
      const auto [x, y] = rows_of_step(k, rank(), size());
      losses.push_back(step(x, y).item<double>());
    }
    const auto state = parallel.state_dict();
    const auto moments = optimizer.state_dict();
    if (rank() == 0) {
      EXPECT_EQ(state.at("blocks.1.up.weight").shape(), (Shape{33, 10})) << stage;
      EXPECT_EQ(moments.at("0.exp_avg").shape(), (Shape{10, 6})) << stage;
    }
    return losses;
  };
  const std::vector<double> expected = losses_on(kCPU, 0);
  for (int stage = 0; stage <= 3; ++stage) {
    const std::vector<double> found = losses_on(select_device("vulkan:0"), stage);
    for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(found[k], expected[k], 1e-4) << "stage " << stage;
  }
}

/// While one lives, ETNA_MEMORY_LIMIT is so many bytes.
struct MemoryLimit {
  explicit MemoryLimit(std::uint64_t bytes) {
    empty_cache(kCPU);
    ::setenv("ETNA_MEMORY_LIMIT", std::to_string(bytes).c_str(), 1);
  }
  ~MemoryLimit() { ::unsetenv("ETNA_MEMORY_LIMIT"); }
};

/// Losses of a model with 8 blocks of 2 MiB. @param file where rank 0 saves it; empty: it does not
std::vector<double> losses_of_large(int stage, bool alone, const std::string& file = "") {
  manual_seed(7);
  ResidualNet net(8, 256, 1024);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-4, .eps = 1e-3});  // small gradients make small steps
  std::optional<DataParallel> parallel;
  if (!alone) {
    parallel.emplace(net, distributed::DataParallelOptions{.zero_stage = stage});
    optimizer.shard(parallel->sharding());
  }
  std::vector<double> losses;
  for (int k = 0; k < 4; ++k) {
    const auto [x, y] = rows_of_step(k, alone ? 0 : rank(), alone ? 1 : size());
    const Tensor loss = net.loss(x, y);
    losses.push_back(
        (alone ? loss.detach() : distributed::all_reduce(loss.detach(), distributed::Reduce::mean)).item<double>());
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  if (file.empty()) return losses;
  const CheckpointState state = checkpoint_state({{"model", *parallel}, {"optimizer", optimizer}});
  if (rank() == 0) write_checkpoint(file, state);
  return losses;
}

TEST(Fsdp, TrainsWhatOneDeviceHasNoMemoryFor) {
  const std::vector<double> expected = losses_of_large(0, true), together = losses_of_large(0, false);
  // Weights 16.1 MiB, gradients as many, and twice that of moments: 64 MiB.
  const std::uint64_t limit = std::uint64_t{54} << 20;
  {
    const MemoryLimit limited(limit);
    EXPECT_THROW(losses_of_large(0, true), OutOfMemory);
  }
  distributed::barrier();
  const MemoryLimit limited(limit);
  reset_peak_memory(kCPU);
  const std::string file = testing::TempDir() + "etna_fsdp_" + std::to_string(::getpid()) + ".safetensors";
  const std::vector<double> found = losses_of_large(3, false, file);
  EXPECT_EQ(found, together);
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(found[k] / expected[k], 1, 1e-6);
  EXPECT_LT(memory_stats(kCPU).peak, limit);
  if (rank() > 0) return;
  // One process goes on with it.
  ::unsetenv("ETNA_MEMORY_LIMIT");
  ResidualNet net(8, 256, 1024);
  optim::AdamW optimizer(net.parameters());
  load(file, {{"model", net}, {"optimizer", optimizer}});
  std::remove(file.c_str());
  const auto [x, y] = rows_of_step(3, 0, 1);
  EXPECT_LT(net.loss(x, y).item<double>(), expected[3]) << "the last step was made";
}

}  // namespace
}  // namespace etna
