#include <array>
#include <limits>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

#include <autograd/leaves.h>

// What users attach to the tape: hooks, custom functions, anomaly detection.
namespace {

using namespace etna;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Hook, SeesAndReplacesTheWholeGradientOfALeaf) {
  Tensor x = leaf({1, 2});
  int calls = 0;
  x.register_hook([&](const Tensor& g) {
    ++calls;
    EXPECT_THAT(values(g), ElementsAre(5, 5)) << "both uses, summed";
    return Tensor();
  });
  x.register_hook([](const Tensor& g) { return g * 2.0; });
  sum(x * 2.0 + x * 3.0).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(values(x.grad()), ElementsAre(10, 10));
}

TEST(Hook, MayNotChangeWhatAGradientIs) {
  for (auto change : {+[](const Tensor& g) { return g.sum(); }, +[](const Tensor& g) { return g.to(f32); }}) {
    Tensor x = leaf({1, 2}), y = x * 2.0;
    y.register_hook(change);
    EXPECT_THAT([&] { sum(y).backward(); },
                ThrowsMessage<GradError>(HasSubstr("a hook replaced a gradient [2] of f64")));
    Tensor z = leaf({1, 2});
    z.register_hook(change);
    EXPECT_THROW(sum(z).backward(), GradError);
  }
}

TEST(Grad, ComputesOnlyWhatItsInputsNeed) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4}), unused = leaf({5, 6});
  int of_others = 0, of_x = 0;
  const auto count = [&](int& calls) { return [&calls](const Tensor&) { return ++calls, Tensor(); }; };
  w.register_hook(count(of_others));
  unused.register_hook(count(of_others));
  x.register_hook(count(of_x));
  Tensor side = autograd::custom(
      {unused}, [](const TensorList& in) { return TensorList{in[0] * 1.0}; },
      [&](const TensorList& g) { return ++of_others, TensorList{g[0]}; })[0];
  Tensor inner = x * w, y = sum(inner * 2.0 + side);
  EXPECT_THAT(values(autograd::grad(std::array{y}, std::array{x})[0]), ElementsAre(6, 8));
  EXPECT_EQ(of_others, 0);
  EXPECT_EQ(of_x, 1);
  EXPECT_FALSE(w.grad().defined() || x.grad().defined());

  Tensor a = x * w, b = sum(a * a);
  const TensorList both = autograd::grad(std::array{b}, std::array{a, w, unused});
  EXPECT_THAT(values(both[0]), ElementsAre(6, 16)) << "a result is a target, too";
  EXPECT_THAT(values(both[1]), ElementsAre(6, 32));
  EXPECT_FALSE(both[2].defined());
}

Tensor cubed(const Tensor& x) {
  return autograd::custom(
      {x},
      [](autograd::Context& context, const TensorList& in) {
        context.save_for_backward(in);
        return TensorList{in[0] * in[0] * in[0]};
      },
      [](const autograd::Context& context, const TensorList& grad) {
        const Tensor x = context.saved_tensors()[0];
        return TensorList{grad[0] * x * x * 3.0};
      })[0];
}

TEST(Custom, WhatAContextSavesHasSecondDerivatives) {
  Tensor x = leaf({1, 2});
  EXPECT_EQ(autograd::gradcheck([](const TensorList& in) { return TensorList{cubed(in[0] * 2.0)}; }, {x},
                                {.second_order = true}),
            "");
  // Of an output: exp is its own derivative.
  const auto exponential = [](const TensorList& in) {
    return autograd::custom(
        in,
        [](autograd::Context& context, const TensorList& in) {
          TensorList y = {exp(in[0])};
          context.save_for_backward(y);
          return y;
        },
        [](const autograd::Context& context, const TensorList& grad) {
          EXPECT_EQ(context.needs_input_grad(), std::vector<bool>{true});
          return TensorList{grad[0] * context.saved_tensors()[0]};
        });
  };
  EXPECT_EQ(autograd::gradcheck(exponential, {x}, {.second_order = true}), "");
}

TEST(Custom, AContextNoticesWritesAndLetsItsTensorsGo) {
  Tensor x = leaf({1, 2});
  Tensor h = x * 1.0, y = cubed(h).sum();
  {
    NoGrad off;
    h.detach().fill_(7);
  }
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<GradError>(HasSubstr("'custom' saved was modified in place")));
  std::weak_ptr<Storage> saved;
  {
    Tensor big = zeros({100}, f64).requires_grad_();
    saved = big.storage();
    Tensor z = cubed(big);
  }
  EXPECT_TRUE(saved.expired());
}

TEST(Hook, OfAResultWorksAfterItsHandleIsGone) {
  Tensor x = leaf({1, 2}), y;
  {
    Tensor h = x + 1.0;
    h.register_hook([](const Tensor& g) { return g * 7.0; });
    y = sum(h * 2.0);
  }
  y.backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(14, 14));
}

TEST(Hook, NeedsATensorThatGetsAGradient) {
  Tensor x = from_vector(std::vector<double>{1});
  EXPECT_THAT([&] { x.register_hook([](const Tensor& g) { return g; }); },
              ThrowsMessage<GradError>(HasSubstr("does not require grad")));
}

/// x³ as a custom function.
Tensor cube(const Tensor& x) {
  return autograd::custom(
      {x}, [](const TensorList& in) { return TensorList{in[0] * in[0] * in[0]}; },
      [x](const TensorList& g) { return TensorList{g[0] * x * x * 3.0}; }, "cube")[0];
}

