#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <etna/etna.h>

namespace etna::training {
namespace {

using Batches = std::vector<std::pair<Tensor, Tensor>>;

struct EvaluatorNet : nn::Module {
  nn::Linear l{1, 1};
  nn::Sequential frozen{nn::BatchNorm1d(1), nn::Sequential(nn::Dropout(0.5))};
  EvaluatorNet() { register_module("l", l), register_module("frozen", frozen); }
  Tensor forward(const Tensor& x) const { return frozen(l(x)); }
};

TEST(Evaluator, LeavesEachModuleInItsMode) {
  EvaluatorNet net;
  net.frozen.eval();
  net.frozen.modules[1].train();
  std::vector<bool> modes;
  for (nn::Module* m : net.modules()) modes.push_back(m->training());
  Evaluator evaluator(net, [&](const Tensor& x, const Tensor& y) {
    for (nn::Module* m : net.modules()) EXPECT_FALSE(m->training());
    return mse_loss(net.forward(x), y);
  });
  const Tensor x = ones({2, 1});
  evaluator.mean(Batches{{x, x}});
  for (std::size_t i = 0; i < modes.size(); ++i) EXPECT_EQ(net.modules()[i]->training(), modes[i]) << i;
}

TEST(Evaluator, TheMeanOfManyBatchesIsExact) {
  nn::Linear model(1, 1);
  const auto sum = [](const Tensor& x, const Tensor&) { return x.sum(); };
  for (const bool captured : {true, false}) {
    Evaluator evaluator(model, sum, {.captured = captured});
    const Tensor x = tensor({2.3});
    EXPECT_NEAR(evaluator.mean(Batches(captured ? 300'000 : 30'000, {x, x})), 2.3, 1e-6);
    const Tensor infinite = tensor({std::numeric_limits<double>::infinity()});
    EXPECT_TRUE(std::isinf(evaluator.mean(Batches{{x, x}, {infinite, x}, {x, x}})));
    const Tensor nan = tensor({std::numeric_limits<double>::quiet_NaN()});
    EXPECT_TRUE(std::isnan(evaluator.mean(Batches{{x, x}, {nan, x}, {x, x}})));
  }
}

}  // namespace
}  // namespace etna::training
