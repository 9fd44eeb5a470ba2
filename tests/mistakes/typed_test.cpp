#include <sstream>

#include <gmock/gmock.h>

#include <etna/etna.h>

// What people type who know PyTorch.
namespace etna {
namespace {

nn::Sequential typed_net() {
  nn::Sequential net(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1));
  return net;
}

TEST(Typed, AWholeProgram) {
  manual_seed(1);
  nn::Sequential net = typed_net();
  optim::AdamW optimizer(net.parameters(), {.lr = 0.05, .betas = {0.9, 0.95}});
  optim::StepLR scheduler(optimizer, 10);
  EXPECT_EQ(optimizer.groups()[0].beta2, 0.95);
  const Tensor x = randn({16, 2}), y = x.sum({1}, true);
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    mse_loss(net(x), y).backward();
    optimizer.step();
    scheduler.step();
  }
  EXPECT_NEAR(optimizer.lr(), 0.05 * 0.01, 1e-12);

  const std::string path = testing::TempDir() + "typed.ckpt";
  save(path, net, optimizer);
  nn::Sequential other = typed_net();
  optim::AdamW another(other.parameters(), {.lr = 0.1});
  load(path, other, another);
  EXPECT_EQ(other(x).to_vector<float>(), net(x).to_vector<float>());
  EXPECT_EQ(another.lr(), optimizer.lr());

  std::ostringstream out;
  out << x.device() << " " << x.dtype();
  EXPECT_EQ(out.str(), "cpu f32");
}

TEST(Typed, SchedulersByTheirNames) {
  const auto rates = [](const auto& make) {
    optim::SGD optimizer({ones({1}).requires_grad_()}, {.lr = 1});
    auto scheduler = make(optimizer);
    std::vector<double> seen;
    for (int i = 0; i < 4; ++i) seen.push_back(optimizer.lr()), scheduler.step();
    return seen;
  };
  using optim::Optimizer;
  using testing::DoubleEq;
  using testing::ElementsAre;
  EXPECT_THAT(rates([](Optimizer& o) { return optim::StepLR(o, 2, 0.5); }), ElementsAre(1, 1, 0.5, 0.5));
  EXPECT_THAT(rates([](Optimizer& o) { return optim::MultiStepLR(o, {1, 3}, 0.5); }), ElementsAre(1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates([](Optimizer& o) { return optim::ExponentialLR(o, 0.5); }), ElementsAre(1, 0.5, 0.25, 0.125));
  EXPECT_THAT(rates([](Optimizer& o) { return optim::ConstantLR(o, 0.5, 2); }), ElementsAre(0.5, 0.5, 1, 1));
  EXPECT_THAT(rates([](Optimizer& o) { return optim::LinearLR(o, 0.5, 1, 2); }), ElementsAre(0.5, 0.75, 1, 1));
  EXPECT_THAT(rates([](Optimizer& o) { return optim::PolynomialLR(o, 4); }), ElementsAre(1, 0.75, 0.5, 0.25));
  EXPECT_THAT(rates([](Optimizer& o) {
                return optim::LambdaLR(o, [](std::int64_t i) { return 1.0 / static_cast<double>(i + 1); });
              }),
              ElementsAre(1, 0.5, DoubleEq(1.0 / 3), 0.25));
}

// Without a warning, which the build makes an error.
TEST(Typed, OptionsOfWhichSomeAreLeftOut) {
  EXPECT_TRUE(data::BpeOptions{.vocab_size = 300}.special_tokens.empty());
  const optim::SGDOptions sgd{.lr = 0.1, .momentum = 0.9};
  EXPECT_EQ(sgd.weight_decay, 0);
}

TEST(Typed, AnOptimizerThatTrainsNothingSaysSo) {
  const auto said = [](const std::function<void()>& what) {
    testing::internal::CaptureStderr();
    what(), what();
    return testing::internal::GetCapturedStderr();
  };
  nn::Linear net(2, 2);
  optim::SGD optimizer(net.parameters(), {.lr = 1});
  EXPECT_THAT(said([&] { optimizer.step(); }),
              testing::HasSubstr("SGD: step() changes nothing, because no parameter "));
  EXPECT_EQ(said([&] { optimizer.step(); }), "");
  optim::Adam late(net.parameters());
  net.requires_grad_(false);
  EXPECT_THAT(said([&] { late.step(); }), testing::HasSubstr("none of its 2 parameters requires grad any more"));
}

}  // namespace
}  // namespace etna