TEST(Custom, UsesTheGivenRule) {
  Tensor x = leaf({1, 2});
  sum(cube(x * 2.0)).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(24, 96));
  autograd::GradcheckOptions options;
  options.second_order = true;
  EXPECT_EQ(
      autograd::gradcheck([](const TensorList& in) { return TensorList{cube(in[0])}; }, {leaf({0.5, -1.5})}, options),
      "");
}

TEST(Custom, HasSeveralInputsAndOutputsOfWhichSomeAreUnused) {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  auto both = autograd::custom(
      {a, b, Tensor()},
      [](const TensorList& in) {
        return TensorList{in[0] + in[1], in[0] * in[1]};
      },
      [](const TensorList& g) {
        EXPECT_THAT(values(g[0]), ElementsAre(0, 0)) << "an output without a gradient gets zeros";
        return TensorList{g[1] * 10.0, Tensor(), Tensor()};
      });
  sum(both[1]).backward();
  EXPECT_THAT(values(a.grad()), ElementsAre(10, 10));
  EXPECT_FALSE(b.grad().defined());
}

TEST(Custom, MustReturnAGradientForEachInput) {
  Tensor x = leaf({1});
  auto f = [&](std::function<TensorList(const TensorList&)> backward) {
    return autograd::custom(
        {x}, [](const TensorList& in) { return TensorList{in[0] * 2.0}; }, std::move(backward), "doubled")[0];
  };
  Tensor none = f([](const TensorList&) { return TensorList{}; });
  EXPECT_THAT([&] { none.backward(); },
              ThrowsMessage<GradError>(HasSubstr("'doubled' returned 0 gradients for 1 inputs")));
  Tensor misshapen = f([](const TensorList&) { return TensorList{ones({2}, {f64})}; });
  EXPECT_THAT([&] { misshapen.backward(); },
              ThrowsMessage<GradError>(HasSubstr("'doubled' gave its input 0 a gradient [2], the input is [1]")));
}

TEST(Custom, RecordsNothingOfItsForward) {
  Tensor x = leaf({3});
  bool recorded = true;
  Tensor y = autograd::custom(
      {x}, [&](const TensorList& in) { return recorded = (in[0] * 2.0).requires_grad(), TensorList{in[0]}; },
      [](const TensorList& g) { return g; })[0];
  EXPECT_FALSE(recorded);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_TRUE(x.is_leaf()) << "handing an input back must not put the input on the tape";
}

TEST(DetectAnomaly, NamesTheOpWhoseGradientIsNotFinite) {
  Tensor x = leaf({0, 1});
  auto loss = [&] { return sum(sqrt(x) * 2.0); };
  EXPECT_NO_THROW(loss().backward());
  autograd::DetectAnomaly on;
  EXPECT_THAT([&] { loss().backward(); },
              ThrowsMessage<GradError>(HasSubstr("'sqrt' gives its input 0 [2] holds a NaN or an infinity")));
  x.set_grad({});
  EXPECT_NO_THROW(sum(x * 1e200).backward()) << "large is not infinite in f64";
}

TEST(DetectAnomaly, EndsWithItsScope) {
  Tensor x = leaf({0});
  { autograd::DetectAnomaly on; }
  EXPECT_NO_THROW(sum(sqrt(x)).backward());
}

TEST(Gradcheck, AcceptsARightGradientOfEitherOrder) {
  autograd::GradcheckOptions options;
  options.second_order = true;
  auto f = [](const TensorList& in) { return TensorList{tanh(in[0]) * in[1], exp(in[1])}; };
  EXPECT_EQ(autograd::gradcheck(f, {leaf({0.1, 0.2}), leaf({-0.5, 1})}, options), "");
  auto linear = [](const TensorList& in) { return TensorList{in[0] * 2.0}; };
  EXPECT_EQ(autograd::gradcheck(linear, {leaf({0.1, 0.2})}, options), "");
}

TEST(Gradcheck, CatchesAWrongGradient) {
  auto wrong = [](const TensorList& in) {
    return autograd::custom(
        in, [](const TensorList& x) { return TensorList{x[0] * x[0]}; },
        [x = in[0]](const TensorList& g) { return TensorList{g[0] * x}; });
  };
  EXPECT_THAT(autograd::gradcheck(wrong, {leaf({1, 2})}), HasSubstr("input 0 [2], element 0: the gradient is"));
}

TEST(Gradcheck, CatchesAWrongSecondGradient) {
  // The first gradient is right, but it is constant on the tape.
  auto wrong = [](const TensorList& in) {
    return autograd::custom(
        in, [](const TensorList& x) { return TensorList{x[0] * x[0]}; },
        [x = in[0].detach()](const TensorList& g) { return TensorList{g[0] * x * 2.0}; });
  };
  EXPECT_EQ(autograd::gradcheck(wrong, {leaf({1, 2})}), "");
  autograd::GradcheckOptions options;
  options.second_order = true;
  EXPECT_NE(autograd::gradcheck(wrong, {leaf({1, 2})}, options), "");
}

TEST(Gradcheck, SaysWhatItCannotCheck) {
  auto f = [](const TensorList& in) { return TensorList{in[0] * 2.0}; };
  EXPECT_THAT(autograd::gradcheck(f, {ones({2}, {f64})}), HasSubstr("no input requires grad"));
  EXPECT_THAT(autograd::gradcheck(f, {ones({2}).requires_grad_()}), HasSubstr("input 0 is f32; differences need f64"));
}

}  // namespace
