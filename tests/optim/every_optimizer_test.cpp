#include <functional>
#include <map>
#include <memory>

#include <gmock/gmock.h>

#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna {
namespace {

using OptimizerPtr = std::unique_ptr<optim::Optimizer>;
using Make = std::function<OptimizerPtr(std::vector<Tensor>)>;

template <typename Optimizer, typename Options>
Make make(Options options) {
  options.max_grad_norm = 4;
  return
      [options](std::vector<Tensor> parameters) { return std::make_unique<Optimizer>(std::move(parameters), options); };
}

/// One of each kind of update.
std::map<std::string, Make> optimizers() {
  using namespace optim;
  return {{"SGD", make<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9, .maximize = true})},
          {"Adam", make<Adam>(AdamOptions{.lr = 0.05, .amsgrad = true})},
          {"Adagrad", make<Adagrad>(AdagradOptions{.lr = 0.05, .initial_accumulator_value = 0.1})},
          {"RMSprop", make<RMSprop>(RMSpropOptions{.momentum = 0.9, .centered = true})},
          {"Adadelta", make<Adadelta>(AdadeltaOptions{})},
          {"Adamax", make<Adamax>(AdamaxOptions{})},
          {"NAdam", make<NAdam>(NAdamOptions{.decoupled_weight_decay = true})},
          {"RAdam", make<RAdam>(RAdamOptions{.lr = 0.05, .decoupled_weight_decay = true})},
          {"AdEMAMix", make<AdEMAMix>(AdEMAMixOptions{.lr = 0.05, .beta3 = 0.99, .warmup = 5})},
          {"ASGD", make<ASGD>(ASGDOptions{.t0 = 2})},
          {"Rprop", make<Rprop>(RpropOptions{})},
          {"Lion", make<Lion>(LionOptions{.lr = 0.01})},
          {"LAMB", make<LAMB>(LAMBOptions{.lr = 0.05})},
          {"Adafactor", make<Adafactor>(AdafactorOptions{.lr = 0.05})},
          {"Muon", make<Muon>(MuonOptions{.lr = 0.05})}};
}

class EveryOptimizer : public OnDevice {
 protected:
  /// Matrices, so that Muon takes them too; sizes that no vector divides, one without elements.
  static std::vector<Tensor> parameters(DType t) {
    manual_seed(9);
    std::vector<Tensor> all;
    for (const Shape& shape : {Shape{3, 7}, Shape{5, 1}, Shape{0, 3}, Shape{2, 3, 11}})
      all.push_back(randn(shape, {f32, kCPU}).to(t).to(device()).requires_grad_());
    return all;
  }
  static void set_gradients(std::vector<Tensor>& all, int step) {
    GradMode off(false);
    for (Tensor& p : all) p.set_grad(p * (0.3 + 0.1 * step) + 0.2);
  }
  static std::vector<double> values(const std::vector<Tensor>& all) {
    std::vector<double> found;
    for (const Tensor& p : all) {
      for (double x : p.to_vector<double>()) found.push_back(x);
    }
    return found;
  }
};

TEST_P(EveryOptimizer, GoesOnFromItsStateDictWithTheSameBits) {
  for (const auto& [name, optimizer] : optimizers()) {
    std::vector<Tensor> one = parameters(f32), two = parameters(f32);
    const OptimizerPtr a = optimizer(one), b = optimizer(two);
    for (int i = 1; i <= 7; ++i) set_gradients(one, i), a->step();
    {
      GradMode off(false);
      for (std::size_t i = 0; i < one.size(); ++i) two[i].copy_(one[i]);
    }
    b->load_state_dict(a->state_dict());
    for (int i = 8; i <= 10; ++i) {
      set_gradients(one, i), a->step();
      set_gradients(two, i), b->step();
    }
    EXPECT_EQ(values(one), values(two)) << name;
    auto damaged = a->state_dict();
    damaged.erase(damaged.begin());
    EXPECT_THROW(b->load_state_dict(damaged), Error) << name;
  }
}

