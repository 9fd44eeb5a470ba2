#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct FunctionalCallNet : Module {
  Linear first{2, 3}, second{3, 1};
  FunctionalCallNet() { register_module("first", first), register_module("second", second); }
  Tensor operator()(const Tensor& x) const { return second(tanh(first(x))); }
};

TEST(FunctionalCall, UsesOtherParametersForOneCall) {
  FunctionalCallNet net;
  const Tensor x = ones({4, 2});
  const std::vector<float> before = net(x).to_vector<float>();
  const Tensor y =
      functional_call(net, {{"second.weight", zeros({1, 3})}, {"second.bias", full({1}, 7)}}, [&] { return net(x); });
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4, 7));
  EXPECT_EQ(net(x).to_vector<float>(), before);
}

TEST(FunctionalCall, GradientsFlowThroughUpdatedWeights) {
  FunctionalCallNet net;
  const Tensor x = ones({4, 2});
  const auto loss = [&] { return sum(square(net(x))); };
  TensorList weights;
  std::vector<std::string> names;
  for (const NamedTensor& p : net.named_parameters()) weights.push_back(p.tensor), names.push_back(p.name);
  const Tensor first = loss();
  const TensorList step = autograd::grad(TensorList{first}, weights, {}, true, true);
  StateDict updated;
  for (std::size_t i = 0; i < names.size(); ++i) updated[names[i]] = weights[i] - step[i] * 0.1;
  const Tensor second = functional_call(net, updated, loss);
  EXPECT_NE(second.item(), first.item());
  second.backward();
  for (const Tensor& w : weights) EXPECT_TRUE(w.grad().defined());
}

TEST(FunctionalCall, ChecksNamesAndShapesBeforeItChangesAnything) {
  FunctionalCallNet net;
  const Tensor x = ones({1, 2});
  const float before = net(x).item();
  const auto call = [&](const StateDict& with) {
    return [&net, &x, with] { return functional_call(net, with, [&] { return net(x); }); };
  };
  EXPECT_THAT(call({{"first.bias", zeros({3})}, {"third", zeros({1})}}),
              ThrowsMessage<Error>(HasSubstr("no parameter or buffer 'third'")));
  EXPECT_THAT(call({{"first.bias", zeros({2})}}), ThrowsMessage<ShapeError>(HasSubstr("'first.bias' is [3], [2]")));
  EXPECT_EQ(net(x).item(), before);
  EXPECT_THROW(functional_call(net, {{"first.bias", zeros({3})}}, [&]() -> Tensor { throw Error("inside"); }), Error);
  EXPECT_EQ(net(x).item(), before) << "restored after an exception";
}

}  // namespace
}  // namespace etna::nn
