#include <cmath>
#include <functional>
#include <random>

#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/optim/optim.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>
#include <nn/on_device.h>

namespace etna {
namespace {

using Values = std::vector<double>;

/// A number rounded to the dtype.
double rounded(double x, DType t) {
  if (t == f64) return x;
  if (t == f16) return static_cast<float>(Half(static_cast<float>(x)));
  if (t == bf16) return static_cast<float>(BFloat16(static_cast<float>(x)));
  return static_cast<float>(x);
}

/// One parameter's step computed by hand: x, gradient, and the rule's `state`; t counts from 1.
using Rule =
    std::function<void(Values& x, const Values& g, std::vector<Values>& state, int t, double lr, double decay)>;

Rule sgd_rule(double momentum, double dampening, bool nesterov) {
  return [=](Values& x, const Values& g, std::vector<Values>& state, int t, double lr, double decay) {
    state.resize(1, Values(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      double direction = g[i] + decay * x[i], &b = state[0][i];
      if (momentum != 0) {
        b = t == 1 ? direction : momentum * b + (1 - dampening) * direction;
        direction = nesterov ? direction + momentum * b : b;
      }
      x[i] -= lr * direction;
    }
  };
}

Rule adam_rule(double beta1, double beta2, double eps, bool decoupled) {
  return [=](Values& x, const Values& g, std::vector<Values>& state, int t, double lr, double decay) {
    state.resize(2, Values(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      double direction = g[i], &m = state[0][i], &v = state[1][i];
      if (decoupled)
        x[i] -= lr * decay * x[i];
      else
        direction += decay * x[i];
      m = beta1 * m + (1 - beta1) * direction;
      v = beta2 * v + (1 - beta2) * direction * direction;
      double m_hat = m / (1 - std::pow(beta1, t)), v_hat = v / (1 - std::pow(beta2, t));
      x[i] -= lr * m_hat / (std::sqrt(v_hat) + eps);
    }
  };
}

Rule adagrad_rule(double lr_decay, double eps) {
  return [=](Values& x, const Values& g, std::vector<Values>& state, int t, double lr, double decay) {
    state.resize(1, Values(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      double direction = g[i] + decay * x[i], &sum = state[0][i];
      sum += direction * direction;
      x[i] -= lr / (1 + (t - 1) * lr_decay) * direction / (std::sqrt(sum) + eps);
    }
  };
}

Rule ademamix_rule(double beta1, double beta2, double beta3, double alpha, double eps, int warmup, double sign = 1) {
  return [=](Values& x, const Values& g, std::vector<Values>& state, int t, double lr, double decay) {
    state.resize(3, Values(x.size()));
    const double done = t < warmup ? static_cast<double>(t) / warmup : 1, share = alpha * done;
    const double b =
        std::exp(std::log(beta1) * std::log(beta3) / ((1 - done) * std::log(beta3) + done * std::log(beta1)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double direction = sign * g[i];
      double &m = state[0][i], &slow = state[1][i], &v = state[2][i];
      m = beta1 * m + (1 - beta1) * direction;
      slow = b * slow + (1 - b) * direction;
      v = beta2 * v + (1 - beta2) * direction * direction;
      const double m_hat = m / (1 - std::pow(beta1, t)), v_hat = v / (1 - std::pow(beta2, t));
      x[i] -= lr * ((m_hat + share * slow) / (std::sqrt(v_hat) + eps) + decay * x[i]);
    }
  };
}

class Steps : public OnDevice {
 protected:
  std::mt19937 random_{7};

  Values draw(std::int64_t n, DType t) {
    std::normal_distribution<double> normal;
    Values v(static_cast<std::size_t>(n));
    for (double& x : v) x = rounded(normal(random_), t);
    return v;
  }
  static Tensor tensor(const Values& v, const Shape& shape, DType t) {
    return from_vector(v, shape).to(t).to(device());
  }

  /// Two groups with different rates and decays, five steps; one parameter has no gradient at the second step.
  template <typename Optimizer, typename Options>
  void follow(Options options, const Rule& rule, DType dtype) {
    const std::vector<Shape> shapes = {{3, 7}, {1}, {4099}, {0}, {2, 5000}, {}};
    std::vector<optim::ParamGroup> groups = {{.lr = 0.1}, {.lr = 0.01, .weight_decay = 0.3}};
    std::vector<Values> x;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      x.push_back(draw(numel(shapes[i]), dtype));
      groups[i % 2].parameters.push_back(tensor(x[i], shapes[i], dtype).requires_grad_());
    }
    Optimizer optimizer(groups, options);
    std::vector<std::vector<Values>> state(shapes.size());
    std::vector<int> steps(shapes.size());
    for (int step = 1; step <= 5; ++step) {
      optimizer.zero_grad();
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (step == 2 && i == 2) continue;
        Values g = draw(numel(shapes[i]), dtype);
        Tensor grad = tensor(g, shapes[i], dtype);
        if (i == 0) grad = grad.t().contiguous().t();  // the layout of a transposed gemm's result
        groups[i % 2].parameters[i / 2].set_grad(grad);
        rule(x[i], g, state[i], ++steps[i], optimizer.groups()[i % 2].lr, optimizer.groups()[i % 2].weight_decay);
        for (double& v : x[i]) v = rounded(v, dtype);
      }
      Transfers before = transfers();
      optimizer.step();
      Transfers after = transfers();
      EXPECT_EQ(before.h2d_calls, after.h2d_calls);
      EXPECT_EQ(before.d2h_calls, after.d2h_calls);
    }
    double bound = dtype == f64 ? 1e-13 : dtype == f32 ? 1e-5 : dtype == f16 ? 4e-3 : 3e-2;
    for (std::size_t i = 0; i < shapes.size(); ++i) expect_near(groups[i % 2].parameters[i / 2], x[i], bound, bound);
  }

  static std::vector<DType> dtypes() {
    return device().is_cpu() ? std::vector<DType>{f64, f32, f16, bf16} : std::vector<DType>{f32, f16, bf16};
  }
};

TEST_P(Steps, SGDFollowsItsRecurrence) {
  for (DType t : dtypes()) {
    follow<optim::SGD>(optim::SGDOptions{.weight_decay = 0.1}, sgd_rule(0, 0, false), t);
    follow<optim::SGD>(optim::SGDOptions{.momentum = 0.9, .dampening = 0.2}, sgd_rule(0.9, 0.2, false), t);
    follow<optim::SGD>(optim::SGDOptions{.momentum = 0.8, .weight_decay = 0.1, .nesterov = true},
                       sgd_rule(0.8, 0, true), t);
  }
}

TEST_P(Steps, AdamFollowsItsRecurrence) {
  for (DType t : dtypes()) {
    follow<optim::Adam>(optim::AdamOptions{.weight_decay = 0.1}, adam_rule(0.9, 0.999, 1e-8, false), t);
    follow<optim::Adam>(optim::AdamOptions{.betas = {0.5, 0.9}, .eps = 0.1}, adam_rule(0.5, 0.9, 0.1, false), t);
  }
}

TEST_P(Steps, AdamWFollowsItsRecurrence) {
  for (DType t : dtypes()) {
    follow<optim::AdamW>(optim::AdamWOptions{.betas = {0.9, 0.95}, .weight_decay = 0.1},
                         adam_rule(0.9, 0.95, 1e-8, true), t);
  }
}

// Without a warmup, in the middle of one, and over its end.
TEST_P(Steps, AdEMAMixFollowsItsRecurrence) {
  for (DType t : dtypes()) {
    follow<optim::AdEMAMix>(optim::AdEMAMixOptions{}, ademamix_rule(0.9, 0.999, 0.9999, 5, 1e-8, 0), t);
    follow<optim::AdEMAMix>(
        optim::AdEMAMixOptions{.betas = {0.8, 0.9}, .beta3 = 0.99, .alpha = 8, .eps = 0.1, .warmup = 3},
        ademamix_rule(0.8, 0.9, 0.99, 8, 0.1, 3), t);
    follow<optim::AdEMAMix>(optim::AdEMAMixOptions{.beta3 = 0.999, .alpha = 40, .warmup = 1000, .maximize = true},
                            ademamix_rule(0.9, 0.999, 0.999, 40, 1e-8, 1000, -1), t);
  }
}

// The half-life grows by the same amount at each step of the warmup, from ln ½ / ln β₁ to ln ½ / ln β₃.
TEST_P(Steps, AdEMAMixGrowsTheHalfLifeEvenly) {
  GradMode off(false);
  const AdEMAMixStep step{.beta1 = 0.9, .beta3 = 0.9999, .warmup = 100};
  const auto half_life = [&](std::int64_t t) {
    Tensor x = zeros({1}, {f32, device()}), g = ones_like(x), fast = ones_like(x), slow = zeros_like(x),
           v = ones_like(x);
    AdEMAMixStep now = step;
    now.step = t;
    ademamix_step_(TensorList{x, g, fast, slow, v}, now);
    return std::log(0.5) / std::log1p(-slow.to(f64).item<double>());
  };
  const double begin = std::log(0.5) / std::log(0.9), end = std::log(0.5) / std::log(0.9999);
  for (std::int64_t t : {1, 2, 10, 50, 99, 100, 101, 100000}) {
    const double done = std::min(1.0, static_cast<double>(t) / 100), wanted = begin + done * (end - begin);
    EXPECT_NEAR(half_life(t) / wanted, 1, 1e-5) << "step " << t;
  }
}

TEST_P(Steps, AdagradFollowsItsRecurrence) {
  for (DType t : dtypes()) {
    follow<optim::Adagrad>(optim::AdagradOptions{.weight_decay = 0.1}, adagrad_rule(0, 1e-10), t);
    follow<optim::Adagrad>(optim::AdagradOptions{.lr_decay = 0.5, .eps = 0.1}, adagrad_rule(0.5, 0.1), t);
  }
}

// With moments of 1 and gradients of 1 a step is lr · √(1 - β₂ᵗ) / (1 - β₁ᵗ). Near t = 1, f32 subtraction of powers
// loses four digits.
TEST_P(Steps, CorrectTheBiasOfMomentsAtAnyCount) {
  GradMode off(false);
  for (double beta2 : {0.95, 0.999, 0.99999}) {
    for (std::int64_t t : {1, 2, 3, 5, 9, 12, 20, 60, 100, 300, 700, 1000, 1100, 10000, 100000}) {
      Tensor x = zeros({5}, {f32, device()}), g = ones_like(x), m = ones_like(x), v = ones_like(x);
      adam_step_(TensorList{x, g, m, v}, AdamStep{.lr = 1, .beta2 = beta2, .eps = 0, .step = t});
      double first = 1 - std::pow(0.9, t), second = -std::expm1(static_cast<double>(t) * std::log(beta2));
      expect_near(x, Values(5, -std::sqrt(second) / first), 0, 1.5e-6);
    }
  }
}

TEST_P(Steps, TakeTheFirstThatIsMadeForMomentumsFirst) {
  GradMode off(false);
  for (double skipped : {0.0, 2.0}) {
    Tensor x = zeros({5}, {f32, device()}), g = ones_like(x), buffer = full({5}, NAN, {f32, device()});
    Tensor control = from_vector(std::vector<float>{1, 1, static_cast<float>(skipped), 0}).to(device());
    const auto step = static_cast<std::int64_t>(skipped) + 1;
    momentum_step_(TensorList{x, g, buffer}, MomentumStep{.lr = 0.5, .dampening = 0.5, .step = step}, control);
    expect_near(x, Values(5, -0.5), 0);
    momentum_step_(TensorList{x, g, buffer}, MomentumStep{.lr = 0.5, .dampening = 0.5, .step = step + 1}, control);
    expect_near(x, Values(5, -0.5 - 0.5 * 1.4), 1e-6);
  }
}

TEST_P(Steps, SayWhatIsWrong) {
  GradMode off(false);
  Tensor x = zeros({5}, {f32, device()}), number = ones({}, {f32, device()});
  const Tensor momentum = ones({3}, {f32, device()});
  StepNumbers numbers{number, number, number, momentum}, lacking{number, {}, number, momentum},
      wide{ones({2}, {f32, device()}), number, number, momentum}, slow{number, number, number, number};
  EXPECT_THROW(adam_step_(TensorList{x, x, x}, numbers, AdamStep{}), Error);
  EXPECT_THROW(sgd_step_(TensorList{x, x}, lacking, SGDStep{}), ShapeError);
  EXPECT_THROW(sgd_step_(TensorList{x, x}, wide, SGDStep{}), ShapeError);
  EXPECT_THROW(sgd_step_(TensorList{x, x}, slow, SGDStep{}), ShapeError);
  EXPECT_THROW(sgd_step_(TensorList{x, x}, numbers, SGDStep{}, zeros({3}, {f32, device()})), ShapeError);
  EXPECT_THROW(sgd_step_(TensorList{x, zeros({4}, {f32, device()})}, numbers, SGDStep{}), ShapeError);
}

TEST_P(Steps, AreOneDispatchAGroup) {
  if (device().is_cpu()) GTEST_SKIP() << "counts dispatches";
  std::vector<optim::ParamGroup> groups(2);
  for (int i = 0; i < 40; ++i) {
    Tensor x = zeros({i % 7, 11}, {f32, device()}).requires_grad_();
    x.set_grad(ones_like(x));
    groups[static_cast<std::size_t>(i % 2)].parameters.push_back(x);
  }
  optim::AdamW optimizer(groups, {});
  optimizer.step();  // allocates the state
  auto before = gpu::queue_stats(device()).dispatches;
  optimizer.step();
  EXPECT_EQ(gpu::queue_stats(device()).dispatches - before, 2u);
}

// A group with other numbers costs the dispatch that any group costs; clipping plain SGD waits for nothing.
TEST_P(Steps, WithSettingsOfTheirOwnAreOneDispatchAGroupToo) {
  if (device().is_cpu()) GTEST_SKIP() << "counts dispatches";
  std::vector<optim::ParamGroup> groups = {{.beta1 = 0.5}, {.beta2 = 0.9, .eps = 0.1}};
  for (int i = 0; i < 4; ++i) {
    Tensor x = zeros({3, 11}, {f32, device()}).requires_grad_();
    x.set_grad(ones_like(x));
    groups[static_cast<std::size_t>(i % 2)].parameters.push_back(x);
  }
  optim::AdamW optimizer(groups, {});
  optimizer.step();
  auto before = gpu::queue_stats(device()).dispatches;
  optimizer.step();
  EXPECT_EQ(gpu::queue_stats(device()).dispatches - before, 2u);

  optim::SGD plain(groups[0].parameters, {.max_grad_norm = 1});
  plain.step();
  const Transfers read = transfers();
  plain.step();
  EXPECT_EQ(transfers().d2h_calls, read.d2h_calls);
}

TEST_P(Steps, CountAsWritesInPlace) {
  Tensor x = ones({3}, {f32, device()}).requires_grad_();
  x.set_grad(ones_like(x));
  optim::AdamW optimizer({x});
  auto version = x.storage()->version;
  optimizer.step();
  EXPECT_GT(x.storage()->version, version);
}

TEST_P(Steps, TakeMoreParametersThanOneUpdateCarries) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 1500; ++i) {
    parameters.push_back(ones({1 + i % 3}, {f32, device()}).requires_grad_());
    parameters.back().set_grad(full({1 + i % 3}, i, {f32, device()}));
  }
  optim::SGD optimizer(parameters, {.lr = 1});
  optimizer.step();
  for (int i : {0, 700, 1364, 1365, 1499}) {
    EXPECT_EQ(parameters[static_cast<std::size_t>(i)].select(0, 0).item<float>(), 1.0f - static_cast<float>(i));
  }
}

ETNA_ON_EVERY_DEVICE(Steps);

}  // namespace
}  // namespace etna
