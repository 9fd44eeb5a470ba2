#include <cstdlib>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/dist/dist.h>
#include <etna/nn/nn.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/nn/parallel/model_parallel.h>
#include <etna/optim/sgd.h>

#include "world.h"

// Stages on several ranks, against all of them in one process.
namespace etna {
namespace {

using distributed::Pipeline, distributed::ProcessGroup, distributed::rank, distributed::size;

constexpr std::int64_t kClasses = 5, kFeatures = 6;

/// Eight layers, of which a process may have some.
void add_layers(nn::Sequential& to, std::int64_t first, std::int64_t last) {
  manual_seed(9);
  for (std::int64_t i = 0; i < 8; ++i) {
    const bool own = i >= first && i < last;
    auto layer = std::make_unique<nn::Linear>(i == 0 ? kFeatures : 12, i == 7 ? kClasses : 12);
    if (!own) continue;
    to.add(std::move(layer));
    if (i < 7) to.add(std::make_unique<nn::GELU>());
  }
}

std::pair<Tensor, Tensor> pipeline_batch(std::uint64_t name, std::int64_t rows = 24) {
  manual_seed(name + 900);
  return {randn({rows, kFeatures}), randint(0, kClasses, {rows}, {i64})};
}

Tensor pipeline_loss(const Tensor& y, const Tensor& target) { return cross_entropy(y, target); }

TEST(Pipeline, LossesAreThoseOfOneProcess) {
  for (const std::int64_t micro_batches : {1, 2, 3, 8}) {
    nn::Sequential whole, stage;
    add_layers(whole, 0, 8);
    const auto [first, last] = distributed::pipeline_layers(8);
    add_layers(stage, first, last);
    Pipeline pipeline(stage, pipeline_loss, {.micro_batches = micro_batches});
    optim::SGD all(whole.parameters(), {.lr = 0.5}), own(stage.parameters(), {.lr = 0.5});
    for (std::uint64_t k = 0; k < 5; ++k) {
      const auto [x, target] = pipeline_batch(k, k == 3 ? 48 : 24);  // shapes may change
      const Tensor expected = cross_entropy(whole(x), target);
      expected.backward();
      all.step();
      all.zero_grad();
      const double loss = pipeline.step(rank() == 0 ? x : Tensor(), rank() == size() - 1 ? target : Tensor());
      own.step();
      own.zero_grad();
      EXPECT_NEAR(loss, expected.item<double>(), 1e-6) << micro_batches << " micro-batches, step " << k;
    }
    // GPipe would keep all.
    EXPECT_EQ(pipeline.most_live(), std::min<std::int64_t>(size() - rank(), micro_batches));
  }
}

TEST(Pipeline, GradientsAreThoseOfOneProcess) {
  nn::Sequential whole, stage;
  add_layers(whole, 0, 8);
  const auto [first, last] = distributed::pipeline_layers(8);
  add_layers(stage, first, last);
  const auto [x, target] = pipeline_batch(1);
  cross_entropy(whole(x), target).backward();
  Pipeline pipeline(stage, pipeline_loss, {.micro_batches = 4});
  pipeline.step(x, target);
  const TensorList all = whole.parameters(), own = stage.parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Tensor expected = all[static_cast<std::size_t>(2 * first) + i].grad();
    ASSERT_EQ(own[i].shape(), expected.shape());
    EXPECT_LT((own[i].grad() - expected).abs().max().item<double>(), 1e-6) << i;
  }
}

TEST(Pipeline, RunsOnAGpu) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "no Vulkan device is asked for (ETNA_TEST_VULKAN)";
  const Device device = select_device("vulkan:0");
  nn::Sequential whole, stage;
  add_layers(whole, 0, 8);
  const auto [first, last] = distributed::pipeline_layers(8);
  add_layers(stage, first, last);
  stage.to(device);
  Pipeline pipeline(stage, pipeline_loss, {.micro_batches = 3});
  optim::SGD all(whole.parameters(), {.lr = 0.5}), own(stage.parameters(), {.lr = 0.5});
  for (std::uint64_t k = 0; k < 3; ++k) {
    const auto [x, target] = pipeline_batch(k);
    const Tensor expected = cross_entropy(whole(x), target);
    expected.backward();
    all.step();
    all.zero_grad();
    EXPECT_NEAR(pipeline.step(x.to(device), target.to(device)), expected.item<double>(), 1e-5);
    own.step();
    own.zero_grad();
  }
}

