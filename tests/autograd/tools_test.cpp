#include <any>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/functional.h>
#include <etna/device/device.h>
#include <etna/tensor/ops.h>

#include <autograd/leaves.h>

// Handles of hooks, retained gradients, saved tensors elsewhere, guards, derivatives of functions.
namespace {

using namespace etna;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(HookHandle, RemovesItsHookAndNoOther) {
  Tensor x = leaf({1, 2});
  int first = 0, second = 0;
  HookHandle handle = x.register_hook([&](const Tensor&) { return ++first, Tensor(); });
  x.register_hook([&](const Tensor&) { return ++second, Tensor(); });
  sum(x).backward();
  handle.remove();
  handle.remove();
  sum(x).backward();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(HookHandle, OutlivesItsTensorAndAHookMayRemoveItself) {
  HookHandle orphan, self;
  {
    Tensor x = leaf({1, 2}), y = x * 2.0;
    orphan = y.register_hook([](const Tensor&) { return Tensor(); });
  }
  orphan.remove();
  Tensor x = leaf({1});
  int calls = 0;
  self = x.register_hook([&](const Tensor&) { return self.remove(), ++calls, Tensor(); });
  for (int i = 0; i < 2; ++i) sum(x).backward();
  EXPECT_EQ(calls, 1);
}

TEST(RetainGrad, StoresTheGradientOfAResult) {
  Tensor x = leaf({1, 2}), y = x * 3.0, z = y * y;
  EXPECT_FALSE(y.retains_grad());
  y.retain_grad();
  y.retain_grad();
  y.register_hook([](const Tensor& g) { return g * 10.0; });
  EXPECT_TRUE(y.retains_grad());
  sum(z).backward({}, true);
  EXPECT_THAT(values(y.grad()), ElementsAre(60, 120)) << "after its hooks";
  sum(z).backward();
  EXPECT_THAT(values(y.grad()), ElementsAre(120, 240)) << "gradients add up";
  EXPECT_FALSE(z.grad().defined());
  x.retain_grad();
  EXPECT_FALSE(x.retains_grad()) << "a leaf has its gradient anyway";
  EXPECT_THROW(ones({2}).retain_grad(), GradError);
}

TEST(RetainGrad, IsNoMatterOfGrad) {
  Tensor x = leaf({1, 2}), y = x * 3.0;
  y.retain_grad();
  autograd::grad(TensorList{sum(y * y)}, TensorList{x});
  EXPECT_FALSE(y.grad().defined());
}

TEST(Guards, EnableGradRecordsInsideNoGrad) {
  Tensor x = leaf({1});
  NoGrad off;
  EXPECT_FALSE(is_grad_enabled());
  EXPECT_FALSE((x * 2.0).requires_grad());
  {
    EnableGrad on;
    EXPECT_TRUE(is_grad_enabled());
    EXPECT_TRUE((x * 2.0).requires_grad());
  }
  EXPECT_FALSE(is_grad_enabled());
}

TEST(Grad, RefusesUnusedInputsOnRequest) {
  Tensor x = leaf({1}), unused = leaf({1, 2});
  const TensorList y = {x * 2.0};
  EXPECT_FALSE(autograd::grad(y, TensorList{x, unused}, {}, true)[1].defined());
  EXPECT_THAT(
      [&] {
        autograd::grad(y, TensorList{x, unused}, {}, true, false, false);
      },
      ThrowsMessage<GradError>(HasSubstr("grad: no output depends on input 1 [2]")));
}

TEST(SavedTensorHooks, ReplaceWhatOpsSave) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  TensorList store;
  Tensor y;
  {
    autograd::SavedTensorHooks hooks(
        [&](const Tensor& t) { return store.push_back(t.clone()), std::any(store.size() - 1); },
        [&](const std::any& at) { return store[std::any_cast<std::size_t>(at)]; });
    y = sum(exp(x * w));
  }
  EXPECT_EQ(store.size(), 3u) << "x and w for mul, the result for exp";
  const TensorList first = autograd::grad(TensorList{y}, TensorList{x, w}, {}, true, true);
  EXPECT_NEAR(first[0].to_vector<double>()[0], 3 * std::exp(3), 1e-9);
  const TensorList second = autograd::grad(TensorList{sum(first[0])}, TensorList{x, w});
  EXPECT_NEAR(second[0].to_vector<double>()[1], 16 * std::exp(8), 1e-9);
  EXPECT_NEAR(second[1].to_vector<double>()[0], (1 + 3) * std::exp(3), 1e-9);
}

TEST(SavedTensorHooks, MustGiveBackWhatWasPacked) {
  Tensor x = leaf({1, 2});
  autograd::SavedTensorHooks hooks([](const Tensor&) { return std::any(); }, [](const std::any&) { return ones({3}); });
  Tensor y = sum(exp(x));
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<GradError>(HasSubstr("unpack of a saved tensor of 'exp' gave [3]")));
}

