#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include <etna/data/data.h>
#include <etna/dist/dist.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/adam.h>
#include <etna/optim/sgd.h>
#include <etna/train/fit.h>
#include <etna/train/training_step.h>

#include "world.h"

namespace etna {
namespace {

using distributed::DataParallel, distributed::DataParallelOptions, distributed::rank, distributed::size;

struct ParallelNet : nn::Module {
  nn::Linear hidden{6, 33}, out{33, 3};
  nn::LayerNorm norm{{33}};
  ParallelNet() { register_module("hidden", hidden), register_module("norm", norm), register_module("out", out); }
  Tensor forward(const Tensor& x) const { return out(relu(norm(hidden(x)))); }
};

constexpr std::int64_t kRows = 8;  ///< of the joined batch

/// This rank's rows of a batch that all ranks know.
Tensor own_rows(const Tensor& all) {
  const std::int64_t rows = all.size(0) / size();
  return all.slice(0, rows * rank(), rows * (rank() + 1)).contiguous();
}

std::pair<Tensor, Tensor> joined_batch(int step) {
  const auto name = static_cast<std::uint64_t>(100 + step);
  return {tensor_of(0, {kRows, 6}, f32, name), cast(tensor_of(0, {kRows}, f32, name + 50) > 0.0, i32)};
}

Tensor loss_of(const ParallelNet& net, const Tensor& x, const Tensor& y) { return cross_entropy(net.forward(x), y); }

/// Losses of steps with the joined batch, in this process alone.
std::vector<double> losses_of_one(int steps) {
  manual_seed(7);
  ParallelNet net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  std::vector<double> losses;
  for (int k = 0; k < steps; ++k) {
    const auto [x, y] = joined_batch(k);
    const Tensor loss = loss_of(net, x, y);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void expect_same_everywhere(const nn::Module& net) {
  for (const auto& [name, x] : net.named_parameters()) {
    const Tensor all = distributed::all_gather(x.detach().flatten().unsqueeze(0));
    EXPECT_TRUE(all.equal(all[0].unsqueeze(0).expand(all.shape()).contiguous())) << name;
  }
}

TEST(DataParallel, FollowsOneProcessWithTheJoinedBatch) {
  constexpr int kSteps = 12;
  const std::vector<double> expected = losses_of_one(kSteps);
  for (const bool captured : {false, true}) {
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{600}, std::int64_t{1} << 20}) {
      manual_seed(7 + static_cast<std::uint64_t>(rank()));  // rank 0's parameters hold
      ParallelNet net;
      DataParallel parallel(net, {.bucket_bytes = bytes});
      optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
      training::TrainingStep step([&](const Tensor& x, const Tensor& y) { return loss_of(net, x, y); }, optimizer,
                                  {.captured = captured, .parallel = &parallel});
      for (int k = 0; k < kSteps; ++k) {
        const auto [x, y] = joined_batch(k);
        EXPECT_NEAR(step(own_rows(x), own_rows(y)).item<double>(), expected[static_cast<std::size_t>(k)], 1e-6)
            << "step " << k << ", captured " << captured << ", buckets of " << bytes;
      }
      expect_same_everywhere(net);
    }
  }
}

TEST(DataParallel, GradientsAreTheMeansOfAllRanks) {
  ParallelNet net;
  DataParallel parallel(net);
  const auto [x, y] = joined_batch(0);
  loss_of(net, own_rows(x), own_rows(y)).backward();
  ParallelNet whole;
  whole.load_state_dict(net.state_dict());
  loss_of(whole, x, y).backward();
  const auto a = net.named_parameters(), b = whole.named_parameters();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].tensor.grad().allclose(b[i].tensor.grad(), 1e-5, 1e-7)) << a[i].name;
}

TEST(DataParallel, AccumulatesWithoutReducing) {
  const std::vector<double> expected = losses_of_one(6);
  for (const bool captured : {false, true}) {
    manual_seed(7);
    ParallelNet net;
    DataParallel parallel(net, {.bucket_bytes = 600});
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
    training::TrainingStep step([&](const Tensor& x, const Tensor& y) { return loss_of(net, x, y); }, optimizer,
                                {.captured = captured, .accumulation = 2, .parallel = &parallel});
    for (int k = 0; k < 6; ++k) {
      const auto [x, y] = joined_batch(k);
      EXPECT_NEAR(step(own_rows(x), own_rows(y)).item<double>(), expected[static_cast<std::size_t>(k)], 1e-6);
    }
    expect_same_everywhere(net);
  }
  // By hand: what is not reduced stays this rank's.
  ParallelNet net;
  DataParallel parallel(net);
  const auto [x, y] = joined_batch(1);
  parallel.set_reduce(false);
  loss_of(net, own_rows(x), own_rows(y)).backward();
  const Tensor own = net.out.weight.grad().clone();
  EXPECT_FALSE(distributed::all_reduce(own, distributed::Reduce::mean).allclose(own));
  parallel.set_reduce(true);
  loss_of(net, own_rows(x), own_rows(y)).backward();
  EXPECT_TRUE(
      net.out.weight.grad().allclose(distributed::all_reduce(own * 2.0, distributed::Reduce::mean), 1e-5, 1e-7));
}

TEST(DataParallel, ReducesInBf16) {
  manual_seed(7);
  ParallelNet net;
  DataParallel parallel(net, {.dtype = bf16});
  const auto [x, y] = joined_batch(2);
  loss_of(net, own_rows(x), own_rows(y)).backward();
  ParallelNet whole;
  whole.load_state_dict(net.state_dict());
  loss_of(whole, x, y).backward();
  const Tensor a = net.out.weight.grad(), b = whole.out.weight.grad();
  EXPECT_EQ(a.dtype(), f32);
  EXPECT_TRUE(a.allclose(b, 0.02, 1e-3));
  EXPECT_FALSE(a.allclose(b, 1e-5, 1e-7)) << "did they travel in bf16?";
  EXPECT_TRUE(a.equal(a.to(bf16).to(f32)));
}

