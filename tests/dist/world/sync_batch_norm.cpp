#include <cstdlib>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/dist/dist.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/sgd.h>
#include <etna/train/training_step.h>

#include "world.h"

namespace etna {
namespace {

using distributed::rank, distributed::size;

/// Rows of each rank: 2, 3, 4 ...; the last one of three and more has none.
std::int64_t rows_of_rank(int r) { return size() > 2 && r + 1 == size() ? 0 : r + 2; }

std::pair<std::int64_t, std::int64_t> own_span() {
  std::int64_t first = 0;
  for (int r = 0; r < rank(); ++r) first += rows_of_rank(r);
  return {first, first + rows_of_rank(rank())};
}

Tensor joined_rows(const Shape& rest, DType dtype, std::uint64_t name) {
  std::int64_t rows = 0;
  for (int r = 0; r < size(); ++r) rows += rows_of_rank(r);
  Shape shape = {rows};
  for (const std::int64_t s : rest) shape.push_back(s);
  return tensor_of(0, shape, dtype, name) * 3.0 + 100.0;  // far from 0: squares alone would lose the variance
}

struct NormResult {
  Tensor y, x_grad, weight_grad, bias_grad, mean, var;
  std::int64_t batches;
};

NormResult run_norm(nn::BatchNorm& norm, const Tensor& x, const Tensor& weights) {
  Tensor leaf = x.clone().requires_grad_();
  norm.zero_grad();
  const Tensor y = norm(leaf);
  sum(y * y * weights + y * weights).backward();
  return {y.detach(),
          leaf.grad(),
          norm.weight.grad(),
          norm.bias.grad(),
          norm.running_mean.clone(),
          norm.running_var.clone(),
          norm.num_batches_tracked.item<std::int64_t>()};
}

template <typename Norm>
void expect_joined(const Shape& rest, DType dtype, double tolerance, std::optional<double> momentum) {
  const nn::BatchNormOptions options = {.momentum = momentum};
  Norm whole(rest[0], options), parts(rest[0], options);
  for (nn::BatchNorm* norm : {static_cast<nn::BatchNorm*>(&whole), static_cast<nn::BatchNorm*>(&parts)}) {
    norm->to(dtype);
    const NoGrad off;
    norm->weight.copy_(tensor_of(0, {rest[0]}, dtype, 901));
    norm->bias.copy_(tensor_of(0, {rest[0]}, dtype, 902));
  }
  EXPECT_EQ(nn::convert_sync_batchnorm(parts), 1);
  const auto [first, end] = own_span();
  for (int step = 0; step < 2; ++step) {
    const Tensor x = joined_rows(rest, dtype, 910 + static_cast<std::uint64_t>(step));
    const Tensor weights = tensor_of(0, x.shape(), dtype, 903);
    const NormResult expected = run_norm(whole, x, weights);
    const NormResult found =
        run_norm(parts, x.slice(0, first, end).contiguous(), weights.slice(0, first, end).contiguous());
    EXPECT_TRUE(found.y.allclose(expected.y.slice(0, first, end), tolerance, tolerance));
    EXPECT_TRUE(found.x_grad.allclose(expected.x_grad.slice(0, first, end), tolerance, tolerance * 10));
    // Each rank has the gradient of its own part.
    EXPECT_TRUE(distributed::all_reduce(found.weight_grad).allclose(expected.weight_grad, tolerance, tolerance * 10));
    EXPECT_TRUE(distributed::all_reduce(found.bias_grad).allclose(expected.bias_grad, tolerance, tolerance * 10));
    EXPECT_TRUE(found.mean.allclose(expected.mean, tolerance, tolerance));
    EXPECT_TRUE(found.var.allclose(expected.var, tolerance, tolerance));
    EXPECT_EQ(found.batches, step + 1);
  }
  // Evaluation needs no other ranks.
  parts.eval(), whole.eval();
  if (rank() == 0) {
    const Tensor x = joined_rows(rest, dtype, 920);
    EXPECT_TRUE(parts(x).allclose(whole(x), tolerance, tolerance));
  }
}

TEST(SyncBatchNorm, IsThatOfTheJoinedBatchWithUnequalParts) {
  expect_joined<nn::BatchNorm1d>({5}, f64, 1e-9, 0.1);
  expect_joined<nn::BatchNorm1d>({5, 7}, f64, 1e-9, std::nullopt);
  expect_joined<nn::BatchNorm2d>({3, 4, 2}, f64, 1e-9, 0.3);
  expect_joined<nn::BatchNorm3d>({2, 3, 2, 2}, f64, 1e-9, 0.1);
  expect_joined<nn::BatchNorm2d>({3, 4, 2}, f32, 2e-4, 0.1);
}

TEST(SyncBatchNorm, GradientsAreThoseOfDifferences) {
  // The sum of all ranks' losses, by this rank's elements: central differences, one element after the other.
  Tensor x = tensor_of(rank(), {2, 3}, f64, 930);
  const Tensor weights = tensor_of(rank(), {2, 3}, f64, 931), scale = tensor_of(0, {3}, f64, 932);
  const auto loss = [&](const Tensor& at) {
    const Tensor y = nn::sync_batch_norm(at, {}, scale, {});
    return sum(y * y * y * weights);
  };
  Tensor leaf = x.clone().requires_grad_();
  loss(leaf).backward();
  const NoGrad off;
  for (int r = 0; r < size(); ++r) {
    for (std::int64_t i = 0; i < 6; ++i) {
      constexpr double kStep = 1e-6;
      double difference = 0;
      for (const double sign : {1.0, -1.0}) {
        Tensor moved = x.clone();
        if (r == rank()) moved.mutable_data<double>()[i] += sign * kStep;
        difference += sign * distributed::all_reduce(loss(moved)).item<double>();
      }
      if (r == rank()) {
        EXPECT_NEAR(leaf.grad().data<double>()[i], difference / (2 * kStep), 1e-6) << i;
      }
    }
  }
}

struct NormedNet : nn::Module {
  nn::Linear hidden{6, 9}, out{9, 3};
  nn::BatchNorm1d norm{9};
  NormedNet() { register_module("hidden", hidden), register_module("norm", norm), register_module("out", out); }
  Tensor loss(const Tensor& x, const Tensor& y) const { return cross_entropy(out(relu(norm(hidden(x)))), y); }
};

TEST(SyncBatchNorm, TrainsAsOneProcessDoes) {
  const auto batch = [](int k) {
    const auto name = static_cast<std::uint64_t>(940 + k);
    return std::pair(tensor_of(0, {8, 6}, f32, name), cast(tensor_of(0, {8}, f32, name + 20) > 0.0, i32));
  };
  manual_seed(5);
  NormedNet whole;
  optim::SGD whole_optimizer(whole.parameters(), {.lr = 0.1});
  std::vector<double> expected;
  for (int k = 0; k < 6; ++k) {
    const auto [x, y] = batch(k);
    const Tensor loss = whole.loss(x, y);
    expected.push_back(loss.item<double>());
    loss.backward();
    whole_optimizer.step();
    whole_optimizer.zero_grad();
  }
  for (const bool captured : {false, true}) {
    manual_seed(5);
    NormedNet net;
    EXPECT_EQ(nn::convert_sync_batchnorm(net), 1);
    distributed::DataParallel parallel(net);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    training::TrainingStep step([&](const Tensor& x, const Tensor& y) { return net.loss(x, y); }, optimizer,
                                {.captured = captured, .parallel = &parallel});
    for (int k = 0; k < 6; ++k) {
      const auto [x, y] = batch(k);
      const std::int64_t rows = 8 / size(), first = rows * rank();
      const double found =
          step(x.slice(0, first, first + rows).contiguous(), y.slice(0, first, first + rows).contiguous())
              .item<double>();
      EXPECT_NEAR(found, expected[static_cast<std::size_t>(k)], 1e-6) << "captured " << captured << ", step " << k;
    }
    EXPECT_TRUE(net.norm.running_mean.allclose(whole.norm.running_mean, 1e-5, 1e-6));
    EXPECT_TRUE(net.norm.running_var.allclose(whole.norm.running_var, 1e-5, 1e-6));
  }
}

TEST(SyncBatchNorm, IsTheSameOnAGpu) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const Device device = select_device("vulkan:0");
  const Tensor x = tensor_of(rank(), {rows_of_rank(rank()), 3, 4}, f32, 960);
  const Tensor weights = tensor_of(rank(), x.shape(), f32, 961);
  std::vector<NormResult> results;
  for (const Device where : {kCPU, device}) {
    nn::BatchNorm1d norm(3);
    norm.to(where);
    nn::convert_sync_batchnorm(norm);
    results.push_back(run_norm(norm, x.to(where), weights.to(where)));
  }
  EXPECT_TRUE(results[1].y.to(kCPU).allclose(results[0].y, 1e-4, 1e-5));
  EXPECT_TRUE(results[1].x_grad.to(kCPU).allclose(results[0].x_grad, 1e-3, 1e-4));
  EXPECT_TRUE(results[1].var.to(kCPU).allclose(results[0].var, 1e-4, 1e-5));
}

TEST(SyncBatchNorm, RefusesWhatHasNoChannels) {
  EXPECT_THROW(nn::sync_batch_norm(ones({3}), {}, {}, {}), ShapeError);
  EXPECT_THROW(nn::sync_batch_norm(ones({3, 2}, {i32}), {}, {}, {}), DtypeError);
}

}  // namespace
}  // namespace etna
