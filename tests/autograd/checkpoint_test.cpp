#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

namespace {

using namespace etna;

TEST(Checkpoint, GivesTheGradientsOfThePlainRun) {
  manual_seed(3);
  Tensor weight = randn({8, 8}, {f64});
  Tensor x = randn({4, 8}, {f64});
  auto gradients = [&](bool checkpointed) {
    Tensor w = weight.clone().requires_grad_(), in = x.clone().requires_grad_();
    auto f = [&](const TensorList& t) { return TensorList{tanh(dropout(matmul(t[0], w), 0.5))}; };
    set_random_state({11, 5});
    Tensor hidden = checkpointed ? autograd::checkpoint(f, {in})[0] : f({in})[0];
    sum(square(hidden)).backward();
    return std::pair{w.grad().to_vector<double>(), in.grad().to_vector<double>()};
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Checkpoint, KeepsTheRandomNumbersThatFollow) {
  Tensor x = ones({4}).requires_grad_();
  auto f = [](const TensorList& t) { return TensorList{dropout(t[0], 0.5)}; };
  set_random_state({1, 0});
  Tensor y = autograd::checkpoint(f, {x})[0];
  RandomState after_forward = random_state();
  sum(y).backward();
  EXPECT_EQ(random_state().offset, after_forward.offset);
}

}  // namespace
