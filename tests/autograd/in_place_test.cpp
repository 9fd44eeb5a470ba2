#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

#include "leaves.h"
#include "nn/on_device.h"

// Writes in place on the tape.
namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RecordedWrites : public OnDevice {};
ETNA_ON_EVERY_DEVICE(RecordedWrites);

Tensor leaf_on(Device device, const std::vector<float>& list) { return from_vector(list, device).requires_grad_(); }

TEST_P(RecordedWrites, CarryGradientsIntoAViewAndItsBase) {
  Tensor p = leaf_on(device(), {1, 2, 3}), h = p * 2.0;
  h[0] = 5.0;
  h.mul_(3);
  sum(h).backward();
  EXPECT_THAT(values(h), ElementsAre(15, 12, 18));
  EXPECT_THAT(values(p.grad()), ElementsAre(0, 6, 6));

  Tensor q = leaf_on(device(), {1, 2}), c = zeros({2, 2}, device()), seen = c.t();
  EXPECT_FALSE(c.requires_grad());
  c[0] += q[0];
  EXPECT_TRUE(c.requires_grad());
  EXPECT_TRUE(seen.requires_grad()) << "a view that was there before";
  c[1] = q * q;
  sum(seen * seen).backward();
  EXPECT_THAT(values(seen), ElementsAre(1, 1, 1, 4));
  EXPECT_THAT(values(q.grad()), ElementsAre(4 + 4, 32));
}

TEST_P(RecordedWrites, ReachEveryHandle) {
  Tensor p = leaf_on(device(), {1, 2}), a = p * 1.0, same = a, row = a[0];
  row += 1;
  a *= a;
  EXPECT_THAT(values(same), ElementsAre(4, 4));
  sum(same).backward();
  EXPECT_THAT(values(p.grad()), ElementsAre(4, 4));
  Tensor cut = a.detach();
  EXPECT_FALSE(cut.requires_grad());
  cut.zero_();
  EXPECT_THAT(values(row), ElementsAre(0));
}

TEST_P(RecordedWrites, ToRowsOfATable) {
  Tensor t = leaf_on(device(), {1, 2, 3, 4}).reshape({2, 2}) * 1.0, s = leaf_on(device(), {1, 2});
  index_add_(t, from_vector<std::int64_t>({1, 1}, device()), s.expand({2, 2}));
  EXPECT_THAT(values(t), ElementsAre(1, 2, 5, 8));
  sum(t * t).backward();
  EXPECT_THAT(values(s.grad()), ElementsAre(20, 32));
}

TEST_P(RecordedWrites, OfASourceThatIsTheTensor) {
  const Tensor index = from_vector<std::int64_t>({1, 0}, device());
  const std::vector<std::function<void(Tensor&)>> writes = {
      [&](Tensor& t) { index_add_(t, index, t); },
      [&](Tensor& t) { index_add_(t, 0, index, t); },
      [&](Tensor& t) { index_copy_(t, 0, index, t); },
      [&](Tensor& t) {
        scatter_(t, 1, index.reshape({1, 2}).expand({2, 2}).contiguous(), t);
      },
      [&](Tensor& t) {
        scatter_add_(t, 1, index.reshape({1, 2}).expand({2, 2}).contiguous(), t);
      },
      [&](Tensor& t) {
        scatter_reduce_(t, 1, index.reshape({1, 2}).expand({2, 2}).contiguous(), t, "prod");
      },
      [&](Tensor& t) { index_reduce_(t, 0, index, t, "amax"); },
      [&](Tensor& t) { t.index_put_({index}, t, true); },
      [&](Tensor& t) { t.index_put_({index}, t); },
      [&](Tensor& t) { put_(t, index, t[0]); },
      [&](Tensor& t) { masked_scatter_(t, t > 1.5, t); },
      [&](Tensor& t) { t.copy_(t.t()); },
      [&](Tensor& t) { t.add_(t.t(), 2); },
      [&](Tensor& t) { t.mul_(t.t()); },
      [&](Tensor& t) { t.div_(t[0]); },
      [&](Tensor& t) { t.sub_(t[1]); }};
  const std::vector<std::vector<double>> wanted = {{4, 6, 4, 6},  {4, 6, 4, 6},   {3, 4, 1, 2}, {2, 1, 4, 3},
                                                   {3, 3, 7, 7},  {2, 2, 12, 12}, {3, 4, 3, 4}, {4, 6, 4, 6},
                                                   {3, 4, 1, 2},  {2, 1, 3, 4},   {1, 1, 2, 3}, {1, 3, 2, 4},
                                                   {3, 8, 7, 12}, {1, 6, 6, 16},  {1, 1, 3, 2}, {-2, -2, 0, 0}};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(i);
    Tensor plain = from_vector<float>({1, 2, 3, 4}, {2, 2}, device());
    Tensor recorded = (plain.clone().requires_grad_() * 1.0);
    writes[i](plain);
    writes[i](recorded);
    EXPECT_EQ(values(plain), wanted[i]);
    EXPECT_EQ(values(recorded), wanted[i]);
    EXPECT_TRUE(recorded.requires_grad());
  }
}

