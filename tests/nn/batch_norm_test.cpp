#include <gtest/gtest.h>

#include <etna/nn/containers.h>
#include <etna/nn/normalization.h>
#include <etna/nn/pooling.h>
#include <etna/nn/resampling.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::nn {
namespace {

class BatchNormLayer : public OnDevice {};

TEST_P(BatchNormLayer, HasPyTorchsNames) {
  const BatchNorm2d norm(3);
  const StateDict state = norm.state_dict();
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name);
  EXPECT_EQ(names, std::vector<std::string>({"bias", "num_batches_tracked", "running_mean", "running_var", "weight"}));
  EXPECT_EQ(state.at("num_batches_tracked").dtype(), i64);
  EXPECT_EQ(norm.parameters().size(), 2u);
  EXPECT_TRUE(BatchNorm1d(3, {.affine = false, .track_running_stats = false}).state_dict().empty());
  EXPECT_TRUE(InstanceNorm2d(3).state_dict().empty());
}

TEST_P(BatchNormLayer, UpdatesItsStatisticsInCapturedSteps) {
  for (std::optional<double> momentum : {std::optional<double>(0.3), std::optional<double>()}) {
    BatchNorm1d eager(3, {.momentum = momentum}), captured(3, {.momentum = momentum});
    eager.to(device()), captured.to(device());
    auto step = capture(
        [&](const Tensor& x) {
          captured.zero_grad();
          sum(square(captured(x))).backward();
          return captured.weight.grad();
        },
        {.device = device()});
    for (int i = 0; i < 5; ++i) {
      const Tensor x = randn({6, 3, 4}, {f32, device()}) + static_cast<double>(i);
      eager.zero_grad();
      sum(square(eager(x))).backward();
      expect_near(step(x), eager.weight.grad(), 1e-6);
    }
    EXPECT_EQ(captured.num_batches_tracked.item<int>(), 5);
    expect_near(captured.running_mean, eager.running_mean, 0);
    expect_near(captured.running_var, eager.running_var, 0);
    if (!momentum) {
      EXPECT_NEAR(mean(eager.running_mean).item<double>(), 2, 0.5) << "the average of 0 ... 4";
    }
    const Tensor x = randn({6, 3, 4}, {f32, device()}), before = captured.running_mean.clone();
    captured.eval();
    expect_near(captured(x)[0], (x[0] - before.unsqueeze(1)) / sqrt(captured.running_var.unsqueeze(1) + 1e-5), 1e-5);
    expect_near(captured.running_mean, before, 0);
  }
  EXPECT_THROW(BatchNorm2d(3)(ones({2, 3})), ShapeError);
}

TEST_P(BatchNormLayer, InstanceNormTakesExamplesAlone) {
  InstanceNorm1d norm(2, {.affine = true, .track_running_stats = true});
  norm.to(device());
  const Tensor x = randn({3, 2, 5}, {f32, device()});
  expect_near(norm(x)[1], norm(x[1]), 1e-6);
  norm.eval();
  EXPECT_EQ(norm(x).shape(), x.shape());
  GroupNorm groups(2, 2);
  groups.to(device());
  expect_near(groups(x), InstanceNorm1d(2)(x), 1e-6);
}

TEST_P(BatchNormLayer, ImageModulesChain) {
  Sequential net;
  net.add<ReflectionPad2d>(1).add<MaxPool2d>(2).add<AvgPool2d>(2).add<Upsample>(InterpolateOptions{{2.0}});
  net.add<LocalResponseNorm>(2).add<PixelUnshuffle>(2).add<PixelShuffle>(2).add<AdaptiveAvgPool2d>(3);
  net.add<AdaptiveMaxPool2d>(2).add<LPPool2d>(2, 2).add<Identity>().add<Flatten>().add<Unflatten>(1, Dims({3, 1}));
  const Tensor x = randn({2, 3, 8, 8}, {f32, device()});
  Tensor y = x;
  for (std::size_t i = 0; i < net.modules.size(); ++i) y = net.modules[i](y);
  EXPECT_EQ(y.shape(), Shape({2, 3, 1}));
  EXPECT_EQ(ConstantPad1d(Dims({1, 2}), 3.0)(y)[0][0].to_vector<float>()[3], 3.0f);
  EXPECT_THROW(ZeroPad2d(Dims({1, 2})), ShapeError);
  const MaxPool2d pool(2);
  const MaxPooled found = pool.forward_with_indices(x);
  EXPECT_EQ(MaxUnpool2d(2)(found.values, found.indices).shape(), x.shape());
}

ETNA_ON_EVERY_DEVICE(BatchNormLayer);

}  // namespace
}  // namespace etna::nn