TEST(SaveOnCpu, KeepsTheGradient) {
  for (Device device : {kCPU, kVulkan}) {
    if (device == kVulkan && select_device("auto").is_cpu() && std::getenv("ETNA_TEST_VULKAN") == nullptr) continue;
    Tensor x = leaf({0.5, 2}).to(f32).to(device).detach().requires_grad_(), y;
    {
      autograd::SaveOnCpu hooks;
      y = sum(tanh(x * x));
    }
    y.backward();
    EXPECT_NEAR(x.grad().to_vector<double>()[0], 1 - std::pow(std::tanh(0.25), 2), 1e-5) << device.str();
  }
}

TEST(DetectAnomaly, TellsWhereTheOpWasCalled) {
  autograd::DetectAnomaly on;
  Tensor x = leaf({0, 1}), y;
  {
    autograd::NameScope model("model");
    autograd::NameScope layer("layer 2");
    y = sum(sqrt(x));
  }
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<GradError>(testing::AllOf(
                                         HasSubstr("'sqrt' gives its input 0 [2] holds a NaN or an infinity"),
                                         HasSubstr("in 'model/layer 2'"))));
}

TEST(Gradgradcheck, FindsAWrongSecondDerivative) {
  Tensor x = leaf({0.5, 1.5});
  const auto good = [](const TensorList& in) { return TensorList{in[0] * in[0] * in[0]}; };
  EXPECT_EQ(autograd::gradgradcheck(good, {x}), "");
  // Its gradient is right, but a constant: the second derivative is lost.
  const auto bad = [](const TensorList& in) {
    const Tensor at = in[0].detach();
    return autograd::custom(
        in, [](const TensorList& v) { return TensorList{v[0] * v[0] * v[0]}; },
        [at](const TensorList& g) { return TensorList{g[0] * at * at * 3.0}; });
  };
  EXPECT_EQ(autograd::gradcheck(bad, {x}), "");
  EXPECT_NE(autograd::gradgradcheck(bad, {x}), "");
}

TEST(CheckpointSequential, GivesTheGradientsOfTheChain) {
  Tensor w = leaf({0.3, -0.7});
  std::vector<std::function<Tensor(const Tensor&)>> chain(5, [&](const Tensor& x) { return tanh(x * w + 0.1); });
  const Tensor x = from_vector<double>({1, 2});
  Tensor plain = x;
  for (const auto& f : chain) plain = f(plain);
  const Tensor wanted = autograd::grad(TensorList{sum(plain)}, TensorList{w})[0];
  for (std::int64_t segments : {1, 2, 3, 5}) {
    w.set_grad({});
    sum(autograd::checkpoint_sequential(chain, segments, x)).backward();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(values(w.grad())[i], values(wanted)[i], 1e-12) << segments;
  }
  EXPECT_THROW(autograd::checkpoint_sequential(chain, 6, x), Error);
  EXPECT_FALSE(x.requires_grad());
}

