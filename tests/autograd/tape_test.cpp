#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

#include <autograd/leaves.h>

namespace {

using namespace etna;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Tape, AddsUpGradientsOverCalls) {
  Tensor x = leaf({1, 2});
  sum(x * 3.0).backward();
  sum(x * 4.0).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(7, 7));
}

TEST(Tape, AddsUpGradientsOfEveryUse) {
  Tensor x = leaf({2, 3});
  Tensor y = x * x + x;
  sum(y + y * x).backward();  // x² + x + x³ + x²
  EXPECT_THAT(values(x.grad()), ElementsAre(1 + 2 * 2 * 2 + 3 * 4, 1 + 2 * 2 * 3 + 3 * 9));
}

TEST(Tape, SumsWhatBroadcastingRepeated) {
  Tensor row = leaf({1, 2, 3}), column = leaf({10, 20}, {2, 1}), one = leaf({5}, {});
  sum(row * column * one).backward();
  EXPECT_EQ(row.grad().shape(), (Shape{3}));
  EXPECT_EQ(column.grad().shape(), (Shape{2, 1}));
  EXPECT_EQ(one.grad().shape(), Shape{});
  EXPECT_THAT(values(row.grad()), ElementsAre(150, 150, 150));
  EXPECT_THAT(values(column.grad()), ElementsAre(30, 30));
  EXPECT_THAT(values(one.grad()), ElementsAre(180));
}

TEST(Tape, GivesEachLeafAGradientOfItsOwn) {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  sum(a + b).backward();
  a.grad().mul_(10);
  EXPECT_THAT(values(a.grad()), ElementsAre(10, 10));
  EXPECT_THAT(values(b.grad()), ElementsAre(1, 1));

  Tensor seed = from_vector(std::vector<double>{1, 1}), c = leaf({5, 6});
  (c + 0.0).backward(seed);
  c.grad().zero_();
  EXPECT_THAT(values(seed), ElementsAre(1, 1)) << "the caller's gradient was handed out";
}

TEST(Tape, GradGivesTensorsThatTheCallerMayWriteInto) {
  Tensor p = leaf({1, 2, 3, 4}), q = leaf({1, 2, 3, 4}), seed = from_vector(std::vector<double>{1, 1, 1, 1});
  Tensor g = autograd::grad(std::vector{p.mean()}, std::vector{p})[0];
  g[0].fill_(8);
  EXPECT_THAT(values(g), ElementsAre(8, 0.25, 0.25, 0.25));
  TensorList both = autograd::grad(std::vector{p + q}, std::vector{p, q}, std::vector{seed});
  both[0].zero_();
  EXPECT_THAT(values(both[1]), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(values(seed), ElementsAre(1, 1, 1, 1));
  both = autograd::grad(std::vector{p * 2.0}, std::vector{p, p}, std::vector{seed});
  both[0].zero_();
  EXPECT_THAT(values(both[1]), ElementsAre(2, 2, 2, 2)) << "asked for twice";
}

TEST(Tape, DetachesInPlace) {
  Tensor x = leaf({1, 2}), y = x * 3.0;
  const Tensor before = y * y;
  y.retain_grad();
  EXPECT_EQ(&y.detach_(), &y);
  EXPECT_TRUE(y.is_leaf());
  EXPECT_FALSE(y.requires_grad() || y.retains_grad());
  EXPECT_FALSE((y * 2.0).requires_grad());
  sum(before).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(18, 36)) << "what was computed before stays on the tape";
  EXPECT_FALSE(y.grad().defined());
  y.requires_grad_();
  sum(y * 5.0).backward();
  EXPECT_THAT(values(y.grad()), ElementsAre(5, 5));
  x.detach_();
  EXPECT_FALSE(x.requires_grad());
  Tensor z = leaf({1, 2}) * 2.0;
  EXPECT_THAT([&] { z[0].detach_(); }, ThrowsMessage<GradError>(HasSubstr("is a view")));
}

TEST(Tape, TakesAGradientForWhatIsNoScalar) {
  Tensor x = leaf({1, 2, 3});
  Tensor y = x * x;
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<GradError>(HasSubstr("has 3 elements [3]; reduce it to one")));
  EXPECT_THAT([&] { y.backward(ones({2}, {f64})); },
              ThrowsMessage<ShapeError>(HasSubstr("a gradient [2] does not fit a tensor [3]")));
  y.backward(from_vector(std::vector<double>{1, 10, 100}));
  EXPECT_THAT(values(x.grad()), ElementsAre(2, 40, 600));
}

TEST(Tape, FreesTheGraphUnlessToldToKeepIt) {
  Tensor x = leaf({2});
  Tensor y = sum(x * x);
  y.backward({}, true);
  y.backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(8));
  EXPECT_THAT([&] { y.backward(); },
              ThrowsMessage<GradError>(HasSubstr("was freed by an earlier backward; pass retain_graph = true")));
}