TEST_P(EveryOptimizer, KeepsStatesOfHalfParametersInF32) {
  for (const auto& [name, optimizer] : optimizers()) {
    for (DType t : {f16, bf16}) {
      std::vector<Tensor> half = parameters(t), full;
      for (const Tensor& p : half) full.push_back(p.detach().to(f32).requires_grad_());
      const OptimizerPtr a = optimizer(half), b = optimizer(full);
      for (int i = 1; i <= 3; ++i) {
        set_gradients(full, i);
        for (std::size_t k = 0; k < half.size(); ++k) half[k].set_grad(full[k].grad());
        a->step(), b->step();
      }
      for (std::size_t k = 0; k < half.size(); ++k) {
        EXPECT_EQ(half[k].dtype(), t);
        const double bound = t == f16 ? 4e-3 : 3e-2;
        expect_near(half[k], full[k].to_vector<double>(), bound, bound);
      }
      for (const auto& [key, state] : a->state_dict()) EXPECT_NE(state.dtype(), t) << name << ", " << key;
    }
  }
}

TEST_P(EveryOptimizer, SkipsAStepWhoseGradientsAreNotFinite) {
  for (const auto& [name, optimizer] : optimizers()) {
    std::vector<Tensor> one = parameters(f32), two = parameters(f32);
    const OptimizerPtr a = optimizer(one), b = optimizer(two);
    optim::GradScaler scaler({.init_scale = 1});
    scaler.scale(ones({}, device()));
    for (int i = 1; i <= 4; ++i) {
      set_gradients(one, i);
      if (i == 2) one[0].set_grad(full({3, 7}, INFINITY, device()));
      const std::vector<double> before = values(one);
      scaler.step(*a);
      if (i == 2) {
        EXPECT_EQ(values(one), before) << name;
        continue;
      }
      set_gradients(two, i), b->step();
    }
    const std::vector<double> x = values(one), y = values(two);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-6) << name;
  }
}

TEST_P(EveryOptimizer, StepsParametersWithStrides) {
  for (const auto& [name, optimizer] : optimizers()) {
    std::vector<Tensor> dense = parameters(f32), strided;
    for (const Tensor& p : dense)
      strided.push_back(p.detach().transpose(0, 1).clone().transpose(0, 1).detach().requires_grad_());
    ASSERT_FALSE(strided[0].is_contiguous());
    const OptimizerPtr a = optimizer(dense), b = optimizer(strided);
    for (int i = 1; i <= 3; ++i) {
      set_gradients(dense, i), a->step();
      set_gradients(strided, i), b->step();
    }
    EXPECT_EQ(values(strided), values(dense)) << name;
    const auto captured = [&](std::vector<Tensor>& all, const OptimizerPtr& steps) {
      auto step = capture(
          [&] {
            set_gradients(all, 1);
            steps->step();
          },
          {.device = device()});
      for (int i = 0; i < 4; ++i) step();
    };
    captured(dense, a), captured(strided, b);
    EXPECT_EQ(values(strided), values(dense)) << name << ", captured";
  }
}

TEST_P(EveryOptimizer, ReadsNothingBackAndShowsANaN) {
  for (const auto& [name, optimizer] : optimizers()) {
    std::vector<Tensor> all = parameters(f32);
    const OptimizerPtr a = optimizer(all);
    set_gradients(all, 1), a->step();
    set_gradients(all, 2);
    all[0].set_grad(full({3, 7}, NAN, device()));
    const Transfers before = transfers();
    a->step();
    EXPECT_EQ(transfers().d2h_calls, before.d2h_calls) << name;
    EXPECT_TRUE(std::isnan(all[0].select(0, 0).select(0, 0).item<float>())) << name;
  }
}

ETNA_ON_EVERY_DEVICE(EveryOptimizer);

template <typename Optimizer, typename Options>
void expect_refused(Options options, const char* why) {
  Tensor x = ones({2, 2}).requires_grad_();
  EXPECT_THAT([&] { Optimizer(std::vector<Tensor>{x}, options); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(why)));
}

