#include <cmath>

#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::nn {
namespace {

class Init : public OnDevice {};

TEST_P(Init, GivesTheSameBitsOnEveryDevice) {
  auto draw = [](Device d) {
    manual_seed(5);
    Tensor u = init::uniform_(empty({37, 11}, {f32, d}), -0.3, 0.2), x = init::xavier_uniform_(empty({5, 7}, {f32, d}));
    return cat({u.flatten(), x.flatten()}).to_vector<float>();
  };
  EXPECT_EQ(draw(device()), draw(kCPU));
}

TEST_P(Init, NormalsAgreeAcrossDevices) {
  manual_seed(5);
  Tensor here = init::normal_(empty({1001}, {f32, device()}), 1, 0.5);
  manual_seed(5);
  expect_near(here, init::normal_(empty({1001}), 1, 0.5), 1e-6);
}

TEST_P(Init, FillsWithinItsBounds) {
  Tensor x = empty({40, 30}, {f32, device()});
  auto largest = [&] { return max(abs(x)).item<double>(); };
  init::kaiming_uniform_(x);
  EXPECT_LE(largest(), std::sqrt(6.0 / 30));
  EXPECT_GT(largest(), 0.95 * std::sqrt(6.0 / 30));
  init::xavier_uniform_(x, 2);
  EXPECT_LE(largest(), 2 * std::sqrt(6.0 / 70));
  EXPECT_GT(largest(), 1.9 * std::sqrt(6.0 / 70));
  init::uniform_(x, 3, 4);
  EXPECT_GE(min(x).item<double>(), 3);
  init::normal_(x, 5, 0.1);
  EXPECT_NEAR(mean(x).item<double>(), 5, 0.02);
  EXPECT_NEAR(std::sqrt(var(x).item<double>()), 0.1, 0.02);
  EXPECT_EQ(init::constant_(x, 2)[3][4].item<float>(), 2);
  EXPECT_EQ(init::zeros_(x)[3][4].item<float>(), 0);
  EXPECT_EQ(init::ones_(x)[3][4].item<float>(), 1);
  EXPECT_THROW(init::xavier_uniform_(empty({3}, {f32, device()})), ShapeError);
}

ETNA_ON_EVERY_DEVICE(Init);

TEST(Linear, StartsWithinOneOverTheRootOfItsInputs) {
  Linear layer(64, 100);
  for (const Tensor& p : layer.parameters()) {
    double largest = max(abs(p.detach())).item<double>();
    EXPECT_LE(largest, 0.125);
    EXPECT_GT(largest, 0.1);
  }
}

}  // namespace
}  // namespace etna::nn
