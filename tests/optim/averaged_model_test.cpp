#include <gmock/gmock.h>

#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna {
namespace {

class AveragedModels : public OnDevice {};

TEST_P(AveragedModels, SwapPutsTheAverageInAndTheModelBack) {
  GradMode off(false);
  nn::Linear model(3, 2);
  model.to(device());
  optim::AveragedModel average(model);
  model.weight.fill_(1), average.update();
  model.weight.fill_(3), average.update();
  average.swap();
  expect_near(model.weight, std::vector<double>(6, 2), 0);
  EXPECT_THROW(average.update(), Error);
  average.swap();
  expect_near(model.weight, std::vector<double>(6, 3), 0);
  average.apply();
  expect_near(model.weight, std::vector<double>(6, 2), 0);
  EXPECT_EQ(average.updates(), 2);
}

TEST_P(AveragedModels, GoOnFromTheirStateDict) {
  GradMode off(false);
  nn::Linear model(3, 2);
  model.to(device());
  optim::AveragedModel a(model, {.decay = 0.9}), b(model, {.decay = 0.9});
  model.weight.fill_(1), a.update();
  model.weight.fill_(2), a.update();
  b.load_state_dict(a.state_dict());
  model.weight.fill_(5), a.update(), b.update();
  EXPECT_EQ(a.averaged().at("weight").to_vector<float>(), b.averaged().at("weight").to_vector<float>());
  expect_near(b.averaged().at("weight"), std::vector<double>(6, 1.1 * 0.9 + 0.5), 1e-6);
  auto state = a.state_dict();
  state["weight"] = zeros({2});
  state.erase("bias");
  EXPECT_THAT([&] { b.load_state_dict(state); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("bias (missing)"), testing::HasSubstr("weight [2]"))));
  EXPECT_THROW(optim::AveragedModel(model, {.decay = 1}), Error);
}

// An exponential average of bf16 weights in bf16 would stand still: its steps are below half a unit in the last place.
TEST_P(AveragedModels, OfHalfWeightsAreF32) {
  GradMode off(false);
  nn::Linear model(3, 2);
  model.to(device()), model.to(bf16);
  optim::AveragedModel average(model, {.decay = 0.999});
  model.weight.fill_(1), average.update();
  model.weight.fill_(1.5);
  for (int i = 0; i < 10; ++i) average.update();
  expect_near(average.averaged().at("weight"), std::vector<double>(6, 1.5 - 0.5 * std::pow(0.999, 10)), 1e-5);
}

ETNA_ON_EVERY_DEVICE(AveragedModels);

TEST(Scheduler, TakesGroupsThatAreAddedLater) {
  Tensor a = ones({1}).requires_grad_(), b = ones({1}).requires_grad_();
  optim::SGD optimizer({a}, {.lr = 2});
  optim::Scheduler scheduler(optimizer, optim::step_decay(2, 0.1));
  scheduler.step();
  optimizer.add_param_group({.parameters = {b}, .lr = 0.5});
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.groups()[0].lr, 0.2);
  EXPECT_DOUBLE_EQ(optimizer.groups()[1].lr, 0.05);
}

TEST(Scheduler, GoesOnFromItsStateDict) {
  Tensor a = ones({1}).requires_grad_(), b = ones({1}).requires_grad_();
  optim::SGD one({a}, {.lr = 2}), two({b}, {.lr = 7});
  optim::Scheduler first(one, optim::exponential(0.5)), second(two, optim::exponential(0.5));
  first.step(), first.step();
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.last_lr(), std::vector<double>{0.5});
  second.step();
  EXPECT_EQ(two.lr(), 0.25);
  auto state = first.state_dict();
  state.erase("step");
  EXPECT_THROW(second.load_state_dict(state), Error);
}

TEST(Schedule, SaysWhatIsWrong) {
  using namespace optim;
  EXPECT_THROW(one_cycle(1), Error);
  EXPECT_THROW(cyclic(2, {.step_size_up = 0}), Error);
  EXPECT_THROW(cosine_warm_restarts(0), Error);
  EXPECT_THROW(polynomial(0), Error);
  EXPECT_THROW(sequential({constant()}, {3}), Error);
  EXPECT_THROW(sequential({constant(), constant(), constant()}, {3, 2}), Error);
  Tensor a = ones({1}).requires_grad_();
  SGD optimizer({a});
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.factor = 1}), Error);
  ReduceLROnPlateau plateau(optimizer);
  auto step = capture([&] { plateau.step(1); });
  step();
  EXPECT_THROW(step(), Error);
}

}  // namespace
}  // namespace etna
