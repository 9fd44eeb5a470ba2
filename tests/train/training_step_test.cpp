#include <etna/train/training_step.h>

#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/ops.h>
#include <etna/train/evaluator.h>

namespace etna::training {
namespace {

/// A regression that counts on no random numbers.
struct Regression {
  Tensor x = arange(0, 32, 1, {f32}).view({8, 4}) / 16.0, y = sum(x, {1}, true);
  nn::Linear model{4, 1};
  optim::SGD optimizer{model.parameters(), {.lr = 0.05}};

  Regression() {
    nn::init::constant_(model.weight, 0.1);
    nn::init::constant_(model.bias, 0);
  }
  TrainingStep::Loss loss() {
    return [this](const Tensor& a, const Tensor& b) { return mse_loss(model(a), b); };
  }
  std::vector<float> weights() const { return model.state_dict().at("weight").to_vector<float>(); }
};

TEST(TrainingStep, CapturedGivesTheBitsOfEager) {
  Regression eager, captured;
  TrainingStep slow(eager.loss(), eager.optimizer, {.captured = false}), fast(captured.loss(), captured.optimizer);
  EXPECT_FALSE(fast.report());
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(slow(eager.x, eager.y).item<float>(), fast(captured.x, captured.y).item<float>());
  EXPECT_EQ(eager.weights(), captured.weights());
  EXPECT_FALSE(slow.report());
  ASSERT_TRUE(fast.report());
  EXPECT_GT(fast.report()->commands, 0);
}

TEST(TrainingStep, AccumulatedBatchesMakeTheStepOfAll) {
  Regression whole, halves;
  TrainingStep one(whole.loss(), whole.optimizer), two(halves.loss(), halves.optimizer, {.accumulation = 2});
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(one(whole.x, whole.y).item<double>(), two(halves.x, halves.y).item<double>(), 1e-5);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(whole.weights()[i], halves.weights()[i], 1e-6);
}

TEST(TrainingStep, AWeightScalesGradientsAndNotTheLoss) {
  Regression plain, weighted;
  plain.optimizer.set_lr(0.1);
  TrainingStep one(plain.loss(), plain.optimizer),
      two(weighted.loss(), weighted.optimizer, {.weight = [](const Tensor&x) { return x.size(0) / 4.0; }});
  EXPECT_EQ(one(plain.x, plain.y).item<float>(), two(weighted.x, weighted.y).item<float>());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(plain.weights()[i], weighted.weights()[i], 1e-6);
}

TEST(TrainingStep, ALossMayFindItsBatchByItself) {
  Regression given, own;
  RunningSum sum(kCPU);
  TrainingStep one(given.loss(), given.optimizer),
      two([&](const Tensor&, const Tensor&) { return own.loss()(own.x, own.y); }, own.optimizer,
          {.after = [&](const Tensor&loss) { sum.add(loss); }});
  double total = 0;
  for (int i = 0; i < 3; ++i) {
    one(given.x, given.y);
    total += two().item<double>();
  }
  EXPECT_EQ(given.weights(), own.weights());
  EXPECT_NEAR(sum.value(), total, 1e-6);
}

}  // namespace
}  // namespace etna::training