TEST(Optimizer, RefusesSettingsOutOfRange) {
  using namespace optim;
  expect_refused<RMSprop>(RMSpropOptions{.alpha = -1}, "an alpha of -1");
  expect_refused<Adadelta>(AdadeltaOptions{.rho = 2}, "a rho of 2");
  expect_refused<Adamax>(AdamaxOptions{.betas = {0.9, 1}}, "not in [0, 1)");
  expect_refused<NAdam>(NAdamOptions{.momentum_decay = -1}, "momentum_decay of -1");
  expect_refused<RAdam>(RAdamOptions{.eps = -1}, "eps is -1; it must not be negative");
  expect_refused<AdEMAMix>(AdEMAMixOptions{.betas = {0.9, 1}}, "not in [0, 1)");
  expect_refused<AdEMAMix>(AdEMAMixOptions{.beta3 = 1}, "beta3 is 1, not in [0, 1)");
  expect_refused<AdEMAMix>(AdEMAMixOptions{.alpha = -1}, "alpha is -1");
  expect_refused<AdEMAMix>(AdEMAMixOptions{.warmup = -1}, "a warmup of -1 steps is negative");
  expect_refused<ASGD>(ASGDOptions{.lambd = -1}, "lambd of -1");
  expect_refused<Rprop>(RpropOptions{.eta_plus = 0.5}, "eta_plus 0.5");
  expect_refused<Lion>(LionOptions{.betas = {1, 0.99}}, "not in [0, 1)");
  expect_refused<LAMB>(LAMBOptions{.betas = {-1, 0.999}}, "not in [0, 1)");
  expect_refused<Adafactor>(AdafactorOptions{.d = 0.5}, "d 0.5");
  expect_refused<Muon>(MuonOptions{.ns_steps = 0}, "ns_steps is 0");
  expect_refused<Adagrad>(AdagradOptions{.initial_accumulator_value = -1}, "initial_accumulator_value");
  Tensor vector = ones({2}).requires_grad_();
  EXPECT_THAT([&] { Muon muon({vector}); }, testing::ThrowsMessage<ShapeError>(testing::HasSubstr("no matrix")));
}

TEST(LBFGS, GoesOnFromItsStateDict) {
  Tensor x = from_vector<double>({-1.2, 1, 0.5}).requires_grad_(), y = from_vector<double>({0, 0, 0}).requires_grad_();
  const auto closure = [](optim::LBFGS& optimizer, Tensor& at) {
    return [&] {
      optimizer.zero_grad();
      Tensor loss = sum(square(at.slice(0, 1, 3) - square(at.slice(0, 0, 2)))) * 5.0 + sum(square(1.0 - at));
      loss.backward();
      return loss;
    };
  };
  const optim::LBFGSOptions options{.max_iter = 3, .line_search = optim::LineSearch::strong_wolfe};
  optim::LBFGS a({x}, options), b({y}, options);
  a.step(closure(a, x));
  {
    GradMode off(false);
    y.copy_(x);
  }
  b.load_state_dict(a.state_dict());
  for (int i = 0; i < 3; ++i) a.step(closure(a, x)), b.step(closure(b, y));
  EXPECT_EQ(x.to_vector<double>(), y.to_vector<double>());
  auto state = a.state_dict();
  state["d"] = zeros({2});
  EXPECT_THAT([&] { b.load_state_dict(state); }, testing::ThrowsMessage<Error>(testing::HasSubstr("d [2]")));
  EXPECT_THROW(optim::LBFGS({x}, {.history_size = 0}), Error);
  EXPECT_THROW(optim::LBFGS(std::vector<Tensor>{}), Error);
}

TEST(LBFGS, CannotBeCaptured) {
  Tensor x = from_vector<float>({3, 4}).requires_grad_();
  optim::LBFGS optimizer({x});
  auto step = capture([&] {
    optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = sum(square(square(x)));
      loss.backward();
      return loss;
    });
  });
  step();
  EXPECT_THROW(step(), CaptureError);
}

}  // namespace
}  // namespace etna
