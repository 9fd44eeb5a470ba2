#include <functional>
#include <memory>

#include "training.h"

namespace etna {
namespace {

class CapturedModes : public OnDevice {};
ETNA_ON_BOTH_DEVICES(CapturedModes);

struct ModesCase {
  const char* name;
  Shape input;
  std::function<std::unique_ptr<nn::UnaryModule>()> make;
};

/// A module of several inputs or outputs, as one of a single tensor.
template <typename M>
struct OfOne : nn::UnaryModule {
  template <typename... Args>
  explicit OfOne(Tensor (*called)(const M&, const Tensor&), Args&&... args)
      : inner(std::forward<Args>(args)...), call(called) {
    register_module("inner", inner);
  }
  Tensor forward(const Tensor& x) const override { return call(inner, x); }
  M inner;
  Tensor (*call)(const M&, const Tensor&);
};

/// Each kind of module whose result depends on its mode, or whose parameters may be frozen.
std::vector<ModesCase> modes_cases() {
  using namespace nn;
  const auto chain = [](std::unique_ptr<UnaryModule> module) {
    auto made = std::make_unique<Sequential>();
    made->add<Linear>(4, 4).add(std::move(module)).add<Linear>(4, 4);
    return made;
  };
  return {
      {"Linear", {3, 4}, [] { return std::make_unique<Linear>(4, 4); }},
      {"Dropout", {3, 4}, [=] { return chain(std::make_unique<Dropout>(0.5)); }},
      {"AlphaDropout", {3, 4}, [=] { return chain(std::make_unique<AlphaDropout>(0.5)); }},
      {"RReLU", {3, 4}, [=] { return chain(std::make_unique<RReLU>()); }},
      {"BatchNorm1d", {3, 4}, [=] { return chain(std::make_unique<BatchNorm1d>(4)); }},
      {"BatchNorm2d", {2, 3, 4, 4}, [] { return std::make_unique<BatchNorm2d>(3); }},
      {"InstanceNorm2d",
       {2, 3, 4, 4},
       [] {
         return std::make_unique<InstanceNorm2d>(3, InstanceNormOptions{.affine = true, .track_running_stats = true});
       }},
      {"LayerNorm", {3, 4}, [=] { return chain(std::make_unique<LayerNorm>(4)); }},
      {"LSTM",
       {3, 2, 4},
       [] {
         return std::make_unique<OfOne<LSTM>>([](const LSTM& m, const Tensor& x) { return m(x).output; }, 4, 3,
                                              RecurrentOptions{.num_layers = 2, .dropout = 0.5});
       }},
      {"MultiheadAttention",
       {3, 2, 4},
       [] {
         return std::make_unique<OfOne<MultiheadAttention>>(
             [](const MultiheadAttention& m, const Tensor& x) { return m(x, x, x).output; }, 4, 2,
             MultiheadAttentionOptions{.dropout = 0.5});
       }},
      {"TransformerEncoderLayer",
       {3, 2, 4},
       [] {
         return std::make_unique<OfOne<TransformerEncoderLayer>>(
             [](const TransformerEncoderLayer& m, const Tensor& x) { return m(x); }, 4, 2,
             TransformerOptions{.dim_feedforward = 5, .dropout = 0.5});
       }},
  };
}

/// What a step under each mode and freezing gave: the result, and gradients of those that have them.
std::vector<std::vector<float>> modes_course(const ModesCase& c, Device device, bool captured) {
  manual_seed(1);
  const std::unique_ptr<nn::UnaryModule> module = c.make();
  module->to(device);
  const Tensor x = randn(c.input).to(device);
  const std::vector<Tensor> parameters = module->parameters();
  const auto once = [&](const Tensor& in) {
    const Tensor y = (*module)(in);
    if (y.requires_grad()) square(y).sum().backward();
    return y;
  };
  auto step = capture(once, {.device = device});
  const auto run = [&] { return captured ? step(x) : once(x); };
  std::vector<std::vector<float>> seen;
  run(), run(), run();
  const auto look = [&] {
    for (int repeat = 0; repeat < 2; ++repeat) {
      module->zero_grad();
      manual_seed(7);
      seen.push_back(values_of({run()}));
      for (const Tensor& p : parameters)
        seen.push_back(p.grad().defined() ? values_of({p.grad()}) : std::vector<float>{});
    }
  };
  look();
  module->eval(), look();
  module->train(), look();
  module->requires_grad_(false), look();
  module->eval(), look();
  module->requires_grad_(true), look();
  if (!parameters.empty()) Tensor(parameters[0]).requires_grad_(false), look();
  module->train(), look();
  return seen;
}

TEST_P(CapturedModes, EveryModuleFollowsTrainEvalAndFreezing) {
  testing::internal::CaptureStderr();
  for (const ModesCase& c : modes_cases())
    EXPECT_EQ(modes_course(c, device(), true), modes_course(c, device(), false)) << c.name;
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, testing::HasSubstr("Dropout is in eval mode now; it is captured again for that"));
  EXPECT_THAT(said, testing::HasSubstr("a tensor [4, 4] does not require grad now"));
}

TEST_P(CapturedModes, ChangingBackAndForthCapturesEachOnce) {
  nn::Dropout drop(0.5);
  auto step = capture([&](const Tensor& x) { return drop(x); }, {.device = device()});
  const Tensor x = ones({64});
  testing::internal::CaptureStderr();
  step(x);
  for (int i = 0; i < 6; ++i) {
    drop.train(i % 2 == 0);
    EXPECT_EQ(step(x).max().item() == 1, i % 2 == 1) << i;
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(step.captures(), 2);
  EXPECT_EQ(step.replays(), 4);
}

TEST_P(CapturedModes, TheStepItselfMaySetModesAndFreeze) {
  manual_seed(1);
  nn::Linear net(2, 2);
  nn::Dropout drop(0.5);
  net.to(device());
  auto step = capture(
      [&](const Tensor& x) {
        net.requires_grad_(false);
        drop.eval();
        Tensor y = drop(net(x));
        net.requires_grad_(true);
        drop.train();
        (drop(net(x)) + y).sum().backward();
        return y;
      },
      {.device = device()});
  const Tensor x = ones({1, 2});
  for (int i = 0; i < 4; ++i) {
    step(x);
    net.zero_grad();
    net.requires_grad_(i % 2 == 0), drop.train(i % 2 == 0);
  }
  step(x);
  EXPECT_EQ(step.captures(), 1);
  EXPECT_TRUE(drop.training());
  EXPECT_TRUE(net.weight.requires_grad());
}

TEST_P(CapturedModes, AModuleThatIsReplacedIsSeen) {
  auto drop = std::make_unique<nn::Dropout>(0.0);
  auto step = capture([&](const Tensor& x) { return (*drop)(x); }, {.device = device()});
  const Tensor x = ones({64});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x).sum().item(), 64);
  drop = std::make_unique<nn::Dropout>(1.0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(step(x).sum().item(), 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("a module or an optimizer it works with is"));
}

/// Two parameters and an optimizer, trained by a step that is captured or not.
struct TwoLayers {
  explicit TwoLayers(Device on) : device(on) {
    manual_seed(1);
    a = randn({3}).to(on).requires_grad_(), b = randn({3}).to(on).requires_grad_();
  }
  template <typename Optimizer, typename Change>
  std::vector<float> train(bool captured, Optimizer& optimizer, const Change& change) {
    const auto once = [&](const Tensor& x) {
      Tensor loss = square(a * x + b).sum();
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss;
    };
    auto step = capture(once, {.device = device});
    for (int i = 0; i < 12; ++i) {
      change(i);
      const Tensor x = full({3}, 0.1 * i, {device});
      captured ? step(x) : once(x);
    }
    return values_of({a, b});
  }
  Device device;
  Tensor a, b;
};

TEST_P(CapturedModes, OptimizersFollowWhatChangesBetweenReplays) {
  const auto adam = [&](bool captured) {
    TwoLayers t(device());
    optim::AdamW optimizer({t.a}, {.lr = 0.1});
    return t.train(captured, optimizer, [&](int i) {
      if (i == 3) optimizer.add_param_group({.parameters = {t.b}, .lr = 0.02});
      if (i == 5) t.a.requires_grad_(false);
      if (i == 7) t.a.requires_grad_(true);
      if (i == 8) optimizer.set_lr(0.01), optimizer.set_weight_decay(0, 0.3), optimizer.set_momentum(1, 0.5);
      if (i == 9) t.b.detach().fill_(0.5);
    });
  };
  const auto sgd = [&](bool captured) {
    TwoLayers t(device());
    optim::SGD optimizer({t.a, t.b}, {.lr = 0.1});
    return t.train(captured, optimizer, [&](int i) {
      if (i == 4) optimizer.set_momentum(0, 0.9);
      if (i == 8) optimizer.set_momentum(0, 0);
    });
  };
  testing::internal::CaptureStderr();
  EXPECT_TRUE(same_bits(adam(true), adam(false)));
  EXPECT_TRUE(same_bits(sgd(true), sgd(false)));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("AdamW has other parameters or settings now"),
                             testing::HasSubstr("SGD has other parameters or settings now")));
}

TEST_P(CapturedModes, EvenWhereAnotherCaptureMadeStepsOfItsOwn) {
  // One optimizer, all parameters made equally many steps when the first step was captured, and not afterwards.
  const auto course = [&](bool captured) {
    TwoLayers t(device());
    optim::Adam optimizer({t.a, t.b}, {.lr = 0.1});
    return t.train(captured, optimizer, [&](int i) {
      if (i % 3 == 0) t.a.requires_grad_(i % 2 == 0);
    });
  };
  testing::internal::CaptureStderr();
  EXPECT_TRUE(same_bits(course(true), course(false)));
  testing::internal::GetCapturedStderr();
}

TEST_P(CapturedModes, AutocastIsFollowed) {
  nn::Linear net(8, 8);
  net.to(device());
  auto step = capture([&](const Tensor& x) { return net(x); }, {.device = device()});
  const Tensor x = ones({2, 8});
  testing::internal::CaptureStderr();
  for (const DType t : {f32, bf16, f32, bf16}) {
    const auto mixed = autocast(t);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x).dtype(), t);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(step.captures(), 2);
}

}  // namespace
}  // namespace etna