TEST(InPlace, RefusesALeafAndItsViews) {
  Tensor p = leaf({1, 2});
  EXPECT_THAT([&] { p.mul_(2); },
              ThrowsMessage<GradError>(HasSubstr("mul_: the tensor [2] is a leaf that requires grad "
                                                 "and grad mode is on; write under NoGrad")));
  EXPECT_THAT([&] { p[0] = 1.0; }, ThrowsMessage<GradError>(HasSubstr("[] is a view of a leaf that requires grad")));
  EXPECT_THAT([&] { p += 1; }, ThrowsMessage<GradError>(HasSubstr("add_: the tensor")));
  Tensor early = zeros({2}, f64), view = early[0];
  early.requires_grad_();
  EXPECT_THROW(view.fill_(1), GradError);
  NoGrad off;
  p[0] = 7.0;
  EXPECT_THAT(values(p), ElementsAre(7, 2));
}

TEST(InPlace, RefusesViewsThatGradientsWouldNotFollow) {
  Tensor h = leaf({1, 2}) * 1.0, c = zeros({2}, f64), of_h, of_c;
  {
    NoGrad off;
    of_h = h[0], of_c = c[0];
  }
  EXPECT_THAT([&] { of_h.mul_(2); }, ThrowsMessage<GradError>(HasSubstr("is a view that was made under NoGrad")));
  of_c.add_(1);
  EXPECT_THAT([&] { of_c.add_(h[0]); }, ThrowsMessage<GradError>(HasSubstr("make the view again with grad mode on")));
  Tensor crossed = autograd::custom(
      {h},
      [](const TensorList& in) {
        return TensorList{in[0].reshape({1, 2})};
      },
      [](const TensorList& g) { return TensorList{g[0].reshape({2})}; })[0];
  EXPECT_THROW(crossed.add_(1), GradError);
}

TEST(InPlace, NamesWhoSavedWhatAndWhoWroteWhere) {
  autograd::DetectAnomaly detect;
  autograd::NameScope scope("gate");
  Tensor h = leaf({1, 2}) * 2.0, y = h * h;
  h[1].add_(1);
  EXPECT_THAT([&] { sum(y).backward(); },
              ThrowsMessage<GradError>(AllOf(HasSubstr("[2] that 'mul' saved was modified in place afterwards, last by "
                                                       "'add_'; clone() it before"),
                                             HasSubstr("in 'gate'"))));
}

TEST(InPlace, KeepsWhatItsOwnBackwardNeeds) {
  Tensor p = leaf({2, 3}), h = p * 1.0;
  h.mul_(h);
  h.mul_(p);
  sum(h).backward();
  EXPECT_THAT(values(p.grad()), ElementsAre(12, 27));
}