TEST(Tape, DifferentiatesAGradient) {
  Tensor x = leaf({2, 3});
  Tensor y = sum(x * x * x);
  Tensor first = autograd::grad(std::span(&y, 1), std::span(&x, 1), {}, true, true)[0];
  EXPECT_THAT(values(first), ElementsAre(12, 27));
  EXPECT_TRUE(first.requires_grad());
  Tensor total = sum(first);
  Tensor second = autograd::grad(std::span(&total, 1), std::span(&x, 1), {}, true, true)[0];
  EXPECT_THAT(values(second), ElementsAre(12, 18));
  Tensor rest = sum(second);
  EXPECT_THAT(values(autograd::grad(std::span(&rest, 1), std::span(&x, 1))[0]), ElementsAre(6, 6));
  EXPECT_FALSE(x.grad().defined()) << "grad() must not touch .grad()";
}

TEST(Tape, KeepsAGradientOnTheTapeUnderCreateGraph) {
  Tensor x = leaf({2, 3});
  sum(exp(x)).backward({}, false, true);
  ASSERT_TRUE(x.grad().requires_grad());
  Tensor g = x.grad();
  Tensor total = sum(g * g);  // Σ e^2x
  Tensor found = autograd::grad(std::span(&total, 1), std::span(&x, 1))[0];
  EXPECT_NEAR(values(found)[0], 2 * std::exp(4.0), 1e-9);
  EXPECT_NEAR(values(found)[1], 2 * std::exp(6.0), 1e-9);
  x.set_grad({});  // otherwise the leaf and its gradient would keep each other alive
}

TEST(Tape, FindsGradientsOfResultsAndOfWhatIsAskedForTwice) {
  Tensor x = leaf({2, 3});
  Tensor h = x * x;
  Tensor y = sum(h * h);
  Tensor targets[] = {h, x, x};
  TensorList found = autograd::grad(std::span(&y, 1), targets);
  EXPECT_THAT(values(found[0]), ElementsAre(8, 18));
  EXPECT_THAT(values(found[1]), ElementsAre(32, 108));
  EXPECT_THAT(values(found[2]), ElementsAre(32, 108));
}

TEST(Tape, LeavesUndefinedWhatAnOutputDoesNotDependOn) {
  Tensor x = leaf({1}), other = leaf({1});
  Tensor y = sum(x * 2.0);
  Tensor targets[] = {other, x};
  TensorList found = autograd::grad(std::span(&y, 1), targets);
  EXPECT_FALSE(found[0].defined());
  EXPECT_THAT(values(found[1]), ElementsAre(2));
}

TEST(Tape, RecordsNothingUnderNoGrad) {
  Tensor x = leaf({1, 2});
  {
    NoGrad off;
    Tensor y = x * 2.0;
    EXPECT_FALSE(y.requires_grad());
    EXPECT_FALSE(grad_enabled());
    GradMode on(true);
    EXPECT_TRUE((x * 2.0).requires_grad());
  }
  EXPECT_TRUE(grad_enabled());
  Tensor constant = from_vector(std::vector<double>{1});
  EXPECT_THAT([&] { sum(constant * 2.0).backward(); },
              ThrowsMessage<GradError>(HasSubstr("nothing was recorded for this tensor")));
}

TEST(Tape, CutsADetachedTensorButSharesItsValues) {
  Tensor x = leaf({1, 2});
  Tensor cut = (x * 2.0).detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_TRUE(cut.is_leaf());
  sum(x * cut).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(2, 4));
  Tensor shown = x.detach();
  EXPECT_EQ(shown.storage(), x.storage());
}

TEST(Tape, SaysWhatCannotRequireGrad) {
  EXPECT_THAT([] { arange(0, 3).requires_grad_(); },
              ThrowsMessage<DtypeError>(HasSubstr("holds i64; only floating tensors")));
  Tensor x = leaf({1});
  Tensor y = x * 2.0;
  EXPECT_THAT([&] { y.requires_grad_(); },
              ThrowsMessage<GradError>(HasSubstr("result of a recorded op; detach() it first")));
  EXPECT_THAT([&] { x.set_grad(ones({2}, {f64})); }, ThrowsMessage<ShapeError>(HasSubstr("does not fit a tensor [1]")));
  EXPECT_FALSE(y.is_leaf());
  EXPECT_TRUE(x.is_leaf());
}

TEST(Tape, RefusesASavedTensorThatWasOverwritten) {
  Tensor x = leaf({1, 2});
  Tensor h = x * 2.0;
  Tensor y = sum(h * h);
  {
    NoGrad off;
    h.add_(ones({2}, {f64}));
  }
  EXPECT_THAT([&] { y.backward(); },
              ThrowsMessage<GradError>(
                  HasSubstr("that 'mul' saved was modified in place afterwards, last by 'add_'; clone() it before")));

  Tensor saved_output = exp(x);
  Tensor z = sum(saved_output);
  {
    NoGrad off;
    saved_output.slice(0, 0, 1).zero_();  // through a view
  }
  EXPECT_THAT([&] { z.backward(); }, ThrowsMessage<GradError>(HasSubstr("'exp' saved was modified in place")));

  // An op that saves nothing is not affected.
  Tensor w = sum(x + 1.0);
  {
    NoGrad off;
    x.add_(ones({2}, {f64}));
  }
  EXPECT_NO_THROW(w.backward());
}