/// x · Wᵀ, of a weight that another stage has, too.
struct TiedLayer : nn::UnaryModule {
  explicit TiedLayer(Tensor shared) : weight(std::move(shared)) { register_parameter("weight", &TiedLayer::weight); }
  Tensor forward(const Tensor& x) const override { return matmul(x, weight); }
  Tensor weight;
};

TEST(Pipeline, TiedWeightsStayEqual) {
  // The first and the last stage share a weight; those between have one of their own.
  manual_seed(31);
  const Tensor start = randn({6, 6}) * 0.3;
  const auto fresh = [&] { return start.clone().requires_grad_(); };
  const Tensor shared = fresh();
  const bool last = rank() == size() - 1, ends = rank() == 0 || last;
  nn::Sequential whole, stage;
  for (int i = 0; i < size(); ++i) whole.add(std::make_unique<TiedLayer>(i == 0 || i == size() - 1 ? shared : fresh()));
  const Tensor own = fresh();
  stage.add(std::make_unique<TiedLayer>(own));
  if (last) {
    const NoGrad off;
    own.detach().add_(1.0);  // rank 0's values hold
  }
  const auto loss_of = [](const Tensor& y, const Tensor& t) { return (y - t).square().mean(); };
  Pipeline pipeline(stage, loss_of, {.micro_batches = 2, .tied = ends ? TensorList{own} : TensorList{}});
  optim::SGD all(whole.parameters(), {.lr = 0.02}), mine(stage.parameters(), {.lr = 0.02});
  for (std::uint64_t k = 0; k < 4; ++k) {
    const Tensor x = tensor_of(0, {8, 6}, f32, 60 + k), target = tensor_of(0, {8, 6}, f32, 70 + k);
    const Tensor expected = loss_of(whole(x), target);
    expected.backward();
    all.step();
    all.zero_grad();
    EXPECT_NEAR(pipeline.step(x, target), expected.item<double>(), 1e-6);
    mine.step();
    mine.zero_grad();
  }
  const Tensor of_first = distributed::broadcast(own.detach());
  EXPECT_EQ(of_first.equal(own.detach()), ends);
}

TEST(Pipeline, TrainsTogetherWithDataParallel) {
  if (size() != 4) GTEST_SKIP() << "two pipelines of two stages need four ranks";
  const ProcessGroup stages = distributed::split(rank() / 2), data = distributed::split(rank() % 2);
  nn::Sequential whole, stage;
  add_layers(whole, 0, 8);
  const auto [first, last] = distributed::pipeline_layers(8, stages);
  add_layers(stage, first, last);
  distributed::DataParallel parallel(stage, {.group = data});
  Pipeline pipeline(stage, pipeline_loss, {.micro_batches = 3, .group = stages, .parallel = &parallel});
  optim::SGD all(whole.parameters(), {.lr = 0.5}), own(stage.parameters(), {.lr = 0.5});
  for (std::uint64_t k = 0; k < 5; ++k) {
    const auto [x, target] = pipeline_batch(k);
    const Tensor expected = cross_entropy(whole(x), target);
    expected.backward();
    all.step();
    all.zero_grad();
    const auto half = [&](const Tensor& batch) { return batch.slice(0, 12 * data.rank(), 12 * (data.rank() + 1)); };
    const double loss = pipeline.step(half(x), half(target));
    own.step();
    own.zero_grad();
    const double mean = distributed::all_reduce(scalar(loss, {f64}), data, distributed::Reduce::mean).item<double>();
    EXPECT_NEAR(mean, expected.item<double>(), 1e-6) << k;
  }
}

TEST(Pipeline, BadBatchesAreErrorsOnAllRanks) {
  nn::Sequential stage;
  const auto [first, last] = distributed::pipeline_layers(8);
  add_layers(stage, first, last);
  Pipeline pipeline(stage, pipeline_loss, {.micro_batches = 5});
  const auto [x, target] = pipeline_batch(1, 24);
  EXPECT_THROW(pipeline.step(x, target), ShapeError);
  EXPECT_THROW(pipeline.step(Tensor(), Tensor()), ShapeError);
  const auto [good, good_target] = pipeline_batch(1, 25);
  EXPECT_THROW(pipeline.step(good, target), ShapeError);
  EXPECT_GT(pipeline.step(good, good_target), 0);
  EXPECT_THROW(Pipeline(stage, pipeline_loss, {.micro_batches = 0}), Error);
  EXPECT_THROW(distributed::pipeline_layers(size() - 1), Error);
}

}  // namespace
}  // namespace etna