TEST(InPlace, KeepsItWhereSavedTensorsArePacked) {
  const auto itself = [](const Tensor& x) { return std::any(x); };
  const auto back = [](const std::any& packed) { return std::any_cast<Tensor>(packed); };
  autograd::SavedTensorHooks hooks(itself, back);
  Tensor p = leaf({2, 3}), h = p * 1.0;
  h.mul_(h);
  sum(h).backward();
  EXPECT_THAT(values(p.grad()), ElementsAre(4, 6));
  Tensor late = p * 1.0, y = late * late;
  late.add_(1);
  EXPECT_THAT([&] { sum(y).backward(); }, ThrowsMessage<GradError>(HasSubstr("'mul' saved was modified in place")));
}

TEST(InPlace, RefusesACheckpointWhoseInputWasOverwritten) {
  Tensor h = leaf({2, 3}) * 1.0;
  Tensor y = autograd::checkpoint([](const TensorList& in) { return TensorList{in[0] * in[0]}; }, {h})[0];
  h.zero_();
  EXPECT_THAT([&] { sum(y).backward(); }, ThrowsMessage<GradError>(HasSubstr("'checkpoint' saved was modified")));
}

TEST(InPlace, GivesTheGradientOfTheNewValueToRetainGradAndHooks) {
  Tensor p = leaf({1, 2}), h = p * 2.0, part = h[0];
  h.retain_grad();
  part.retain_grad();
  h.mul_(3);
  std::vector<double> hooked;
  h.register_hook([&](const Tensor& g) {
    hooked = values(g);
    return Tensor();
  });
  (sum(h) + part * 4.0).backward();
  EXPECT_THAT(values(h.grad()), ElementsAre(5, 1));
  EXPECT_THAT(values(part.grad()), ElementsAre(4));
  EXPECT_EQ(hooked, (std::vector<double>{5, 1}));
  EXPECT_THAT(values(p.grad()), ElementsAre(30, 6));
}

TEST(InPlace, FreesTheTapeOfATensorThatItsOwnHistorySaved) {
  const Tensor p = leaf({1, 2});
  std::weak_ptr<Storage> in_graph, plain;
  {
    Tensor h = p * 1.0, c = ones({2}, f64), row = c[0];
    h.add_(h * h);
    row.add_((p * c).sum());
    c.mul_(p * c[1]);
    in_graph = h.storage(), plain = c.storage();
  }
  EXPECT_TRUE(in_graph.expired());
  EXPECT_TRUE(plain.expired());
}

TEST(InPlace, LeavesIntegersAndWhatNeedsNoGradientOffTheTape) {
  Tensor p = leaf({1.5, 2}), i = zeros({2}, i64), c = zeros({2}, f64), view = c[0];
  i.copy_(p);
  view.add_(1);
  EXPECT_THAT(values(i), ElementsAre(1, 2));
  EXPECT_FALSE(i.requires_grad());
  EXPECT_FALSE(c.requires_grad());
  Tensor all = p * 1.0;
  all.fill_(3);
  EXPECT_TRUE(all.requires_grad());
  sum(all).backward();
  EXPECT_THAT(values(p.grad()), ElementsAre(0, 0));
}

TEST(InPlace, MakesAVariableOfAViewThatIsToRequireGrad) {
  Tensor p = leaf({1}), c = zeros({2}, f64), view = c[0];
  view.requires_grad_();
  c[1] = p[0];
  (view * 2.0).backward();
  EXPECT_THAT(values(view.grad()), ElementsAre(2));
  EXPECT_FALSE(p.grad().defined());
}

TEST(InPlace, RefusesAViewOfATensorThatRepeatsItsElements) {
  Tensor p = leaf({1}), repeated = zeros({1, 2}, f64).expand({3, 2}).detach();
  EXPECT_THAT([&] { repeated[0] += p; }, ThrowsMessage<ShapeError>(HasSubstr("a tensor [3, 2] that repeats")));
}

}  // namespace
}  // namespace etna
