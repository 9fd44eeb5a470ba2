#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/autograd/internal/final_gradients.h>
#include <etna/tensor/ops.h>

namespace etna {
namespace {

TEST(FinalGradients, ComeSoonAfterNothingElseAddsToThem) {
  Tensor first = full({2}, 2.0).requires_grad_(), last = full({2}, 3.0).requires_grad_();
  std::vector<std::string> order;
  const HookHandle a = autograd::register_final_gradient_hook(first, [&](const Tensor& leaf) {
    order.push_back("first");
    EXPECT_TRUE(leaf.grad().equal(full({2}, 6.0)));
  });
  const HookHandle b = autograd::register_final_gradient_hook(last, [&](const Tensor& leaf) {
    order.push_back("last");
    EXPECT_TRUE(leaf.grad().equal(full({2}, 4.0)));
    autograd::at_end_of_backward([&] { order.push_back("end"); });
  });
  const Tensor middle = first * 2.0;
  middle.register_hook([&](const Tensor&) {
    order.push_back("middle");
    return Tensor();
  });
  Tensor between = middle;  // backward() runs a few nodes before it calls the hook of `last`
  for (int i = 0; i < 5; ++i) between = between * 1.0;
  const Tensor product = between * last;
  (sum(product * 0.5) * 2.0).backward();
  EXPECT_EQ(order, (std::vector<std::string>{"last", "middle", "first", "end"}));
}

TEST(FinalGradients, OfALeafUsedTwiceAreWhole) {
  Tensor x = full({}, 3.0).requires_grad_();
  int calls = 0;
  HookHandle hook = autograd::register_final_gradient_hook(x, [&](const Tensor& leaf) {
    ++calls;
    EXPECT_EQ(leaf.grad().item<double>(), 27 * calls);
  });
  for (int k = 0; k < 2; ++k) (x * x * x).backward();  // adds up
  EXPECT_EQ(calls, 2);
  hook.remove();
  (x * x).backward();
  EXPECT_EQ(calls, 2);
}

TEST(FinalGradients, ComeWhereAPathGivesNone) {
  Tensor x = full({2}, 1.0).requires_grad_();
  int calls = 0;
  const HookHandle hook = autograd::register_final_gradient_hook(x, [&](const Tensor&) { ++calls; });
  // The custom op returns no gradient, so its input's node never runs.
  const Tensor lost = autograd::custom(
      {x * 2.0}, [](const TensorList& in) { return TensorList{in[0].clone()}; },
      [](const TensorList&) { return TensorList(1); })[0];
  sum(lost + x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(x.grad().equal(ones({2})));
}

TEST(FinalGradients, NeedALeafAndABackward) {
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_THROW(autograd::register_final_gradient_hook(x * 2.0, [](const Tensor&) {}), GradError);
  EXPECT_THROW(autograd::register_final_gradient_hook(ones({2}), [](const Tensor&) {}), GradError);
  EXPECT_THROW(autograd::at_end_of_backward([] {}), GradError);
  // grad() stores nothing in leaves.
  const HookHandle hook = autograd::register_final_gradient_hook(x, [](const Tensor&) { FAIL(); });
  autograd::grad(TensorList{sum(x * x)}, TensorList{x});
}

}  // namespace
}  // namespace etna
