#include <gmock/gmock.h>

#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Line {
  nn::Linear layer{5, 3};
  Tensor x = randn({7, 5});
  void backward(double scale) {
    layer.zero_grad();
    sum(square(layer(x)) * scale).backward();
  }
};

class Optimizers : public OnDevice {};

TEST_P(Optimizers, FollowAModelThatMoves) {
  manual_seed(3);
  Line here, moved;
  moved.layer.load_state_dict(here.layer.state_dict());
  moved.x = here.x;
  optim::AdamW a(here.layer.parameters(), {.lr = 0.1}), b(moved.layer.parameters(), {.lr = 0.1});
  for (int i = 1; i <= 4; ++i) {
    here.backward(i);
    a.step();
    moved.backward(i);
    if (i == 3) {  // after backward: gradients move too
      moved.layer.to(device());
      moved.x = moved.x.to(device());
    }
    b.step();
  }
  EXPECT_EQ(moved.layer.weight.device(), device());
  expect_near(moved.layer.weight, here.layer.weight, 1e-5);
  expect_near(moved.layer.bias, here.layer.bias, 1e-5);
}

TEST_P(Optimizers, GoOnFromTheirStateDict) {
  manual_seed(4);
  Line one, two;
  one.layer.to(device()), one.x = one.x.to(device());
  optim::AdamW a(one.layer.parameters(), {.lr = 0.1, .weight_decay = 0.2});
  for (int i = 1; i <= 3; ++i) one.backward(i), a.step();
  a.set_lr(0.05);

  two.layer.load_state_dict(one.layer.state_dict());
  two.layer.to(device()), two.x = one.x;
  optim::AdamW b(two.layer.parameters());
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(b.lr(), 0.05);
  EXPECT_EQ(b.groups()[0].weight_decay, 0.2);
  for (int i = 4; i <= 5; ++i) {
    one.backward(i), a.step();
    two.backward(i), b.step();
  }
  EXPECT_EQ(one.layer.weight.to_vector<float>(), two.layer.weight.to_vector<float>());
}