TEST(DataParallel, FitTakesItByOneOption) {
  manual_seed(3);
  const Tensor x = tensor_of(0, {64, 6}, f32, 300);
  const Tensor y = cast(x.sum({1}) > 0.0, i32);
  const auto dataset = std::make_shared<data::TensorDataset>(x, y);
  const auto own = std::make_shared<data::DistributedSampler>(dataset->size(), size(), rank());
  data::DataLoader loader(dataset, {.batch_size = kRows / size(), .drop_last = true, .sampler = own});
  ParallelNet net;
  DataParallel parallel(net);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  const auto loss = [&](const Tensor& a, const Tensor& b) { return loss_of(net, a, b); };
  const training::FitResult result =
      training::fit(net, loss, optimizer, loader, {.epochs = 6, .progress = false, .parallel = &parallel}, &loader);
  EXPECT_EQ(result.steps, 6 * 64 / kRows);
  EXPECT_LT(result.loss, 0.35) << "is it learned?";
  // The loss is that of all ranks, and the validation rank 0's.
  EXPECT_EQ(distributed::number_of_first(result.loss), result.loss);
  ASSERT_TRUE(result.valid_loss.has_value());
  EXPECT_EQ(distributed::number_of_first(*result.valid_loss), *result.valid_loss);
  expect_same_everywhere(net);
}

struct TwoHeads : nn::Module {
  nn::Linear trunk{4, 4}, first{4, 1}, second{4, 1}, never{4, 1};
  TwoHeads() {
    register_module("trunk", trunk), register_module("first", first);
    register_module("second", second), register_module("never", never);
  }
};

TEST(DataParallel, UnusedParameters) {
  TwoHeads net;
  const Tensor x = ones({2, 4});
  {
    DataParallel parallel(net, {.bucket_bytes = 1, .unused_parameters = true});
    for (int k = 0; k < 2; ++k) {
      net.zero_grad();
      // Each rank uses a head of its own.
      sum(rank() == 0 ? net.first(net.trunk(x)) : net.second(net.trunk(x))).backward();
      ASSERT_TRUE(net.first.weight.grad().defined());
      ASSERT_TRUE(net.second.weight.grad().defined());
      EXPECT_FALSE(net.never.weight.grad().defined()) << "no rank uses it";
      EXPECT_TRUE(net.first.bias.grad().allclose(full({1}, 2.0 / size())));
      EXPECT_TRUE(net.second.bias.grad().allclose(full({1}, 2.0 * (size() - 1) / size())));
    }
  }
  net.zero_grad();
  DataParallel parallel(net);
  try {
    sum(net.first(net.trunk(x))).backward();
    ADD_FAILURE() << "two heads have no gradient";
  } catch (const GradError& error) {
    EXPECT_NE(std::string(error.what()).find("no gradient to never.bias, never.weight, second.bias, second.weight"),
              std::string::npos)
        << error.what();
  }
}

TEST(DataParallel, GivesAllRanksBuffersOfTheFirst) {
  struct Net : nn::Module {
    nn::BatchNorm1d norm{3};
    Net() { register_module("norm", norm); }
  } net;
  net.norm(tensor_of(rank(), {5, 3}, f32, 30));
  DataParallel parallel(net);
  for (const Tensor& x : net.buffers()) {
    const Tensor all = distributed::all_gather(x.to(f32).flatten().unsqueeze(0));
    EXPECT_TRUE(all.equal(all[0].unsqueeze(0).expand(all.shape()).contiguous()));
  }
}

TEST(DataParallel, TiedParametersAndFrozenOnes) {
  struct Tied : nn::Module {
    nn::Embedding words{7, 5};
    nn::Linear frozen{5, 5};
    Tied() { register_module("words", words), register_module("frozen", frozen); }
    Tensor loss(const Tensor& x) const { return cross_entropy(matmul(frozen(words(x)), words.weight.t()), x); }
  } net;
  net.frozen.requires_grad_(false);
  DataParallel parallel(net);
  const Tensor all = cast(arange(kRows) % 7, i32);
  net.loss(own_rows(all)).backward();
  Tied whole;
  whole.load_state_dict(net.state_dict());
  whole.loss(all).backward();
  EXPECT_TRUE(net.words.weight.grad().allclose(whole.words.weight.grad(), 1e-5, 1e-7));
  EXPECT_FALSE(net.frozen.weight.grad().defined());
}

TEST(DataParallel, OtherModelsAreRefusedOnAllRanks) {
  struct Wide : nn::Module {
    nn::Linear layer;
    explicit Wide(int width) : layer(3, width) { register_module("layer", layer); }
  } net(rank() == 1 ? 5 : 4);
  try {
    DataParallel parallel(net);
    ADD_FAILURE() << "the models differ";
  } catch (const distributed::RanksDiffer& error) {
    EXPECT_STREQ(error.what(),
                 "distributed: rank 1 has another model than rank 0: parameter layer.weight [5, 3] f32; rank 0 has "
                 "parameter layer.weight [4, 3] f32");
  }
  distributed::require_same("nothing", "");
  EXPECT_TRUE(distributed::any_rank(rank() == size() - 1));
  EXPECT_FALSE(distributed::any_rank(false));
  EXPECT_EQ(distributed::number_of_first(rank() + 0.1), 0.1);
}

}  // namespace
}  // namespace etna
