#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>

namespace etna {
namespace {

TEST(ActivationModules, AreTheirFunctions) {
  manual_seed(1);
  const Tensor x = randn({4, 6}) * 3.0;
  auto check = [&](const nn::UnaryModule& module, const Tensor& want) { EXPECT_TRUE(equal(module.forward(x), want)); };
  check(nn::ReLU(), relu(x));
  check(nn::ReLU6(), relu6(x));
  check(nn::GELU(), gelu(x));
  check(nn::GELU(true), gelu_tanh(x));
  check(nn::SiLU(), silu(x));
  check(nn::Mish(), mish(x));
  check(nn::SELU(), selu(x));
  check(nn::Sigmoid(), sigmoid(x));
  check(nn::LogSigmoid(), logsigmoid(x));
  check(nn::Tanh(), tanh(x));
  check(nn::Tanhshrink(), tanhshrink(x));
  check(nn::Softsign(), softsign(x));
  check(nn::Hardsigmoid(), hardsigmoid(x));
  check(nn::Hardswish(), hardswish(x));
  check(nn::LeakyReLU(0.2), leaky_relu(x, 0.2));
  check(nn::ELU(0.5), elu(x, 0.5));
  check(nn::CELU(0.5), celu(x, 0.5));
  check(nn::Softshrink(), softshrink(x));
  check(nn::Hardshrink(), hardshrink(x));
  check(nn::Hardtanh(-2, 1), hardtanh(x, -2, 1));
  check(nn::Softplus(2), softplus(x, 2));
  check(nn::Threshold(0.5, 7), threshold(x, 0.5, 7));
  check(nn::GLU(), glu(x));
  check(nn::Softmax(0), softmax(x, 0));
  check(nn::Softmin(1), softmin(x, 1));
  check(nn::LogSoftmax(1), log_softmax(x, 1));
  check(nn::PReLU(6), leaky_relu(x, 0.25));
}

TEST(ActivationModules, PReLULearnsItsSlopesAndRReLUDrawsThemWhileTraining) {
  nn::PReLU prelu(3);
  ASSERT_EQ(prelu.parameters().size(), 1u);
  prelu.forward(full({2, 3, 4}, -1)).sum().backward();
  EXPECT_EQ(prelu.weight.grad().to_vector<float>(), (std::vector<float>{-8, -8, -8}));

  nn::RReLU rrelu(0.25, 0.5);
  const Tensor x = full({50}, -1);
  EXPECT_LT(rrelu.forward(x).min().item(), rrelu.forward(x).max().item());
  rrelu.train(false);
  EXPECT_EQ(rrelu.forward(x).to_vector<float>(), std::vector<float>(50, -0.375f));
}

}  // namespace
}  // namespace etna