TEST_P(Optimizers, LeaveFrozenParametersOut) {
  Line line;
  line.layer.to(device()), line.x = line.x.to(device());
  line.layer.weight.requires_grad_(false);
  const std::vector<float> weight = line.layer.weight.to_vector<float>(), bias = line.layer.bias.to_vector<float>();
  optim::SGD optimizer(line.layer.parameters(), {.lr = 0.1});
  ASSERT_EQ(optimizer.groups()[0].parameters.size(), 1u);
  line.backward(1), optimizer.step();
  EXPECT_EQ(line.layer.weight.to_vector<float>(), weight);
  EXPECT_NE(line.layer.bias.to_vector<float>(), bias);
  line.layer.bias.requires_grad_(false);
  EXPECT_THAT([&] { optim::SGD none(line.layer.parameters()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("none of them requires grad")));
}

TEST_P(Optimizers, TakeAGroupLater) {
  Line line;
  line.layer.to(device()), line.x = line.x.to(device());
  optim::AdamW optimizer({line.layer.weight}, {.lr = 0.1, .weight_decay = 0.3});
  line.backward(1), optimizer.step();
  optimizer.add_param_group({.parameters = {line.layer.bias}, .lr = 0.01});
  ASSERT_EQ(optimizer.groups().size(), 2u);
  EXPECT_EQ(optimizer.groups()[1].weight_decay, 0.3) << "the optimizer's own";
  const std::vector<float> bias = line.layer.bias.to_vector<float>();
  line.backward(2), optimizer.step();
  EXPECT_NE(line.layer.bias.to_vector<float>(), bias);
  EXPECT_EQ(optimizer.state_dict().at("1.step").item<int>(), 1);
  EXPECT_EQ(optimizer.state_dict().at("0.step").item<int>(), 2);
  optimizer.set_lr(1, 0.5);
  EXPECT_EQ(optimizer.groups()[1].lr, 0.5);
  EXPECT_THROW(optimizer.add_param_group({.parameters = {line.layer.bias}}), Error);
  EXPECT_THROW(optimizer.set_lr(2, 0.5), Error);
  EXPECT_THROW(optimizer.set_weight_decay(0, -1), Error);
  EXPECT_EQ(optimizer.groups().size(), 2u);
}

/// Trains a layer to follow another for 200 steps. @return the last loss by the first
template <typename Optimizer, typename Options>
double loss_that_is_left(Device device, Options options) {
  manual_seed(5);
  Line line;
  line.layer.to(device), line.x = line.x.to(device);
  Tensor wanted = (matmul(line.x, randn({5, 3}).to(device)) + 0.5).detach();
  Optimizer optimizer(line.layer.parameters(), options);
  double first = 0, last = 0;
  for (int i = 0; i < 200; ++i) {
    line.layer.zero_grad();
    Tensor loss = mean(square(line.layer(line.x) - wanted));
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  return last / first;
}

TEST_P(Optimizers, FitALine) {
  EXPECT_LT((loss_that_is_left<optim::Adagrad>(device(), optim::AdagradOptions{.lr = 0.5})), 0.01);
  EXPECT_LT((loss_that_is_left<optim::AdEMAMix>(
                device(), optim::AdEMAMixOptions{.lr = 0.02, .beta3 = 0.99, .weight_decay = 0, .warmup = 200})),
            0.01);
}

ETNA_ON_EVERY_DEVICE(Optimizers);

TEST(Optimizer, RefusesAStateDictThatDoesNotFitAndKeepsItsOwn) {
  Line line;
  optim::AdamW optimizer(line.layer.parameters());
  line.backward(1);
  optimizer.step();
  auto state = optimizer.state_dict();
  auto damaged = state;
  damaged.erase("1.exp_avg");
  damaged["0.exp_avg_sq"] = zeros({2});
  damaged["group.0.lr"] = scalar(0.5, {f64});
  EXPECT_THAT(
      [&] { optimizer.load_state_dict(damaged); },
      ThrowsMessage<Error>(AllOf(HasSubstr("1.exp_avg (missing)"), HasSubstr("0.exp_avg_sq [2] (wanted [3, 5])"))));
  EXPECT_EQ(optimizer.lr(), 1e-3);
  state["7.step"] = scalar(1, {f64});
  EXPECT_THAT([&] { optimizer.load_state_dict(state); }, ThrowsMessage<Error>(HasSubstr("does not know")));
}

TEST(Optimizer, GroupsHaveSettingsOfTheirOwn) {
  Tensor a = ones({2}).requires_grad_(), b = ones({2}).requires_grad_(), c = ones({2}).requires_grad_();
  optim::AdamW optimizer({{.parameters = {a}, .beta1 = 0.5}, {.parameters = {b}}}, {.betas = {0.9, 0.9}});
  optimizer.add_param_group({.parameters = {c}, .beta2 = 0.8, .eps = 1e-3});
  EXPECT_EQ(optimizer.groups()[0].beta1, 0.5);
  EXPECT_EQ(optimizer.groups()[1].beta1, 0.9);
  EXPECT_EQ(optimizer.groups()[1].beta2, 0.9);
  EXPECT_EQ(optimizer.groups()[2].beta2, 0.8);
  optimizer.set_momentum(1, 0.7);
  EXPECT_EQ(optimizer.groups()[1].beta1, 0.7);
  EXPECT_EQ(optimizer.momentum(1), 0.7);

  auto state = optimizer.state_dict();
  EXPECT_EQ(state.at("group.2.eps").item<double>(), 1e-3);
  optim::AdamW other({{.parameters = {a}}, {.parameters = {b}}, {.parameters = {c}}}, {});
  other.load_state_dict(state);
  EXPECT_EQ(other.groups()[0].beta1, 0.5);
  for (const char* name : {"beta1", "beta2", "eps"}) state.erase(std::string("group.0.") + name);
  optim::AdamW third({{.parameters = {a}}, {.parameters = {b}}, {.parameters = {c}}}, {.betas = {0.6, 0.999}});
  third.load_state_dict(state);
  EXPECT_EQ(third.groups()[0].beta1, 0.6) << "a setting that is missing stays";

  Tensor d = ones({2}).requires_grad_();
  EXPECT_THAT([&] { optimizer.add_param_group({.parameters = {d}, .momentum = 0.5}); },
              ThrowsMessage<Error>(HasSubstr("this optimizer has no momentum")));
  EXPECT_THAT([&] { optimizer.add_param_group({.parameters = {d}, .beta2 = 1}); },
              ThrowsMessage<Error>(HasSubstr("beta2 is 1, not in [0, 1)")));
  EXPECT_THROW(optimizer.set_momentum(0, 1), Error);
  EXPECT_THROW(optimizer.set_momentum(3, 0.5), Error);
  optim::Adagrad none({d});
  EXPECT_THROW(none.set_momentum(0, 0.5), Error);
}

TEST(Optimizer, AGroupMayBeginWithMomentumLater) {
  Tensor x = ones({1}).requires_grad_();
  optim::SGD optimizer({x}, {.lr = 1});
  const auto step = [&] {
    x.set_grad(ones({1}));
    optimizer.step();
  };
  step();
  optimizer.set_momentum(0, 0.5);
  step(), step();
  EXPECT_FLOAT_EQ(x.item<float>(), 1 - 1 - 1 - 1.5f);
  EXPECT_TRUE(optimizer.state_dict().contains("0.momentum_buffer"));
  optimizer.set_momentum(0, 0);
  step();
  EXPECT_FLOAT_EQ(x.item<float>(), 1 - 1 - 1 - 1.5f - 1);
}

TEST(Optimizer, SaysWhatIsWrongWithItsParameters) {
  Tensor x = ones({2}).requires_grad_();
  EXPECT_THAT([&] { optim::SGD(std::vector<Tensor>{}); }, ThrowsMessage<Error>(HasSubstr("no parameters")));
  EXPECT_THAT([&] { optim::SGD({ones({2})}); }, ThrowsMessage<Error>(HasSubstr("requires_grad_()")));
  EXPECT_THAT([&] { optim::SGD({x, x}); }, ThrowsMessage<Error>(HasSubstr("given before")));
  EXPECT_THAT([&] { optim::SGD({x}, {.lr = -2}); }, ThrowsMessage<Error>(HasSubstr("negative")));
  EXPECT_THAT([&] { optim::SGD({ones({1}).expand({2}).detach().requires_grad_()}); },
              ThrowsMessage<Error>(HasSubstr("repeats its elements")));
  EXPECT_THAT([&] { optim::SGD({x}, {.nesterov = true}); }, ThrowsMessage<Error>(HasSubstr("nesterov wants momentum")));
  EXPECT_THAT([&] { optim::AdamW({x}, {.betas = {1, 0.999}}); }, ThrowsMessage<Error>(HasSubstr("not in [0, 1)")));
  EXPECT_THAT([&] { optim::Adagrad({x}, {.lr_decay = -1}); }, ThrowsMessage<Error>(HasSubstr("an lr_decay of -1")));
}

TEST(Optimizer, RefusesSettingsThatAreNoNumbers) {
  Tensor x = ones({2}).requires_grad_();
  optim::SGD optimizer({x}, {.lr = 0.1, .momentum = 0.5});
  for (const double wrong : {std::nan(""), HUGE_VAL, -1.0}) {
    EXPECT_THROW(optim::SGD({x}, {.lr = wrong}), Error);
    EXPECT_THROW(optimizer.set_lr(wrong), Error);
    EXPECT_THROW(optimizer.set_lr(0, wrong), Error);
    EXPECT_THROW(optimizer.set_weight_decay(0, wrong), Error);
    EXPECT_THROW(optimizer.set_momentum(0, wrong), Error);
    EXPECT_THROW(optim::LBFGS({x}, {.lr = wrong}), Error);
    auto state = optimizer.state_dict();
    state["group.0.lr"] = scalar(wrong, {f64});
    EXPECT_THROW(optimizer.load_state_dict(state), Error);
    EXPECT_EQ(optimizer.lr(), 0.1);
  }
}

TEST(Optimizer, DropsGradientsOnZeroGrad) {
  Tensor x = ones({2}).requires_grad_();
  optim::SGD optimizer({x});
  sum(x).backward();
  EXPECT_TRUE(x.grad().defined());
  optimizer.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  optimizer.step();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>({1, 1}));
}

}  // namespace
}  // namespace etna
