#include <cmath>
#include <limits>

#include <etna/optim/adam.h>
#include <etna/optim/grad_scaler.h>
#include <etna/optim/optimizer.h>
#include <etna/optim/sgd.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>
#include <nn/on_device.h>

namespace etna {
namespace {

/// Parameters whose gradients are set by hand.
struct Parameters {
  Tensor a, b;

  explicit Parameters(Device device)
      : a(from_vector(std::vector<float>{1, -2, 3}).to(device).requires_grad_()),
        b(from_vector(std::vector<float>{0.5f}).to(device).requires_grad_()) {}
  std::vector<Tensor> list() const { return {a, b}; }
  void give(std::vector<float> to_a, float to_b, double scale = 1) {
    for (float& g : to_a) g *= static_cast<float>(scale);
    a.set_grad(from_vector(to_a).to(a.device()));
    b.set_grad(from_vector(std::vector<float>{to_b * static_cast<float>(scale)}).to(a.device()));
  }
};

class MaxGradNorm : public OnDevice {};
ETNA_ON_EVERY_DEVICE(MaxGradNorm);

TEST_P(MaxGradNorm, StepsAsClippingBeforeDoes) {
  Parameters p(device()), q(device());
  optim::AdamW clipped(p.list(), {.lr = 0.1, .max_grad_norm = 1}), plain(q.list(), {.lr = 0.1});
  for (float size : {0.1f, 3.0f, 40.0f}) {
    p.give({size, -size, 0}, 2 * size), q.give({size, -size, 0}, 2 * size);
    clipped.step();
    Tensor norm = optim::clip_grad_norm_(q.list(), 1);
    plain.step();
    EXPECT_FLOAT_EQ(clipped.grad_norm().item<float>(), norm.item<float>());
    expect_near(p.a, q.a, 1e-6);
    expect_near(p.b, q.b, 1e-6);
  }
}

TEST_P(MaxGradNorm, ShowsNaN) {
  Parameters p(device());
  optim::SGD optimizer(p.list(), {.lr = 0.1, .max_grad_norm = 1});
  p.give({1, NAN, 0}, 1);
  optimizer.step();
  EXPECT_TRUE(std::isnan(p.b.item<float>()));
  EXPECT_THROW(optim::SGD(p.list(), {.max_grad_norm = -1}), Error);
}

class GradScaler : public OnDevice {};
ETNA_ON_EVERY_DEVICE(GradScaler);

TEST_P(GradScaler, StepsAsWithoutAScale) {
  Parameters p(device()), q(device());
  optim::AdamW scaled(p.list(), {.lr = 0.1, .max_grad_norm = 1}), plain(q.list(), {.lr = 0.1, .max_grad_norm = 1});
  optim::GradScaler scaler({.init_scale = 1024});
  for (int i = 0; i < 3; ++i) {
    Tensor loss = scaler.scale(scalar(2, {f32, device()}));
    EXPECT_EQ(loss.item<float>(), 2048);
    p.give({1, -1, 2}, 3, 1024), q.give({1, -1, 2}, 3);
    Transfers before = transfers();
    scaler.step(scaled);
    scaler.update();
    EXPECT_EQ(transfers().d2h_calls, before.d2h_calls);
    plain.step();
    EXPECT_EQ(p.a.to_vector<float>(), q.a.to_vector<float>());
    EXPECT_FLOAT_EQ(scaled.grad_norm().item<float>(), plain.grad_norm().item<float>());
  }
}

TEST_P(GradScaler, SkipsAStepThatIsNotFiniteAndGoesOnAsIfItHadNotBeen) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Parameters p(device()), q(device());
    optim::AdamW scaled(p.list(), {.lr = 0.1}), plain(q.list(), {.lr = 0.1});
    optim::GradScaler scaler({.init_scale = 64});
    for (int i = 0; i < 6; ++i) {
      scaler.scale(scalar(1, {f32, device()}));
      bool skipped = i == 0 || i == 3;
      std::vector<float> before = p.a.to_vector<float>();
      p.give({1, skipped ? bad : -1, 2}, 3, scaler.get_scale());
      scaler.step(scaled);
      scaler.update();
      if (skipped) {
        EXPECT_EQ(p.a.to_vector<float>(), before);
        continue;
      }
      q.give({1, -1, 2}, 3);
      plain.step();
      expect_near(p.a, q.a, 1e-6);
    }
    EXPECT_EQ(scaler.get_scale(), 16);
    EXPECT_EQ(scaled.state_dict().at("0.step").item<double>(), 4);
  }
}