TEST(Tape, AddsTheGradientOfATiedTableToWhatItHasGathered) {
  Tensor x = leaf({1, -2, 3, 0.5, 2, -1}).detach().reshape({2, 3}), index = from_vector<std::int64_t>({3, 1, 3, 0});
  auto loss = [&](const Tensor& table, const Tensor& output) {
    Tensor first = sum(square(embedding(table, index)));  // recorded first, so differentiated last
    return first + sum(square(linear(x, output)));
  };
  auto draw = [] {
    return leaf({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}).detach().reshape({4, 3}).clone().requires_grad_();
  };
  Tensor tied = draw(), table = draw(), output = draw();
  int added = 0;
  const std::function<void(const OpDef&)> count = [&](const OpDef& op) {
    added += std::string_view(op.name) == "index_add_";
  };
  {
    const Override scope(&Overrides::on_op, &count);
    loss(tied, tied).backward();
  }
  loss(table, output).backward();
  EXPECT_EQ(added, 1);
  EXPECT_EQ(values(tied.grad()), values(table.grad() + output.grad()));
}

TEST(Tape, AddsToNoGradientThatOthersSee) {
  Tensor table = leaf({1, 2, 3, 4}).detach().reshape({2, 2}).requires_grad_();
  Tensor index = from_vector<std::int64_t>({1, 1}), seed = ones({2, 2}, {f64});
  (embedding(table, index) + table).backward(seed);
  EXPECT_THAT(values(seed), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(values(table.grad()), ElementsAre(1, 1, 3, 3));
}

TEST(Tape, GoesThroughAHundredThousandOpsWithoutDeepRecursion) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 1.0;
  Tensor kept = y;
  y.backward({}, true);
  EXPECT_THAT(values(x.grad()), ElementsAre(1));
  y = {};
  kept = {};  // releases the graph

  Tensor product = x;
  for (int i = 0; i < 100000; ++i) product = product * x;  // saves its inputs
  product = {};
}

TEST(Tape, ForgetsAResultThatNobodyKeeps) {
  std::uint64_t before = memory_stats(kCPU).in_use;
  {
    Tensor x = leaf({1, 2, 3});
    Tensor y = sum(exp(x * x));
    y.backward();
    Tensor z = sum(sigmoid(x) * exp(x));  // never differentiated
  }
  EXPECT_EQ(memory_stats(kCPU).in_use, before);
}

TEST(Tape, CarriesGradientsAcrossDtypes) {
  Tensor x = leaf({1, 2});
  Tensor y = x.to(f32) * 3.0;
  sum(y).backward();
  EXPECT_EQ(x.grad().dtype(), f64);
  EXPECT_THAT(values(x.grad()), ElementsAre(3, 3));
}

TEST(Tape, FlowsThroughViews) {
  Tensor x = leaf({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  Tensor picked = x.t().slice(0, 1, 4, 2).reshape({6});  // columns 1 and 3
  sum(picked * picked).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 2, 0, 6, 0, 10, 0, 14, 0, 18, 0, 22));

  x.set_grad({});
  auto parts = x.split(3, 1);
  sum(parts[1] * 5.0).backward();  // only one part is used
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 5));

  x.set_grad({});
  (sum(x[0]) + sum(x.select(1, -1)) * 2.0 + sum(x.unsqueeze(0).expand({2, 3, 4}))).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(3, 3, 3, 5, 2, 2, 2, 4, 2, 2, 2, 4));
}

/// a·b + a²·b without vjp: differentiated through its reference.
std::vector<OutputSpec> blend_infer(const OpCall& call) { return {{call.in[0].shape(), call.in[0].dtype()}}; }
TensorList blend_reference(const OpCall& call) {
  return {call.in[0] * call.in[1] + call.in[0] * call.in[0] * call.in[1]};
}
const OpDef kBlend = {.name = "blend", .infer = blend_infer, .reference = blend_reference};

TEST(Tape, DifferentiatesAReferenceTwiceWhereInputsDependOnEachOther) {
  auto twice_the_same = [](const TensorList& in) { return TensorList{apply1(kBlend, {in[0], in[0]})}; };
  auto one_of_the_other = [](const TensorList& in) { return TensorList{apply1(kBlend, {in[0], exp(in[0])})}; };
  for (const auto& f : {std::function<TensorList(const TensorList&)>(twice_the_same),
                        std::function<TensorList(const TensorList&)>(one_of_the_other)}) {
    autograd::GradcheckOptions options;
    options.second_order = true;
    EXPECT_EQ(autograd::gradcheck(f, {leaf({0.3, -0.7, 1.1})}, options), "");
  }
}

}  // namespace