TEST(Functional, BackwardFromSeveralRoots) {
  Tensor x = leaf({1, 2}), a = sum(x * x), b = x * 3.0;
  autograd::backward({a, b}, {scalar(10, f64), ones({2}, f64)}, true);
  EXPECT_THAT(values(x.grad()), ElementsAre(23, 43));
  autograd::backward({a});
  EXPECT_THAT(values(x.grad()), ElementsAre(25, 47));
  EXPECT_THAT([&] { autograd::backward({b}); }, ThrowsMessage<GradError>(HasSubstr("backward: an output has 2")));
}

TEST(Functional, LeavesGradientsAloneAndGivesZeroForUnusedInputs) {
  const Tensor x = from_vector<double>({1, 2}), unused = from_vector<double>({1, 2, 3});
  const auto f = [](const TensorList& in) { return TensorList{in[0] * in[0]}; };
  const auto jacobian = autograd::jacobian(f, {x, unused});
  EXPECT_THAT(values(jacobian[0][0]), ElementsAre(2, 0, 0, 4));
  EXPECT_EQ(jacobian[0][1].shape(), (Shape{2, 3}));
  EXPECT_EQ(values(jacobian[0][1]), std::vector<double>(6, 0));
  EXPECT_THAT(values(autograd::jvp(f, {x, unused}, {ones({2}, f64), ones({3}, f64)}).products[0]), ElementsAre(2, 4));
  EXPECT_FALSE(x.grad().defined());
  const auto constant = [](const TensorList&) { return TensorList{ones({2}, f64)}; };
  EXPECT_THAT(values(autograd::vjp(constant, {x}, {ones({2}, f64)}).products[0]), ElementsAre(0, 0));
  EXPECT_EQ(autograd::jacobian([](const Tensor& v) { return v.slice(0, 0, 0); }, x).shape(), (Shape{0, 2}));
}

TEST(Functional, ResultsAreDifferentiableOnRequest) {
  Tensor x = leaf({1, 2});
  const auto cube = [](const TensorList& in) { return TensorList{in[0] * in[0] * in[0]}; };
  const Tensor v = ones({2}, f64);
  EXPECT_FALSE(autograd::vjp(cube, {x}, {v}).products[0].requires_grad());
  const Tensor first = autograd::vjp(cube, {x}, {v}, true).products[0];
  EXPECT_THAT(values(autograd::grad(TensorList{sum(first)}, TensorList{x})[0]), ElementsAre(6, 12));
  const Tensor tangent = autograd::jvp(cube, {x}, {v}, true).products[0];
  EXPECT_THAT(values(autograd::grad(TensorList{sum(tangent)}, TensorList{x})[0]), ElementsAre(6, 12));
  const auto third = autograd::hessian([](const Tensor& t) { return sum(t * t * t * t); }, x, true);
  EXPECT_THAT(values(autograd::grad(TensorList{sum(third)}, TensorList{x})[0]), ElementsAre(24, 48));
}

TEST(Functional, RefusesWhatDoesNotFit) {
  const Tensor x = from_vector<double>({1, 2});
  const auto f = [](const TensorList& in) { return TensorList{in[0] * 2.0}; };
  EXPECT_THAT([&] { autograd::vjp(f, {x}); }, ThrowsMessage<GradError>(HasSubstr("vjp: an output has 2 elements")));
  EXPECT_THAT([&] { autograd::vjp(f, {x}, {ones({3}, f64)}); },
              ThrowsMessage<ShapeError>(HasSubstr("vector 0 is [3]")));
  EXPECT_THAT([&] { autograd::hvp(f, {x}, {x}); }, ThrowsMessage<GradError>(HasSubstr("one tensor of one element")));
  EXPECT_THAT([&] { autograd::jacobian(f, {ones({2}, i64)}); },
              ThrowsMessage<DtypeError>(HasSubstr("input 0 holds i64")));
}

}  // namespace