TEST_P(GradScaler, CountsStepsOfAParameterThatComesLate) {
  Parameters p(device()), q(device());
  optim::AdamW scaled(p.list(), {.lr = 0.1}), plain(q.list(), {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 1});
  for (int i = 0; i < 5; ++i) {
    scaler.scale(scalar(1, {f32, device()}));
    bool skipped = i == 1 || i == 2;
    p.give({1, skipped ? INFINITY : -1, 2}, 3, scaler.get_scale());
    q.give({1, -1, 2}, 3);
    if (i < 2) p.b.set_grad({}), q.b.set_grad({});
    scaler.step(scaled);
    scaler.update();
    if (!skipped) plain.step();
    expect_near(p.a, q.a, 1e-6);
    expect_near(p.b, q.b, 1e-6);
  }
  EXPECT_EQ(scaled.state_dict().at("0.step").item<double>(), 3);
  EXPECT_EQ(scaled.state_dict().at("1.step").item<double>(), 2);
}

TEST_P(GradScaler, GrowsAfterAnIntervalAndKeepsItsState) {
  Parameters p(device());
  optim::SGD optimizer(p.list(), {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 4, .growth_interval = 3}), other;
  for (int i = 0; i < 7; ++i) {
    scaler.scale(scalar(1, {f32, device()}));
    p.give({1, 1, 1}, 1);
    scaler.step(optimizer);
    scaler.update();
  }
  EXPECT_EQ(scaler.get_scale(), 16);
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 16);
  EXPECT_EQ(other.state_dict().at("growth_tracker").item<double>(), 1);
}

TEST_P(GradScaler, StepsAgainAfterAnyNumberOfOverflows) {
  Tensor p = from_vector<float>({1}, device()).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 0.1});
  optim::GradScaler scaler;
  const auto step = [&](double g) {
    scaler.scale((p * g).sum()).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  };
  for (int i = 0; i < 170; ++i) step(INFINITY);
  EXPECT_EQ(p.item<float>(), 1);
  EXPECT_EQ(scaler.get_scale(), kLeastLossScale);
  step(1);
  EXPECT_FLOAT_EQ(p.item<float>(), 0.9f);
}

TEST_P(GradScaler, UnscalesForWhoWantsToLook) {
  Parameters p(device());
  Tensor before = p.a.detach().clone();
  optim::SGD optimizer(p.list(), {.lr = 1});
  optim::GradScaler scaler({.init_scale = 8});
  scaler.scale(scalar(1, {f32, device()}));
  p.give({1, -1, 2}, 3, 8);
  scaler.unscale_(optimizer);
  EXPECT_EQ(p.a.grad().to_vector<float>(), std::vector<float>({1, -1, 2}));
  EXPECT_THROW(scaler.unscale_(optimizer), Error);
  scaler.step(optimizer);
  scaler.update();
  GradMode off(false);
  expect_near(p.a, before - p.a.grad(), 1e-6);
}

TEST_P(GradScaler, SaysWhatIsWrong) {
  Parameters p(device());
  optim::SGD optimizer(p.list());
  optim::GradScaler scaler;
  EXPECT_THROW(scaler.step(optimizer), Error);
  EXPECT_THROW(scaler.unscale_(optimizer), Error);
  EXPECT_THROW(scaler.load_state_dict({}), Error);
  EXPECT_THROW(optim::GradScaler({.init_scale = 0}), Error);
  EXPECT_THROW(optim::GradScaler({.init_scale = 1e-40}), Error);
  EXPECT_THROW(scaler.load_state_dict({{"scale", etna::scalar(0)}, {"growth_tracker", etna::scalar(0)}}), Error);
  EXPECT_THROW(optim::GradScaler({.backoff_factor = 2}), Error);
  EXPECT_THROW(optim::GradScaler({.growth_interval = 0}), Error);
  optim::GradScaler off({.enabled = false});
  p.give({1, 1, 1}, 1);
  off.step(optimizer);
  off.update();
  EXPECT_EQ(off.get_scale(), 1);
  EXPECT_TRUE(off.state_dict().empty());
}

}  // namespace
}  // namespace etna
